//! The example kernel module: provider `proc`, whose probe `exec-success` fires on every exec.
//!
//! Copy this crate to start a module of your own.
//!
//! | file | content |
//! |---|---|
//! | `lib.rs` | the probes and what the module does; runs and is tested on any system |
//! | `freebsd/mod.rs`, `illumos/mod.rs` | load and unload |
//! | `freebsd/exec.rs`, `freebsd/eventhandler.rs` | FreeBSD's event for an exec |
//! | `by_hand.rs` in both folders | fires the probe from a shell: a sysctl on FreeBSD, a kstat on illumos |
//!
//! illumos has no event for an exec. There the module takes its events from the crate `illumos-execsw-hook`, which is not for
//! copying: it hooks a private table of the kernel.
#![cfg_attr(not(test), no_std)]

use core::ffi::CStr;

use sdt_core::{sdt_probe, sdt_provider};

#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "illumos")]
mod illumos;

sdt_provider! {
    /// Process lifecycle.
    pub proc {
        /// A process runs a new image. `path` is the path given to `execve`.
        ///
        /// FreeBSD sends the event `process_exec` when it gives the process its new address space. `execname` is still that of
        /// the old image, and an exec that fails later is reported as well. On illumos the probe fires when the kernel has found
        /// an ELF file to run, with the same consequences.
        fn exec_success(path: &CStr);
    }
}

/// Fires `exec_success`. `path` is `None` if the kernel knows no path: `fexecve` takes a file descriptor.
// The only function with a site of this probe: illumos lists one probe for each function that fires it.
#[inline(never)]
pub fn on_exec(path: Option<&CStr>) {
    sdt_probe!(proc::exec_success, path_or_empty(path));
}

/// Returns the path for consumers. It is never a null pointer, because programs in D dereference it.
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
    fn a_disabled_probe_does_nothing() {
        on_exec(Some(c"/bin/sh"));
        on_exec(None);
    }
}
