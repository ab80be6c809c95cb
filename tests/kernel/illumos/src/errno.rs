//! illumos's error numbers (`usr/src/uts/common/sys/errno.h`) and their texts in `strerror`.

/// No such file or directory.
pub const ENOENT: i32 = 2;
/// No such device or address.
pub const ENXIO: i32 = 6;
/// Not enough space.
pub const ENOMEM: i32 = 12;
/// Bad address.
pub const EFAULT: i32 = 14;
/// Device busy.
pub const EBUSY: i32 = 16;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// Operation already in progress.
pub const EALREADY: i32 = 149;

/// Returns the text of `strerror`.
pub fn text(errno: i32) -> &'static str {
    match errno {
        ENOENT => "No such file or directory",
        ENXIO => "No such device or address",
        ENOMEM => "Not enough space",
        EFAULT => "Bad address",
        EBUSY => "Device busy",
        EINVAL => "Invalid argument",
        EALREADY => "Operation already in progress",
        _ => "Error",
    }
}
