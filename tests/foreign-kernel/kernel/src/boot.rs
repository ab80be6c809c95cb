//! From power on to `kernel_main`, for each CPU: the first one comes from QEMU, which starts a kernel as Xen does (PVH),
//! in protected mode; the others in real mode, at a page below 1 MiB.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .note.Xen, "a", @note
    .long 4, 8, 18              // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

    .section .data.boot, "aw"
    .balign 4096
pml4:
    .quad pdpt + 3
    .fill 511, 8, 0
pdpt:
    .quad pages + 3, 0, 0
    .quad 0xc0000093            // the interrupt controllers' GiB, not cached
    .fill 508, 8, 0
pages:
    .quad 0x83                  // 2 MiB that can be written to
    .quad 0x200081              // text: 2 MiB that cannot
    .set page, 2
    .rept 510
    .quad page * 0x200000 + 0x83
    .set page, page + 1
    .endr
gdt:
    .quad 0
    .quad 0x00af9a000000ffff    // 0x08: 64-bit code
    .quad 0x00cf92000000ffff    // 0x10: data
    .quad 0x00cf9a000000ffff    // 0x18: 32-bit code
cpus_started:
    .quad 0
    .section .bss.boot, "aw", @nobits
stacks:
    .skip {cpus} * 0x10000

    .section .text.boot, "ax"
    .global other_start, other_end, pvh_start
    .code16
other_start:
    cli
    movw %cs, %ax
    movw %ax, %ds
    lgdtl gdt_pointer - other_start
    movl $0x11, %eax            // ET, PE
    movl %eax, %cr0
    ljmpl $0x18, $to_long_mode
gdt_pointer:
    .word 4 * 8 - 1
    .long gdt
other_end:
    .code32
pvh_start:
    lgdtl gdt_pointer
to_long_mode:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %ss
    movl $0xa0, %eax            // PAE, PGE
    movl %eax, %cr4
    movl $pml4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx      // EFER
    rdmsr
    orl $0x100, %eax            // LME
    wrmsr
    movl $0x80010011, %eax      // PG, WP, ET, PE
    movl %eax, %cr0
    ljmp $0x08, $1f
    .code64
1:  movl $1, %edi               // the CPU's number
    lock xaddq %rdi, cpus_started
    leaq 1(%rdi), %rsp
    shlq $16, %rsp
    addq $stacks, %rsp
    callq kernel_main
    ud2
    "#,
    cpus = const crate::machine::CPUS,
    options(att_syntax)
);

unsafe extern "C" {
    static other_start: u8;
    static other_end: u8;
}

/// Copies the start code of the other CPUs to a page, and returns the page's number.
pub fn place_start() -> u8 {
    let length = (&raw const other_end).addr() - (&raw const other_start).addr();
    // SAFETY: page 8 is RAM that the firmware does not use any more, and that this kernel uses for nothing else.
    unsafe { core::ptr::copy_nonoverlapping(&raw const other_start, 0x8000 as *mut u8, length) };
    8
}
