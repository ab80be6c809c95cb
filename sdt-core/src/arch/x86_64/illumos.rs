//! Sites that illumos's krtld turns into probes: calls of undefined functions with names `__dtrace_probe_...`.
//!
//! `usr/src/uts/intel/amd64/krtld/kobj_reloc.c` (`sdt_reloc_resolve`) and `usr/src/uts/intel/dtrace/sdt.c`, 2025. krtld
//! turns the five bytes of such a call into nops when it loads the module. sdt enables the probe by writing a `lock`
//! prefix over the second nop. The prefix traps, and sdt reads the arguments from the registers and the stack of the
//! call, and continues after it. All calls of one name in one function are one probe and are enabled together.
//!
//! A probe has two such sites in each function that fires it:
//!
//! - the *is-enabled site*, on the hot path, never executed. The probe is disabled if its first bytes are four nops.
//!   This is the test of [`sdt_enabled!`](crate::sdt_enabled), and of whether arguments are evaluated. If a kernel
//!   marks enabled sites differently, the test still works, or every pass continues to the probe site, which fires only
//!   if it is enabled: then arguments are evaluated needlessly, but no hit is lost.
//! - the *probe site*, in the cold block. It is a trampoline: a thunk loads the arguments and jumps to it, and the jump
//!   after it returns to the thunk through a register.
//!
//! The thunk returns beyond its return address, and jumps to the trampoline and back through registers without landing
//! pads. Shadow stacks and IBT would prohibit both, but illumos uses neither in the kernel.
//!
//! Both sites are assembly: the compiler may implement a call as a jump or through a table, and krtld would then
//! overwrite parts of other instructions.

use core::arch::naked_asm;
use core::ffi::c_void;

/// The firing site: the is-enabled site, the test of it, and the cold block.
///
/// `nomem`, because it reads only text; `nostack`, because the call is never executed. Not `preserves_flags`: it
/// compares. Not `pure`: a site must not be merged with another or dropped. Numeric labels, because the site is
/// duplicated wherever it is inlined.
///
/// `@trampoline` is the address of a trampoline.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    (@site $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the assembly reads its own text, and control continues after it or in the label block.
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
                // This is the only use of the declaration of the probe.
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
        // SAFETY: the assembly jumps over the trampoline, which only thunks execute.
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
        // SAFETY: the assembly above emitted the probe site at this address, followed by the jump back.
        unsafe { $crate::__private::capture::Trampoline::new(trampoline) }
    }};
}

/// The calls of the thunks.
///
/// `@call` pushes the words, the last word first, and calls the thunk, which pops them. The trampoline follows the
/// call, and the continuation follows the trampoline.
///
/// `@evaluate` pushes pairs of words, the last one first, and the address of the trampoline, and calls the thunk of the
/// evaluator.
///
/// The assembly omits four options: `nostack`, because it pushes words; `preserves_flags`, because the thunk changes
/// flags; `nomem` and `readonly`, because consumers read memory through arguments and the framework writes memory.
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

/// The pieces of assembly of the thunks that depend on what a site pushes. The thunk of `@call` returns to the code
/// after the trampoline, 7 bytes (a call and a jump) beyond its return address.
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

/// Returns the trampoline that the cold block passed to the thunk of an evaluator, whose frame is `frame`.
///
/// # Safety
/// `frame` is the frame pointer of an [`evaluate_thunk`] further up the stack.
pub unsafe fn trampoline_of(frame: *const c_void) -> usize {
    // SAFETY: `frame` is that of an `evaluate_thunk`, by the contract of this function: the word that `@evaluate`
    // pushed last follows the saved frame pointer and the return address.
    unsafe { frame.cast::<usize>().add(2).read() }
}

/// Executes the probe site at `trampoline` with the arguments in the registers and on the stack, as in a call from the
/// thunk whose frame is `frame`: the frame chain skips the frames in between and continues with the function that
/// fired.
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
