//! Compares a function with sites with the same function without sites.

use std::collections::BTreeSet;
use std::fmt;

use iced_x86::Register;

use crate::function::{Function, Instruction, SITE_NOP};

/// The similarity of two hot paths, without the nops of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// The instructions differ, in kind or number.
    Different,
    /// The same instructions in a different order.
    Reordered,
    /// The same instructions in the same order. Registers and targets of jumps may differ; mnemonics, kinds of operands
    /// and immediates are equal.
    Same,
}

/// The effect of sites on a function.
#[derive(Debug)]
pub struct Comparison {
    /// The similarity of the hot paths. If one is `frameless`, the instructions that set up and remove a frame are
    /// ignored.
    pub likeness: Likeness,
    /// The function without sites sets up a frame, the one with sites does so in its cold code only.
    pub frameless: bool,
    /// The number of sites.
    pub sites: usize,
    /// The number of additional instructions of the hot path, including the nops of sites.
    pub instructions: isize,
    /// The number of additional bytes of the hot path.
    pub bytes: i64,
    /// Registers that the hot path saves only because of the sites.
    pub newly_saved: BTreeSet<Register>,
    /// The number of additional instructions on the hot path that test, compare or branch.
    pub decisions: isize,
    /// Length of the cold code in bytes.
    pub cold_bytes: u64,
    /// Whether all cold code is behind the last hot instruction.
    pub out_of_line: bool,
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { likeness, instructions, bytes, newly_saved, cold_bytes, .. } = self;
        let frame = if self.frameless { " without its frame" } else { "" };
        let place = if self.out_of_line { "out of line" } else { "in between" };
        write!(
            f,
            "{likeness:?}{frame}, {instructions:+} instructions, {bytes:+} bytes, \
             saves {newly_saved:?}, {cold_bytes} cold bytes {place}"
        )
    }
}

/// Compares `probed` with `plain`, the same function without sites.
pub fn compare(plain: &Function, probed: &Function) -> Comparison {
    let frameless = has_frame(plain) && !has_frame(probed);
    let mut before = shapes(plain, |instruction| !(frameless && instruction.is_frame()));
    let mut after = shapes(probed, |instruction| !is_site_nop(probed, instruction));
    let count = |function: &Function| function.hot_without_padding().len() as isize;
    let decisions =
        |function: &Function| function.hot.iter().filter(|i| i.decides()).count() as isize;
    let likeness = if before == after {
        Likeness::Same
    } else {
        before.sort();
        after.sort();
        if before == after { Likeness::Reordered } else { Likeness::Different }
    };
    let hot_end = probed.hot.last().map_or(0, |last| last.address() + last.len());
    Comparison {
        likeness,
        frameless,
        sites: probed.sites.len(),
        instructions: count(probed) - count(plain),
        bytes: probed.hot_bytes() as i64 - plain.hot_bytes() as i64,
        newly_saved: probed.saved().difference(&plain.saved()).copied().collect(),
        decisions: decisions(probed) - decisions(plain),
        cold_bytes: probed.cold_bytes(),
        out_of_line: probed.cold.iter().all(|instruction| instruction.address() >= hot_end),
    }
}

/// Returns the shapes of the `wanted` hot instructions.
fn shapes(function: &Function, wanted: impl Fn(&Instruction) -> bool) -> Vec<String> {
    let hot = function.hot_without_padding().into_iter();
    hot.filter(|instruction| wanted(instruction)).map(Instruction::shape).collect()
}

/// Returns whether an instruction is the nop of a site. Only these five bytes are: any other code at a patchpoint is a
/// difference.
fn is_site_nop(function: &Function, instruction: &Instruction) -> bool {
    function.is_site(instruction) && function.bytes_of(instruction) == SITE_NOP
}

fn has_frame(function: &Function) -> bool {
    function.hot.iter().any(Instruction::is_frame)
}
