//! Exceptions and interrupts: one vector, one frame layout, one dispatcher.
//!
//! The frame is FreeBSD's `struct trapframe` (`sys/riscv/include/frame.h`), because breakpoint handlers of modules receive it. As
//! on FreeBSD (`cpu_exception_handler_supervisor` of `sys/riscv/riscv/exception.S`), a trap in the kernel is handled on the stack
//! of the interrupted code, with interrupts off. The return restores the stack pointer from the frame, because a traced function
//! may begin with an instruction that changes it. FreeBSD computes the stack pointer from the address of the frame.

use core::arch::global_asm;
use core::mem::offset_of;

use riscv::interrupt::Trap;
use riscv::interrupt::supervisor::{Exception, Interrupt};
use riscv::register::scause::Scause;
use riscv::register::stvec::{self, Stvec, TrapMode};
use riscv::register::{sie, sip};
use sdt_framework::Registers;
use stand_in_freebsd::riscv::Emulated;

use crate::arch::{TrapFrame, cpu, plic, timer};
use crate::{counters, freebsd, functions, panic, smp, system};

/// `TF_SIZE`: the number of bytes that the frame uses on the stack.
const FRAME_SIZE: u64 = 288;

global_asm!(
    r#"
    .section .text.traps, "ax"
    .balign 4
    .global trap_vector
trap_vector:
    // t0, t1 and sp go to the CPU's own data until it is known that the stack has room for a frame. No
    // trap comes in between: interrupts are off, and this code and that data are mapped.
    csrrw sp, sscratch, sp
    sd t0, {saved}(sp)
    csrrw t0, sscratch, sp
    sd t0, {saved} + 8(sp)
    sd t1, {saved} + 16(sp)
    addi t0, t0, -{frame}
    ld t1, {stack_bottom}(sp)
    bltu t0, t1, 1f
    ld t0, {saved}(sp)
    ld t1, {saved} + 16(sp)
    ld sp, {saved} + 8(sp)
    j {breakpoint}              // the entry of `breakpoint_entry!`, which leaves other traps to `trap_other`

    .global trap_other
trap_other:
    addi sp, sp, -{frame}
    sd t0, 32(sp)
    addi t0, sp, {frame}
    sd t0, 8(sp)
    sd t1, 40(sp)
    j 2f

1:  addi t0, sp, -{frame}       // the emergency stack ends where the data begins
    ld t1, {saved}(sp)
    sd t1, 32(t0)
    ld t1, {saved} + 8(sp)
    sd t1, 8(t0)
    ld t1, {saved} + 16(sp)
    sd t1, 40(t0)
    mv sp, t0
2:  sd ra, 0(sp)
    sd gp, 16(sp)
    sd tp, 24(sp)
    sd t2, 48(sp)
    sd t3, 56(sp)
    sd t4, 64(sp)
    sd t5, 72(sp)
    sd t6, 80(sp)
    sd s0, 88(sp)
    sd s1, 96(sp)
    sd s2, 104(sp)
    sd s3, 112(sp)
    sd s4, 120(sp)
    sd s5, 128(sp)
    sd s6, 136(sp)
    sd s7, 144(sp)
    sd s8, 152(sp)
    sd s9, 160(sp)
    sd s10, 168(sp)
    sd s11, 176(sp)
    sd a0, 184(sp)
    sd a1, 192(sp)
    sd a2, 200(sp)
    sd a3, 208(sp)
    sd a4, 216(sp)
    sd a5, 224(sp)
    sd a6, 232(sp)
    sd a7, 240(sp)
    csrr t0, sepc
    sd t0, 248(sp)
    csrr t0, sstatus
    sd t0, 256(sp)
    csrr t0, stval
    sd t0, 264(sp)
    csrr t0, scause
    sd t0, 272(sp)
    mv a0, sp
    call trap

    ld t0, 256(sp)
    csrw sstatus, t0
    ld t0, 248(sp)
    csrw sepc, t0
    ld ra, 0(sp)
    ld t0, 32(sp)
    ld t1, 40(sp)
    ld t2, 48(sp)
    ld t3, 56(sp)
    ld t4, 64(sp)
    ld t5, 72(sp)
    ld t6, 80(sp)
    ld s0, 88(sp)
    ld s1, 96(sp)
    ld s2, 104(sp)
    ld s3, 112(sp)
    ld s4, 120(sp)
    ld s5, 128(sp)
    ld s6, 136(sp)
    ld s7, 144(sp)
    ld s8, 152(sp)
    ld s9, 160(sp)
    ld s10, 168(sp)
    ld s11, 176(sp)
    ld a0, 184(sp)
    ld a1, 192(sp)
    ld a2, 200(sp)
    ld a3, 208(sp)
    ld a4, 216(sp)
    ld a5, 224(sp)
    ld a6, 232(sp)
    ld a7, 240(sp)
    ld sp, 8(sp)
    sret
    "#,
    breakpoint = sym breakpoint_entry,
    saved = const offset_of!(cpu::Local, saved),
    stack_bottom = const offset_of!(cpu::Local, stack_bottom),
    frame = const FRAME_SIZE,
);

unsafe extern "C" {
    static trap_vector: u8;
    fn trap_other();
}

sdt_core::breakpoint_entry! {
    /// Traps of the kernel on a stack with room: resumes after breakpoints of the kernel's own sites.
    #[unsafe(link_section = ".text.traps")]
    fn breakpoint_entry() else trap_other, resolver = counters::resolve;
}

