//! What FreeBSD's linker needs of this machine.

use alloc::format;
use core::ffi::{c_int, c_void};
use core::fmt;

use stand_in_base::image::{Image, PAGE, Protection};
use stand_in_freebsd::kld::{FileInfo, Kernel, Linker};
use stand_in_freebsd::loader;
use stand_in_freebsd::sdt::{Fault, Records};
use stand_in_freebsd::{Release, release};

use crate::freebsd::exports;
use crate::freebsd::sdt::SDT;
use crate::{arch, console, space};

/// This machine.
#[derive(Debug)]
pub(crate) struct Machine;

/// All loaded files.
pub(crate) static LINKER: Linker<Machine> = Linker::new(Machine);

impl Kernel for Machine {
    fn machine(&self) -> loader::Machine {
        loader::Machine::HERE
    }

    fn reserve(&self, size: usize) -> Option<u64> {
        space::reserve(size)
    }

    fn map(&self, image: &Image) -> bool {
        if !space::map(image) {
            return false;
        }
        if release::has_writable_text(LINKER.release()) {
            for text in image.segments().iter().filter(|of| of.protection == Protection::Execute) {
                arch::text::allow_stores(image.base() + text.offset as u64, text.size / PAGE);
            }
        }
        true
    }

    fn unmap(&self, base: u64, size: usize) {
        space::unmap(base, size);
    }

    fn give_back(&self, base: u64) {
        space::give_back(base);
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        exports::address(name, LINKER.release())
    }

    fn is_function(&self, address: u64) -> bool {
        exports::is_exported(address)
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        console::print(&format!("{line}\n"));
    }

    fn call(&self, _linker: &Linker<Self>, function: u64, argument: u64) {
        // SAFETY: the linker has found that it is code of a file that is mapped, or exported by the
        // kernel; its type is that of a SYSINIT.
        unsafe {
            let function =
                core::mem::transmute::<u64, unsafe extern "C" fn(*const c_void)>(function);
            function(argument as *const c_void);
        }
    }

    fn call_event(&self, handler: u64, module: u64, event: i32, private: u64) -> i32 {
        type EventHandler = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;
        // SAFETY: the linker has found that it is code of a file that is mapped; its type is that of
        // moduledata_t's evhand.
        unsafe {
            let handler = core::mem::transmute::<u64, EventHandler>(handler);
            handler(module as *mut c_void, event, private as *mut c_void)
        }
    }

    fn kld_check(&self, records: &Records) -> Result<(), Fault> {
        SDT.check(records)
    }

    fn kld_load(&self, file: &FileInfo, records: Records, release: Release) {
        SDT.kld_load(file, records, release);
    }

    fn kld_unload_try(&self, file: &FileInfo) -> bool {
        SDT.kld_unload_try(file)
    }

    fn kld_unload(&self, file: &FileInfo) {
        SDT.kld_unload(file);
    }
}
