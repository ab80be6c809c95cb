//! The example kernel module: provider `proc`, whose probe `exec-success` fires on every exec.
//!
//! What is specific to a kernel is in `freebsd/` and `illumos/`; what the module does, and its probes, are here and
//! run anywhere. Copy both. `by_hand.rs` of each has something that fires the probe from a shell.
#![cfg_attr(not(test), no_std)]

use core::ffi::CStr;

use sdt_core::{sdt_probe, sdt_provider};

#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "illumos")]
mod illumos;
#[cfg(all(test, not(target_os = "illumos")))]
#[path = "illumos/exec.rs"]
mod illumos_exec;

sdt_provider! {
    /// Process lifecycle.
    pub proc {
        /// A process runs a new image. `path` is as it was given to `execve`.
        ///
        /// On FreeBSD this is the event `process_exec`, which the kernel sends when it gives the process its
        /// new address space: `execname` is still that of the old image, and an exec that fails after
        /// this is reported as well. On illumos it comes when the kernel has found an ELF file to run: the same.
        fn exec_success(path: &CStr);
    }
}

/// A process runs a new image. `path` is `None` when the kernel has none to tell: `fexecve` names a
/// file descriptor.
// One function with one site, whoever calls it: illumos makes a probe of each function that fires.
#[inline(never)]
pub fn on_exec(path: Option<&CStr>) {
    sdt_probe!(proc::exec_success, path_or_empty(path));
}

/// The path that consumers see: never a null pointer, for D programs follow it.
fn path_or_empty(path: Option<&CStr>) -> &CStr {
    path.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_passed_on_and_a_missing_one_is_empty() {
        assert_eq!(path_or_empty(Some(c"/bin/sh")), c"/bin/sh");
        assert_eq!(path_or_empty(None), c"");
    }

    #[test]
    fn exec_success_carries_one_c_string() {
        let types: Vec<_> = proc::exec_success.args().unwrap().collect();
        assert_eq!(types.len(), 1);
        assert_eq!(types[0].native.as_str(), "char *");
        assert_eq!(proc::exec_success.name(), c"exec-success");
        assert_eq!(proc::exec_success.provider().name(), c"proc");
    }

    #[test]
    fn a_disabled_probe_lets_execs_pass() {
        on_exec(Some(c"/bin/sh"));
        on_exec(None);
    }
}
