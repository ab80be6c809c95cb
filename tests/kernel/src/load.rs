//! Memory at addresses of which nothing is known: what programs in D look at.
//!
//! All that is mapped and is RAM can be read: the kernel's image, the heap, the stacks, modules. The tables are walked,
//! without a lock, and the bytes are taken from where the direct map has them. So nothing faults: not if a module is unloaded
//! meanwhile, whose pages are the heap's then; and no device is touched, which is not RAM.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use stand_in_base::image::PAGE;

use crate::paging;

/// Physical addresses of RAM that is in use.
static RAM: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Sets the range of RAM in use: the kernel's image and the heap behind it.
pub(crate) fn init(ram: Range<u64>) {
    RAM[0].store(ram.start, Ordering::Relaxed);
    RAM[1].store(ram.end, Ordering::Relaxed);
}

/// Copies memory until `into` is full; returns whether all of it is mapped. Probe context: the memory may change during
/// the copy.
pub(crate) fn load(address: u64, into: &mut [u8]) -> bool {
    let mut at = address;
    let mut rest = into;
    while !rest.is_empty() {
        let in_page = PAGE - at as usize % PAGE;
        let (piece, behind) = rest.split_at_mut(in_page.min(rest.len()));
        let Some(physical) = paging::physical(at).filter(|at| is_ram(*at)) else { return false };
        let from = paging::direct(physical) as *const u8;
        for (index, byte) in piece.iter_mut().enumerate() {
            // SAFETY: RAM in the direct map, within one page; volatile, as others may write there meanwhile.
            *byte = unsafe { from.add(index).read_volatile() };
        }
        let Some(next) = at.checked_add(piece.len() as u64) else { return behind.is_empty() };
        (at, rest) = (next, behind);
    }
    true
}

/// The word at an address. Probe context.
pub(crate) fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    load(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

fn is_ram(physical: u64) -> bool {
    let [start, end] = [0, 1].map(|edge: usize| RAM[edge].load(Ordering::Relaxed));
    (start..end).contains(&physical)
}
