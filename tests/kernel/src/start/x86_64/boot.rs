//! The boot code, from QEMU's PVH entry to Rust. The CPU enters it in 32-bit protected mode with paging off, and leaves it in
//! long mode, in the top 2 GiB of the address space.
//!
//! The interface is that of Xen (`docs/misc/pvh.pandoc` and `xen/include/public/arch-x86/hvm/start_info.h`): EBX holds the
//! physical address of `hvm_start_info`, flat segments are loaded, everything else is undefined. The page tables of the boot code
//! map the first GiB three times: at 0 for the code that switches paging on, in the direct map, and at the kernel's address. They
//! are in use until [`paging`](crate::paging) has built the final tables.

use core::arch::global_asm;

use stand_in_kernel::memory::{BootInfo, Region};

use crate::arch::layout::{DIRECT_MAP, KERNEL_BASE};
use crate::paging::direct;

/// `XEN_HVM_START_MAGIC_VALUE`.
const START_MAGIC: u32 = 0x336e_c578;
/// `XEN_HVM_MEMMAP_TYPE_RAM`.
const MEMMAP_RAM: u32 = 1;

/// `struct hvm_start_info`, version 1.
#[derive(Clone, Copy)]
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memmap: u64,
    memmap_entries: u32,
    reserved: u32,
}

/// `struct hvm_memmap_table_entry`.
#[derive(Clone, Copy)]
#[repr(C)]
struct MemmapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

global_asm!(
    r#"
    // Type 18 is XEN_ELFNOTE_PHYS32_ENTRY. QEMU reads eight bytes of it from a 64-bit ELF.
    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad pvh_start - {base}

    .section .bss.boot, "aw", @nobits
    .balign 4096
    .global boot_pml4
boot_pml4:      .skip 4096
boot_pdpt:      .skip 4096
boot_pdpt_top:  .skip 4096
boot_pd:        .skip 4096
    .skip 65536
boot_stack_top:

    .section .rodata.boot, "a"
    .balign 8
boot_gdt:
    .quad 0, 0, 0, 0
    .quad 0x00af9a000000ffff    // 0x20: 64-bit code, as FreeBSD's GCODE_SEL
    .quad 0x00cf92000000ffff    // 0x28: data
boot_gdt_pointer:
    .word 6 * 8 - 1
    .long boot_gdt - {base}

    .section .text.boot, "ax"
    .code32
    .global pvh_start
pvh_start:
    cli
    cld
    movl $(boot_stack_top - {base}), %esp
    movl %ebx, %esi

    movl $(boot_pdpt - {base} + 3), %eax
    movl %eax, (boot_pml4 - {base})
    movl %eax, (boot_pml4 - {base} + {direct_slot} * 8)
    movl $(boot_pdpt_top - {base} + 3), %eax
    movl %eax, (boot_pml4 - {base} + 511 * 8)
    movl $(boot_pd - {base} + 3), %eax
    movl %eax, (boot_pdpt - {base})
    movl %eax, (boot_pdpt_top - {base} + 510 * 8)
    movl $0x83, %eax            // present, writable, 2 MiB
    xorl %ecx, %ecx
1:  movl %eax, (boot_pd - {base})(,%ecx,8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $512, %ecx
    jne 1b

    movl %cr4, %eax
    orl $0xa0, %eax             // PAE, PGE
    movl %eax, %cr4
    movl $(boot_pml4 - {base}), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx      // EFER
    rdmsr
    orl $0x900, %eax            // LME, NXE
    wrmsr
    movl %cr0, %eax
    orl $0x80010001, %eax       // PG, WP, PE
    movl %eax, %cr0
    lgdt (boot_gdt_pointer - {base})
    ljmp $0x20, $(2f - {base})

    .code64
2:  movl $0x28, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    movabsq $boot_stack_top, %rsp
    xorl %ebp, %ebp
    movl %esi, %edi
    movabsq $boot_entry, %rax
    callq *%rax
    ud2
    "#,
    base = const KERNEL_BASE,
    direct_slot = const (DIRECT_MAP >> 39) & 511,
    options(att_syntax)
);

/// First Rust code: on the boot stack, in the boot tables, interrupts off.
///
/// # Safety
/// Called once, by the code above, with the address that the loader passed.
#[unsafe(no_mangle)]
unsafe extern "C" fn boot_entry(start_info: u64) -> ! {
    // SAFETY: the boot tables map the first GiB at DIRECT_MAP, and the loader has stored the structure in the first GiB.
    let info = unsafe { (direct(start_info) as *const StartInfo).read_unaligned() };
    if info.magic != START_MAGIC || info.version < 1 {
        // Without a memory map there is no heap, so the kernel cannot send a message.
        crate::arch::power::off(crate::arch::power::Exit::Failure);
    }
    let mut boot = BootInfo { firmware: info.rsdp, ram: [Region::EMPTY; BootInfo::MAX_REGIONS] };
    let map = direct(info.memmap) as *const MemmapEntry;
    let mut slots = boot.ram.iter_mut();
    for index in 0..info.memmap_entries as usize {
        // SAFETY: by the boot protocol, the table has `memmap_entries` entries.
        let entry = unsafe { map.add(index).read_unaligned() };
        if entry.kind == MEMMAP_RAM
            && let Some(slot) = slots.next()
        {
            *slot = Region { start: entry.address, end: entry.address + entry.size };
        }
    }
    crate::start::kernel_main(boot)
}
