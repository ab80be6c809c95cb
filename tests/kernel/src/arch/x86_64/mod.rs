//! x86_64: the machine-dependent code that the rest of the kernel uses.

pub(crate) mod apic;
pub(crate) mod cpu;
pub(crate) mod frame;
pub(crate) mod layout;
pub(crate) mod power;
pub(crate) mod timer;
pub(crate) mod uart;

use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::PhysFrame;

pub(crate) use apic::{send_rendezvous, stop_others, wake_others};
pub(crate) use frame::TrapFrame;

/// The name of this architecture in the host's option `--arch`.
pub(crate) const NAME: &str = "x86_64";

/// Addresses for module images: the second GiB of the kernel's part of the address space.
pub(crate) const MODULE_SPACE: core::ops::Range<u64> = 0xffff_ffff_c000_0000..0xffff_ffff_f000_0000;

/// Physical address at which the bench puts the kernel's symbols: 240 MiB into RAM. The heap ends before it.
pub(crate) const SYMBOLS: u64 = 240 << 20;

/// Switches the CPU that runs this to other page tables.
///
/// # Safety
/// The root table at the physical address `root` maps everything in use.
pub(crate) unsafe fn switch_tables(root: u64) {
    let root = PhysFrame::containing_address(PhysAddr::new(root));
    // SAFETY: the caller guarantees that the new tables map everything in use.
    unsafe { Cr3::write(root, Cr3Flags::empty()) };
}
