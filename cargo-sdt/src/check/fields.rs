//! Code of x86-64, function by function: a relocation fills in one operand of one instruction, a call leads to a function, and
//! a branch inside the function leads to an instruction.
//!
//! A function with data in it cannot be decoded in one piece, or breaks a rule several times. It is skipped: damage to one
//! field of a file breaks each rule once.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::finding::{Findings, Problem};
use super::functions::Functions;

/// Checks a section of code. `relocated` has the offsets of its relocations, and the bytes that each changes.
pub(super) fn check(
    (index, name, code): (usize, &str, &[u8]),
    relocated: &BTreeMap<u64, u64>,
    functions: &Functions<'_>,
    findings: &mut Findings,
) {
    for (start, size) in functions.in_section(index) {
        let end = start.saturating_add(size);
        let Some(body) = Body::decode(code, start, end) else { continue };
        let fields = relocated.range(start..end);
        let strays = fields.filter(|&(at, width)| body.operands.get(at) != Some(width));
        let strays: Vec<_> = strays.map(|(&at, _)| (at, Problem::NotAnOperand)).collect();
        let astray = |(instruction, field): &(Instruction, u64)| {
            let to = instruction.near_branch_target();
            let resolved = to != 0 && !relocated.contains_key(field);
            let into = (start..end).contains(&to) && !body.begins_at(to, code);
            let call = instruction.is_call_near() && functions.are_known_in(index);
            let wrong = resolved && (into || call && !functions.starts_at((index, to)));
            wrong.then(|| (instruction.ip(), Problem::BranchAstray(to)))
        };
        let branches: Vec<_> = body.instructions.iter().filter_map(astray).collect();
        if strays.len() <= 1 && branches.len() <= 1 {
            let found = strays.into_iter().chain(branches);
            found.for_each(|(at, problem)| findings.offset(name, at, problem));
        }
    }
}

/// The code of a function.
#[derive(Default)]
struct Body {
    /// The instructions, in order, with the offset of the immediate of each.
    instructions: Vec<(Instruction, u64)>,
    /// Offsets and sizes of displacements and immediates.
    operands: BTreeMap<u64, u64>,
}

impl Body {
    fn decode(code: &[u8], start: u64, end: u64) -> Option<Self> {
        let bytes = code.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut body = Self::default();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return None;
            }
            let offsets = decoder.get_constant_offsets(&instruction);
            let mut add = |offset: usize, size: usize| {
                let at = instruction.ip() + offset as u64;
                body.operands.insert(at, size as u64);
                at
            };
            if offsets.has_displacement() {
                add(offsets.displacement_offset(), offsets.displacement_size());
            }
            let field = if offsets.has_immediate() {
                add(offsets.immediate_offset(), offsets.immediate_size())
            } else {
                u64::MAX
            };
            body.instructions.push((instruction, field));
        }
        Some(body)
    }

    /// Whether an instruction begins at an offset, or continues there behind a `lock`, which a branch may skip.
    fn begins_at(&self, at: u64, code: &[u8]) -> bool {
        const LOCK: u8 = 0xf0;
        let begins = |at| self.instructions.binary_search_by_key(&at, |(of, _)| of.ip()).is_ok();
        let before = at.checked_sub(1);
        begins(at)
            || before
                .is_some_and(|before| begins(before) && code.get(before as usize) == Some(&LOCK))
    }
}

#[cfg(test)]
mod tests {
    use object::elf;

    use super::*;
    use crate::check::functions::Defined;

    /// Checks two functions, the first with this code, the second a `ret`. Returns the findings.
    fn said(code: &[u8], relocated: &[(u64, u64)]) -> Vec<String> {
        let (first, second) = (code.len() as u64, 1);
        let of = |name, value, size| Defined { name, kind: elf::STT_FUNC, section: 1, value, size };
        let functions = [of("first", 0, first), of("second", first, second)];
        let functions = Functions::new(functions.into_iter());
        let mut findings = Findings::default();
        let code = [code, &[0xc3]].concat();
        check((1, ".text", &code), &relocated.iter().copied().collect(), &functions, &mut findings);
        findings.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn relocations_are_operands() {
        // call; lea rax, [rip + ..]; movabs rax, ..; cmp dword ptr [rip + ..], imm32
        let code = [
            &[0xe8, 0, 0, 0, 0][..],
            &[0x48, 0x8d, 0x05, 0, 0, 0, 0],
            &[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x81, 0x3d, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let good = [(1, 4), (8, 4), (14, 8), (24, 4), (28, 4)];
        assert_eq!(said(&code, &good), [""; 0]);
        for (index, moved) in [(1, (7, 4)), (1, (8, 8)), (2, (14, 4)), (3, (25, 4))] {
            let mut relocated = good;
            relocated[index] = moved;
            let expected =
                format!(".text+{:#x}: this relocation is of no operand of an instruction", moved.0);
            let said = said(&code, &relocated);
            assert!(said.len() == 1 && said[0].starts_with(&expected), "{said:#?}");
        }
    }

    #[test]
    fn branches_lead_to_instructions_and_calls_to_functions() {
        let astray = |code: &[u8]| said(code, &[]).len();
        // A call without its relocation leads to the instruction behind it.
        assert_eq!(astray(&[0xe8, 0, 0, 0, 0, 0xc3]), 1);
        assert_eq!(astray(&[0xe8, 1, 0, 0, 0, 0xc3]), 0, "the second function");
        // jmp to the `ret`, and to the middle of `mov eax, 0x90909090`
        assert_eq!(astray(&[0xeb, 5, 0xb8, 0x90, 0x90, 0x90, 0x90, 0xc3]), 0);
        assert_eq!(astray(&[0xeb, 3, 0xb8, 0x90, 0x90, 0x90, 0x90, 0xc3]), 1);
        // je over the `lock` of `lock inc dword ptr [rax]`
        assert_eq!(astray(&[0x74, 1, 0xf0, 0xff, 0x00, 0xc3]), 0);
        for data in [
            &[0xeb, 3, 0xb8, 0x90, 0x90, 0x90, 0x90, 0x06][..],
            &[0xeb, 3, 0xeb, 2, 0xb8, 0x90, 0x90, 0x90, 0x90],
        ] {
            assert_eq!(astray(data), 0, "data in a function");
        }
    }
}
