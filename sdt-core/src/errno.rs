//! Error numbers of the kernels that have DTrace.

use core::ffi::c_int;
use core::fmt;
use core::num::NonZero;

use crate::ops::FrameworkError;

/// An error number of the kernel (`sys/errno.h`). Never 0, which the kernel would take as success: it would free a
/// module that refused to be unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(NonZero<c_int>);

impl Errno {
    /// No such device or address.
    pub const ENXIO: Self = Self::of(6);
    /// Device busy.
    pub const EBUSY: Self = Self::of(16);
    /// An object of that name exists already.
    pub const EEXIST: Self = Self::of(17);
    /// Invalid argument.
    pub const EINVAL: Self = Self::of(22);
    /// Operation not supported.
    pub const EOPNOTSUPP: Self = Self::of(if cfg!(target_os = "illumos") { 122 } else { 45 });

    /// Returns the error with this number, or `None` for 0.
    pub const fn new(errno: c_int) -> Option<Self> {
        match NonZero::new(errno) {
            Some(errno) => Some(Self(errno)),
            None => None,
        }
    }

    /// Returns the number.
    pub const fn get(self) -> c_int {
        self.0.get()
    }

    const fn of(errno: c_int) -> Self {
        match Self::new(errno) {
            Some(errno) => errno,
            None => panic!("0 is not an error number"),
        }
    }

    /// Returns the number that the kernel expects for a result: 0 for success.
    pub(crate) fn code(result: Result<(), Self>) -> c_int {
        result.err().map_or(0, Self::get)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.0)
    }
}

impl From<FrameworkError> for Errno {
    fn from(error: FrameworkError) -> Self {
        Self::new(error.errno()).unwrap_or(Self::EINVAL)
    }
}

#[cfg(sdt_route = "provider")]
impl From<crate::attach::DetachError> for Errno {
    fn from(error: crate::attach::DetachError) -> Self {
        Self::new(error.errno()).unwrap_or(Self::EINVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_is_success_to_the_kernel() {
        assert_eq!(Errno::new(0), None);
        assert_eq!(Errno::from(FrameworkError::Other(0)), Errno::EINVAL);
        assert_eq!((Errno::code(Ok(())), Errno::code(Err(Errno::EBUSY))), (0, 16));
        assert_eq!(Errno::from(FrameworkError::Busy), Errno::EBUSY);
        let all = [Errno::ENXIO, Errno::EBUSY, Errno::EEXIST, Errno::EINVAL, Errno::EOPNOTSUPP];
        assert_eq!(all.map(Errno::get), [6, 16, 17, 22, 45]);
    }
}
