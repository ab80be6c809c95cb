//! Relocations: of the types that `elf_reloc_internal` of `sys/amd64/amd64/elf_machdep.c` knows,
//! applied within their section, to something that is there.

use object::elf;

use super::finding::{Findings, Problem};
use super::image::{Home, Image, Relocation, Section};

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    for section in image.loaded() {
        for (&offset, relocation) in &section.relocations {
            if let Some(problem) = problem(image, section, offset, relocation) {
                findings.offset(&section.name, offset, problem);
            }
        }
    }
}

fn problem(
    image: &Image<'_>,
    section: &Section<'_>,
    offset: u64,
    relocation: &Relocation,
) -> Option<Problem> {
    let Some(symbol) = image.symbols.get(relocation.symbol) else {
        return Some(Problem::RelocationSymbol(relocation.symbol));
    };
    let name = || match symbol.home {
        Home::Section(section) if symbol.name.is_empty() => image.sections[section].name.clone(),
        _ => symbol.name.clone(),
    };
    let kind = || kind_name(relocation.kind);
    let width = match relocation.kind {
        elf::R_X86_64_NONE => return None,
        elf::R_X86_64_64 => 8,
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 | elf::R_X86_64_32S => 4,
        other => {
            let remedy = remedy(other);
            return Some(Problem::RelocationType { kind: kind(), symbol: name(), remedy });
        }
    };
    if offset.checked_add(width).is_none_or(|end| end > section.data.len() as u64) {
        return Some(Problem::RelocationOutside { kind: kind(), symbol: name() });
    }
    if !points_inside(image, symbol.home, symbol.value, relocation) {
        let addend = relocation.addend;
        return Some(Problem::RelocationTarget { kind: kind(), symbol: name(), addend });
    }
    None
}

/// Whether an address is one of the symbol's section, its end included. Displacements in code are
/// counted from the end of the instruction and may carry an index's offset: for them only the width
/// and the symbol itself are checked.
fn points_inside(image: &Image<'_>, home: Home, value: u64, relocation: &Relocation) -> bool {
    let limit = match home {
        Home::Section(section) => image.sections[section].size,
        Home::Undefined | Home::Absolute | Home::Common => u64::MAX,
    };
    if relocation.kind == elf::R_X86_64_64 {
        let address = value.checked_add_signed(relocation.addend);
        return home == Home::Undefined || address.is_some_and(|address| address <= limit);
    }
    value <= limit && i32::try_from(relocation.addend).is_ok()
}

fn remedy(kind: elf::RelocationType) -> &'static str {
    match kind {
        elf::R_X86_64_GOT32
        | elf::R_X86_64_GOTPCREL
        | elf::R_X86_64_GOTPCRELX
        | elf::R_X86_64_REX_GOTPCRELX
        | elf::R_X86_64_GOT64
        | elf::R_X86_64_GOTPCREL64
        | elf::R_X86_64_GOTOFF64
        | elf::R_X86_64_GOTPC32
        | elf::R_X86_64_GOTPC64 => "build with relocation-model=static",
        elf::R_X86_64_32 | elf::R_X86_64_16 | elf::R_X86_64_8 => {
            "kernel addresses do not fit; build with code-model=kernel"
        }
        elf::R_X86_64_TPOFF32
        | elf::R_X86_64_TPOFF64
        | elf::R_X86_64_DTPMOD64
        | elf::R_X86_64_DTPOFF32
        | elf::R_X86_64_DTPOFF64
        | elf::R_X86_64_TLSGD
        | elf::R_X86_64_TLSLD
        | elf::R_X86_64_GOTTPOFF => "kernel modules have no thread-local storage",
        _ => "use the targets of this workspace",
    }
}

pub(crate) fn kind_name(kind: elf::RelocationType) -> String {
    let name = match kind {
        elf::R_X86_64_NONE => "NONE",
        elf::R_X86_64_64 => "64",
        elf::R_X86_64_PC32 => "PC32",
        elf::R_X86_64_GOT32 => "GOT32",
        elf::R_X86_64_PLT32 => "PLT32",
        elf::R_X86_64_COPY => "COPY",
        elf::R_X86_64_GLOB_DAT => "GLOB_DAT",
        elf::R_X86_64_JUMP_SLOT => "JUMP_SLOT",
        elf::R_X86_64_RELATIVE => "RELATIVE",
        elf::R_X86_64_GOTPCREL => "GOTPCREL",
        elf::R_X86_64_32 => "32",
        elf::R_X86_64_32S => "32S",
        elf::R_X86_64_16 => "16",
        elf::R_X86_64_8 => "8",
        elf::R_X86_64_PC64 => "PC64",
        elf::R_X86_64_TLSGD => "TLSGD",
        elf::R_X86_64_TLSLD => "TLSLD",
        elf::R_X86_64_TPOFF32 => "TPOFF32",
        elf::R_X86_64_GOTTPOFF => "GOTTPOFF",
        elf::R_X86_64_GOTPCRELX => "GOTPCRELX",
        elf::R_X86_64_REX_GOTPCRELX => "REX_GOTPCRELX",
        other => return format!("R_X86_64 number {}", other.0),
    };
    format!("R_X86_64_{name}")
}
