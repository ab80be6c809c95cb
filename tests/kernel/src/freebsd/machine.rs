//! The stand-in kernel as the [`Kernel`] of FreeBSD's linker.

use core::ffi::{c_int, c_void};

use stand_in_base::memory::Memory;
use stand_in_freebsd::Release;
use stand_in_freebsd::kld::{FileInfo, Kernel, Linker};
use stand_in_freebsd::loader;
use stand_in_freebsd::sdt::{Fault, Records};

use crate::freebsd::exports;
use crate::freebsd::sdt::SDT;
use crate::space::Space;

/// Implements [`Kernel`] with the functions of this kernel.
#[derive(Debug)]
pub(crate) struct Machine;

/// FreeBSD's linker, with all loaded files.
pub(crate) static LINKER: Linker<Machine> = Linker::new(Machine);

impl Kernel for Machine {
    fn machine(&self) -> loader::Machine {
        loader::Machine::HERE
    }

    fn memory(&self) -> &dyn Memory {
        &Space
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        exports::address(name, LINKER.release())
    }

    fn is_function(&self, address: u64) -> bool {
        exports::is_exported(address)
    }

    fn call(&self, _linker: &Linker<Self>, function: u64, argument: u64) {
        // SAFETY: the linker has checked that `function` is code of a mapped file or a function that the kernel exports. A
        // SYSINIT has this type.
        unsafe {
            let function =
                core::mem::transmute::<u64, unsafe extern "C" fn(*const c_void)>(function);
            function(argument as *const c_void);
        }
    }

    fn call_event(&self, handler: u64, module: u64, event: i32, private: u64) -> i32 {
        type EventHandler = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;
        // SAFETY: the linker has checked that `handler` is code of a mapped file. The field `evhand` of moduledata_t has this
        // type.
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
