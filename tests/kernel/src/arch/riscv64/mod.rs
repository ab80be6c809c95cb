//! riscv64: the machine-dependent code that the rest of the kernel uses. The machine is QEMU's `virt`, started by OpenSBI.

pub(crate) mod cpu;
mod ipi;
pub(crate) mod layout;
pub(crate) mod machine;
pub(crate) mod plic;
pub(crate) mod power;
pub(crate) mod timer;
pub(crate) mod uart;

use riscv::asm::sfence_vma_all;
use riscv::register::satp;

pub(crate) use ipi::{send_rendezvous, stop_others, wake_others};
pub(crate) use stand_in_freebsd::riscv::TrapFrame;

/// The name of this architecture in the host's option `--arch`.
pub(crate) const NAME: &str = "riscv64";

/// Addresses for module images.
pub(crate) const MODULE_SPACE: core::ops::Range<u64> = 0xffff_ffc1_0000_0000..0xffff_ffc1_4000_0000;

/// Physical address at which the bench puts the kernel's symbols: 240 MiB into RAM. The heap ends before it.
pub(crate) const SYMBOLS: u64 = 0x8000_0000 + (240 << 20);

/// satp's mode field.
pub(crate) const SV39: u64 = (satp::Mode::Sv39 as u64) << 60;

/// Switches the CPU that runs this to other page tables.
///
/// # Safety
/// The root table at the physical address `root` maps everything in use.
pub(crate) unsafe fn switch_tables(root: u64) {
    // SAFETY: the caller guarantees that the new tables map everything in use.
    unsafe { satp::write(satp::Satp::from_bits((SV39 | root >> 12) as usize)) };
    sfence_vma_all();
}
