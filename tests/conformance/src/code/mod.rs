//! Code of the three architectures, as far as it takes to tell what of a function is run while no probe is
//! enabled, and what only then.

mod aarch64;
mod riscv64;
mod x86_64;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use xtask::workspace::Arch;

use crate::unit::{Function, Place, Unit};

/// Where control goes from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// To the next one; calls are among these.
    Next,
    /// So many bytes from here, or to the next one.
    Branch(i64),
    /// So many bytes from here.
    Jump(i64),
    /// Out of the function.
    Leave,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    len: u64,
    flow: Flow,
    /// It does nothing.
    nop: bool,
}

/// The first of some instructions.
fn decode(arch: Arch, code: &[u8]) -> Option<Instruction> {
    match arch {
        Arch::X86_64 => x86_64::decode(code),
        Arch::Aarch64 => aarch64::decode(code),
        Arch::Riscv64 => riscv64::decode(code),
    }
}

/// The lowest `bits` of a number, as a signed one.
const fn signed(value: u32, bits: u32) -> i64 {
    ((value << (32 - bits)) as i32 >> (32 - bits)) as i64
}

/// `count` bits of an instruction, the lowest of them `low`.
const fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

/// The instructions, all of them nops, that fill up exactly `len` bytes at a place: how long each is.
///
/// # Errors
/// They are not nops, or do not end there.
pub fn nops(unit: &Unit, at: Place, len: u64) -> anyhow::Result<Vec<u64>> {
    let code = unit.bytes(at, len).context("outside of its section")?;
    let mut lengths = Vec::new();
    let mut rest = code;
    while !rest.is_empty() {
        match decode(unit.arch, rest) {
            Some(Instruction { len, nop: true, .. }) => {
                lengths.push(len);
                rest = &rest[len as usize..];
            }
            _ => bail!("{code:02x?} are no nops of {len} bytes"),
        }
    }
    Ok(lengths)
}

/// How large a function is, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many instructions can be reached while no site is patched.
    pub hot_instructions: i64,
    /// How many bytes they have.
    pub hot_bytes: i64,
    /// How many bytes the function has besides: what is run only while a site is patched.
    pub cold_bytes: i64,
}

/// Takes a function apart; `sites` are the places that its sites' records tell: the nop's and the target's.
///
/// # Errors
/// A site is not where it should be, or control leads to where no instruction is.
pub fn size(unit: &Unit, function: &Function, sites: &[(Place, Place)]) -> anyhow::Result<Size> {
    let hot = reachable(unit, function)?;
    for (site, target) in sites {
        if !hot.contains_key(&site.offset) {
            bail!("{}: the site at {:#x} is not on the hot path", function.name, site.offset);
        }
        if !function.contains(*target) || hot.contains_key(&target.offset) {
            bail!("{}: what is cold begins at {:#x}", function.name, target.offset);
        }
    }
    let (hot_instructions, hot_bytes) = (hot.len() as i64, hot.values().sum::<u64>());
    let cold_bytes = function.len - hot_bytes;
    Ok(Size {
        hot_instructions,
        hot_bytes: hot_bytes.cast_signed(),
        cold_bytes: cold_bytes.cast_signed(),
    })
}

/// The offsets and lengths of all instructions that can be reached while no site is patched.
fn reachable(unit: &Unit, function: &Function) -> anyhow::Result<BTreeMap<u64, u64>> {
    let mut known = BTreeMap::new();
    let mut open = vec![function.start];
    while let Some(at) = open.pop() {
        // Another function's code is none of this one's.
        if !function.contains(at) || known.contains_key(&at.offset) {
            continue;
        }
        let left = function.start.offset + function.len - at.offset;
        let code = unit.bytes(at, left).with_context(|| format!("{}: no code", function.name))?;
        let instruction = decode(unit.arch, code)
            .with_context(|| format!("{}: no instruction at {:#x}", function.name, at.offset))?;
        known.insert(at.offset, instruction.len);
        let next = at.after(instruction.len);
        let to = |distance| at.moved(distance);
        // Where a relocation says where to, it is another function.
        let elsewhere = unit.relocations(at, instruction.len).next().is_some();
        match instruction.flow {
            Flow::Next => open.push(next),
            Flow::Branch(distance) => {
                if elsewhere {
                    bail!("{}: a branch out of it at {:#x}", function.name, at.offset);
                }
                open.extend([next, to(distance)]);
            }
            Flow::Jump(distance) if !elsewhere => open.push(to(distance)),
            Flow::Jump(_) | Flow::Leave => {}
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_signed() {
        assert_eq!((signed(0x7f, 8), signed(0xff, 8), signed(0x80, 8)), (127, -1, -128));
        assert_eq!(bits(0b1101_0000, 4, 3), 0b101);
    }
}
