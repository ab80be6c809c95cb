//! The part of a function that runs while no probe is enabled, and the part that runs only while one is enabled.

use std::collections::BTreeMap;

use crate::flow::{Flow, Instruction, decode};
use anyhow::{Context as _, bail};

use crate::unit::{Function, Place, Unit};

/// Returns the lengths of the instructions in `len` bytes at a place, all of which must be nops.
///
/// # Errors
/// An instruction is not a nop, or the last one does not end after `len` bytes.
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

/// The sizes of the parts of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of instructions that are reachable while no site is patched.
    pub hot_instructions: i64,
    /// The number of those instructions that set up and remove the function's frame.
    pub frame_instructions: i64,
    /// Their size in bytes.
    pub hot_bytes: i64,
    /// The number of other bytes of the function, which run only while a site is patched.
    pub cold_bytes: i64,
}

/// Measures the parts of a function. `sites` are the places in the records of its sites: the nop and the target.
///
/// # Errors
/// A site is not at the expected place, or a jump leads to bytes that are not an instruction.
pub fn size(unit: &Unit, function: &Function, sites: &[(Place, Place)]) -> anyhow::Result<Size> {
    let hot = reachable(unit, function, function.start, &BTreeMap::new())?;
    for (site, target) in sites {
        if !hot.contains_key(&site.offset) {
            bail!("{}: the site at {:#x} is not on the hot path", function.name, site.offset);
        }
        if !function.contains(*target) || hot.contains_key(&target.offset) {
            bail!("{}: the cold code begins at {:#x}", function.name, target.offset);
        }
    }
    let is_frame = |(offset, len): &(&u64, &u64)| {
        let code = unit.bytes(function.start.after(**offset - function.start.offset), **len);
        code.and_then(|code| decode(unit.arch, code)).is_some_and(|of| of.frame)
    };
    let frame_instructions = hot.iter().filter(is_frame).count() as i64;
    let (hot_instructions, hot_bytes) = (hot.len() as i64, hot.values().sum::<u64>());
    let cold_bytes = function.len - hot_bytes;
    Ok(Size {
        hot_instructions,
        frame_instructions,
        hot_bytes: hot_bytes.cast_signed(),
        cold_bytes: cold_bytes.cast_signed(),
    })
}

/// Returns the instructions of a function that are reachable from a place without passing `known` ones: their offsets and
/// lengths. From the start of the function, these are the instructions that can run while no site is patched.
///
/// # Errors
/// Control leads to where no instruction is.
pub fn reachable(
    unit: &Unit,
    function: &Function,
    from: Place,
    before: &BTreeMap<u64, u64>,
) -> anyhow::Result<BTreeMap<u64, u64>> {
    let mut known = BTreeMap::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        // Code of another function does not belong to this one.
        let is_known = known.contains_key(&at.offset) || before.contains_key(&at.offset);
        if !function.contains(at) || is_known {
            continue;
        }
        let left = function.start.offset + function.len - at.offset;
        let code = unit.bytes(at, left).with_context(|| format!("{}: no code", function.name))?;
        let instruction = decode(unit.arch, code)
            .with_context(|| format!("{}: no instruction at {:#x}", function.name, at.offset))?;
        known.insert(at.offset, instruction.len);
        let next = at.after(instruction.len);
        let to = |distance| at.moved(distance);
        // If a relocation determines the target, the target is another function.
        let elsewhere = unit.relocations(at, instruction.len).next().is_some();
        match instruction.flow {
            Flow::Next | Flow::Call => open.push(next),
            Flow::Branch(distance) => {
                if elsewhere {
                    bail!("{}: a branch out of it at {:#x}", function.name, at.offset);
                }
                open.extend([next, to(distance)]);
            }
            Flow::Jump(distance) if !elsewhere => open.push(to(distance)),
            Flow::Jump(_) | Flow::Return | Flow::Leave => {}
        }
    }
    Ok(known)
}
