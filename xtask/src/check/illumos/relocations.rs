//! Relocations of what is loaded: of types that krtld does right, on fields that are 0. Those of probes are
//! in [`super::probes`].

use object::elf;

use super::Problem;
use super::file::{File, Relocation, Section};
use super::probes::is_probe;
use crate::check::finding::{Findings, Place};

/// No module is so large, and text and data of all lie in the kernel's upper 2 GiB.
const REACH: u64 = 1 << 30;

pub(super) fn check(file: &File<'_>, findings: &mut Findings) {
    for (table, target) in file.relocated() {
        for relocation in table.relocations() {
            if let Some(problem) = problem(file, target, &relocation) {
                let place = Place::Offset(target.name.clone(), relocation.offset);
                findings.illumos(place, problem);
            }
        }
    }
}

fn problem(file: &File<'_>, target: &Section<'_>, relocation: &Relocation) -> Option<Problem> {
    let Some(symbol) = file.symbols.get(relocation.symbol) else {
        return Some(Problem::RelocationSymbol(relocation.symbol));
    };
    if is_probe(symbol) {
        return None;
    }
    let name = || file.shown(symbol);
    let kind = || kind_name(relocation.kind);
    let Some(width) = width(relocation.kind) else {
        let reason = reason(relocation.kind);
        return Some(Problem::RelocationType { kind: kind(), symbol: name(), reason });
    };
    if relocation.offset.checked_add(width).is_none_or(|end| end > target.size) {
        return Some(Problem::RelocationOutside { kind: kind(), symbol: name() });
    }
    let field = target.bytes(relocation.offset, width).unwrap_or_default();
    if field.iter().any(|&byte| byte != 0) {
        return Some(Problem::FieldNotZero { symbol: name(), found: hex(field) });
    }
    let distance = symbol.value.wrapping_add_signed(relocation.addend).cast_signed();
    if width == 4 && distance.unsigned_abs() > REACH {
        return Some(Problem::Wild { kind: kind(), symbol: name(), distance });
    }
    None
}

/// Bytes that a relocation changes; `None` for types that must not be there.
pub(super) fn width(kind: elf::RelocationType) -> Option<u64> {
    match kind {
        elf::R_X86_64_64 => Some(8),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 | elf::R_X86_64_32S => Some(4),
        _ => None,
    }
}

/// What krtld does with a type (`doreloc.c`), and what to do.
fn reason(kind: elf::RelocationType) -> &'static str {
    match kind {
        elf::R_X86_64_GOTPCREL
        | elf::R_X86_64_GOTPCRELX
        | elf::R_X86_64_REX_GOTPCRELX
        | elf::R_X86_64_GOTPC32
        | elf::R_X86_64_GOTOFF64 => {
            "krtld has no global offset table and stores a wrong value without a word; build with \
             relocation-model=static"
        }
        elf::R_X86_64_32 | elf::R_X86_64_16 | elf::R_X86_64_8 => {
            "kernel addresses do not fit, and krtld refuses the module; build with code-model=kernel"
        }
        elf::R_X86_64_DTPMOD64
        | elf::R_X86_64_DTPOFF64
        | elf::R_X86_64_TPOFF64
        | elf::R_X86_64_TLSGD
        | elf::R_X86_64_TLSLD
        | elf::R_X86_64_DTPOFF32
        | elf::R_X86_64_GOTTPOFF
        | elf::R_X86_64_TPOFF32 => "krtld refuses thread-local storage",
        _ => "krtld refuses it or does it wrong; use the targets of this workspace",
    }
}

pub(super) fn kind_name(kind: elf::RelocationType) -> String {
    let known = elf::machine_names(elf::EM_X86_64).r.name(kind);
    known.map_or_else(|| format!("of type {}", kind.0), Into::into)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
