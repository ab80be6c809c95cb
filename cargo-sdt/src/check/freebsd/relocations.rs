//! Relocations: of the types that `elf_reloc_internal` of the architecture's `elf_machdep.c` knows, applied
//! within their section, to something that is there.

use std::collections::BTreeSet;

use object::elf;

use crate::arch::{Arch, ModuleKind};
use crate::check::fields;
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::functions::Functions;
use crate::check::image::{Home, Image, Relocation, Section, Symbol};
use crate::check::operand::{self, OBJECT, Operand, Stray, Target, behind};
use crate::platform::FreeBsd;

pub(crate) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    functions: &Functions<'_>,
    findings: &mut Findings,
) {
    let called: BTreeSet<_> = called(image).collect();
    for (index, section) in image.sections.iter().enumerate().filter(|(_, of)| of.is_loaded()) {
        let mut end = 0;
        for (&offset, relocation) in &section.relocations {
            let place = Place { image, functions, index, section, offset, relocation };
            let twice = offset < end || section.twice.contains(&offset);
            let problem = place.problem(release).or_else(|| twice.then(|| place.twice()));
            if let Some(problem) = problem {
                findings.offset(&section.name, offset, problem);
            } else if let Some(inside) = place.inside_function(&called) {
                findings.offset(&section.name, offset, inside);
            }
            end = offset.saturating_add(width(image.arch, relocation.kind).unwrap_or(0));
        }
    }
}

/// The undefined symbols that the module calls: functions of the kernel.
fn called<'a>(image: &'a Image<'_>) -> impl Iterator<Item = usize> + use<'a> {
    let all = image.loaded().flat_map(|section| section.relocations.values());
    let calls = all.filter(|of| (image.arch, of.kind) == (Arch::X86_64, elf::R_X86_64_PLT32));
    calls.map(|of| of.symbol)
}

/// Checks the code around relocations, of a module in which no error was found.
pub(crate) fn fields(image: &Image<'_>, functions: &Functions<'_>, findings: &mut Findings) {
    let code = image.sections.iter().enumerate().filter(|(_, of)| of.is_loaded() && of.is_code());
    for (index, section) in code.filter(|_| image.arch == Arch::X86_64) {
        let width = |of: &Relocation| width(image.arch, of.kind).filter(|&width| width > 0);
        let relocated = section.relocations.iter();
        let relocated = relocated.filter_map(|(&at, of)| Some((at, width(of)?))).collect();
        fields::check((index, &section.name, section.data), &relocated, functions, findings);
    }
}

/// A relocation in its place.
struct Place<'a, 'data> {
    image: &'a Image<'data>,
    functions: &'a Functions<'a>,
    /// Number of the section.
    index: usize,
    section: &'a Section<'data>,
    offset: u64,
    relocation: &'a Relocation,
}

impl Place<'_, '_> {
    fn kind(&self) -> String {
        kind_name(self.image.arch, self.relocation.kind)
    }

    fn name(&self) -> String {
        let Some(symbol) = self.image.symbols.get(self.relocation.symbol) else {
            return String::new();
        };
        match symbol.home {
            Home::Section(section) if symbol.name.is_empty() => {
                self.image.sections[section].name.clone()
            }
            _ => symbol.name.clone(),
        }
    }

    /// The address inside one of the functions that the module calls, if the relocation makes one.
    fn inside_function(&self, called: &BTreeSet<usize>) -> Option<finding::Problem> {
        let Relocation { kind, symbol: number, addend } = *self.relocation;
        let symbol = self.image.symbols.get(number)?;
        let function = symbol.home == Home::Undefined && called.contains(&number);
        let relative = matches!(kind, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32);
        let inside = function.then(|| behind(&symbol.name, relative, addend))?;
        inside.map(finding::Problem::InsideKernelFunction)
    }

    fn twice(&self) -> finding::Problem {
        finding::Problem::RelocationTwice { kind: self.kind(), symbol: self.name() }
    }

    fn outside(&self) -> finding::Problem {
        let addend = self.relocation.addend;
        finding::Problem::RelocationTarget { kind: self.kind(), symbol: self.name(), addend }
    }

    fn problem(&self, release: FreeBsd) -> Option<finding::Problem> {
        let (arch, kind) = (self.image.arch, self.relocation.kind);
        let Some(symbol) = self.image.symbols.get(self.relocation.symbol) else {
            return Some(finding::Problem::RelocationSymbol(self.relocation.symbol));
        };
        if (arch, kind) == (Arch::X86_64, elf::R_X86_64_PLT32) && !release.takes_plt32() {
            let remedy = "before 12 it does not know the type; link for that release";
            let (kind, symbol) = (self.kind(), self.name());
            return Some(finding::Problem::RelocationType { kind, symbol, remedy });
        }
        let Some(width) = width(arch, kind) else {
            let (remedy, kind, symbol) = (remedy(arch, kind), self.kind(), self.name());
            return Some(finding::Problem::RelocationType { kind, symbol, remedy });
        };
        if self.offset.checked_add(width).is_none_or(|end| end > self.section.data.len() as u64) {
            return Some(finding::Problem::RelocationOutside {
                kind: self.kind(),
                symbol: self.name(),
            });
        }
        if width == 0 {
            return None;
        }
        if let Home::Section(section) = symbol.home
            && !self.image.sections[section].is_loaded()
        {
            let section = self.image.sections[section].name.clone();
            let (kind, symbol) = (self.kind(), self.name());
            return Some(finding::Problem::RelocationUnloaded { kind, symbol, section });
        }
        if self.section.is_code() && !self.fits_code(width) {
            return Some(
                Problem::RelocationOfText { kind: self.kind(), symbol: self.name() }.into(),
            );
        }
        match width {
            8 => (!self.address_is_inside(symbol)).then(|| self.outside()),
            _ => self.displacement(symbol),
        }
    }

