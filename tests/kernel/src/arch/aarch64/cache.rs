//! Instruction and data caches, which need not agree by themselves.

use core::arch::asm;

use aarch64_cpu::asm::barrier::{ISH, SY, dsb, isb};

/// Makes what has been stored at these addresses what all CPUs fetch from there: cleans the data to where
/// instructions are fetched from, then makes all CPUs' instruction caches forget the lines (Arm ARM
/// B2.4.4). Another CPU must still synchronise itself (`isb`, or an exception) to drop what it has already
/// fetched. Probe context.
///
/// # Safety
/// The addresses are mapped.
pub(super) unsafe fn sync_instructions(address: u64, length: usize) {
    let lines = |size: u64| {
        let first = address & !(size - 1);
        (first..address + length as u64).step_by(size as usize)
    };
    let cache_type: u64;
    // SAFETY: reads a register that never changes.
    unsafe {
        asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags));
    }
    // The fields are logarithms of the smallest line sizes in words: DminLine and IminLine.
    let data_line = 4 << (cache_type >> 16 & 15);
    let instruction_line = 4 << (cache_type & 15);
    for line in lines(data_line) {
        // SAFETY: the caller's contract; cleaning changes no contents.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    dsb(ISH);
    for line in lines(instruction_line) {
        // SAFETY: the caller's contract; invalidating instructions changes no contents.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    dsb(ISH);
    isb(SY);
}
