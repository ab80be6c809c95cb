//! The kernel's own text: how its probes' sites are written to, and whether it is as it was.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use sdt_core::patch::Patcher;
use spin::Mutex;

use crate::arch::{self, paging};
use crate::{smp, standin};

unsafe extern "C" {
    static kernel_text_start: u8;
    static kernel_text_end: u8;
}

/// The text of this kernel.
#[derive(Debug)]
pub(crate) struct KernelText;

/// A few bytes that were stored.
struct Stored {
    address: usize,
    bytes: Vec<u8>,
}

impl Stored {
    /// Stores the bytes. Text is mapped read-only and stays so: the store goes to the same memory in
    /// the direct map.
    ///
    /// # Safety
    /// The bytes are those of a site of this kernel, and CPUs may execute what it holds then.
    unsafe fn store(&self) {
        let address = self.address;
        let alias = paging::direct(address as u64 - paging::KERNEL_BASE) as *mut u8;
        // SAFETY: by contract bytes of the kernel's image, all of which the direct map has, writable; all
        // accesses to them are atomic or fetches. The pointers are aligned for their types.
        unsafe {
            match *self.bytes {
                [a, b] if address.is_multiple_of(2) => AtomicU16::from_ptr(alias.cast())
                    .store(u16::from_ne_bytes([a, b]), Ordering::SeqCst),
                [a, b, c, d] if address.is_multiple_of(4) => AtomicU32::from_ptr(alias.cast())
                    .store(u32::from_ne_bytes([a, b, c, d]), Ordering::SeqCst),
                _ => {
                    for (index, &byte) in self.bytes.iter().enumerate() {
                        AtomicU8::from_ptr(alias.add(index)).store(byte, Ordering::SeqCst);
                    }
                }
            }
            arch::text::stored(address, self.bytes.len());
        }
    }
}

/// What was stored since all CPUs were synchronised last.
static PENDING: Mutex<Vec<Stored>> = Mutex::new(Vec::new());

// SAFETY: bytes go where they belong, naturally aligned ones in one store; a rendezvous runs
// `arch::text::synchronise` on every CPU.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let stored = Stored { address, bytes: bytes.to_vec() };
        // SAFETY: the caller's contract.
        unsafe { stored.store() };
        PENDING.lock().push(stored);
    }

    /// Every CPU takes an interrupt and synchronises itself in it.
    ///
    /// Then the same bytes are stored again, which real machines do not need. QEMU 7.2 reads the text that it
    /// translates without holding the page's lock, so a store that comes just then is missed, and the
    /// translation of the old bytes stays until somebody stores to the page again. (Later versions lock it
    /// first: `tb_lock_page0` in `accel/tcg`.) The torture found it: a site that did nothing although its
    /// text was right. Once every CPU has taken the interrupt no such translation is in the making any more,
    /// and the second store finds those that are made. The first one was made under running CPUs, as on a
    /// real machine.
    fn synchronise(&self) {
        smp::rendezvous(&|_| arch::text::synchronise());
        for stored in core::mem::take(&mut *PENDING.lock()) {
            // SAFETY: as when they were stored first.
            unsafe { stored.store() };
        }
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        let (start, end) = (&raw const kernel_text_start, &raw const kernel_text_end);
        start.addr() <= address && address.checked_add(length).is_some_and(|to| to <= end.addr())
    }
}

/// A breakpoint of the kernel's own: where to resume after one at `address`, which is counted, or `None`
/// if no site of the kernel is there. Called by the breakpoint exception before the handlers of modules
/// are asked. Interrupts off, probe context.
pub(crate) fn resume_address(address: u64) -> Option<u64> {
    standin::inside_breakpoint();
    let resume = sdt_core::trap::resume_address(address as usize)?;
    crate::counters::breakpoint();
    Some(resume as u64)
}

/// All of the kernel's text, as it was at some moment.
#[derive(Debug)]
pub(crate) struct Snapshot(Vec<u8>);

impl Snapshot {
    /// The text as it is now.
    pub(crate) fn take() -> Self {
        Self(text().collect())
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Address of the first byte that is not as it was.
    pub(crate) fn first_change(&self) -> Option<u64> {
        let at = text().zip(&self.0).position(|(now, &then)| now != then)?;
        Some(&raw const kernel_text_start as u64 + at as u64)
    }
}

fn text() -> impl Iterator<Item = u8> {
    let start = &raw const kernel_text_start;
    let length = &raw const kernel_text_end as usize - start as usize;
    // SAFETY: the linker script's edges of the text, which is mapped; volatile, for it is patched.
    (0..length).map(move |at| unsafe { start.add(at).read_volatile() })
}
