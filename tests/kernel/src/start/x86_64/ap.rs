//! Starting the other CPUs.

use alloc::boxed::Box;
use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, Ordering};

use static_assertions::const_assert;

use super::new_stack;
use crate::arch::{apic, cpu, timer};
use crate::{exec, paging, traps};

/// The page for the start code: below 1 MiB, unused by the firmware.
const START_PAGE: u8 = 8;
const START: u64 = (START_PAGE as u64) << 12;
/// The time limit for the start of a CPU, in nanoseconds.
const START_TIMEOUT_NS: u64 = 60_000_000_000;

global_asm!(
    r#"
    .section .rodata.ap, "a"
    .balign 16
    .code16
ap_start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl ({start} + ap_gdt_pointer - ap_start)
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x08, $({start} + 1f - ap_start)

    .code32
1:  movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %ss
    movl %cr4, %eax
    orl $0xa0, %eax             // PAE, PGE
    movl %eax, %cr4
    movl ({start} + ap_boot_root - ap_start), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx      // EFER
    rdmsr
    orl $0x900, %eax            // LME, NXE
    wrmsr
    movl $0x80010011, %eax      // PG, WP, ET, PE; caches on
    movl %eax, %cr0
    ljmpl $0x18, $({start} + 2f - ap_start)

    .code64
2:  movq ({start} + ap_entry - ap_start), %rax
    movq ({start} + ap_root - ap_start), %rbx
    movq ({start} + ap_stack - ap_start), %rcx
    movq ({start} + ap_number - ap_start), %rdi
    jmpq *%rax

    .balign 8
ap_gdt:
    .quad 0
    .quad 0x00cf9a000000ffff    // 32-bit code
    .quad 0x00cf92000000ffff    // data
    .quad 0x00af9a000000ffff    // 64-bit code
ap_gdt_pointer:
    .word 4 * 8 - 1
    .long {start} + ap_gdt - ap_start
    .balign 8
ap_boot_root:   .quad 0
ap_root:        .quad 0
ap_stack:       .quad 0
ap_entry:       .quad 0
ap_number:      .quad 0
ap_end:

    // At the kernel's address: the switch of tables removes the low mapping.
    .section .text.ap, "ax"
ap_long_mode:
    movq %rbx, %cr3
    movq %rcx, %rsp
    xorl %ebp, %ebp
    callq ap_main
    ud2
    "#,
    start = const START,
    options(att_syntax)
);

unsafe extern "C" {
    static boot_pml4: u8;
    static ap_start: u8;
    static ap_boot_root: u8;
    static ap_end: u8;
    static ap_long_mode: u8;
}

/// The variables at the end of the start code.
#[repr(C)]
struct Variables {
    boot_root: u64,
    root: u64,
    stack: u64,
    entry: u64,
    number: u64,
}

const_assert!(size_of::<Variables>() == 40);

/// Whether the CPU that is being started has read the variables.
static UP: AtomicBool = AtomicBool::new(false);

/// Starts the CPUs with these local APIC ids, one after the other, and numbers them from 1. Returns the number of CPUs, including
/// the first.
///
/// # Panics
/// If a CPU does not start within [`START_TIMEOUT_NS`].
pub(super) fn start_others(ids: &[u8]) -> usize {
    let code = &raw const ap_start;
    let length = &raw const ap_end as usize - code as usize;
    let low = paging::direct(START) as *mut u8;
    // SAFETY: the page is RAM that nothing else uses, and the code fits in it.
    unsafe { core::ptr::copy_nonoverlapping(code, low, length) };
    let offset = &raw const ap_boot_root as usize - code as usize;
    for (index, &id) in ids.iter().enumerate() {
        let number = index + 1;
        let variables = Variables {
            // These tables also map low memory at its physical address.
            boot_root: paging::kernel_physical(&raw const boot_pml4 as u64),
            root: paging::root(),
            stack: new_stack(number),
            entry: &raw const ap_long_mode as u64,
            number: number as u64,
        };
        // SAFETY: the variables are inside the page. No CPU reads them now: the next one is not started yet, and the previous
        // one has set `UP` after it read them.
        unsafe { low.add(offset).cast::<Variables>().write_unaligned(variables) };
        UP.store(false, Ordering::Release);
        apic::start_cpu(id, START_PAGE);
        let deadline = timer::now_ns() + START_TIMEOUT_NS;
        while !UP.load(Ordering::Acquire) {
            assert!(timer::now_ns() < deadline, "CPU {number} (APIC id {id}) does not start");
            core::hint::spin_loop();
        }
    }
    ids.len() + 1
}

/// First Rust code of another CPU, on its own stack and in the kernel's tables.
///
/// # Safety
/// Called once on each CPU by the code above.
#[unsafe(no_mangle)]
unsafe extern "C" fn ap_main(number: u64) -> ! {
    let number = number as usize;
    cpu::init(number);
    traps::init();
    apic::enable();
    timer::start();
    UP.store(true, Ordering::Release);
    exec::work_forever()
}

/// Returns the local APIC ids of the other CPUs in `processors`, at most `MAX_CPUS - 1`.
pub(super) fn others(processors: &[u8]) -> Box<[u8]> {
    let own = apic::id();
    processors.iter().copied().filter(|&id| id != own).take(cpu::MAX_CPUS - 1).collect()
}
