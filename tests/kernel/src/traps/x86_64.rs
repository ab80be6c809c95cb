//! Exceptions and interrupts: one stub for each vector, one frame layout, and two dispatchers (one for #BP and #UD, one for all
//! other vectors).
//!
//! As on FreeBSD (`TRAP_NOEN(bpt)` in `sys/amd64/amd64/exception.S`), #BP has an interrupt gate without an interrupt stack:
//! interrupts stay off, and the frame is on the stack of the interrupted code.

use core::arch::global_asm;
use core::fmt;

use sdt_framework::Registers;
use spin::Once;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{ExceptionVector, InterruptDescriptorTable};
use x86_64::{PrivilegeLevel, VirtAddr};

use crate::arch::apic::{
    self, ERROR_VECTOR, RENDEZVOUS_VECTOR, SPURIOUS_VECTOR, TIMER_VECTOR, UART_VECTOR, WAKE_VECTOR,
};
use crate::arch::cpu;
use crate::arch::frame::{BREAKPOINT, TrapFrame};
use crate::{counters, functions, panic, smp, system};

/// The number of vectors that have a stub.
const VECTORS: usize = 64;
/// The distance in bytes from one stub to the next.
const STUB_SIZE: usize = 32;
const NMI: u32 = 2;
const DOUBLE_FAULT: u32 = 8;
const PAGE_FAULT: u32 = 14;

global_asm!(
    r#"
    .section .text.traps, "ax"
    .balign 32
trap_stubs:
    .set vector, 0
    .rept {vectors}
    .balign 32
    // The CPU pushes an error code for 8, 10 to 14, 17, 21, 29 and 30.
    .if !((vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30))
    push 0
    .endif
    .if (vector == 3) || (vector == 6)
    sub rsp, 160
    mov dword ptr [rsp + 120], vector
    jmp trap_invop
    .else
    sub rsp, 144
    mov dword ptr [rsp + 120], vector
    jmp trap_all
    .endif
    .set vector, vector + 1
    .endr

    .macro SAVE_REGISTERS
    mov [rsp], rdi
    mov [rsp + 8], rsi
    mov [rsp + 16], rdx
    mov [rsp + 24], rcx
    mov [rsp + 32], r8
    mov [rsp + 40], r9
    mov [rsp + 48], rax
    mov [rsp + 56], rbx
    mov [rsp + 64], rbp
    mov [rsp + 72], r10
    mov [rsp + 80], r11
    mov [rsp + 88], r12
    mov [rsp + 96], r13
    mov [rsp + 104], r14
    mov [rsp + 112], r15
    mov word ptr [rsp + 124], fs
    mov word ptr [rsp + 126], gs
    mov qword ptr [rsp + 128], 0
    mov dword ptr [rsp + 136], 0
    mov word ptr [rsp + 140], es
    mov word ptr [rsp + 142], ds
    cld
    .endm

    // Frees some stack between the frame and what was on the stack before, so that an instruction
    // that pushes can be emulated: 16 bytes, which keep the stack aligned.
trap_invop:
    SAVE_REGISTERS
    .set at, 144
    .rept 6                     // the error code and the five words the CPU pushed
    mov rax, [rsp + at + 16]
    mov [rsp + at], rax
    .set at, at + 8
    .endr
    mov rdi, rsp
    lea rsi, [rsp + 192]
    call invop
    jmp trap_return

trap_all:
    SAVE_REGISTERS
    mov rdi, rsp
    call trap
trap_return:
    mov rdi, [rsp]
    mov rsi, [rsp + 8]
    mov rdx, [rsp + 16]
    mov rcx, [rsp + 24]
    mov r8, [rsp + 32]
    mov r9, [rsp + 40]
    mov rax, [rsp + 48]
    mov rbx, [rsp + 56]
    mov rbp, [rsp + 64]
    mov r10, [rsp + 72]
    mov r11, [rsp + 80]
    mov r12, [rsp + 88]
    mov r13, [rsp + 96]
    mov r14, [rsp + 104]
    mov r15, [rsp + 112]
    add rsp, 152
    iretq
    "#,
    vectors = const VECTORS,
);

unsafe extern "C" {
    static trap_stubs: u8;
}

