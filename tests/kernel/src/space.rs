//! The part of the address space that modules are mapped in, whoever's they are.

use spin::Mutex;
use stand_in_base::image::{Image, PAGE};
use stand_in_kernel::addresses::Addresses;

use crate::arch::{MODULE_SPACE, paging};

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses::new(MODULE_SPACE, PAGE as u64));

/// Reserves addresses for a module: `size` bytes, a multiple of [`PAGE`].
pub(crate) fn reserve(size: usize) -> Option<u64> {
    ADDRESSES.lock().reserve(size as u64)
}

/// Maps an image at its base, which is reserved, with its protections; `false` when memory is out, and nothing is
/// mapped then.
pub(crate) fn map(image: &Image) -> bool {
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

/// Unmaps what [`map`] mapped.
pub(crate) fn unmap(base: u64, size: usize) {
    // SAFETY: the linkers unmap a file when they are done with it. What the file itself has left
    // behind somewhere is what the bench is there to find: it faults.
    unsafe { paging::unmap(base, size / PAGE) };
}

/// Gives addresses back that [`reserve`] gave.
pub(crate) fn give_back(base: u64) {
    assert!(ADDRESSES.lock().give_back(base), "{base:#x} was not reserved");
}
