//! The arguments of a function's probes in D, from its signature.
//!
//! The kernel passes argument registers at an entry, and the register of the result at a return. An argument has a value only if the
//! debug information, or the stores at the beginning of the function, prove that a register holds it at the first instruction.

use dtrace_compiler::surroundings::Argument;

use super::function::Architecture;
use super::prologue::Prologue;
use crate::signature::{At, Frame, Parameter, Part, Place, Signature, Type, Word};

/// The size of a register in bytes.
const REGISTER: u64 = 8;
const OFFSET: &str = "uint64_t";

impl Architecture {
    /// Returns the number of the argument that a register (in DWARF's numbering) holds at an entry.
    pub(super) fn argument_in(self, register: u16) -> Option<u8> {
        let (first, count) = match self {
            Self::X86_64 => {
                // rdi, rsi, rdx, rcx, r8, r9 (System V ABI, AMD64 supplement, 3.2.3 and figure 3.36).
                let all = [5, 4, 1, 2, 8, 9];
                return all.iter().position(|of| *of == register).map(|index| index as u8);
            }
            // x0 to x7 (AAPCS64; "DWARF for the Arm 64-bit Architecture").
            Self::Aarch64 => (0, 8),
            // a0 to a7 (RISC-V ABIs, "Integer Register Convention"; "DWARF Register Numbers").
            Self::Riscv64 => (10, 8),
        };
        register.checked_sub(first).filter(|index| *index < count).map(|index| index as u8)
    }
}

/// Returns the arguments of the probe at the entry of a function with this text.
pub(super) fn of_entry(
    architecture: Architecture,
    signature: &Signature,
    text: &[u8],
) -> Vec<Argument> {
    let prologue = signature.frame.map(|frame| (frame, Prologue::follow(architecture, text)));
    let prologue = prologue.as_ref().map(|(frame, prologue)| (*frame, prologue));
    let mut all: Vec<Argument> =
        signature.parameters.iter().flat_map(|of| parameter(architecture, of, prologue)).collect();
    refuse_shared(&mut all);
    all
}

/// Returns the arguments of the probe at the returns of a function: the offset, and the result. `is_clone` is whether the compiler made
/// the function from another one.
pub(super) fn of_return(signature: &Signature, is_clone: bool) -> Vec<Argument> {
    let mut all = vec![value("", OFFSET, 0)];
    let Some(ty) = &signature.result else { return all };
    let obstacle = match &ty.words {
        Ok(words) if words.is_empty() && ty.size == 0 => return all,
        _ if signature.is_altered || is_clone => {
            "the compiler has changed how the function is called, and may have removed its result"
                .to_owned()
        }
        Ok(words) => match &words[..] {
            [Word { offset: 0, size, c_type, .. }] if *size == ty.size && *size <= REGISTER => {
                all.push(value("", c_type, 1));
                return all;
            }
            _ => format!("its type {} is not returned in one register", ty.name),
        },
        Err(why) => format!("{why} ({})", ty.name),
    };
    all.push(without("", obstacle));
    all
}

/// Returns an argument with a value.
fn value(name: &str, c_type: &str, mapping: u8) -> Argument {
    Argument {
        name: name.to_owned(),
        native: c_type.to_owned(),
        translated: String::new(),
        mapping,
        obstacle: None,
    }
}

/// Returns an argument without a value. No register has its number.
fn without(name: &str, why: String) -> Argument {
    Argument { obstacle: Some(why), ..value(name, "", u8::MAX) }
}

/// Returns the arguments of a parameter: one or two.
fn parameter(
    architecture: Architecture,
    of: &Parameter,
    prologue: Option<(Frame, &Prologue)>,
) -> Vec<Argument> {
    let Parameter { name, ty, place } = of;
    let found = ty.as_ref().map_err(|why| (*why).to_owned()).and_then(|ty| {
        let words = ty.words.as_ref().map_err(|why| match place {
            Place::Memory(register) => in_memory(architecture, ty, *register),
            _ => format!("{why} ({})", ty.name),
        })?;
        if words.is_empty() {
            return Err(format!("its type {} has no data", ty.name));
        }
        let places = words.iter().map(|word| register(architecture, ty, word, place, prologue));
        let registers: Vec<u8> = places.collect::<Result<_, _>>()?;
        match registers[..] {
            [first, second] if second != first + 1 => {
                Err("its two values are not in registers that follow each other".to_owned())
            }
            _ => Ok((ty, words, registers)),
        }
    });
    let (ty, words, registers) = match found {
        Ok(found) => found,
        Err(why) => return vec![without(name, why)],
    };
    let mut all: Vec<_> = words
        .iter()
        .zip(registers)
        .map(|(word, register)| value(name, &word.c_type, register))
        .collect();
    // Text is one value in D: see `sdt_core::arg`.
    if ty.is_text
        && let [text, length] = &mut all[..]
    {
        text.translated = "string".to_owned();
        length.translated.clone_from(&length.native);
    }
    all
}

