//! Site records: {probe, patchpoint, target, link}. A site is a nop with its cold block in reach of a jump.
//!
//! Records of the kernel's sdt (`struct sdt_tracepoint` of `sys/sys/sdt.h`) have the same form, but the kernel supports
//! fewer kinds of sites.

use std::fmt::Display;

use super::sets::whole;
use crate::arch::Arch;
use crate::check::elf::{Elf, Home};
use crate::check::finding::hex;
use crate::check::functions::Functions;
use crate::check::names::{SITES, TRACEPOINTS};
use crate::check::record::Record;
use crate::check::rules::Rule;

/// The table of bounds.
const BOUNDS: &str = "__sdt_bounds";
/// Bytes of a record.
pub(super) const RECORD: u64 = 32;
const PATCHPOINT: u64 = 8;
const TARGET: u64 = 16;
const LINK: u64 = 24;
/// The nops of amd64's sites in C: `nopw (%rax,%rax)`, and in newer versions five `nop`.
const NOPS: [[u8; 5]; 2] = [[0x66, 0x0f, 0x1f, 0x04, 0x00], [0x90; 5]];

/// The patcher of the sites of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patcher {
    /// The module itself (`sdt_core::patch`).
    Module,
    /// The kernel's sdt (`sys/*/*/sdt_machdep.c`).
    Kernel,
}

/// Checks the sites and returns how many there are.
pub(super) fn check(elf: &Elf<'_>, functions: &Functions<'_>) -> u64 {
    let own = elf.named(SITES).map(|section| (section, Patcher::Module));
    let kernels = elf.named(TRACEPOINTS).map(|section| (section, Patcher::Kernel));
    let mut count = 0;
    for (section, patcher) in own.chain(kernels) {
        // C's tracepoints are not aligned, which amd64 does not mind.
        let free = patcher == Patcher::Kernel && elf.arch == Arch::X86_64;
        if !whole(elf, section, "site records", RECORD, if free { 1 } else { 8 }) {
            continue;
        }
        if section.size != 0 && !section.is_writable() {
            elf.findings.section(&section.name, Rule::SetNotWritable, &[]);
        }
        count += section.size / RECORD;
        for offset in section.elements(RECORD as usize) {
            let record = Record { elf, home: section, offset };
            site(record, functions, patcher);
        }
    }
    bounds(elf);
    count
}

/// Checks the bounds of the set. A shared object has a table with their addresses (`sdt_core`'s `record`); in a
/// relocatable file the loader derives them from the section's name.
fn bounds(elf: &Elf<'_>) {
    let Some(sites) = elf.named(SITES).next() else { return };
    let Some(table) = elf.all_symbols().find(|symbol| symbol.name == BOUNDS) else { return };
    let Home::Section(home) = table.home else { return };
    let home = &elf.sections[home];
    for (symbol, word, expected) in [
        ("__start_sdt_sites", 0, sites.address),
        ("__stop_sdt_sites", 8, sites.address.wrapping_add(sites.size)),
    ] {
        let at = table.value.wrapping_add(word);
        let relative = home.relocation(at).filter(|of| elf.is_relative(of));
        if relative.is_some_and(|of| of.addend.cast_unsigned() != expected) {
            elf.findings.offset(&home.name, at, Rule::Bound, &[&symbol, &"somewhere else"]);
        }
    }
}

fn site(record: Record<'_, '_>, functions: &Functions<'_>, patcher: Patcher) {
    let Record { elf, .. } = record;
    let wrong = |member, rule, details: &[&dyn Display]| {
        record.report(member, rule, details);
    };
    match record.record(0) {
        None => wrong(0, Rule::NotAddress, &[&"the site's probe"]),
        Some(probe) if !probe.home.is_writable() => {
            wrong(0, Rule::WrongMemory, &[&"the site's probe", &probe.home.name, &"writable"]);
        }
        Some(_) => {}
    }
    if !record.is_null(LINK) {
        wrong(LINK, Rule::NotZero, &[&"the site's link"]);
    }
    let Some(site) = record.address(PATCHPOINT) else {
        return wrong(PATCHPOINT, Rule::NotAddress, &[&"the site"]);
    };
    let text = elf.section_of(site);
    if !text.is_code() {
        return wrong(PATCHPOINT, Rule::WrongMemory, &[&"the site", &text.name, &"executable"]);
    }
    let encoding = elf.arch.encoding();
    let nop = encoding.nop.as_bytes();
    let patched = site.offset..site.offset + nop.len() as u64;
    let found: Vec<u8> =
        text.data.iter().skip(site.offset as usize).take(nop.len()).copied().collect();
    // The kernel also patches the nops of C's sites.
    let others = patcher == Patcher::Kernel && elf.arch == Arch::X86_64;
    let is_nop = found == nop || others && NOPS.iter().any(|nops| found == *nops);
    if !is_nop || !text.relocations_in(patched.clone()).is_empty() {
        wrong(PATCHPOINT, Rule::NotNop, &[&hex(&found), &nop.len(), &hex(nop)]);
    }
    let Some(target) = record.address(TARGET) else {
        return wrong(TARGET, Rule::NotAddress, &[&"the site's cold block"]);
    };
    if target.section != site.section {
        return wrong(TARGET, Rule::Unreachable, &[&"are in different sections"]);
    }
    if patched.contains(&target.offset) {
        wrong(TARGET, Rule::Unreachable, &[&"overlap"]);
    }
    if functions.is_inside_instruction(elf.arch, text.data, target) {
        let reason = "do not match, because the block begins inside an instruction";
        wrong(TARGET, Rule::Unreachable, &[&reason]);
    }
    let distance = target.offset.abs_diff(site.offset);
    let reach = kernels_reach(elf.arch);
    if patcher == Patcher::Kernel && distance > reach {
        let reason = format!("are {distance} bytes apart, and FreeBSD's sdt supports {reach}");
        return wrong(TARGET, Rule::Unreachable, &[&reason]);
    }
    let address = |offset: u64| text.address.wrapping_add(offset) as usize;
    if let Err(error) = (encoding.jump)(address(site.offset), address(target.offset)) {
        wrong(TARGET, Rule::Unreachable, &[&format_args!("cannot be connected: {error}")]);
    }
}

/// Returns the greatest distance in bytes from a site to its cold block that `sdt_tracepoint_valid` accepts, in both
/// directions: on some architectures half of the reach of a jump.
fn kernels_reach(arch: Arch) -> u64 {
    let jump = arch.encoding().reach as u64;
    match arch {
        Arch::X86_64 => jump,
        Arch::Aarch64 | Arch::Riscv64 => jump / 2,
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/check/freebsd/sites.rs"]
mod tests;
