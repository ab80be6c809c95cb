//! What modules and `sdt` need of the machine.

use alloc::format;
use core::ffi::{c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use stand_in_base::image::{Image, PAGE, Protection};
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::{Kernel, ModCtl};
use stand_in_illumos::regs::Regs;
use stand_in_illumos::sdt;

use super::{exports, trap};
use crate::arch::paging;
use crate::dtrace::DTRACE;
use crate::{console, smp, space};

/// This machine.
#[derive(Debug)]
pub(crate) struct Machine;

impl Kernel for Machine {
    fn reserve(&self, size: usize) -> Option<u64> {
        space::reserve(size)
    }

    /// Text can be written to, as on illumos: `sdt` does, and modules that patch their sites themselves.
    fn map(&self, image: &Image) -> bool {
        if !space::map(image) {
            return false;
        }
        for text in image.segments().iter().filter(|of| of.protection == Protection::Execute) {
            paging::allow_stores(image.base() + text.offset as u64, text.size / PAGE);
        }
        true
    }

    fn unmap(&self, base: u64, size: usize) {
        space::unmap(base, size);
    }

    fn give_back(&self, base: u64) {
        space::give_back(base);
    }

    fn is_built_in(&self, module: &str) -> bool {
        matches!(module, "drv/dtrace" | "drv/sdt")
    }

    fn symbol(&self, module: &str, name: &str) -> Option<u64> {
        exports::address(module, name)
    }

    fn marking(&self) -> Marking {
        super::marking()
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        console::print(&format!("{line}\n"));
    }

    fn call(&self, function: u64, argument: *mut c_void) -> i32 {
        type Function = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: it is code of a module that is mapped, and of this type: `_init` and `_fini` do not look at
        // the argument.
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
        // SAFETY: the caller's contract.
        unsafe { (*(address as *const AtomicU8)).load(Ordering::Acquire) }
    }

    /// A plain store, as on illumos; but twice: see `Patcher::synchronise` of the kernel's own text.
    unsafe fn store(&self, address: u64, byte: u8) {
        // SAFETY: the caller's contract; text can be written to.
        let store = || unsafe { (*(address as *const AtomicU8)).store(byte, Ordering::SeqCst) };
        store();
        smp::synchronise();
        store();
    }

    fn marking(&self) -> Marking {
        super::marking()
    }

    fn regs(&self) -> Option<Regs> {
        trap::regs()
    }
}
