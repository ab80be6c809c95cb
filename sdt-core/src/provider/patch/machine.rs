//! Building blocks of a host's [`Patcher`](super::Patcher) for each architecture: one store, the cache maintenance
//! after it, and the synchronisation of each CPU.
//!
//! | | x86_64 | aarch64 | riscv64 |
//! |---|---|---|---|
//! | [`store`] | a byte, or 2 or 4 aligned ones | 4 aligned bytes | 2 or 4 aligned bytes |
//! | [`after_store`] | nothing: caches follow stores | `dc cvau`, `ic ivau`, `dsb`: drops the old text from the caches of all CPUs | nothing: each hart executes `fence.i` itself |
//! | [`synchronise_cpu`] | `cpuid` | `isb` | `fence.i` |
//!
//! A host that writes through a writable alias:
//!
//! ```
//! use sdt_core::patch::{Patcher, Rendezvous, machine};
//! # fn alias_of(address: usize) -> *mut u8 { address as *mut u8 }
//! # fn send_ipis() {}
//! # fn cpu() -> usize { 0 }
//! # fn online() -> usize { 1 }
//!
//! static RENDEZVOUS: Rendezvous<16> = Rendezvous::new();
//!
//! struct Text;
//!
//! // SAFETY: `alias_of` is the same memory, writable; every CPU acknowledges.
//! unsafe impl Patcher for Text {
//!     unsafe fn store(&self, address: usize, bytes: &[u8]) {
//!         // SAFETY: the contract of this function; the text at `address` is mapped.
//!         unsafe {
//!             machine::store(alias_of(address), bytes);
//!             machine::after_store(address, bytes.len());
//!         }
//!     }
//!
//!     fn synchronise(&self) {
//!         RENDEZVOUS.request(cpu(), online(), send_ipis, core::hint::spin_loop);
//!     }
//! }
//!
//! /// The handler of that interrupt.
//! fn on_ipi() {
//!     RENDEZVOUS.acknowledge(cpu());
//! }
//! ```
//!
//! # Under QEMU
//!
//! QEMU 7.2 translates text without holding the lock of the page. It misses a store that happens at that moment, and
//! keeps the translation of the old bytes until the next store to the page. Then a site does nothing although its text
//! is correct. This is rare, and happens only while other CPUs execute the same page. (Later versions lock first:
//! `tb_lock_page0` in `accel/tcg`.) Real machines do not have this defect. A host that must work under QEMU 7.2 stores
//! the same bytes again after each rendezvous: once every CPU has taken an interrupt, no translation of old bytes is in
//! progress, and the second store invalidates the finished ones. `sdt_framework::smp` does this itself.
//!
//! If the emulating machine has fewer cores than the emulated one has CPUs, or is busy, a
//! [`Rendezvous`](super::Rendezvous) of all CPUs takes tens of milliseconds. A change of one probe, or of any number of
//! probes in a [`batch`](super::batch), needs up to three, and closing a consumer one more: enabling and disabling
//! looks like a stall. With `-accel tcg,thread=single` a rendezvous takes a hundredth of that time and no store is
//! missed, but the CPUs run in turn.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

/// Stores the bytes of a site: 2 or 4 aligned bytes in one store, others one by one from the first. `writable` is the
/// address for the store: an alias, or the text itself while protection is off on this CPU.
///
/// # Safety
/// The bytes belong to a site, `writable` is mapped and writable, and the only other accesses are instruction fetches
/// and calls of this function.
pub unsafe fn store(writable: *mut u8, bytes: &[u8]) {
    // SAFETY: the bytes are mapped, writable and stored to only here, by the contract of this function; the conditions of
    // the arms check that the pointers are aligned for their types.
    unsafe {
        match *bytes {
            [a, b] if writable.addr().is_multiple_of(2) => AtomicU16::from_ptr(writable.cast())
                .store(u16::from_ne_bytes([a, b]), Ordering::SeqCst),
            [a, b, c, d] if writable.addr().is_multiple_of(4) => {
                AtomicU32::from_ptr(writable.cast())
                    .store(u32::from_ne_bytes([a, b, c, d]), Ordering::SeqCst);
            }
            _ => {
                for (index, &byte) in bytes.iter().enumerate() {
                    AtomicU8::from_ptr(writable.add(index)).store(byte, Ordering::SeqCst);
                }
            }
        }
    }
}

