//! Exceptions and interrupts: one vector each, one frame layout.
//!
//! The frame is FreeBSD's `struct trapframe`, because breakpoint handlers of modules receive it. As in FreeBSD's
//! `sys/arm64/arm64/exception.S`, it is on the stack of the interrupted code, [`FREE_STACK`] bytes below the interrupted stack
//! pointer. The return restores all registers from the frame except x18. FreeBSD does not restore x19 to x28; this kernel must,
//! because a traced function may begin with an instruction that changes one of them, and the handler emulates it.

use core::arch::global_asm;

use aarch64_cpu::asm::barrier::{SY, isb};
use aarch64_cpu::registers::{ESR_EL1, VBAR_EL1, Writeable};
use sdt_framework::Registers;
use stand_in_freebsd::arm64::Emulated;
pub(crate) use stand_in_freebsd::arm64::FREE_STACK;

use crate::arch::{STACK_BIT, TrapFrame, cpu, gic, power, timer};
use crate::{counters, freebsd, functions, panic, smp, system};

/// Immediate of DTrace's breakpoint: `BRK_INSTR` of `sys/cddl/dev/fbt/aarch64/fbt_isa.h`.
const DTRACE_BREAKPOINT: u64 = 0x40d;

global_asm!(
    r#"
    // Makes room for the frame, with a frame record behind it, unless the stack has run out: its
    // addresses have a bit that those below it do not have. Nothing but the stack pointer can be
    // changed before that is known.
    .macro VECTOR handler
    .balign 128
    sub sp, sp, #{room}
    add sp, sp, x0              // x0 is added,
    sub x0, sp, x0              // x0 is what the stack pointer was,
    tbz x0, #{stack_bit}, 1f
    sub x0, sp, x0              // and everything is as before.
    sub sp, sp, x0
    b \handler
1:  b stack_has_overflowed
    .endm

    .section .text.traps, "ax"
    .balign 2048
    .global vectors
vectors:
    .rept 4                     // with the other stack pointer, which is not in use
    VECTOR trap_unexpected
    .endr
    VECTOR trap_breakpoint
    VECTOR trap_interrupt
    VECTOR trap_unexpected      // FIQ
    VECTOR trap_unexpected      // SError
    .rept 8                     // from a lower level, where nothing runs
    VECTOR trap_unexpected
    .endr

    // The entry of `breakpoint_entry!` reserves its own room, and leaves other exceptions to `trap_other`.
trap_breakpoint:
    add sp, sp, #{room}
    b {breakpoint}
    .global trap_other
trap_other:
    sub sp, sp, #{room}
    b trap_synchronous

    .macro HANDLER label, function
\label:
    stp x0, x1, [sp, #48]
    stp x2, x3, [sp, #64]
    stp x4, x5, [sp, #80]
    stp x6, x7, [sp, #96]
    stp x8, x9, [sp, #112]
    stp x10, x11, [sp, #128]
    stp x12, x13, [sp, #144]
    stp x14, x15, [sp, #160]
    stp x16, x17, [sp, #176]
    stp x18, x19, [sp, #192]
    stp x20, x21, [sp, #208]
    stp x22, x23, [sp, #224]
    stp x24, x25, [sp, #240]
    stp x26, x27, [sp, #256]
    stp x28, x29, [sp, #272]
    mrs x10, elr_el1
    mrs x11, spsr_el1
    mrs x12, esr_el1
    mrs x13, far_el1
    mrs x18, tpidr_el1
    add x14, sp, #{room}
    stp x14, x30, [sp, #0]
    stp x10, x11, [sp, #16]
    stp x12, x13, [sp, #32]
    stp x29, x10, [sp, #{frame}]
    add x29, sp, #{frame}
    mov x0, sp
    bl \function
    b trap_return
    .endm

    HANDLER trap_synchronous, synchronous
    HANDLER trap_interrupt, interrupt
    HANDLER trap_unexpected, unexpected

trap_return:
    ldp x18, x30, [sp, #0]      // the stack pointer, for now: nothing interrupts this
    ldp x10, x11, [sp, #16]
    msr elr_el1, x10
    msr spsr_el1, x11
    ldp x0, x1, [sp, #48]
    ldp x2, x3, [sp, #64]
    ldp x4, x5, [sp, #80]
    ldp x6, x7, [sp, #96]
    ldp x8, x9, [sp, #112]
    ldp x10, x11, [sp, #128]
    ldp x12, x13, [sp, #144]
    ldp x14, x15, [sp, #160]
    ldp x16, x17, [sp, #176]
    ldp x19, x20, [sp, #200]
    ldp x21, x22, [sp, #216]
    ldp x23, x24, [sp, #232]
    ldp x25, x26, [sp, #248]
    ldp x27, x28, [sp, #264]
    ldr x29, [sp, #280]
    mov sp, x18
    mrs x18, tpidr_el1
    eret

stack_has_overflowed:
    mrs x18, tpidr_el1
    ldr x1, [x18, #{overflow_stack_top}]
    mov sp, x1
    mrs x1, elr_el1
    mrs x2, far_el1
    mov x29, xzr
    bl stack_overflow
    "#,
    breakpoint = sym breakpoint_entry,
    frame = const size_of::<TrapFrame>(),
    room = const size_of::<TrapFrame>() as u64 + 16 + FREE_STACK,
    stack_bit = const STACK_BIT,
    overflow_stack_top = const cpu::OVERFLOW_STACK_TOP,
);

unsafe extern "C" {
    static vectors: u8;
    fn trap_other();
}

sdt_core::breakpoint_entry! {
    /// Synchronous exceptions of the kernel: resumes after breakpoints of the kernel's own sites.
    fn breakpoint_entry() else trap_other, resolver = counters::resolve;
}

/// Sets the exception vectors of this CPU. Called on the CPU's final stack, after [`cpu::init`].
pub(crate) fn init() {
    VBAR_EL1.set(&raw const vectors as u64);
    isb(SY);
}

/// Handles all pending interrupts. Interrupts are off.
///
/// # Safety
/// Called by the vector with the frame it built.
#[unsafe(no_mangle)]
unsafe extern "C" fn interrupt(frame: &mut TrapFrame) {
    while let Some(interrupt) = gic::acknowledge() {
        match interrupt {
            gic::TIMER => {
                timer::again();
                counters::tick(frame.elr, frame.x[29]);
                gic::end(interrupt);
            }
            gic::RENDEZVOUS => {
                gic::end(interrupt);
                smp::join_rendezvous();
            }
            gic::WAKE | gic::UART => gic::end(interrupt),
            gic::STOP => {
                assert!(panic::panicked(), "a request to stop without a panic");
                cpu::halt();
            }
            other => panic!("unexpected interrupt {other:?}"),
        }
    }
}

/// # Safety
/// Called by the vector with the frame it built.
#[unsafe(no_mangle)]
unsafe extern "C" fn unexpected(frame: &mut TrapFrame) {
    panic!("an exception that nothing here can raise; {frame:x?}");
}

/// # Safety
/// Called by the vector, on the overflow stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_overflow(sp: u64, elr: u64, far: u64) -> ! {
    panic!("stack overflow: sp {sp:#x} elr {elr:#x} far {far:#x}");
}

/// Handles a synchronous exception (`do_el1h_sync`). Interrupts off; for a breakpoint, probe context.
///
/// # Safety
/// Called by the vector with the frame that it built and the free stack after the frame.
#[unsafe(no_mangle)]
unsafe extern "C" fn synchronous(frame: &mut TrapFrame) {
    let class = frame.esr >> ESR_EL1::EC.shift & ESR_EL1::EC.mask;
    // The instruction's own syndrome.
    let syndrome = frame.esr & ESR_EL1::ISS.mask;
    match class {
        class::BREAKPOINT if syndrome == DTRACE_BREAKPOINT => {
            // SAFETY: `frame` is the live frame that the vector built, with free stack behind it.
            unsafe { breakpoint(frame) };
        }
        class::BREAKPOINT => panic!("brk #{syndrome:#x}; {frame:x?}"),
        class::DATA_ABORT => panic!(
            "data abort at {:#x}, {} {}; {frame:x?}",
            frame.far,
            if syndrome & 1 << 6 != 0 { "writing" } else { "reading" },
            reason(syndrome),
        ),
        class::INSTRUCTION_ABORT => {
            panic!(
                "instruction abort at {:#x}, executing {}; {frame:x?}",
                frame.far,
                reason(syndrome)
            )
        }
        class::UNKNOWN if is_exit(frame) => frame.elr += 4,
        class => panic!("{}, class {class:#x}; {frame:x?}", name(class)),
    }
}

/// Exception classes: ESR_EL1.EC.
mod class {
    pub(super) const UNKNOWN: u64 = 0;
    pub(super) const INSTRUCTION_ABORT: u64 = 0x21;
    pub(super) const DATA_ABORT: u64 = 0x25;
    pub(super) const BREAKPOINT: u64 = 0x3c;
}

fn name(class: u64) -> &'static str {
    match class {
        class::UNKNOWN => "undefined instruction",
        0x07 => "floating-point instruction",
        0x0d => "branch target exception",
        0x0e => "illegal execution state",
        0x22 => "misaligned program counter",
        0x26 => "misaligned stack pointer",
        _ => "unexpected exception",
    }
}

/// Why an access failed: the fault status code.
fn reason(syndrome: u64) -> &'static str {
    match syndrome & 0x3c {
        4 => "which is not mapped",
        12 => "against its protection",
        0x20 => "which is misaligned",
        _ => "in vain",
    }
}

/// Returns whether the instruction is the semihosting call of a panicking kernel, in a QEMU without semihosting.
fn is_exit(frame: &TrapFrame) -> bool {
    // SAFETY: the instruction has just been executed.
    panic::panicked() && unsafe { (frame.elr as *const u32).read() } == power::SEMIHOSTING
}

/// Returns the address of the function that handles breakpoints.
pub(crate) fn handler() -> u64 {
    synchronous as *const () as u64
}

/// Handles a breakpoint in a function that a consumer traces. Returns `false` if no consumer traces a function there. Interrupts
/// off, probe context.
///
/// # Safety
/// `frame` is the frame of the current breakpoint, and the [`FREE_STACK`] bytes below the interrupted stack pointer are unused.
unsafe fn function(frame: &mut TrapFrame) -> bool {
    let mut x = [0; 31];
    x[..30].copy_from_slice(&frame.x);
    x[30] = frame.lr;
    let mut registers = Registers { x, sp: frame.sp, pc: frame.elr, pstate: frame.spsr };
    // SAFETY: `registers` are copied from the frame. The code below copies them back, and the vector restores them when it
    // returns.
    if !unsafe { functions::hit(frame.elr, frame.x[29], &mut registers) } {
        return false;
    }
    frame.x.copy_from_slice(&registers.x[..30]);
    frame.lr = registers.x[30];
    (frame.sp, frame.elr, frame.spsr) = (registers.sp, registers.pc, registers.pstate);
    true
}

/// Handles a breakpoint that is not at a site of the kernel: calls the handlers of modules, then emulates the instruction that
/// the claiming handler returned (`dtrace_invop_start`). If no handler claims the breakpoint, FreeBSD executes it again and
/// again; this kernel panics.
///
/// # Safety
/// `frame` is the frame of the current breakpoint, and the [`FREE_STACK`] bytes below the interrupted stack pointer are unused.
unsafe fn breakpoint(frame: &mut TrapFrame) {
    let address = frame.elr;
    // SAFETY: the frame is that of the breakpoint, with `FREE_STACK` bytes free below the interrupted stack pointer.
    if unsafe { function(frame) } {
        return;
    }
    let third = frame.x[0];
    // SAFETY: `frame` is the frame of the current breakpoint. On arm64, the third argument of handlers is x0.
    let answer = unsafe {
        system::current().trap(system::Trap {
            address,
            breakpoint: true,
            frame: &mut *frame,
            third,
        })
    };
    assert!(answer != 0, "breakpoint at {address:#x} that no handler claims; {frame:x?}");
    let release = freebsd::release();
    let Some(instruction) = Emulated::decode(answer as u32, release) else {
        panic!(
            "breakpoint at {address:#x}: FreeBSD {} does not emulate {answer:#x}; {frame:x?}",
            release.version()
        );
    };
    // SAFETY: the handler that claimed the breakpoint returned the instruction that the breakpoint replaces. The caller
    // guarantees the unused stack.
    let done = unsafe { instruction.carry_out(frame) };
    done.unwrap_or_else(|error| panic!("breakpoint at {address:#x}: {error}; {frame:x?}"));
    counters::breakpoint();
}
