//! Code: no instruction may touch registers that the kernel does not save for itself, or write the one that
//! holds this CPU's data.

mod aarch64;
mod riscv64;
mod x86_64;

use std::collections::BTreeSet;

use object::elf;

use super::fbt;
use super::finding::{Findings, Problem};
use super::image::{Home, Image, Section};
use crate::arch::Arch;

/// So many are reported one by one in a section: where there is one there are hundreds.
const SHOWN: usize = 5;

/// Functions after which a module may use those registers, as the kernel has saved them (FreeBSD's `fpu(9)`,
/// illumos's `kernel_fpu_begin`).
const SAVERS: [&str; 3] = ["fpu_kern_enter", "fpu_kern_thread", "kernel_fpu_begin"];

/// Which of [`SAVERS`] a module uses, by the symbols that it does not define.
pub(crate) fn saver<'a>(mut undefined: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    undefined.find(|name| SAVERS.contains(name))
}

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    let undefined = image.all_symbols().filter(|symbol| symbol.home == Home::Undefined);
    let saver = saver(undefined.map(|symbol| &*symbol.name));
    for (index, section) in image.sections.iter().enumerate() {
        if !section.is_loaded() || !section.is_code() {
            continue;
        }
        report(&section.name, saver, findings, |report| match image.arch {
            Arch::X86_64 => x86_64::scan(section.data, report),
            Arch::Aarch64 => stretches(image, index, section, aarch64::scan, report),
            Arch::Riscv64 => stretches(image, index, section, riscv64::scan, report),
        });
    }
    functions(image, findings);
}

/// Checks the functions that fbt knows by their symbols; of several for one, each name once.
fn functions(image: &Image<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for symbol in image.all_symbols().filter(|symbol| symbol.kind == elf::STT_FUNC) {
        let Home::Section(home) = symbol.home else { continue };
        let section = &image.sections[home];
        let Some(code) = section.bytes(symbol.value, symbol.size) else { continue };
        if seen.insert((home, symbol.value, &symbol.name)) {
            fbt::check(image.arch, &symbol.name, code, section.address + symbol.value, findings);
        }
    }
}

/// Checks the code of a section of an x86-64 module, whoever's it is.
pub(crate) fn x86_64(section: &str, code: &[u8], saver: Option<&str>, findings: &mut Findings) {
    report(section, saver, findings, |report| x86_64::scan(code, report));
}

/// Reports what a scan finds in a section, as far as it is shown.
fn report(
    section: &str,
    saver: Option<&str>,
    findings: &mut Findings,
    scan: impl FnOnce(&mut dyn FnMut(u64, Problem)),
) {
    let mut found = 0;
    let mut saved = None;
    scan(&mut |offset, problem| {
        if let (Problem::Float { state, .. }, Some(saver)) = (&problem, saver) {
            let (count, ..) = *saved.get_or_insert((0, *state, saver));
            saved = Some((count + 1, *state, saver));
            return;
        }
        found += 1;
        if found <= SHOWN {
            findings.offset(section, offset, problem);
        }
    });
    if found > SHOWN {
        findings.section(section, Problem::MoreFloat(found - SHOWN));
    }
    if let Some((count, state, saver)) = saved {
        findings.section(section, Problem::SavedFloat(count, state, saver.to_owned()));
    }
}

/// Scans the stretches of a section that are code. Where data begins in it and where code goes on is told by
/// the mapping symbols of both ABIs: `$d` and `$x`.
fn stretches(
    image: &Image<'_>,
    index: usize,
    section: &Section<'_>,
    scan: fn(&[u8], &mut dyn FnMut(u64, Problem)),
    report: &mut dyn FnMut(u64, Problem),
) {
    let of_section = image.all_symbols().filter(|symbol| symbol.home == Home::Section(index));
    // What has no mark is code: it is the linker's own.
    let mut marks = vec![(0, true)];
    marks.extend(of_section.filter_map(|symbol| match symbol.name.as_bytes() {
        [b'$', b'd', ..] => Some((symbol.value, false)),
        [b'$', b'x', ..] => Some((symbol.value, true)),
        _ => None,
    }));
    marks.push((section.data.len() as u64, false));
    // Of several marks at one place the last counts.
    marks.sort_by_key(|&(offset, _)| offset);
    for pair in marks.windows(2) {
        let [(start, code), (end, _)] = *pair else { continue };
        let length = end.saturating_sub(start);
        if let (true, Some(bytes)) = (code, section.bytes(start, length)) {
            scan(bytes, &mut |offset, problem| report(start + offset, problem));
        }
    }
}