/// Does the cache maintenance after a store to text, so that CPUs that [synchronise](synchronise_cpu) afterwards fetch
/// the new text. `address` is the address at which it is executed.
///
/// # Safety
/// The addresses are mapped.
#[cfg_attr(not(target_arch = "aarch64"), allow(clippy::missing_const_for_fn, unused_variables))]
pub unsafe fn after_store(address: usize, length: usize) {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the addresses are mapped, by the contract of this function.
    unsafe {
        aarch64::clean_and_invalidate(address, length);
    }
}

/// Makes this CPU execute the current text and discard prefetched instructions. Call it on each CPU after the stores,
/// as the rendezvous does, and on each CPU that comes online later, before it executes a site.
///
/// x86_64: other CPUs may have old bytes in their pipelines until they execute a serialising instruction (Intel SDM,
/// volume 3, cross-modifying code). aarch64: the invalidation reaches all instruction caches, but not instructions that
/// a CPU has already fetched from its cache (Arm ARM B2.4.4). riscv64: `fence.i` orders the hart's fetches after the
/// stores that it can see (ISA manual, volume I, Zifencei); `sbi_remote_fence_i` of the firmware does it on other harts
/// instead of an interrupt.
pub fn synchronise_cpu() {
    #[cfg(target_arch = "x86_64")]
    core::arch::x86_64::__cpuid(0);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only discards prefetched instructions.
    unsafe {
        core::arch::asm!("isb", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "riscv64")]
    // SAFETY: the instruction only discards prefetched instructions.
    unsafe {
        core::arch::asm!("fence.i", options(nostack, preserves_flags));
    }
}

/// Runs `write` with CR0.WP clear on this CPU, so that it can write to read-only pages. For hosts without an alias of
/// their text.
///
/// # Safety
/// The CPU is in ring 0 with interrupts off, so that nothing else runs on it meanwhile.
#[cfg(all(target_arch = "x86_64", target_os = "none"))]
pub unsafe fn without_write_protection<R>(write: impl FnOnce() -> R) -> R {
    const WP: usize = 1 << 16;
    let cr0: usize;
    // SAFETY: the caller runs in ring 0, by the contract of this function; the value differs from the old one only in WP.
    unsafe {
        core::arch::asm!("mov {}, cr0", out(reg) cr0, options(nomem, nostack, preserves_flags));
        core::arch::asm!("mov cr0, {}", in(reg) cr0 & !WP, options(nostack, preserves_flags));
    }
    let result = write();
    // SAFETY: the CPU is in ring 0, by the contract of this function; this is the previous value.
    unsafe { core::arch::asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags)) };
    result
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use core::arch::asm;

    /// Cleans the data cache to the point of unification, then invalidates the lines in the instruction caches of all
    /// CPUs (Arm ARM B2.4.4).
    ///
    /// # Safety
    /// The addresses are mapped.
    pub(super) unsafe fn clean_and_invalidate(address: usize, length: usize) {
        let cache_type: u64;
        // SAFETY: the instruction only reads a constant register.
        unsafe {
            asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags));
        }
        // The fields are logarithms of the smallest line sizes in words: DminLine and IminLine.
        let (data, instruction) = (4 << (cache_type >> 16 & 15), 4 << (cache_type & 15));
        let lines = |size: usize| (address & !(size - 1)..address + length).step_by(size);
        for line in lines(data) {
            // SAFETY: the address is mapped, by the contract of this function; cleaning changes no contents.
            unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: the instruction is a barrier.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
        for line in lines(instruction) {
            // SAFETY: the address is mapped, by the contract of this function; invalidating instructions changes no contents.
            unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: the instruction is a barrier.
        unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    }
}