    /// Whether an instruction takes a field of this width there. Code of a shared object takes none: what there is of
    /// addresses in it is between the instructions.
    fn fits_code(&self, width: u64) -> bool {
        match (self.image.arch.module_kind(), width) {
            (ModuleKind::Relocatable, 8) => {
                let before = self.offset.checked_sub(2).and_then(|at| self.section.bytes(at, 2));
                // movabs
                matches!(before, Some([0x48 | 0x49, 0xb8..=0xbf]))
            }
            (ModuleKind::Relocatable, _) => true,
            (ModuleKind::Shared, 8) => self.image.is_data_in_code(self.index, self.offset),
            // A branch, which the linker could not resolve.
            (ModuleKind::Shared, _) => false,
        }
    }

    /// Whether an address of 8 bytes is one of the symbol's section, its end included.
    fn address_is_inside(&self, symbol: &Symbol) -> bool {
        let relocation = self.relocation;
        let address = relocation.addend.cast_unsigned();
        let is_resolver =
            (self.image.arch, relocation.kind) == (Arch::Aarch64, elf::R_AARCH64_IRELATIVE);
        if is_resolver {
            // The kernel calls it to learn the address.
            return self.image.all_symbols().any(|of| match of.home {
                Home::Section(section) if of.kind == elf::STT_GNU_IFUNC => {
                    self.image.sections[section].address.wrapping_add(of.value) == address
                }
                _ => false,
            });
        }
        if self.image.is_relative(relocation) {
            return self.image.loaded().any(|section| {
                let offset = address.checked_sub(section.address);
                offset.is_some_and(|offset| offset <= section.size)
            });
        }
        match symbol.home {
            Home::Section(section) => {
                let address = symbol.value.checked_add_signed(relocation.addend);
                address.is_some_and(|address| address <= self.image.sections[section].size)
            }
            Home::Undefined => relocation.addend.unsigned_abs() <= OBJECT,
            Home::Absolute | Home::Common => true,
        }
    }

    /// What is wrong with a displacement or an address of 4 bytes.
    fn displacement(&self, symbol: &Symbol) -> Option<finding::Problem> {
        if symbol.home == Home::Absolute && self.relocation.kind != elf::R_X86_64_32S {
            let (kind, symbol) = (self.kind(), self.name());
            return Some(finding::Problem::RelocationAbsolute { kind, symbol });
        }
        let target = match symbol.home {
            Home::Section(section) => {
                let of = &self.image.sections[section];
                Some(Target { section, value: symbol.value, size: of.size, is_code: of.is_code() })
            }
            Home::Undefined | Home::Absolute | Home::Common => None,
        };
        let operand = Operand {
            section: self.index,
            code: self.section.is_code().then_some(self.section.data),
            offset: self.offset,
            addend: self.relocation.addend,
            relative: self.relocation.kind != elf::R_X86_64_32S,
        };
        match operand.judge(target, self.functions)? {
            Stray::Outside => Some(self.outside()),
            Stray::Call { distance, reason } => {
                Some(finding::Problem::Call { symbol: self.name(), distance, reason })
            }
            Stray::Middle { function, offset } => {
                Some(finding::Problem::MiddleOfFunction { function, offset })
            }
        }
    }
}

/// Whether the loader looks for a relocation's symbol.
pub(super) fn has_symbol(image: &Image<'_>, relocation: &Relocation) -> bool {
    let resolver = (image.arch, relocation.kind) == (Arch::Aarch64, elf::R_AARCH64_IRELATIVE);
    width(image.arch, relocation.kind).is_some_and(|width| width > 0)
        && !image.is_relative(relocation)
        && !resolver
}

/// Whether a relocation makes code call its symbol, or jump there: a stub of the procedure linkage table, a branch.
pub(super) fn calls(
    image: &Image<'_>,
    section: &Section<'_>,
    at: u64,
    kind: elf::RelocationType,
) -> bool {
    match (image.arch, kind) {
        (Arch::X86_64, elf::R_X86_64_PLT32)
        | (
            Arch::Aarch64,
            elf::R_AARCH64_JUMP_SLOT
            | elf::R_AARCH64_TSTBR14
            | elf::R_AARCH64_CONDBR19
            | elf::R_AARCH64_JUMP26
            | elf::R_AARCH64_CALL26,
        )
        | (Arch::Riscv64, elf::R_RISCV_JUMP_SLOT) => true,
        (Arch::X86_64, elf::R_X86_64_PC32) => {
            section.is_code() && operand::is_branch(section.data, at)
        }
        _ => false,
    }
}

/// Bytes that a relocation changes; `None` for types that the loader does not take. RISC-V's knows some of
/// instructions as well, none of which it does right (`sys/riscv/riscv/elf_machdep.c`).
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
        | (Arch::Riscv64, elf::R_RISCV_64 | elf::R_RISCV_JUMP_SLOT | elf::R_RISCV_RELATIVE) => 8,
        (Arch::X86_64, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 | elf::R_X86_64_32S)
        | (
            Arch::Aarch64,
            elf::R_AARCH64_TSTBR14
            | elf::R_AARCH64_CONDBR19
            | elf::R_AARCH64_JUMP26
            | elf::R_AARCH64_CALL26,
        ) => 4,
        _ => return None,
    })
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
