//! Relocations: of the types that `elf_reloc_internal` of the architecture's `elf_machdep.c` knows, applied
//! within their section, to something that is there.

use object::elf;

use crate::arch::Arch;
use crate::check::finding::{Findings, Problem};
use crate::check::image::{Home, Image, Relocation, Section};
use crate::platform::FreeBsd;

pub(crate) fn check(image: &Image<'_>, release: FreeBsd, findings: &mut Findings) {
    for section in image.loaded() {
        for (&offset, relocation) in &section.relocations {
            if let Some(problem) = problem(image, release, section, offset, relocation) {
                findings.offset(&section.name, offset, problem);
            }
        }
    }
}

fn problem(
    image: &Image<'_>,
    release: FreeBsd,
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
    let kind = || kind_name(image.arch, relocation.kind);
    if (image.arch, relocation.kind) == (Arch::X86_64, elf::R_X86_64_PLT32)
        && !release.takes_plt32()
    {
        let remedy = "before 12 it does not know the type; link for that release";
        return Some(Problem::RelocationType { kind: kind(), symbol: name(), remedy });
    }
    let Some(width) = width(image.arch, relocation.kind) else {
        let remedy = remedy(image.arch, relocation.kind);
        return Some(Problem::RelocationType { kind: kind(), symbol: name(), remedy });
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

/// Bytes that a relocation changes; `None` for types that the loader does not take.
fn width(arch: Arch, kind: elf::RelocationType) -> Option<u64> {
    Some(match (arch, kind) {
        (Arch::X86_64, elf::R_X86_64_NONE)
        | (Arch::Aarch64, elf::R_AARCH64_NONE)
        | (Arch::Riscv64, elf::R_RISCV_NONE) => 0,
        (Arch::X86_64, elf::R_X86_64_64)
        | (
            Arch::Aarch64,
            elf::R_AARCH64_ABS64
            | elf::R_AARCH64_GLOB_DAT
            | elf::R_AARCH64_JUMP_SLOT
            | elf::R_AARCH64_RELATIVE
            | elf::R_AARCH64_IRELATIVE,
        )
        | (
            Arch::Riscv64,
            elf::R_RISCV_64
            | elf::R_RISCV_JUMP_SLOT
            | elf::R_RISCV_RELATIVE
            // Of two instructions.
            | elf::R_RISCV_CALL,
        ) => 8,
        (Arch::X86_64, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 | elf::R_X86_64_32S)
        | (
            Arch::Aarch64,
            elf::R_AARCH64_TSTBR14
            | elf::R_AARCH64_CONDBR19
            | elf::R_AARCH64_JUMP26
            | elf::R_AARCH64_CALL26,
        )
        | (
            Arch::Riscv64,
            elf::R_RISCV_JAL
            | elf::R_RISCV_PCREL_HI20
            | elf::R_RISCV_PCREL_LO12_I
            | elf::R_RISCV_PCREL_LO12_S
            | elf::R_RISCV_HI20
            | elf::R_RISCV_LO12_I
            | elf::R_RISCV_LO12_S,
        ) => 4,
        _ => return None,
    })
}

/// Whether an address is one of the symbol's section, its end included. Displacements in code are
/// counted from the end of the instruction and may carry an index's offset: for them only the width
/// and the symbol itself are checked.
fn points_inside(image: &Image<'_>, home: Home, value: u64, relocation: &Relocation) -> bool {
    let resolver = (image.arch, relocation.kind) == (Arch::Aarch64, elf::R_AARCH64_IRELATIVE);
    if resolver || image.is_relative(relocation) {
        let address = relocation.addend.cast_unsigned();
        return image.loaded().any(|section| {
            let offset = address.checked_sub(section.address);
            offset.is_some_and(|offset| offset <= section.size)
        });
    }
    let limit = match home {
        Home::Section(section) => image.sections[section].size,
        Home::Undefined | Home::Absolute | Home::Common => u64::MAX,
    };
    if width(image.arch, relocation.kind) == Some(8) {
        let address = value.checked_add_signed(relocation.addend);
        return home == Home::Undefined || address.is_some_and(|address| address <= limit);
    }
    value <= limit && i32::try_from(relocation.addend).is_ok()
}

fn remedy(arch: Arch, kind: elf::RelocationType) -> &'static str {
    let name = kind_name(arch, kind);
    if name.contains("TLS") || name.contains("TPOFF") || name.contains("DTPMOD") {
        return "kernel modules have no thread-local storage";
    }
    match (arch, kind) {
        (Arch::X86_64, elf::R_X86_64_32 | elf::R_X86_64_16 | elf::R_X86_64_8) => {
            "kernel addresses do not fit; build with code-model=kernel"
        }
        (Arch::X86_64, _) if name.contains("GOT") => "build with relocation-model=static",
        _ => "use the targets of this workspace",
    }
}

fn kind_name(arch: Arch, kind: elf::RelocationType) -> String {
    let known = elf::machine_names(arch.machine()).r.name(kind);
    known.map_or_else(|| format!("of type {}", kind.0), Into::into)
}
