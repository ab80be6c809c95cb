//! The records of open providers' probes.
//!
//! Such a probe has no declaration, so every site emits the probe's record, and the kernel would enable only the first
//! of them. Therefore the records are assembly in COMDAT groups, of which the linker keeps one: one record for each
//! provider and name, and one for each argument. A hash of both names distinguishes them.
//!
//! Only type inference in a generic function knows the type of an argument. Assembly in such a function can use numeric
//! constants only, so the name of the type is passed as numbers, eight letters each.

use core::arch::asm;

use crate::arg::{ArgType, Argument, Carried, Tuple, words_of};
use crate::name::TypeName;

/// An open provider's probe, by type.
///
/// # Safety
/// The number is the hash in the symbol of a probe that the same site fires.
pub unsafe trait OpenProbe {
    /// The hash in the symbol of its record.
    const HASH: u64;
}

/// A tuple of `COUNT` arguments.
pub trait Arguments<const COUNT: usize>: Tuple<COUNT> {
    /// Emits their records.
    fn list<P: OpenProbe>();
}

macro_rules! tuples {
    ($($count:literal: $($before:literal ($($in_front:ident)*) $arg:ident)*;)*) => {$(
        impl<$($arg: Argument),*> Arguments<$count> for ($($arg,)*) {
            #[inline(always)]
            fn list<P: OpenProbe>() {
                list_count::<P, Self, $count>();
                $(
                    list_word::<P, ($($in_front,)*), $before, $arg, 0>();
                    list_word::<P, ($($in_front,)*), $before, $arg, 1>();
                )*
            }
        }
    )*};
}

tuples! {
    0: ;
    1: 0 () A;
    2: 0 () A 1 (A) B;
    3: 0 () A 1 (A) B 2 (A B) C;
    4: 0 () A 1 (A) B 2 (A B) C 3 (A B C) D;
    5: 0 () A 1 (A) B 2 (A B) C 3 (A B C) D 4 (A B C D) E;
    6: 0 () A 1 (A) B 2 (A B) C 3 (A B C) D 4 (A B C D) E 5 (A B C D E) F;
}

/// Emits the records of the arguments of an open provider's probe, as one site fires it. This adds no instructions.
/// Returns the words.
#[inline(always)]
pub fn list_args<P: OpenProbe, A: Arguments<COUNT>, const COUNT: usize>(
    args: &A,
) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    A::list::<P>();
    args.carried()
}

/// Every site refers to a symbol that names the types of its arguments, and only the records that the linker keeps
/// define their symbol. If sites disagree, one of them refers to an undefined symbol, and the module does not link. The
/// references are in a section that is not loaded, but retained: otherwise the linker would drop the section, and would
/// not notice undefined symbols.
macro_rules! agree {
    ($name:literal) => {
        concat!(
            ".pushsection .sdt_arg_types, \"R\", @progbits\n.8byte __sdt_types_{hash}_",
            $name,
            "\n.popsection"
        )
    };
}

/// Emits the symbol that contains the number of the probe's arguments.
#[expect(named_asm_labels, reason = "global, and defined once in a file")]
#[inline(always)]
fn list_count<P: OpenProbe, A: Tuple<COUNT>, const COUNT: usize>() {
    // SAFETY: the assembly has no instruction, and only its own sections.
    unsafe {
        asm!(
            agree!("n_{count}"),
            ".ifndef __sdt_count_{hash}",
            ".pushsection .rodata.__sdt_count_{hash}, \"aG\", @progbits, __sdt_count_{hash}, comdat",
            ".globl __sdt_count_{hash}, __sdt_types_{hash}_n_{count}",
            ".hidden __sdt_count_{hash}, __sdt_types_{hash}_n_{count}",
            "__sdt_count_{hash}:",
            "__sdt_types_{hash}_n_{count}:",
            ".byte {count}",
            ".popsection",
            ".endif",
            hash = const P::HASH,
            count = const A::WORDS,
            options(nomem, nostack, preserves_flags),
        )
    }
}

/// Emits the record of one word of an argument, if the argument has it, after `BEFORE` words (see
/// [`ArgTypeRecord`](super::record::ArgTypeRecord)), its entry in the set, and the names of its types.
#[expect(named_asm_labels, reason = "global, and defined once in a file")]
#[inline(always)]
fn list_word<
    P: OpenProbe,
    Before: Tuple<BEFORE>,
    const BEFORE: usize,
    A: Argument,
    const WORD: usize,
