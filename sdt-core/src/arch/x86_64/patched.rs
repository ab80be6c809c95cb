//! Sites that this crate or FreeBSD's sdt patches, and sites in gate mode, which nothing patches.

/// The instructions at a site, by architecture.
///
/// `@call` pushes the probe and the words, the last word first, and calls the thunk, which pops them. It names no
/// register, so the hot path keeps all registers.
///
/// `@evaluate` pushes pairs of words, the last one first, and calls the thunk of the evaluator. Each evaluator has its
/// own thunk: the compiler would load an address in a register before a loop that contains the site, which is on the
/// hot path.
///
/// The assembly omits some options: `nostack`, because its pushes need an aligned stack pointer and no red zone (with frame
/// pointers, the compiler then also sets up the function's frame before the assembly); `preserves_flags`, because the thunk
/// changes flags; `nomem` and `readonly`, because consumers read memory through arguments and the framework writes memory.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arch {
    (@nop) => { "77: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00" };
    (@call $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
        $crate::__sdt_asm! {
            (
                $(::core::concat!("push {", ::core::stringify!($word), "}"),)*
                $crate::__sdt!(@push_probe),
                "call {__sdt_thunk}",
            )
            $($word = in(reg) $word,)*
            __sdt_probe = sym $probe,
            __sdt_primary = const $crate::__private::record::Probe::PRIMARY,
            __sdt_thunk = sym $crate::__private::thunk::thunk::<$count>,
        }
    };
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {
        $crate::__sdt_asm! {
            (
                $(::core::concat!("push {", ::core::stringify!($high), "}"),
                ::core::concat!("push {", ::core::stringify!($low), "}"),)*
                "call {__sdt_thunk}",
            )
            $($low = in(reg) $low, $high = in(reg) $high,)*
            __sdt_thunk = sym $thunk,
        }
    };
}

/// The pieces of assembly of the thunks that depend on what a site pushes.
macro_rules! site_piece {
    (fire) => {
        "mov rdi, [rbp + 16]
        lea rsi, [rbp + 24]
        mov edx, {count}
        mov rcx, rbp
        call {function}"
    };
    (evaluate) => {
        "lea rdi, [rbp + 16]
        mov rsi, rbp
        call {function}"
    };
    (fire_at) => {
        "push rbp
        mov rbp, rcx
        call {function}
        pop rbp
        ret"
    };
    (call_from) => {
        "push rbp
        mov rbp, rdi
        sub rsp, 8
        push qword ptr [rcx + 40]
        mov rax, rsi
        mov edi, edx
        mov rsi, [rcx]
        mov rdx, [rcx + 8]
        mov r8, [rcx + 24]
        mov r9, [rcx + 32]
        mov rcx, [rcx + 16]
        call rax
        add rsp, 16
        pop rbp
        ret"
    };
}
pub(crate) use site_piece;

/// Bytes on the stack that `@call` pushes besides the words: the probe's record.
pub(crate) const FIRE_BESIDES: usize = 8;

/// Bytes on the stack that `@evaluate` pushes besides the words.
pub(crate) const EVALUATE_BESIDES: usize = 0;
