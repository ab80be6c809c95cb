//! The kernel's own text: how its probes' sites are written to, and whether it is as it was.

use alloc::vec::Vec;

use sdt_core::patch::{Patcher, machine};
use spin::Mutex;

use crate::{paging, smp};

unsafe extern "C" {
    static kernel_text_start: u8;
    static kernel_text_end: u8;
}

/// The text of this kernel.
#[derive(Debug)]
pub(crate) struct KernelText;

/// The longest site or instruction.
const MAX_LEN: usize = 16;

/// A few bytes that were stored. They need no memory of their own: a consumer may trace the allocator, and enable many functions.
struct Stored {
    address: usize,
    bytes: [u8; MAX_LEN],
    length: usize,
}

impl Stored {
    /// Stores the bytes. Text remains mapped read-only: the store goes to the same memory in the direct map.
    ///
    /// # Safety
    /// The bytes are those of a site of this kernel, and CPUs may execute them afterwards.
    unsafe fn store(&self) {
        let Self { address, ref bytes, length } = *self;
        let bytes = &bytes[..length];
        let alias = paging::direct(address as u64 - paging::KERNEL_BASE) as *mut u8;
        // SAFETY: the caller passes bytes of the kernel's image, which the direct map shows, writable; they are
        // accessed through here or fetched.
        unsafe {
            machine::store(alias, bytes);
            machine::after_store(address, bytes.len());
        }
    }
}

/// Returns the start of the kernel's text, which is that of its image.
pub(crate) fn start() -> u64 {
    &raw const kernel_text_start as u64
}

/// Returns whether an address is in it. Probe context.
pub(crate) fn holds(address: u64) -> bool {
    (start()..&raw const kernel_text_end as u64).contains(&address)
}

/// Stores since the last synchronisation of all CPUs.
static PENDING: Mutex<Vec<Stored>> = Mutex::new(Vec::new());

// SAFETY: bytes go where they belong, as `machine::store` does it; a rendezvous synchronises every CPU.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let mut stored = Stored { address, bytes: [0; MAX_LEN], length: bytes.len() };
        stored.bytes[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the caller passes a site of this kernel and an instruction for it.
        unsafe { stored.store() };
        PENDING.lock().push(stored);
    }

    /// Every CPU takes an interrupt and synchronises itself in it. Then the same bytes are stored again, for QEMU's
    /// sake: see [`machine`]. Once every CPU has taken the interrupt no translation of the old bytes is in the making any
    /// more, and the second store finds those that are made.
    fn synchronise(&self) {
        smp::synchronise();
        for stored in core::mem::take(&mut *PENDING.lock()) {
            // SAFETY: as when they were stored first.
            unsafe { stored.store() };
        }
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        let (start, end) = (start() as usize, &raw const kernel_text_end);
        start <= address && address.checked_add(length).is_some_and(|to| to <= end.addr())
    }
}

/// All of the kernel's text, as it was at some moment.
#[derive(Debug)]
pub(crate) struct Snapshot(Vec<u8>);

impl Snapshot {
    /// The text as it is now.
    pub(crate) fn take() -> Self {
        Self(text().collect())
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Address of the first byte that is not as it was.
    pub(crate) fn first_change(&self) -> Option<u64> {
        let at = text().zip(&self.0).position(|(now, &then)| now != then)?;
        Some(start() + at as u64)
    }
}

fn text() -> impl Iterator<Item = u8> {
    let start = &raw const kernel_text_start;
    let length = &raw const kernel_text_end as usize - start as usize;
    // SAFETY: the linker script's edges of the text, which is mapped; volatile, for it is patched.
    (0..length).map(move |at| unsafe { start.add(at).read_volatile() })
}

/// Returns a hash of the text: FNV-1a.
pub(crate) fn hash() -> u64 {
    text().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