>() {
    // SAFETY: the assembly has no instruction, and only its own sections.
    unsafe {
        asm!(
            ".if {is_there}",
            agree!("{index}_{types}"),
            ".ifndef __sdt_arg_{hash}_{index}",
            ".pushsection .data.__sdt_arg_{hash}_{index}, \"awG\", @progbits, __sdt_arg_{hash}_{index}, comdat",
            ".balign 8",
            ".globl __sdt_arg_{hash}_{index}, __sdt_types_{hash}_{index}_{types}",
            ".hidden __sdt_arg_{hash}_{index}, __sdt_types_{hash}_{index}_{types}",
            ".type __sdt_arg_{hash}_{index}, @object",
            "__sdt_arg_{hash}_{index}:",
            "__sdt_types_{hash}_{index}_{types}:",
            ".4byte {index}, 0",
            ".8byte 77f",
            ".if {translated}",
            ".8byte 77f + 128",
            ".else",
            ".8byte 0",
            ".endif",
            ".8byte 0, 0",
            ".8byte __sdt_probe_{hash}",
            ".size __sdt_arg_{hash}_{index}, 48",
            ".popsection",
            ".pushsection .rodata.__sdt_arg_{hash}_{index}, \"aG\", @progbits, __sdt_arg_{hash}_{index}, comdat",
            ".balign 8",
            "77: .8byte {n0}, {n1}, {n2}, {n3}, {n4}, {n5}, {n6}, {n7}",
            ".8byte {n8}, {n9}, {n10}, {n11}, {n12}, {n13}, {n14}, {n15}",
            ".if {translated}",
            ".8byte {t0}, {t1}, {t2}, {t3}, {t4}, {t5}, {t6}, {t7}",
            ".8byte {t8}, {t9}, {t10}, {t11}, {t12}, {t13}, {t14}, {t15}",
            ".endif",
            ".popsection",
            ".pushsection set_sdt_argtypes_set, \"awGR\", @progbits, __sdt_arg_{hash}_{index}, comdat",
            ".balign 8",
            ".8byte __sdt_arg_{hash}_{index}",
            ".popsection",
            ".endif",
            ".endif",
            is_there = const (WORD < words_of::<A>()) as u8,
            hash = const P::HASH,
            index = const Before::WORDS + WORD,
            types = const Names::of::<A>(WORD).hash(),
            translated = const Names::of::<A>(WORD).is_translated() as u8,
            n0 = const Names::of::<A>(WORD).native(0), n1 = const Names::of::<A>(WORD).native(1),
            n2 = const Names::of::<A>(WORD).native(2), n3 = const Names::of::<A>(WORD).native(3),
            n4 = const Names::of::<A>(WORD).native(4), n5 = const Names::of::<A>(WORD).native(5),
            n6 = const Names::of::<A>(WORD).native(6), n7 = const Names::of::<A>(WORD).native(7),
            n8 = const Names::of::<A>(WORD).native(8), n9 = const Names::of::<A>(WORD).native(9),
            n10 = const Names::of::<A>(WORD).native(10), n11 = const Names::of::<A>(WORD).native(11),
            n12 = const Names::of::<A>(WORD).native(12), n13 = const Names::of::<A>(WORD).native(13),
            n14 = const Names::of::<A>(WORD).native(14), n15 = const Names::of::<A>(WORD).native(15),
            t0 = const Names::of::<A>(WORD).translated(0), t1 = const Names::of::<A>(WORD).translated(1),
            t2 = const Names::of::<A>(WORD).translated(2), t3 = const Names::of::<A>(WORD).translated(3),
            t4 = const Names::of::<A>(WORD).translated(4), t5 = const Names::of::<A>(WORD).translated(5),
            t6 = const Names::of::<A>(WORD).translated(6), t7 = const Names::of::<A>(WORD).translated(7),
            t8 = const Names::of::<A>(WORD).translated(8), t9 = const Names::of::<A>(WORD).translated(9),
            t10 = const Names::of::<A>(WORD).translated(10), t11 = const Names::of::<A>(WORD).translated(11),
            t12 = const Names::of::<A>(WORD).translated(12), t13 = const Names::of::<A>(WORD).translated(13),
            t14 = const Names::of::<A>(WORD).translated(14), t15 = const Names::of::<A>(WORD).translated(15),
            options(nomem, nostack, preserves_flags),
        )
    }
}

/// The names of an argument's types, as numbers.
struct Names {
    native: TypeName,
    translated: TypeName,
}

impl Names {
    /// The names of one word's types; empty if the argument does not have the word.
    const fn of<A: Argument>(word: usize) -> Self {
        let none = TypeName::new("");
        if word >= A::TYPES.len() {
            return Self { native: none, translated: none };
        }
        let ArgType { native, translated } = A::TYPES[word];
        let translated = match translated {
            Some(name) => name,
            None => none,
        };
        Self { native, translated }
    }

    const fn is_translated(&self) -> bool {
        !self.translated.is_empty()
    }

    /// Returns eight letters of the native type's name.
    const fn native(&self, index: usize) -> u64 {
        self.native.letters(index)
    }

    /// Returns eight letters of the translated type's name.
    const fn translated(&self, index: usize) -> u64 {
        self.translated.letters(index)
    }

    /// FNV-1a over both names.
    const fn hash(&self) -> u64 {
        fnv(fnv(0xcbf2_9ce4_8422_2325, &self.native), &self.translated)
    }
}

const fn fnv(mut hash: u64, name: &TypeName) -> u64 {
    let mut i = 0;
    while i < name.as_bytes().len() {
        hash = (hash ^ name.as_bytes()[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}