/// Sets the trap vector of this CPU, and enables software and external interrupts. Called after [`cpu::init`].
pub(crate) fn init() {
    // SAFETY: the vector handles every trap of supervisor mode, and `cpu::init` has set sscratch and tp.
    unsafe {
        stvec::write(Stvec::new(&raw const trap_vector as usize, TrapMode::Direct));
        sie::set_ssoft();
        sie::set_sext();
    }
}

/// Handles a trap. Interrupts are off.
///
/// # Safety
/// Called by the vector with the frame it built.
#[unsafe(no_mangle)]
unsafe extern "C" fn trap(frame: &mut TrapFrame) {
    if frame.sp - FRAME_SIZE < cpu::stack_bottom() {
        panic!("stack overflow; {frame:x?}");
    }
    match Scause::from_bits(frame.scause as usize).cause().try_into() {
        Ok(Trap::Interrupt(interrupt)) => interrupted(interrupt, frame),
        // SAFETY: `frame` is the frame of the current trap, which is a breakpoint.
        Ok(Trap::Exception(Exception::Breakpoint)) => unsafe { breakpoint(frame) },
        Ok(Trap::Exception(exception)) => {
            panic!("{exception:?} at {:#x}; {frame:x?}", frame.stval)
        }
        Err(_) => panic!("trap for cause {:#x}; {frame:x?}", frame.scause),
    }
}

fn interrupted(interrupt: Interrupt, frame: &TrapFrame) {
    match interrupt {
        Interrupt::SupervisorTimer => {
            timer::arm();
            counters::tick(frame.sepc, frame.s[0]);
        }
        Interrupt::SupervisorSoft => {
            // Clear the interrupt before the work, so that a later request makes it pending again.
            // SAFETY: this code is the handler of the software interrupt.
            unsafe { sip::clear_ssoft() };
            if panic::panicked() {
                cpu::halt();
            }
            smp::join_rendezvous();
        }
        Interrupt::SupervisorExternal => plic::claim(),
    }
}

/// The number of bytes below the interrupted stack pointer that the trap handler does not use. No traced instruction stores
/// there.
pub(crate) const FREE_STACK: u64 = 0;

/// Returns the address of the function that handles breakpoints.
pub(crate) fn handler() -> u64 {
    trap as *const () as u64
}

/// Handles a breakpoint in a function that a consumer traces. Returns `false` if no consumer traces a function there. Interrupts
/// off, probe context.
///
/// # Safety
/// `frame` is the frame of the current breakpoint.
unsafe fn function(frame: &mut TrapFrame) -> bool {
    let mut registers = Registers { x: [0; 32], pc: frame.sepc };
    let x = &mut registers.x;
    [x[1], x[2], x[3], x[4]] = [frame.ra, frame.sp, frame.gp, frame.tp];
    x[5..8].copy_from_slice(&frame.t[..3]);
    x[8..10].copy_from_slice(&frame.s[..2]);
    x[10..18].copy_from_slice(&frame.a);
    x[18..28].copy_from_slice(&frame.s[2..]);
    x[28..].copy_from_slice(&frame.t[3..]);
    // SAFETY: `registers` are copied from the frame. The code below copies them back, and the vector restores them when it
    // returns.
    if !unsafe { functions::hit(frame.sepc, frame.s[0], &mut registers) } {
        return false;
    }
    let Registers { x, pc } = &registers;
    // The CPU's own pointer, in tp, and gp never change.
    (frame.ra, frame.sp, frame.sepc) = (x[1], x[2], *pc);
    frame.t[..3].copy_from_slice(&x[5..8]);
    frame.s[..2].copy_from_slice(&x[8..10]);
    frame.a.copy_from_slice(&x[10..18]);
    frame.s[2..].copy_from_slice(&x[18..28]);
    frame.t[3..].copy_from_slice(&x[28..]);
    true
}

/// Handles a breakpoint that is not at a site of the kernel: calls the handlers of modules, then emulates the instruction that
/// the claiming handler returned. Interrupts off, probe context.
///
/// # Safety
/// `frame` is the frame of the current breakpoint.
unsafe fn breakpoint(frame: &mut TrapFrame) {
    let address = frame.sepc;
    // SAFETY: `frame` is the live frame of this breakpoint.
    if unsafe { function(frame) } {
        return;
    }
    let sp = frame.sp;
    // SAFETY: `frame` is the live frame of this breakpoint; the third argument is 0 on riscv.
    let answer = unsafe {
        system::current().trap(system::Trap {
            address,
            breakpoint: true,
            frame: &mut *frame,
            third: 0,
        })
    };
    if answer == 0 {
        panic!("breakpoint at {address:#x} that no handler claims; {frame:x?}");
    }
    let release = freebsd::release();
    let Some(emulated) = Emulated::decode(answer as u32, release) else {
        panic!(
            "breakpoint at {address:#x}: FreeBSD {} does not emulate {answer:#x}; {frame:x?}",
            release.version()
        );
    };
    // SAFETY: the handler that claimed the breakpoint returned the instruction that the breakpoint replaces.
    unsafe { emulated.carry_out(frame) };
    // FreeBSD ignores the stack pointer in the frame when it returns. So undo changes of it by handlers of modules.
    frame.sp = sp;
    counters::breakpoint();
}