fn in_memory(architecture: Architecture, ty: &Type, register: u16) -> String {
    let size = ty.size;
    match architecture.argument_in(register) {
        Some(index) => {
            format!("it is {size} bytes of memory, whose address is arg{index} ({})", ty.name)
        }
        None => format!("it is {size} bytes of memory ({})", ty.name),
    }
}

/// Returns the number of the argument register that holds a value of a parameter.
fn register(
    architecture: Architecture,
    ty: &Type,
    word: &Word,
    place: &Place,
    prologue: Option<(Frame, &Prologue)>,
) -> Result<u8, String> {
    let parts = match place {
        Place::Parts(parts) => parts,
        Place::Memory(register) => return Err(in_memory(architecture, ty, *register)),
        Place::Constant => {
            return Err("the compiler replaced it by a constant, and does not pass it".to_owned());
        }
        Place::Missing => {
            return Err("the debug information has no location of it at the entry".to_owned());
        }
        Place::Other => {
            return Err("its location at the entry is not a register".to_owned());
        }
    };
    let mut begin = 0;
    for Part { size, at } in parts {
        let size = size.unwrap_or(ty.size);
        let end = begin + size;
        if (begin..end).contains(&word.offset) {
            let within = word.offset - begin;
            return in_part(architecture, word, (within, size), *at, prologue);
        }
        begin = end;
    }
    Err("the debug information has no location of a part of it".to_owned())
}

/// Returns the number of the argument register that holds a value at an offset in a part of a parameter.
fn in_part(
    architecture: Architecture,
    word: &Word,
    (within, size): (u64, u64),
    at: At,
    prologue: Option<(Frame, &Prologue)>,
) -> Result<u8, String> {
    match at {
        At::Nowhere => Err("the compiler does not pass it, or only a part of it".to_owned()),
        At::Register(register, bits) => {
            let Some(index) = architecture.argument_in(register) else {
                return Err("it is in a register that is not one of the arguments".to_owned());
            };
            let is_whole = within == 0 && word.size <= size && size <= REGISTER;
            let all = u64::MAX >> (64 - 8 * word.size.clamp(1, REGISTER));
            match is_whole && (bits & all == all || word.is_flag && bits & 1 == 1) {
                true => Ok(index),
                false => {
                    Err("its register has only a part of it, or another value, too".to_owned())
                }
            }
        }
        At::Frame(offset) => {
            let (frame, prologue) = prologue.ok_or("the frame of the function is unknown")?;
            let slot = prologue
                .address(frame)
                .and_then(|base| base.checked_add(offset)?.checked_add_unsigned(within));
            let stored = slot.and_then(|slot| prologue.stored(slot, word.size, word.is_flag));
            stored.ok_or_else(|| {
                "it is on the stack, and the beginning of the function does not store an argument \
                 register there"
                    .to_owned()
            })
        }
    }
}

