//! Arguments of `process_exec` handlers: `struct image_params`, `struct image_args` (`sys/imgact.h`) and `struct proc`
//! (`sys/proc.h`).
//!
//! Offsets are those of the headers of FreeBSD 15 for LP64, as clang computes them from the copy in PyPI's `ziglang` 0.17
//! (`zig cc -target x86_64-freebsd.15.0 -D_KERNEL -DKDTRACE_HOOKS`). Fields that the bench does not fill are zero.

use core::ffi::c_char;
use core::mem::offset_of;

use static_assertions::const_assert_eq;

/// Longest command name without its NUL (`MAXCOMLEN`, `sys/param.h`).
pub const COMMAND_LEN: usize = 19;

/// `struct proc`, as far as it is filled.
#[derive(Debug)]
#[repr(C)]
pub struct Proc {
    head: [u32; 49],
    /// `p_pid`.
    pub pid: i32,
    middle: [u64; 99],
    /// `p_comm`, the last part of the path, cut off.
    pub command: [c_char; COMMAND_LEN + 1],
    tail: [u32; 89],
}

const_assert_eq!(offset_of!(Proc, pid), 196);
const_assert_eq!(offset_of!(Proc, command), 992);
const_assert_eq!(size_of::<Proc>(), 1368);

impl Proc {
    /// The process `pid`, executing `path`.
    pub fn new(pid: i32, path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut command = [0; COMMAND_LEN + 1];
        for (to, from) in command.iter_mut().take(COMMAND_LEN).zip(name.bytes()) {
            *to = from as c_char;
        }
        Self { head: [0; 49], pid, middle: [0; 99], command, tail: [0; 89] }
    }
}

/// `struct image_args`, as far as it is filled.
#[derive(Debug)]
#[repr(C)]
pub struct ImageArgs {
    head: [usize; 5],
    /// `fname`: the path given to `execve`, in kernel memory.
    pub fname: *const c_char,
    middle: [u32; 5],
    /// `fd`: -1, as for `execve`.
    pub fd: i32,
}

const_assert_eq!(offset_of!(ImageArgs, fname), 40);
const_assert_eq!(offset_of!(ImageArgs, fd), 68);
const_assert_eq!(size_of::<ImageArgs>(), 72);

impl ImageArgs {
    /// Arguments of an `execve` of `fname`.
    pub const fn new(fname: *const c_char) -> Self {
        Self { head: [0; 5], fname, middle: [0; 5], fd: -1 }
    }
}

/// `struct image_params`, as far as it is filled.
#[derive(Debug)]
#[repr(C)]
pub struct ImageParams {
    /// `proc`.
    pub process: *mut Proc,
    head: [u64; 12],
    /// `args`.
    pub args: *mut ImageArgs,
    middle: [u64; 3],
    /// `execpath`: NULL unless the image wants to know its path.
    pub execpath: *const c_char,
    tail: [u64; 11],
}

const_assert_eq!(offset_of!(ImageParams, args), 104);
const_assert_eq!(offset_of!(ImageParams, execpath), 136);
const_assert_eq!(size_of::<ImageParams>(), 232);

impl ImageParams {
    /// The image that `process` has just loaded.
    pub const fn new(process: *mut Proc, args: *mut ImageArgs, execpath: *const c_char) -> Self {
        Self { process, head: [0; 12], args, middle: [0; 3], execpath, tail: [0; 11] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_end_of_the_path_cut_off() {
        let text = |path| {
            let command = Proc::new(7, path).command.map(|byte| byte as u8);
            let text = core::ffi::CStr::from_bytes_until_nul(&command).unwrap();
            text.to_str().unwrap().to_string()
        };
        assert_eq!(text("/usr/bin/man"), "man");
        assert_eq!(text("sh"), "sh");
        assert_eq!(text("/a/aaaaaaaaaaaaaaaaaaaaaaaaa"), "a".repeat(COMMAND_LEN));
    }
}
