//! The linker's side of this machine: memory for modules, calls into them.

use alloc::format;
use core::ffi::{c_int, c_void};
use core::fmt;

use spin::Mutex;
use stand_in_kernel::addresses::Addresses;
use stand_in_kernel::freebsd::Release;
use stand_in_kernel::freebsd::sdt::{Fault, Records};
use stand_in_kernel::kld::{FileInfo, Kernel, Linker};
use stand_in_kernel::loader::{self, Image, PAGE};

use crate::arch::{MODULE_SPACE, paging};
use crate::sdt::SDT;
use crate::{console, exports};

/// This machine.
#[derive(Debug)]
pub(crate) struct Machine;

/// All loaded files.
pub(crate) static LINKER: Linker<Machine> = Linker::new(Machine);

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses::new(MODULE_SPACE, PAGE as u64));

impl Kernel for Machine {
    fn machine(&self) -> loader::Machine {
        loader::Machine::HERE
    }

    fn reserve(&self, size: usize) -> Option<u64> {
        ADDRESSES.lock().reserve(size as u64)
    }

    fn map(&self, image: &Image) -> bool {
        if paging::map(image.base(), image.size() / PAGE).is_err() {
            return false;
        }
        let target = image.base() as *mut u8;
        // SAFETY: the pages have just been mapped, writable, and nobody knows of them yet.
        unsafe { core::ptr::copy_nonoverlapping(image.bytes().as_ptr(), target, image.size()) };
        for segment in image.segments() {
            let address = image.base() + segment.offset as u64;
            paging::protect(address, segment.size / PAGE, segment.protection);
        }
        paging::flush_everywhere();
        true
    }

    fn unmap(&self, base: u64, size: usize) {
        // SAFETY: the linker unmaps a file when it is done with it. What the file itself has left
        // behind somewhere is what the bench is there to find: it faults.
        unsafe { paging::unmap(base, size / PAGE) };
    }

    fn give_back(&self, base: u64) {
        assert!(ADDRESSES.lock().give_back(base), "{base:#x} was not reserved");
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