static IDT: Once<InterruptDescriptorTable> = Once::new();

fn stub(vector: usize) -> VirtAddr {
    VirtAddr::new(&raw const trap_stubs as u64 + (vector * STUB_SIZE) as u64)
}

/// Loads the interrupt descriptor table on this CPU. Called after [`cpu::init`].
pub(crate) fn init() {
    let idt = IDT.call_once(|| {
        let mut idt = InterruptDescriptorTable::new();
        // SAFETY: each stub expects the stack layout of its vector and returns by iretq. `cpu::init` has set up the two interrupt
        // stacks. All gates are interrupt gates for ring 0.
        unsafe {
            idt.divide_error.set_handler_addr(stub(0));
            idt.debug.set_handler_addr(stub(1));
            idt.non_maskable_interrupt.set_handler_addr(stub(2)).set_stack_index(cpu::NMI_IST);
            idt.breakpoint.set_handler_addr(stub(3)).set_privilege_level(PrivilegeLevel::Ring0);
            idt.overflow.set_handler_addr(stub(4));
            idt.bound_range_exceeded.set_handler_addr(stub(5));
            idt.invalid_opcode.set_handler_addr(stub(6));
            idt.device_not_available.set_handler_addr(stub(7));
            idt.double_fault.set_handler_addr(stub(8)).set_stack_index(cpu::DOUBLE_FAULT_IST);
            idt.invalid_tss.set_handler_addr(stub(10));
            idt.segment_not_present.set_handler_addr(stub(11));
            idt.stack_segment_fault.set_handler_addr(stub(12));
            idt.general_protection_fault.set_handler_addr(stub(13));
            idt.page_fault.set_handler_addr(stub(14));
            idt.x87_floating_point.set_handler_addr(stub(16));
            idt.alignment_check.set_handler_addr(stub(17));
            idt.machine_check.set_handler_addr(stub(18));
            idt.simd_floating_point.set_handler_addr(stub(19));
            idt.virtualization.set_handler_addr(stub(20));
            for vector in 32..VECTORS {
                idt[vector as u8].set_handler_addr(stub(vector));
            }
        }
        idt
    });
    idt.load();
}

/// Handles all vectors except #BP and #UD. Interrupts are off.
///
/// # Safety
/// Called by the stubs with the frame they built.
#[unsafe(no_mangle)]
unsafe extern "C" fn trap(frame: &mut TrapFrame) {
    match frame.trapno {
        NMI => {
            if panic::panicked() {
                cpu::halt();
            }
            panic!("non-maskable interrupt; {frame:x?}");
        }
        vector if vector == TIMER_VECTOR.into() => {
            counters::tick(frame.rip, frame.rbp);
            apic::end_of_interrupt();
        }
        vector if vector == RENDEZVOUS_VECTOR.into() => {
            apic::end_of_interrupt();
            smp::join_rendezvous();
        }
        vector if vector == WAKE_VECTOR.into() || vector == UART_VECTOR.into() => {
            apic::end_of_interrupt();
        }
        vector if vector == SPURIOUS_VECTOR.into() => {}
        vector if vector == ERROR_VECTOR.into() => panic!("an error of the local APIC; {frame:x?}"),
        PAGE_FAULT => {
            frame.addr = Cr2::read_raw();
            panic!(
                "page fault at {:#x}, {} {}; {frame:x?}",
                frame.addr,
                if frame.err & 16 != 0 {
                    "executing"
                } else if frame.err & 2 != 0 {
                    "writing"
                } else {
                    "reading"
                },
                if frame.err & 1 != 0 { "against its protection" } else { "which is not mapped" },
            );
        }
        DOUBLE_FAULT => {
            panic!("double fault, the last page fault at {:#x}; {frame:x?}", Cr2::read_raw())
        }
        vector => panic!("{}; error code {:#x}; {frame:x?}", name(vector), frame.err),
    }
}

/// Names an exception, or an interrupt that has no handler.
fn name(vector: u32) -> impl fmt::Display {
    fmt::from_fn(move |f| match ExceptionVector::try_from(vector as u8) {
        Ok(exception) => write!(f, "{exception:?}"),
        Err(_) => write!(f, "unexpected interrupt {vector}"),
    })
}

