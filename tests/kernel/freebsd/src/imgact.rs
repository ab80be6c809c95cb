//! Arguments of `process_exec` handlers: `struct image_params`, `struct image_args` (`sys/imgact.h`) and `struct proc`
//! (`sys/proc.h`).
//!
//! The offsets are those of FreeBSD 15 for LP64. clang computed them from the headers in the PyPI package `ziglang` 0.17
//! (`zig cc -target x86_64-freebsd.15.0 -D_KERNEL -DKDTRACE_HOOKS`). Fields that the stand-in kernel does not fill are zero.

use core::ffi::c_char;
use core::mem::offset_of;

use static_assertions::const_assert_eq;

/// Longest command name without its NUL (`MAXCOMLEN`, `sys/param.h`).
pub const COMMAND_LEN: usize = 19;

/// `struct proc`. Only the named fields are filled.
#[derive(Debug)]
#[repr(C)]
pub struct Proc {
    head: [u32; 49],
    /// `p_pid`.
    pub pid: i32,
    middle: [u64; 99],
    /// `p_comm`: the last component of the path, truncated to [`COMMAND_LEN`] bytes.
    pub command: [c_char; COMMAND_LEN + 1],
    tail: [u32; 89],
}

const_assert_eq!(offset_of!(Proc, pid), 196);
const_assert_eq!(offset_of!(Proc, command), 992);
const_assert_eq!(size_of::<Proc>(), 1368);

impl Proc {
    /// Creates the process `pid`, which executes `path`.
    pub fn new(pid: i32, path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut command = [0; COMMAND_LEN + 1];
        for (to, from) in command.iter_mut().take(COMMAND_LEN).zip(name.bytes()) {
            *to = from as c_char;
        }
        Self { head: [0; 49], pid, middle: [0; 99], command, tail: [0; 89] }
    }
}

/// `struct image_args`. Only the named fields are filled.
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
    /// Creates the arguments of an `execve` of `fname`.
    pub const fn new(fname: *const c_char) -> Self {
        Self { head: [0; 5], fname, middle: [0; 5], fd: -1 }
    }
}

/// `struct image_params`. Only the named fields are filled.
#[derive(Debug)]
#[repr(C)]
pub struct ImageParams {
    /// `proc`.
    pub process: *mut Proc,
    head: [u64; 12],
    /// `args`.
    pub args: *mut ImageArgs,
    middle: [u64; 3],
    /// `execpath`: the path of the image; NULL unless the image requests it.
    pub execpath: *const c_char,
    tail: [u64; 11],
}

const_assert_eq!(offset_of!(ImageParams, args), 104);
const_assert_eq!(offset_of!(ImageParams, execpath), 136);
const_assert_eq!(size_of::<ImageParams>(), 232);

impl ImageParams {
    /// Creates the parameters of the image that `process` has just loaded.
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
