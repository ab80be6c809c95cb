//! Loads from arbitrary addresses, for D programs.
//!
//! All mapped RAM can be read: the kernel's image, the heap, the stacks, modules. [`load`] translates the address by the page
//! tables, without a lock, and reads the bytes through the direct map. Therefore a load never faults. If a module is unloaded
//! meanwhile, its pages belong to the heap and are still in the direct map. Device registers are not RAM, so they are never read.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use stand_in_base::image::PAGE;

use crate::paging;

/// Physical addresses of RAM that is in use.
static RAM: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Sets the range of RAM in use: the kernel's image, followed by the heap.
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
            // SAFETY: the address is RAM in the direct map, within one page. The read is volatile because other CPUs may write to
            // it.
            *byte = unsafe { from.add(index).read_volatile() };
        }
        let Some(next) = at.checked_add(piece.len() as u64) else { return behind.is_empty() };
        (at, rest) = (next, behind);
    }
    true
}

/// Returns the word at an address; `None` if it is not mapped RAM. Probe context.
pub(crate) fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    load(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

fn is_ram(physical: u64) -> bool {
    let [start, end] = [0, 1].map(|edge: usize| RAM[edge].load(Ordering::Relaxed));
    (start..end).contains(&physical)
}