/// The results of a breakpoint handler, each of which names an instruction to emulate (`DTRACE_INVOP_*`; `dtrace_invop_start` of
/// `sys/cddl/dev/dtrace/amd64/dtrace_asm.S`).
mod invop {
    pub(super) const PUSH_RBP: i32 = 1;
    pub(super) const LEAVE: i32 = 3;
    pub(super) const NOP: i32 = 4;
    pub(super) const RET: i32 = 5;
}

/// The number of bytes below the interrupted stack pointer that the stub does not use.
pub(crate) const FREE_STACK: u64 = 16;

/// Returns the address of the function that handles breakpoints.
pub(crate) fn handler() -> u64 {
    invop as *const () as u64
}

/// Handles a breakpoint in a function that a consumer traces. Returns `false` if no consumer traces a function there. Interrupts
/// off, probe context.
///
/// # Safety
/// `frame` is the frame of the current breakpoint at `address`, followed by [`FREE_STACK`] unused bytes.
unsafe fn function(frame: &mut TrapFrame, address: u64) -> bool {
    let TrapFrame { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, .. } = *frame;
    let TrapFrame { r12, r13, r14, r15, rflags, .. } = *frame;
    let general = [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
    let mut registers = Registers { general, rip: address, rflags };
    // SAFETY: `registers` are copied from the frame. The code below copies them back, and the stub restores them when it returns.
    if !unsafe { functions::hit(address, rbp, &mut registers) } {
        return false;
    }
    [
        frame.rax, frame.rcx, frame.rdx, frame.rbx, frame.rsp, frame.rbp, frame.rsi, frame.rdi,
        frame.r8, frame.r9, frame.r10, frame.r11, frame.r12, frame.r13, frame.r14, frame.r15,
    ] = registers.general;
    (frame.rip, frame.rflags) = (registers.rip, registers.rflags);
    true
}

/// Handles #BP and #UD. At a site of the kernel, resumes at the site's resume address. Otherwise, calls the handlers of modules,
/// and emulates the instruction that the claiming handler returned. Interrupts off, probe context.
///
/// # Safety
/// Called by the stub with the frame that it built and the 16 free bytes after the frame.
#[unsafe(no_mangle)]
unsafe extern "C" fn invop(frame: &mut TrapFrame, scratch: u64) {
    let breakpoint = frame.trapno == BREAKPOINT;
    let address = frame.rip - u64::from(breakpoint);
    if breakpoint && let Some(resume) = counters::resume_address(address) {
        frame.rip = resume;
        return;
    }
    // SAFETY: `frame` is the frame of the current breakpoint, followed by the 16 unused bytes that the stub has reserved.
    if breakpoint && unsafe { function(frame, address) } {
        return;
    }
    // SAFETY: `frame` is the frame of the current trap. `scratch` is the address of the 16 unused bytes after it.
    let answer = unsafe {
        system::current().trap(system::Trap {
            address,
            breakpoint,
            frame: &mut *frame,
            third: scratch,
        })
    };
    // The interrupted stack pointer is at most 15 bytes below the scratch space's end, so an emulated push writes there and not
    // into the frame.
    match answer {
        invop::NOP => {}
        invop::PUSH_RBP => {
            frame.rsp -= 8;
            // SAFETY: the stub has reserved 16 unused bytes below the interrupted stack pointer.
            unsafe { (frame.rsp as *mut u64).write(frame.rbp) };
        }
        invop::LEAVE => {
            // SAFETY: the replaced `leave` would have read the same word at rbp.
            let saved = unsafe { (frame.rbp as *const u64).read() };
            frame.rsp = frame.rbp + 8;
            frame.rbp = saved;
        }
        invop::RET => {
            // SAFETY: the replaced `ret` would have read the return address at rsp.
            frame.rip = unsafe { (frame.rsp as *const u64).read() };
            frame.rsp += 8;
        }
        0 if !breakpoint => panic!("{} at {address:#x}; {frame:x?}", name(frame.trapno)),
        0 => panic!("breakpoint at {address:#x} that no handler claims; {frame:x?}"),
        other => panic!(
            "{} at {address:#x}: its handler wants {other} emulated; {frame:x?}",
            name(frame.trapno)
        ),
    }
    counters::breakpoint();
}
