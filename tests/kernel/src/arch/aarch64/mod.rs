//! aarch64: the machine-dependent code that the rest of the kernel uses. The machine is QEMU's `virt` with a GICv3.

pub(crate) mod cpu;
pub(crate) mod gic;
pub(crate) mod layout;
pub(crate) mod power;
pub(crate) mod timer;
pub(crate) mod uart;

pub(crate) use gic::{send_rendezvous, stop_others, wake_others};
pub(crate) use stand_in_freebsd::arm64::TrapFrame;

/// The name of this architecture in the host's option `--arch`.
pub(crate) const NAME: &str = "aarch64";

/// Addresses for module images: at most 128 MiB from the kernel, so that a branch instruction reaches it.
pub(crate) const MODULE_SPACE: core::ops::Range<u64> = 0xffff_0000_4100_0000..0xffff_0000_4800_0000;

/// Physical address at which the bench puts the kernel's symbols: 240 MiB into RAM. The heap ends before it.
pub(crate) const SYMBOLS: u64 = layout::DEVICES + (240 << 20);

/// The number of the bit that is set in all addresses of a stack, and clear in the addresses just below the stack.
pub(crate) const STACK_BIT: u32 = 17;

unsafe extern "C" {
    static replace_upper: u8;
}

/// Replaces the kernel's page tables on this CPU.
///
/// # Safety
/// The table at the physical address `root` maps everything in use, and the lower half maps the boot code at its physical
/// address.
pub(crate) unsafe fn switch_tables(root: u64) {
    let physical = &raw const replace_upper as u64 - layout::KERNEL_BASE;
    // SAFETY: the lower half maps `replace_upper` at its physical address, and the caller guarantees that the new table maps
    // everything in use.
    unsafe {
        let replace = core::mem::transmute::<u64, unsafe extern "C" fn(u64)>(physical);
        replace(root);
    }
}
