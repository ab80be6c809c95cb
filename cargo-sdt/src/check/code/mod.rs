//! The checks of code: no instruction may use registers that the kernel does not save for itself, or write the register
//! that holds the address of this CPU's data. fbt must find the entry of each function at its beginning.

mod aarch64;
mod riscv64;
mod x86_64;

use std::collections::BTreeSet;

use object::elf;

use super::elf::{Elf, Home, Section};
use super::fbt;
use super::finding::Hex;
use super::rules::Rule;
use crate::arch::Arch;
use crate::platform::Os;

/// The number of findings of a section that are shown; a section with one usually has hundreds.
const SHOWN: usize = 5;

/// Functions that save floating-point and vector registers. A module that calls one may use these registers (FreeBSD's
/// `fpu(9)`, illumos's `kernel_fpu_begin`).
const SAVERS: [&str; 3] = ["fpu_kern_enter", "fpu_kern_thread", "kernel_fpu_begin"];

/// A forbidden effect of an instruction.
enum Breach {
    /// The instruction uses state that the kernel does not save.
    Float { code: String, state: &'static str },
    /// The instruction writes a register that the kernel reserves.
    KernelRegister { code: String, register: &'static str },
}

pub(super) fn check(elf: &Elf<'_>) {
    let mut undefined = elf.all_symbols().filter(|symbol| symbol.is_undefined());
    let saver = undefined.find(|symbol| SAVERS.contains(&&*symbol.name));
    let saver = saver.map(|symbol| &*symbol.name);
    let code = elf.sections.iter().enumerate().filter(|(_, of)| of.is_loaded() && of.is_code());
    for (index, section) in code {
        section_of_code(elf, index, section, saver);
    }
    functions(elf);
}

/// Checks the functions for which fbt makes probes, under each of their names. illumos's fbt ignores weak names.
fn functions(elf: &Elf<'_>) {
    let mut seen = BTreeSet::new();
    for symbol in elf.all_symbols().filter(|symbol| symbol.kind == elf::STT_FUNC) {
        let Home::Section(home) = symbol.home else { continue };
        let section = &elf.sections[home];
        let Some(code) = section.bytes(symbol.value, symbol.size) else { continue };
        let left_out = elf.os == Os::Illumos && symbol.is_weak();
        if !left_out
            && seen.insert((home, symbol.value, &symbol.name))
            && let Some(entry) = fbt::misplaced(elf.arch, code)
        {
            elf.findings.symbol(&symbol.name, Rule::FbtEntry, &[&Hex(entry)]);
        }
    }
}

/// Reports the first violations in a section.
fn section_of_code(elf: &Elf<'_>, index: usize, section: &Section<'_>, saver: Option<&str>) {
    let mut found = 0;
    let mut saved = None;
    scan(elf, index, section, &mut |offset, breach| {
        if let (Breach::Float { state, .. }, Some(_)) = (&breach, saver) {
            let (count, _) = saved.unwrap_or((0, ""));
            saved = Some((count + 1, *state));
            return;
        }
        found += 1;
        if found > SHOWN {
            return;
        }
        match breach {
            Breach::Float { code, state } => {
                elf.findings.offset(&section.name, offset, Rule::Float, &[&code, &state]);
            }
            Breach::KernelRegister { code, register } => {
                elf.findings.offset(
                    &section.name,
                    offset,
                    Rule::KernelRegister,
                    &[&code, &register],
                );
            }
        }
    });
    if found > SHOWN {
        elf.findings.section(&section.name, Rule::MoreFloat, &[&(found - SHOWN)]);
    }
    if let (Some((count, state)), Some(saver)) = (saved, saver) {
        elf.findings.section(&section.name, Rule::SavedFloat, &[&count, &state, &saver]);
    }
}

/// Decodes the code in a section, and skips the data in it.
fn scan(elf: &Elf<'_>, index: usize, section: &Section<'_>, report: &mut dyn FnMut(u64, Breach)) {
    let scan = match elf.arch {
        Arch::X86_64 => return x86_64::scan(section.data, report),
        Arch::Aarch64 => aarch64::scan,
        Arch::Riscv64 => riscv64::scan,
    };
    let mut marks = elf.code_marks(index);
    marks.push((section.data.len() as u64, false));
    for pair in marks.windows(2) {
        let [(start, code), (end, _)] = *pair else { continue };
        let length = end.saturating_sub(start);
        if let (true, Some(bytes)) = (code, section.bytes(start, length)) {
            scan(bytes, &mut |offset, breach| report(start + offset, breach));
        }
    }
}
