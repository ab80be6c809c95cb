//! The part of the address space for modules, of FreeBSD and of illumos.

use alloc::format;
use core::fmt;

use spin::Mutex;
use stand_in_base::image::{Image, PAGE, Protection};
use stand_in_base::memory::Memory;
use stand_in_kernel::addresses::Addresses;

use crate::arch::MODULE_SPACE;
use crate::{console, paging};

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses::new(MODULE_SPACE, PAGE as u64));

/// Implements [`Memory`] for the linkers of both systems.
#[derive(Debug)]
pub(crate) struct Space;

impl Memory for Space {
    fn reserve(&self, size: usize) -> Option<u64> {
        ADDRESSES.lock().reserve(size as u64)
    }

    fn map(&self, image: &Image, writable_code: bool) -> bool {
        if paging::map(image.base(), image.size() / PAGE).is_err() {
            return false;
        }
        let target = image.base() as *mut u8;
        // SAFETY: the pages have just been mapped as writable, and no other code uses them yet.
        unsafe { core::ptr::copy_nonoverlapping(image.bytes().as_ptr(), target, image.size()) };
        for segment in image.segments() {
            let (address, pages) = (image.base() + segment.offset as u64, segment.size / PAGE);
            paging::protect(address, pages, segment.protection);
            if writable_code && segment.protection == Protection::Execute {
                paging::allow_stores(address, pages);
            }
        }
        paging::flush_everywhere();
        true
    }

    fn unmap(&self, base: u64, size: usize) {
        // SAFETY: the linkers do not use a file after they unmap it. If code of the file is still in use (a defect of the
        // module), the access faults; the tests rely on that.
        unsafe { paging::unmap(base, size / PAGE) };
    }

    fn give_back(&self, base: u64) {
        assert!(ADDRESSES.lock().give_back(base), "{base:#x} was not reserved");
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        console::print(&format!("{line}\n"));
    }
}
