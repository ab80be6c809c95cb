//! Sites of which illumos's krtld makes probes: calls of functions that are not there, named
//! `__dtrace_probe_...`.
//!
//! `usr/src/uts/intel/amd64/krtld/kobj_reloc.c` (`sdt_reloc_resolve`) and `usr/src/uts/intel/dtrace/sdt.c`, 2025.
//! krtld turns the five bytes of such a call into nops when it loads the module. sdt enables the probe by a `lock`
//! prefix over the second of them, which traps, takes the arguments from where the call would have found them, and
//! goes on behind it. All calls of one name in one function are one probe and are enabled together.
//!
//! Here a probe has two of them in each function that fires it:
//!
//! - the *is-enabled site*, on the hot path, never executed. Its first bytes tell whether the probe is enabled: they are
//!   four nops or they are not. That is the test for [`sdt_enabled!`](crate::sdt_enabled) and for evaluating arguments.
//!   Should a kernel mark an enabled site in another way, or not by nops, then the test still holds, or lets every
//!   pass through to the second, which only fires if it is enabled: arguments are evaluated for nothing then, and no
//!   hit is lost.
//! - the *probe site*, in the cold block. It is a trampoline: a thunk loads the arguments and jumps there, and the jump
//!   behind it leads back to the thunk, by a register.
//!
//! The thunk returns behind where it was called from, and jumps to the landing and back by registers, without landing
//! pads: neither goes with shadow stacks or IBT in the kernel, of which illumos has none.
//!
//! Both are emitted from assembly: what the compiler makes of a call may be a jump, or go through a table, and
//! krtld would turn parts of other instructions into nops.

use core::arch::naked_asm;
use core::ffi::c_void;

/// The firing site: the is-enabled site, the test of it, and the cold block.
///
/// `nomem`, because what it reads is text; `nostack`, because the call is never executed. Not `preserves_flags`:
/// it compares. Not `pure`: a site must not be merged with another or dropped. Numeric labels, because
/// the site is duplicated wherever it is inlined.
///
/// `@trampoline` is the address of a trampoline.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    (@site $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: reads its own text; control goes on behind it, or to the label block.
        unsafe {
            ::core::arch::asm!(
                "cmp dword ptr [rip + 77f], 0x90909090",
                "je 78f",
                "jmp {__sdt_cold}",
                ::core::concat!("77: call ", $symbol),
                "78:",
                ".pushsection sdt_is_enabled, \"a\", @progbits",
                ".balign 8",
                ".quad 77b",
                ".popsection",
                // Nothing else needs the probe to be declared.
                __sdt_cold = label {
                    let _ = &$probe;
                    $cold
                },
                options(nomem, nostack),
            )
        }
    }};
    (@trampoline $symbol:literal) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        let trampoline: usize;
        // SAFETY: what it passes by is for thunks to jump to.
        unsafe {
            ::core::arch::asm!(
                "lea {trampoline}, [rip + 77f]",
                "jmp 78f",
                ::core::concat!("77: call ", $symbol),
                "jmp rbx",
                "78:",
                trampoline = out(reg) trampoline,
                options(nomem, nostack, preserves_flags),
            )
        };
        // SAFETY: the assembly above has put the probe site at this address, and behind it the way back.
        unsafe { $crate::__private::capture::Trampoline::new(trampoline) }
    }};
}

/// The calls of the thunks.
///
/// `@call` hands the words over and calls the thunk: they go onto the stack, the last word first, and the thunk takes them
/// off. Behind the call is the trampoline, behind that what goes on.
///
/// `@evaluate` calls an evaluator through its thunk: onto the stack go pairs of words, the last one first, and the address
/// of the trampoline.
///
/// Without `nostack`, `preserves_flags`, `nomem` or `readonly`: it pushes, the thunk does not keep flags, consumers
/// read what arguments point to, and the framework writes.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arch {
    (@call $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
        $crate::__sdt_asm! {
            (
                $(::core::concat!("push {", ::core::stringify!($word), "}"),)*
                "call {__sdt_thunk}",
                ::core::concat!("call ", $symbol),
                "jmp rbx",
            )
            $($word = in(reg) $word,)*
            __sdt_thunk = sym $crate::__private::thunk::thunk::<$count>,
        }
    };
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {
        $crate::__sdt_asm! {
            (
                $(::core::concat!("push {", ::core::stringify!($high), "}"),
                ::core::concat!("push {", ::core::stringify!($low), "}"),)*
                "push {__sdt_trampoline}",
                "call {__sdt_thunk}",
            )
            $($low = in(reg) $low, $high = in(reg) $high,)*
            __sdt_trampoline = in(reg) $trampoline.0,
            __sdt_thunk = sym $thunk,
        }
    };
}

/// The pieces of assembly of the thunks that depend on what a site pushes. The thunk of `@call` returns behind the
/// trampoline, which is where it was called: a call and a jump, 7 bytes.
macro_rules! site_piece {
    (fire) => {
        "mov rdi, [rbp + 8]
        lea rsi, [rbp + 16]
        mov edx, {count}
        mov rcx, rbp
        call {function}
        add qword ptr [rbp + 8], 7"
    };
    (evaluate) => {
        "lea rdi, [rbp + 24]
        mov rsi, rbp
        call {function}"
    };
}
pub(crate) use site_piece;

/// Bytes on the stack that `@call` pushes besides the words.
pub(crate) const FIRE_BESIDES: usize = 0;

/// Bytes on the stack that `@evaluate` pushes besides the words: the address of the trampoline.
pub(crate) const EVALUATE_BESIDES: usize = 8;

/// The trampoline that the cold block handed to an evaluator's thunk, whose frame is `frame`.
///
/// # Safety
/// `frame` is the frame pointer of an [`evaluate_thunk`] further up the stack.
pub unsafe fn trampoline_of(frame: *const c_void) -> usize {
    // SAFETY: `frame` is that of an `evaluate_thunk`, by the contract of this function: behind the saved frame pointer and the
    // return address is the word that `@evaluate` pushed last.
    unsafe { frame.cast::<usize>().add(2).read() }
}

/// Executes the probe site at `trampoline` with its arguments where a call would have them, as if from the thunk whose
/// frame is `frame`: the frame chain leaves out the frames in between, and the function that fired is next.
///
/// # Safety
/// `trampoline` is that of a site of this image; `frame` is the frame pointer of a thunk further up the stack.
#[unsafe(naked)]
pub unsafe extern "C" fn enter(
    trampoline: usize,
    args: *const [u64; crate::ops::ARGS],
    frame: *const c_void,
) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "mov r12, rsp",
        "and rsp, -16",
        "push qword ptr [rsi + 72]",
        "push qword ptr [rsi + 64]",
        "push qword ptr [rsi + 56]",
        "push qword ptr [rsi + 48]",
        "lea rbx, [rip + 2f]",
        "mov rbp, rdx",
        "mov rax, rdi",
        "mov r9, [rsi + 40]",
        "mov r8, [rsi + 32]",
        "mov rcx, [rsi + 24]",
        "mov rdx, [rsi + 16]",
        "mov rdi, [rsi]",
        "mov rsi, [rsi + 8]",
        "jmp rax",
        "2: mov rsp, r12",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
