//! SystemTap notes (feature `stapsdt`): `perf`, `bpftrace` and `stap` find the probes of a Linux process by them.
//!
//! A note in section `.note.stapsdt` (type 3, owner `stapsdt`) contains the address of a probe, its names, the places
//! of its arguments, and the address of a semaphore: 16 bits that tracers increment while they use the probe
//! (`sys/sdt.h` of SystemTap 4, `ProbeNote` in the kernel's `tools/perf/util/symbol-elf.c`). A tracer puts a breakpoint
//! over the nop at the address of the note.
//!
//! A site contains code for each number of words that its arguments can have. Optimisation removes all code except one;
//! without it, the site has a note for each number, and only one of the notes' nops is executed.
//!
//! With this feature, a site consists of the site of its route and a test of the semaphore, and both lead to the cold
//! block. There the words are in registers, and the code of the route follows the note's nop.

/// Sites that have SystemTap notes.
///
/// | arm | |
/// |---|---|
/// | `@site` | a site: that of the route, and the semaphore's test |
/// | `@group` | tests whether any of several probes is enabled: each probe has its own semaphore, so it tests each |
/// | `@note` | the note, and the nop that it names; the words are in registers there |
/// | `@semaphore` | tests whether a tracer uses the probe, by its semaphore. Each use defines the semaphore, and the linker keeps one definition |
/// | `@words` | the locations of the words, in the syntax of notes |
#[cfg(sdt_stap)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_stap {
    (@site $probe:path, $symbol:literal, [$provider:literal $name:literal $semaphore:literal], $cold:block) => {{
        let mut enabled = false;
        $crate::__sdt_site!(@site $probe, $symbol, {
            enabled = true;
        });
        if enabled || $crate::__sdt_stap!(@semaphore $semaphore) {
            $crate::__private::arch::unlikely();
            $cold
        }
    }};
    (@group $provider:path, $listed:literal, [$($each:expr),*]) => { $($each)||* };
    (@note [$provider:literal $name:literal $semaphore:literal], [$($word:ident)*]) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the assembly is a nop, and a note in a read-only section.
        unsafe {
            ::core::arch::asm!(
                "77: nop",
                ".pushsection .note.stapsdt, \"\", @note",
                ".balign 4",
                ".4byte 79f - 78f, 82f - 83f, 3",
                "78: .asciz \"stapsdt\"",
                "79: .balign 4",
                "83: .8byte 77b, _.stapsdt.base",
                ::core::concat!(".8byte ", $semaphore),
                ::core::concat!(".asciz \"", $provider, "\""),
                ::core::concat!(".asciz \"", $name, "\""),
                // Words have 64 bits, extended by sign where they are signed.
                ::core::concat!(".asciz \"", $crate::__sdt_stap!(@words $($word)*), "\""),
                "82: .balign 4",
                ".popsection",
                // Tracers compare this address with the section's to detect that the file was changed after linking.
                // Retained, because only notes refer to it.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aGR\", @progbits, .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $($word = in(reg) $word,)*
                // Not `nomem`: tracers follow pointers.
                options(att_syntax, readonly, nostack, preserves_flags),
            )
        }
    }};
    (@semaphore $semaphore:literal) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        unsafe extern "C" {
            #[link_name = $semaphore]
            static SEMAPHORE: ::core::sync::atomic::AtomicU16;
        }
        // SAFETY: the assembly has no instruction, and only its own section. It defines the symbol as an aligned 16-bit
        // word; by the promise, the symbol is the probe's own, which only these macros define.
        unsafe {
            ::core::arch::asm!(
                ::core::concat!(".ifndef ", $semaphore),
                ::core::concat!(".pushsection .probes, \"awG\", @progbits, ", $semaphore, ", comdat"),
                ".balign 2",
                ::core::concat!(".globl ", $semaphore),
                ::core::concat!(".hidden ", $semaphore),
                ::core::concat!(".type ", $semaphore, ", @object"),
                ::core::concat!($semaphore, ": .2byte 0"),
                ::core::concat!(".size ", $semaphore, ", 2"),
                ".popsection",
                ".endif",
                options(nomem, nostack, preserves_flags),
            );
            SEMAPHORE.load(::core::sync::atomic::Ordering::Relaxed) != 0
        }
    }};
    (@words) => { "" };
    (@words $first:ident $($word:ident)*) => {
        ::core::concat!("-8@{", ::core::stringify!($first), "}" $(, " -8@{", ::core::stringify!($word), "}")*)
    };
}

/// Sites without notes.
#[cfg(not(sdt_stap))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_stap {
    (@site $probe:path, $symbol:literal, $names:tt, $cold:block) => {
        $crate::__sdt_site!(@site $probe, $symbol, $cold)
    };
    (@group $($group:tt)*) => { $crate::__sdt!(@group $($group)*) };
    (@note $($note:tt)*) => {};
}
