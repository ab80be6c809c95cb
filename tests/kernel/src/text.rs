//! The kernel's own text: writes to the sites of probes, and detects changes of the text.

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

/// Bytes that have been stored to the text. The bytes are inline, to avoid an allocation for each store: a consumer may trace the
/// allocator, and enable many functions.
struct Stored {
    address: usize,
    bytes: [u8; MAX_LEN],
    length: usize,
}

impl Stored {
    /// Stores the bytes. Text remains mapped read-only: the store goes to the same memory in the direct map.
    ///
    /// # Safety
    /// The bytes are at a site of this kernel, and are valid instructions there.
    unsafe fn store(&self) {
        let Self { address, ref bytes, length } = *self;
        let bytes = &bytes[..length];
        let alias = paging::direct(address as u64 - paging::KERNEL_BASE) as *mut u8;
        // SAFETY: the caller passes a site in the kernel's image. The direct map maps the image as writable. All stores to sites
        // use this function; CPUs otherwise only read and execute the bytes.
        unsafe {
            machine::store(alias, bytes);
            machine::after_store(address, bytes.len());
        }
    }
}

/// Returns the start of the kernel's text, which is also the start of the kernel's image.
pub(crate) fn start() -> u64 {
    &raw const kernel_text_start as u64
}

/// Returns whether an address is in the kernel's text. Probe context.
pub(crate) fn holds(address: u64) -> bool {
    (start()..&raw const kernel_text_end as u64).contains(&address)
}

/// Stores since the last synchronisation of all CPUs.
static PENDING: Mutex<Vec<Stored>> = Mutex::new(Vec::new());

// SAFETY: `store` writes the bytes to the memory of the site by `machine::store`, and `synchronise` returns after every CPU has
// synchronised its instruction stream.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let mut stored = Stored { address, bytes: [0; MAX_LEN], length: bytes.len() };
        stored.bytes[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the caller passes a site of this kernel and an instruction for it.
        unsafe { stored.store() };
        PENDING.lock().push(stored);
    }

    /// Sends an interrupt to every CPU, whose handler synchronises the CPU, and then stores the same bytes again.
    ///
    /// The second store is a workaround for QEMU: see [`machine`]. At the first store, a CPU of QEMU may be translating the old
    /// bytes. After every CPU has handled the interrupt, all such translations are complete, and the second store invalidates
    /// them.
    fn synchronise(&self) {
        smp::synchronise();
        for stored in core::mem::take(&mut *PENDING.lock()) {
            // SAFETY: `store` of this `Patcher` has stored the same bytes before, under the same contract.
            unsafe { stored.store() };
        }
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        let (start, end) = (start() as usize, &raw const kernel_text_end);
        start <= address && address.checked_add(length).is_some_and(|to| to <= end.addr())
    }
}

/// A copy of the kernel's text.
#[derive(Debug)]
pub(crate) struct Snapshot(Vec<u8>);

impl Snapshot {
    /// Copies the current text.
    pub(crate) fn take() -> Self {
        Self(text().collect())
    }

    /// Returns the size of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the address of the first byte that has changed since the copy.
    pub(crate) fn first_change(&self) -> Option<u64> {
        let at = text().zip(&self.0).position(|(now, &then)| now != then)?;
        Some(start() + at as u64)
    }
}

fn text() -> impl Iterator<Item = u8> {
    let start = &raw const kernel_text_start;
    let length = &raw const kernel_text_end as usize - start as usize;
    // SAFETY: the linker script defines the two symbols as start and end of the text, which is mapped. The reads are volatile,
    // because the text is patched.
    (0..length).map(move |at| unsafe { start.add(at).read_volatile() })
}

/// Returns a hash of the text: FNV-1a.
pub(crate) fn hash() -> u64 {
    text().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
