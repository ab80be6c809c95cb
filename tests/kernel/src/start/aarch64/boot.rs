//! The boot code, from QEMU's entry to Rust. The CPU enters it at exception level 1 with translation off, and leaves it with
//! translation on, in the upper half of the address space.
//!
//! QEMU's `virt` machine starts an ELF kernel on the first CPU at its physical entry point, with the device tree at the start of
//! RAM. Firmware starts the other CPUs on request (PSCI), at the entry point `other_start`. The page tables of the boot code map
//! the first two GiB three times: at their physical address, for the code that switches translation on; in the direct map; and at
//! the kernel's address. They are in use until [`paging`](crate::paging) has built the final tables.

use core::arch::global_asm;

use super::devicetree;
use crate::arch::layout::{DEVICES, DIRECT_MAP};
use crate::arch::power;

/// MAIR_EL1: index 0 is device memory (nGnRE), index 1 is normal memory, write-back.
const MEMORY_TYPES: u64 = 0xff04;
/// TCR_EL1: 48 bits of address in each half, 4 KiB pages, tables in inner shareable write-back
/// memory, 40 bits of physical address.
const TRANSLATION: u64 =
    16 | 16 << 16 | 0b11_01_01 << 8 | 0b11_01_01 << 24 | 0b10 << 30 | 0b010 << 32;
/// SCTLR_EL1: the bits that must be one, translation, both caches, and the check of the stack's alignment.
const CONTROL: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 12 | 1 << 3;
/// A block of device memory, never executed.
const DEVICE_BLOCK: u64 = 0x0060_0000_0000_0401;
/// The block of normal memory at the start of RAM: readable, writable, and executable, because the boot tables do not distinguish
/// code and data.
const MEMORY_BLOCK: u64 = 0x0040_0000_0000_0705 | DEVICES;

global_asm!(
    r#"
    .section .bss.boot, "aw", @nobits
    .balign 4096
boot_root:      .skip 4096
boot_gigabytes: .skip 4096
boot_nothing:   .skip 4096
    .skip 65536
boot_stack_top:

    .section .text.boot, "ax"
    .global start
start:
    msr daifset, #15
    // The tables. Everything here is addressed relative to the program counter, which is physical.
    adrp x0, boot_root
    adrp x1, boot_gigabytes
    orr x2, x1, #3              // a table
    str x2, [x0]
    str x2, [x0, #{direct_slot} * 8]
    ldr x2, ={device}
    str x2, [x1]
    ldr x2, ={memory}
    str x2, [x1, #8]
    bl translation_on
    ldr x0, =boot_stack_top
    mov sp, x0
    mov x29, xzr
    ldr x0, =boot_entry
    blr x0
    brk #1

    // x0: the table of the lower half, and of the upper one.
translation_on:
    ldr x1, ={memory_types}
    msr mair_el1, x1
    ldr x1, ={translation}
    msr tcr_el1, x1
    msr ttbr0_el1, x0
    msr ttbr1_el1, x0
    dsb sy
    tlbi vmalle1
    dsb nsh
    isb
    ldr x1, ={control}
    msr sctlr_el1, x1
    isb
    ret

    // Replaces the table of the upper half by the one at x0. Runs in the lower half, so that no
    // translation is ever looked for in both: with different sizes for one address, that is an error.
    .global replace_upper
replace_upper:
    adrp x1, boot_nothing
    msr ttbr1_el1, x1
    isb
    tlbi vmalle1
    dsb nsh
    isb
    msr ttbr1_el1, x0
    isb
    ret

    // x0: physical address of a `Start`.
    .global other_start
other_start:
    msr daifset, #15
    mov x19, x0
    adrp x0, boot_root
    bl translation_on
    ldp x0, x20, [x19]
    bl replace_upper
    ldr x0, [x19, #16]
    mov sp, x20
    mov x29, xzr
    ldr x1, =other_cpu_entry
    blr x1
    brk #1
    "#,
    direct_slot = const (DIRECT_MAP >> 39) & 511,
    device = const DEVICE_BLOCK,
    memory = const MEMORY_BLOCK,
    memory_types = const MEMORY_TYPES,
    translation = const TRANSLATION,
    control = const CONTROL,
);

/// First Rust code: on the boot stack, in the boot tables, interrupts off.
///
/// # Safety
/// Called once, by the code above.
#[unsafe(no_mangle)]
unsafe extern "C" fn boot_entry() -> ! {
    match devicetree::boot_info() {
        Some(boot) => crate::start::kernel_main(boot),
        // Without a memory map there is no heap, so the kernel cannot send a message.
        None => power::off(power::Exit::Failure),
    }
}
