//! Sites that are patched by this crate or by FreeBSD's sdt, and such that are not patched at all.

use core::arch::naked_asm;
use core::ffi::c_void;

use crate::capture::{Captures, Evaluator, evaluate};
use crate::fire::fire;

/// The firing site: the nop, its record in the set of sites, and the cold block it leads to. A direct jump leads
/// there, or the end of an exception ([`resume_address`](crate::trap::resume_address) says what that means under
/// control-flow integrity), so it needs no landing pad. The cold block calls the thunk directly, by its symbol, and that
/// returns as it was called: shadow stacks hold, and kCFI has nothing to check.
///
/// `nomem`, because the site itself touches nothing (the cold block is ordinary code the compiler
/// sees); `nostack` and `preserves_flags` likewise. Not `pure`: a site must not be merged with
/// another or dropped. Numeric label, because the site is duplicated wherever it is inlined.
#[cfg(sdt_site = "patched")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($sound:expr, $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: a nop, and a record in a section of its own that nothing of this program's
        // data shares; when the nop is patched, control goes to the label block only.
        unsafe {
            ::core::arch::asm!(
                "77: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                ::core::concat!(".pushsection ", $crate::__sdt_sites!(), ", \"awR\", @progbits"),
                ".balign 8",
                ".quad {__sdt_probe}, 77b, {__sdt_cold}, 0",
                ".popsection",
                __sdt_probe = sym $probe,
                __sdt_cold = label $cold,
                options(nomem, nostack, preserves_flags),
            )
        }
    }};
}

/// Pushes the address of the probe's primary record, which the record itself has.
#[cfg(sdt_route = "provider")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_push_probe {
    () => {
        "push qword ptr [rip + {__sdt_probe} + {__sdt_primary}]"
    };
}

/// Pushes the address of the probe's record, the only one. It fits into 32 bits, as kernels' addresses do.
#[cfg(sdt_route = "native")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_push_probe {
    () => {
        "push offset {__sdt_probe} + {__sdt_primary}"
    };
}

/// Hands the words over and calls the thunk: probe and words go onto the stack, the last word first,
/// and the thunk takes them off. No register is named, so the hot path need not leave any free.
///
/// Without `nostack`: pushes need an aligned stack pointer without a red zone, and with frame pointers
/// the compiler then sets up the function's frame, here if it has none yet. Without
/// `preserves_flags`: the thunk does not. Without `nomem` or `readonly`: consumers read what
/// arguments point to, and the framework writes.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_call {
    ($sound:expr, $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
        $crate::__sdt_asm! {
            $sound, (
                $(::core::concat!("push {", ::core::stringify!($word), "}"),)*
                $crate::__sdt_push_probe!(),
                "call {__sdt_thunk}",
            )
            $($word = in(reg) $word,)*
            __sdt_probe = sym $probe,
            __sdt_primary = const $crate::__private::record::Probe::PRIMARY,
            __sdt_thunk = sym $crate::__private::arch::thunk::<$count>,
        }
    };
}

/// Calls an evaluator through its thunk: onto the stack go pairs of words, the last one first.
///
/// The thunk is one for each evaluator: an address in a register would be loaded in front of a loop that the
/// site is in, on the hot path.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_evaluate {
    ($sound:expr, $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {
        $crate::__sdt_asm! {
            $sound, (
                $(::core::concat!("push {", ::core::stringify!($high), "}"),
                ::core::concat!("push {", ::core::stringify!($low), "}"),)*
                "call {__sdt_thunk}",
            )
            $($low = in(reg) $low, $high = in(reg) $high,)*
            __sdt_thunk = sym $thunk,
        }
    };
}

/// Fires a probe with `N` arguments. On the stack, from the return address up: the probe record, the
/// words. They are taken off. Preserves every general register, not the flags.
///
/// # Safety
/// Only for the assembly of `__sdt_call!`: it is no C function.
#[unsafe(naked)]
pub unsafe extern "C" fn thunk<const N: usize>() {
    preserving!(
        "mov rdi, [rbp + 16]",
        "lea rsi, [rbp + 24]",
        "mov edx, {count}",
        "mov rcx, rbp",
        "call {fire}";
        count = const N,
        fire = sym fire,
        taken = const 8 * (N + 1),
    )
}

/// Runs the evaluator of `F` over `C`. On the stack, from the return address up: `N` pairs of words, those of
/// the captures and, if it has a size, the closure. They are taken off. Preserves every general register, not the flags.
///
/// # Safety
/// Only for the assembly of `__sdt_evaluate!`: it is no C function.
#[unsafe(naked)]
pub unsafe extern "C" fn evaluate_thunk<C: Captures, F: Evaluator<C>, const N: usize>() {
    preserving!(
        "lea rdi, [rbp + 16]",
        "mov rsi, rbp",
        "call {evaluate}";
        evaluate = sym evaluate::<C, F>,
        taken = const 16 * N,
    )
}

/// Calls `function(id, args...)` as if from the thunk whose frame is `frame`: of what is in between, nothing is in
/// the frame chain. The kernel takes its caller for the one artificial frame of C's macro, and finds the function
/// that fired next.
///
/// # Safety
/// `frame` is the frame pointer of a thunk further up the stack; `function` takes what it is given.
#[cfg(sdt_route = "native")]
#[unsafe(naked)]
pub unsafe extern "C" fn call_from(
    frame: *const c_void,
    function: *const (),
    id: u32,
    args: *const [u64; crate::ops::ARGS],
) {
    naked_asm!(
        "push rbp",
        "mov rbp, rdi",
        "sub rsp, 8",
        "push qword ptr [rcx + 40]",
        "mov rax, rsi",
        "mov edi, edx",
        "mov rsi, [rcx]",
        "mov rdx, [rcx + 8]",
        "mov r8, [rcx + 24]",
        "mov r9, [rcx + 32]",
        "mov rcx, [rcx + 16]",
        "call rax",
        "add rsp, 16",
        "pop rbp",
        "ret",
    )
}

/// Calls [`fire`] as if from the thunk whose frame is `frame`: what an evaluator and its callees have
/// put on the stack in between is not in the frame chain, so that `stack()` sees the same frames
/// whether the arguments were costly or not.
///
/// # Safety
/// As [`fire`]; `frame` is the frame pointer an [`evaluate_thunk`] further up the stack passed on.
#[cfg(sdt_route = "provider")]
#[unsafe(naked)]
pub unsafe extern "C" fn fire_at(
    probe: *const crate::record::Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    naked_asm!(
        "push rbp",
        "mov rbp, rcx",
        "call {fire}",
        "pop rbp",
        "ret",
        fire = sym fire,
    )
}
