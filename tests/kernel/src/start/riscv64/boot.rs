//! The boot code, from OpenSBI to Rust. A hart enters it in supervisor mode with paging off, and leaves it with Sv39 paging, in
//! the upper half of the address space.
//!
//! The interface is that of Linux (`Documentation/arch/riscv/boot.rst`), which OpenSBI follows: a0 holds the hart's id, a1 the
//! physical address of the device tree, and satp is 0. The other harts are stopped (SBI HSM). The page table of the boot code
//! maps the first GiB of RAM at the kernel's address, and the first 4 GiB of physical memory in the direct map. It is in use
//! until [`paging`](crate::paging) has built the final tables.
//!
//! Only the first hart at `start` boots; [`super::harts`] handles the other harts.

use core::arch::global_asm;

use fdt::Fdt;
use stand_in_kernel::memory::BootInfo;

use crate::arch::layout::{DIRECT_MAP, KERNEL_BASE};
use crate::arch::{SV39, machine};
use crate::paging;

/// Physical start of RAM, in which the kernel is.
const RAM: u64 = 0x8000_0000;

/// Returns the index of the root table's entry for an address. An entry maps 1 GiB.
const fn slot(address: u64) -> u64 {
    address >> 30 & 511
}

/// Bits of a table entry: valid, read, write, accessed, dirty. Hardware may fault instead of setting the last two.
const READ_WRITE: u64 = 1 | 2 | 4 | 64 | 128;
const EXECUTE: u64 = 8;

/// Returns the entry that maps 1 GiB in the root table.
const fn gigapage(physical: u64, bits: u64) -> u64 {
    physical >> 2 | bits
}

global_asm!(
    r#"
    .section .rodata.boot, "a"
    .balign 4096
boot_root:
    .skip {kernel_slot} * 8
    .quad {kernel_page}
    .skip ({direct_slot} - {kernel_slot} - 1) * 8
    .quad {direct_page}
    .quad {direct_page} + {gib}
    .quad {direct_page} + 2 * {gib}
    .quad {direct_page} + 3 * {gib}
    .skip (512 - {direct_slot} - 4) * 8

    .section .bss.boot, "aw", @nobits
    .balign 4096
    .skip 65536
boot_stack_top:

    .section .data.boot, "aw"
    .balign 4
booted:
    .word 0

    .section .text.boot, "ax"
    .global start
start:
    csrw sie, zero
    lla t0, booted
    li t1, 1
    .option push
    .option arch, +a
    amoswap.w t1, t1, (t0)
    .option pop
    beqz t1, 1f
    j hart_misled
1:  lla sp, boot_stack_top
    lla a2, boot_root
    call enable_paging
    li s0, 0
    call boot_entry
    unimp

    // Switches from physical addresses to the kernel's, and moves sp and ra along: a2 is the physical address of a root
    // table. The new tables do not map this code at its current address, so the fetch after the switch faults, and
    // execution continues at the vector. Changes t0 and t1.
    .global enable_paging
enable_paging:
    li t0, {base}
    add sp, sp, t0
    add ra, ra, t0
    lla t1, 1f
    add t1, t1, t0
    csrw stvec, t1
    srli t0, a2, 12
    li t1, {sv39}
    or t0, t0, t1
    sfence.vma
    csrw satp, t0
    .balign 4
1:  sfence.vma
    lla t0, early_trap
    csrw stvec, t0
    ret

    // A trap before there are tables for it: only QEMU can be told.
    .balign 4
early_trap:
    li a7, 0x53525354           // SRST
    li a6, 0
    li a0, 0                    // shutdown
    li a1, 1                    // system failure
    ecall
    j early_trap
    "#,
    base = const KERNEL_BASE as i64,
    kernel_slot = const slot(KERNEL_BASE + RAM),
    kernel_page = const gigapage(RAM, READ_WRITE | EXECUTE),
    direct_slot = const slot(DIRECT_MAP),
    direct_page = const gigapage(0, READ_WRITE),
    gib = const gigapage(1 << 30, 0),
    sv39 = const SV39 as i64,
);

/// First Rust code: on the boot stack, in the boot table, interrupts off.
///
/// # Safety
/// Called once, by the code above, with what the firmware passed.
#[unsafe(no_mangle)]
unsafe extern "C" fn boot_entry(hart: usize, device_tree: u64) -> ! {
    // SAFETY: the firmware has stored the device tree in RAM, which the boot table maps at DIRECT_MAP. The heap may overwrite the
    // tree, but it is initialised only after the last use of the tree.
    let tree = unsafe { Fdt::from_ptr(paging::direct(device_tree) as *const u8) };
    let ram = match tree {
        Ok(tree) => machine::init(&tree, hart),
        Err(error) => panic!("device tree at {device_tree:#x}: {error:?}"),
    };
    crate::start::kernel_main(BootInfo { firmware: device_tree, ram })
}
