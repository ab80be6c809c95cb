//! The stand-in kernel as the [`Kernel`] of illumos's module loader, and as the machine of `sdt`.

use alloc::format;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU8, Ordering};

use spin::Once;
use stand_in_base::memory::Memory;
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::{Kernel, ModCtl, Modules};
use stand_in_illumos::regs::Regs;
use stand_in_illumos::sdt;

use super::{exports, trap};
use crate::dtrace::DTRACE;
use crate::space::Space;
use crate::{console, smp};

/// Implements [`Kernel`] and [`sdt::Machine`] with the functions of this kernel.
#[derive(Debug)]
pub(crate) struct Machine;

/// illumos's module loader, with all loaded modules.
pub(super) static MODULES: Modules<Machine> = Modules::new(Machine);

/// The form in which krtld marks the calls of probes; set when the host selects illumos.
pub(super) static MARKING: Once<Marking> = Once::new();

/// Returns how krtld marks the calls of probes. Probe context.
pub(super) fn marking() -> Marking {
    MARKING.get().copied().unwrap_or_default()
}

impl Kernel for Machine {
    fn memory(&self) -> &dyn Memory {
        &Space
    }

    fn is_built_in(&self, module: &str) -> bool {
        matches!(module, "drv/dtrace" | "drv/sdt")
    }

    fn symbol(&self, module: &str, name: &str) -> Option<u64> {
        exports::address(module, name)
    }

    fn marking(&self) -> Marking {
        marking()
    }

    fn call(&self, function: u64, argument: *mut c_void) -> i32 {
        type Function = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: `entry_points` has checked that `function` is code of a mapped module. `_info` has this type; `_init` and
        // `_fini` have no parameter and ignore the argument.
        unsafe { core::mem::transmute::<u64, Function>(function)(argument) }
    }

    fn module_loaded(&self, module: &'static ModCtl) {
        // SAFETY: the providers of illumos's modules expect a modctl.
        let _ = unsafe { DTRACE.module_loaded((&raw const *module).cast_mut().cast()) };
    }

    fn module_unloaded(&self, module: &'static ModCtl) {
        if DTRACE.destroy_module(module.name()).is_err() {
            let name = module.name().to_string_lossy();
            let line = format!("WARNING: unloaded module '{name}' had enabled probes\n");
            console::print(&line);
        }
    }
}

impl sdt::Machine for Machine {
    unsafe fn load(&self, address: u64) -> u8 {
        // SAFETY: the caller passes mapped text.
        unsafe { (*(address as *const AtomicU8)).load(Ordering::Acquire) }
    }

    /// Stores the byte by a plain store, as illumos does, but twice: the reason is at `Patcher::synchronise` of `KernelText`.
    unsafe fn store(&self, address: u64, byte: u8) {
        // SAFETY: the caller passes mapped text, which `Modules` has mapped writable.
        let store = || unsafe { (*(address as *const AtomicU8)).store(byte, Ordering::SeqCst) };
        store();
        smp::synchronise();
        store();
    }

    fn marking(&self) -> Marking {
        marking()
    }

    fn regs(&self) -> Option<Regs> {
        trap::regs()
    }
}