/// Takes the values from arguments of which several have one register: the debug information then describes the state after an
/// assignment at the beginning of the function.
fn refuse_shared(all: &mut Vec<Argument>) {
    let registers: Vec<u8> =
        all.iter().filter(|of| of.obstacle.is_none()).map(|of| of.mapping).collect();
    let is_shared = |of: &Argument| {
        of.obstacle.is_none() && registers.iter().filter(|other| **other == of.mapping).count() > 1
    };
    let shared: Vec<String> =
        all.iter().filter(|of| is_shared(of)).map(|of| of.name.clone()).collect();
    let mut refused = Vec::with_capacity(all.len());
    for of in all.drain(..) {
        let is_refused = shared.contains(&of.name) && of.obstacle.is_none();
        match is_refused {
            false => refused.push(of),
            // The second position of an argument of two values.
            true if refused.last().is_some_and(|last: &Argument| last.name == of.name) => {}
            true => {
                let why = "another parameter has the same register".to_owned();
                refused.push(without(&of.name, why));
            }
        }
    }
    *all = refused;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(offset: u64, size: u64, c_type: &str) -> Word {
        Word { offset, size, c_type: c_type.to_owned(), is_flag: c_type == "_Bool" }
    }

    fn of(name: &str, words: Vec<Word>, place: Place) -> Parameter {
        let size = words.iter().map(|of| of.offset + of.size).max().unwrap_or(0);
        let is_text = matches!(&words[..], [first, _] if first.c_type == "char *");
        let ty = Type { name: "T".to_owned(), size, words: Ok(words), is_text };
        Parameter { name: name.to_owned(), ty: Ok(ty), place }
    }

    fn number(name: &str, place: Place) -> Parameter {
        of(name, vec![word(0, 8, "uint64_t")], place)
    }

    fn text(name: &str, place: Place) -> Parameter {
        of(name, vec![word(0, 8, "char *"), word(8, 8, "size_t")], place)
    }

    fn register(number: u16) -> Place {
        Place::Parts(vec![Part { size: None, at: At::Register(number, u64::MAX) }])
    }

    fn registers(first: u16, second: u16) -> Place {
        let part = |number| Part { size: Some(8), at: At::Register(number, u64::MAX) };
        Place::Parts(vec![part(first), part(second)])
    }

    fn shown(architecture: Architecture, parameters: Vec<Parameter>) -> Vec<String> {
        let signature = Signature { parameters, ..Signature::default() };
        let show = |of: Argument| match of.obstacle {
            Some(why) => format!("{}: {why}", of.name),
            None => format!("{}: arg{}", of.name, of.mapping),
        };
        of_entry(architecture, &signature, &[]).into_iter().map(show).collect()
    }

    #[test]
    fn registers_are_arguments() {
        for (architecture, numbers) in [
            (Architecture::X86_64, &[5, 4, 1, 2, 8, 9][..]),
            (Architecture::Aarch64, &[0, 1, 2, 3, 4, 5, 6, 7]),
            (Architecture::Riscv64, &[10, 11, 12, 13, 14, 15, 16, 17]),
        ] {
            for (index, number) in (0..).zip(numbers) {
                assert_eq!(architecture.argument_in(*number), Some(index), "{architecture:?}");
            }
        }
        // rax, rsp; x8, the address of the result; a return address.
        assert_eq!(Architecture::X86_64.argument_in(0), None);
        assert_eq!(Architecture::X86_64.argument_in(7), None);
        assert_eq!(Architecture::Aarch64.argument_in(8), None);
        assert_eq!(Architecture::Riscv64.argument_in(1), None);
    }

    #[test]
    fn texts_are_in_registers_that_follow_each_other() {
        let x86 = Architecture::X86_64;
        assert_eq!(shown(x86, vec![text("a", registers(4, 1))]), ["a: arg1", "a: arg2"]);
        for (place, why) in [
            (registers(4, 2), "its two values are not in registers that follow each other"),
            (registers(4, 5), "its two values are not in registers that follow each other"),
            (registers(4, 0), "it is in a register that is not one of the arguments"),
            (register(4), "its register has only a part of it, or another value, too"),
            (Place::Memory(4), "it is 16 bytes of memory, whose address is arg1 (T)"),
        ] {
            assert_eq!(shown(x86, vec![text("a", place)]), [format!("a: {why}")]);
        }
    }

    #[test]
    fn masked_registers_are_flags_only() {
        let masked = |bits| Place::Parts(vec![Part { size: None, at: At::Register(5, bits) }]);
        let flag = |bits| of("a", vec![word(0, 1, "_Bool")], masked(bits));
        let byte = |bits| of("a", vec![word(0, 1, "uint8_t")], masked(bits));
        let why = "a: its register has only a part of it, or another value, too";
        for (parameter, expected) in
            [(flag(1), "a: arg0"), (flag(2), why), (byte(1), why), (byte(0xff), "a: arg0")]
        {
            assert_eq!(shown(Architecture::X86_64, vec![parameter]), [expected]);
        }
    }

    /// After `a = b` at the beginning, optimised code has both in one register.
    #[test]
    fn two_parameters_in_one_register_have_no_value() {
        let all = vec![
            number("a", register(4)),
            number("b", register(4)),
            text("c", registers(1, 2)),
            number("d", register(2)),
            number("e", register(8)),
        ];
        let why = "another parameter has the same register";
        let shown = shown(Architecture::X86_64, all);
        let without = ["a", "b", "c", "d"].map(|name| format!("{name}: {why}"));
        assert_eq!(shown[..4], without);
        assert_eq!(shown[4..], ["e: arg4"]);
    }
}
