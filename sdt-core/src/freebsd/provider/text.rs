//! Writes to the text of the kernel's modules.

use core::ffi::c_void;

use super::machdep;
use crate::freebsd::console;
use crate::patch::{PatchError, Patcher};
use crate::record::Probe;

type Rendezvous = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    // sys/sys/smp.h, main: calls the functions on every CPU, this one included. Interrupts must be on.
    fn smp_rendezvous(
        setup: Option<Rendezvous>,
        action: Option<Rendezvous>,
        teardown: Option<Rendezvous>,
        arg: *mut c_void,
    );
}

/// The text of the kernel's modules.
#[derive(Debug)]
pub(super) struct KernelText;

// SAFETY: `machdep::store` stores the bytes at the address, in one store if running CPUs can execute them; a rendezvous
// runs `on_this_cpu` on every CPU.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        // SAFETY: the contract of this function is that of `machdep::store`.
        unsafe { machdep::store(address, bytes) };
    }

    fn synchronise(&self) {
        unsafe extern "C" fn action(_: *mut c_void) {
            machdep::on_this_cpu();
        }
        // SAFETY: the action may run on every CPU, with interrupts off.
        unsafe { smp_rendezvous(None, Some(action), None, core::ptr::null_mut()) };
    }

    fn is_writable(&self, address: usize, length: usize) -> bool {
        machdep::is_writable(address, length)
    }

    /// FreeBSD's `dtrace_probe_enable` ignores the result of `dtps_enable`, so this message is the only report.
    fn refused(&self, probe: &Probe, why: PatchError) {
        let [provider, name] = [probe.provider().name(), probe.name()];
        let [provider, name] = [provider, name].map(|text| text.to_str().unwrap_or("?"));
        console::print(format_args!(
            "probe {provider}:::{name} cannot be enabled or disabled: {why}"
        ));
    }
}
