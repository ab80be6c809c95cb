//! Finds the instruction at which a kernel's fbt places its entry probe, and checks that the function begins with it.
//!
//! fbt searches the whole function for the instruction that saves the frame pointer or the return address, and uses it
//! as the entry. A compiler that sets up a frame only on paths that need one (shrink wrapping) moves this instruction,
//! and some calls do not execute it: the probe is listed, and does not fire. Therefore illumos compiles its kernel with
//! `-fno-shrink-wrap`, and the target files of modules contain `-enable-shrink-wrap=false`.
//!
//! The rules are FreeBSD's (`fbt_provide_module_function` in `sys/cddl/dev/fbt/{x86,aarch64,riscv}/fbt_isa.c`, main)
//! and illumos's (`fbt_provide_module` in `usr/src/uts/intel/dtrace/fbt.c`), which on amd64 are the same.

use super::instruction::decode;
use crate::arch::Arch;

/// Returns the offset of the instruction that fbt uses as the entry of a function with this code; `None` if fbt makes
/// no probe.
pub fn entry(arch: Arch, code: &[u8]) -> Option<u64> {
    match arch {
        Arch::X86_64 => x86_64(code),
        Arch::Aarch64 => aarch64(code),
        Arch::Riscv64 => riscv64(code),
    }
}

/// Returns whether every call of the function executes the entry before anything else can happen: no branch, call or
/// site may precede it.
pub fn begins_at(arch: Arch, code: &[u8], entry: u64) -> bool {
    let mut at = 0;
    while at < entry {
        let rest = code.get(at as usize..).unwrap_or_default();
        let Some(instruction) = decode(arch, rest) else { return false };
        // A nop before the entry is a site, which becomes a jump when it is enabled: compilers emit no other nops
        // there.
        if !instruction.straight || instruction.nop {
            return false;
        }
        at += instruction.len;
    }
    let first = code.get(at as usize..).and_then(|rest| decode(arch, rest));
    // If instructions have several lengths, fbt can find these bytes inside another instruction.
    at == entry && first.is_some_and(|instruction| !instruction.nop)
}

/// Returns the entry of a function if the function does not begin with it.
pub(super) fn misplaced(arch: Arch, code: &[u8]) -> Option<u64> {
    entry(arch, code).filter(|&entry| !begins_at(arch, code, entry))
}

/// Finds `push %rbp`. DTrace's disassembler may compute other lengths of instructions than this one, but not for the
/// output of compilers.
fn x86_64(code: &[u8]) -> Option<u64> {
    const PUSH_RBP: u8 = 0x55;
    let mut at = 0;
    while *code.get(at)? != PUSH_RBP {
        at += decode(Arch::X86_64, &code[at..])?.len as usize;
    }
    Some(at as u64)
}

fn aarch64(code: &[u8]) -> Option<u64> {
    const SP: u32 = 31;
    const NOP: u32 = 0xd503_201f;
    let words: Vec<_> = code.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    // Skips a BTI instruction at the beginning.
    let first = usize::from(words.first()? & 0xffff_ff3f == 0xd503_241f);
    let sets_up = |word: u32| {
        // `stp xt1, xt2, [sp, #n]!`; `sub sp, sp, #n`.
        word & 0xffc0_0000 == 0xa980_0000 && word >> 5 & 31 == SP
            || word & 0xffc0_0000 == 0xd100_0000 && word & 31 == SP && word >> 5 & 31 == SP
    };
    let after = words.get(first..)?;
    let entry = match *after.first()? {
        NOP => 0,
        _ => after.iter().position(|&word| sets_up(word))?,
    };
    Some(4 * (first + entry) as u64)
}

/// `sd ra, n(sp)`; `c.sdsp ra, n(sp)`. fbt searches in steps of four bytes, without decoding instructions; it compares
/// short instructions with both halves.
fn riscv64(code: &[u8]) -> Option<u64> {
    let half = |at: usize| Some(u16::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let long = |at| word(at).is_some_and(|word| word & 0x01ff_f07f == 0x0011_3023);
    let short = |at: &usize| half(*at).is_some_and(|half| half & 0xe07f == 0xe006);
    let found = (0..code.len())
        .step_by(4)
        .find_map(|at| if long(at) { Some(at) } else { [at, at + 2].into_iter().find(short) });
    found.map(|at| at as u64)
}

#[cfg(test)]
#[path = "../../tests/unit/check/fbt.rs"]
mod tests;
