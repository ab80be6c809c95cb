//! Checks relocations. The loader must support their types (`elf_reloc_internal` of FreeBSD's `elf_machdep.c`, krtld's
//! `doreloc.c`), each must be inside its section, and its target must exist. Addresses in data and operands of code must point to
//! the start of a function, or to data.

use std::collections::BTreeMap;
use std::fmt::Display;

use object::elf;

use super::elf::{Elf, Home, Relocation, Section, Symbol, Target};
use super::finding::{Signed, hex};
use super::functions::Functions;
use super::illumos::is_probe;
use super::names::{ENABLED, SITES, TRACEPOINTS};
use super::operand::{self, Base, OBJECT, Operand, Stray};
use super::rules::Rule;
use crate::arch::{Arch, ModuleKind};
use crate::platform::{FreeBsd, Os};

/// Sets of places in code that are no functions. They have rules of their own.
const PLACES: [&str; 3] = [SITES, TRACEPOINTS, ENABLED];

/// Checks all relocations of loaded sections. `release` is FreeBSD's for which the module is.
pub(super) fn check(elf: &Elf<'_>, release: FreeBsd, functions: &Functions<'_>) {
    for (index, section) in elf.sections.iter().enumerate().filter(|(_, of)| of.is_loaded()) {
        let mut end = 0;
        for relocation in &section.relocations {
            let place = PlacedRelocation { elf, release, functions, index, section, relocation };
            if place.is_sound() && relocation.offset < end {
                place.overlaps();
            }
            end = relocation.offset.saturating_add(width(elf, relocation.kind).unwrap_or(0));
        }
        if !section.is_code() && !PLACES.contains(&&*section.name) {
            pointers(elf, section, functions);
        }
    }
}

/// Finds pointers in data to the middle of a function. The kernel would crash if code called them.
fn pointers(elf: &Elf<'_>, section: &Section<'_>, functions: &Functions<'_>) {
    let to_code = |relocation: &Relocation| {
        let target = elf.target(relocation)?;
        elf.section_of(target).is_code().then_some((relocation.offset, target))
    };
    let pointers: BTreeMap<u64, Target> = section.relocations.iter().filter_map(to_code).collect();
    for (at, place) in functions.astray(&pointers) {
        let (function, offset) = functions.describe(place);
        let offset = format_args!("{offset:#x}");
        elf.findings.offset(&section.name, at, Rule::MiddleOfFunction, &[&offset, &function]);
    }
}

/// A relocation in its place.
struct PlacedRelocation<'a, 'data> {
    elf: &'a Elf<'data>,
    release: FreeBsd,
    functions: &'a Functions<'a>,
    /// Number of the section.
    index: usize,
    section: &'a Section<'data>,
    relocation: &'a Relocation,
}

impl PlacedRelocation<'_, '_> {
    /// Returns whether the relocation follows the rules; reports each violation.
    fn is_sound(&self) -> bool {
        let (elf, section) = (self.elf, self.section);
        let Relocation { offset, kind, symbol: number, addend } = *self.relocation;
        let krtld = elf.os == Os::Illumos;
        let wrong = |rule, details: &[&dyn Display]| {
            elf.findings.offset(&section.name, offset, rule, details);
            false
        };
        let Some(symbol) = elf.symbols.get(number) else {
            return wrong(Rule::RelocationSymbol, &[&number]);
        };
        let (shown, name) = (kind_name(elf.arch, kind), elf.shown(symbol));
        if krtld && number == 0 {
            return wrong(Rule::NullSymbol, &[&shown]);
        }
        if krtld && is_probe(symbol) {
            return true;
        }
        let Some(width) = width(elf, kind).filter(|_| self.is_known_to_release()) else {
            return wrong(Rule::RelocationType, &[&shown, &name, &self.remedy()]);
        };
        if offset.checked_add(width).is_none_or(|end| end > section.data.len() as u64) {
            return wrong(Rule::RelocationOutside, &[&shown, &name]);
        }
        if width == 0 {
            return true;
        }
        let field = section.bytes(offset, width).unwrap_or_default();
        if krtld && field.iter().any(|&byte| byte != 0) {
            return wrong(Rule::FieldNotZero, &[&name, &hex(field)]);
        }
        if let Home::Section(home) = symbol.home
            && !elf.sections[home].is_loaded()
        {
            let home = &elf.sections[home].name;
            return wrong(Rule::RelocationUnloaded, &[&shown, &name, home]);
        }
        if !krtld && section.is_code() && !self.fits_code(width) {
            return wrong(Rule::RelocationOfText, &[&shown, &name]);
        }
        let stray = match width {
            8 => (!self.address_is_inside(symbol)).then_some(Stray::Outside),
            _ => self.displacement(symbol),
        };
        match stray {
            None => true,
            Some(Stray::Outside) => {
                wrong(Rule::RelocationTarget, &[&shown, &name, &Signed(addend)])
            }
            Some(Stray::Call { distance, reason }) => {
                wrong(Rule::Call, &[&name, &Signed(distance), &reason])
            }
            Some(Stray::Middle { function, offset }) => {
                wrong(Rule::MiddleOfFunction, &[&format_args!("{offset:#x}"), &function])
            }
        }
    }

    fn overlaps(&self) {
        // Another rule covers two relocations at the site of a probe.
        let symbol = self.elf.symbols.get(self.relocation.symbol);
        if let Some(symbol) = symbol.filter(|of| self.elf.os == Os::FreeBsd || !is_probe(of)) {
            let kind = kind_name(self.elf.arch, self.relocation.kind);
            let details: [&dyn Display; 2] = [&kind, &self.elf.shown(symbol)];
            let offset = self.relocation.offset;
            self.elf.findings.offset(&self.section.name, offset, Rule::RelocationTwice, &details);
        }
    }

    /// Returns whether FreeBSD of this release supports the relocation type: amd64's `R_X86_64_PLT32` exists since FreeBSD 12.
    fn is_known_to_release(&self) -> bool {
        let plt32 = (self.elf.arch, self.relocation.kind) == (Arch::X86_64, elf::R_X86_64_PLT32);
        !plt32 || self.elf.os == Os::Illumos || self.release.takes_plt32()
    }

    /// Returns the behaviour of the loader with a relocation of another type, and the remedy.
    fn remedy(&self) -> String {
        let (arch, kind) = (self.elf.arch, self.relocation.kind);
        let name = kind_name(arch, kind);
        let thread_local = ["TLS", "TPOFF", "DTPMOD", "DTPOFF"].iter().any(|of| name.contains(of));
        let got = arch == Arch::X86_64 && name.contains("GOT");
        let short = matches!(kind, elf::R_X86_64_32 | elf::R_X86_64_16 | elf::R_X86_64_8);
        let remedy = match self.elf.os {
            _ if thread_local => "kernel modules cannot have thread-local storage",
            _ if !self.is_known_to_release() => {
                "releases before 12 do not support this type; link for that release"
            }
            Os::Illumos if got => {
                "krtld supports no global offset table and silently stores a wrong value; build \
                 with relocation-model=static"
            }
            Os::FreeBsd if got => "build with relocation-model=static",
            _ if arch == Arch::X86_64 && short => {
                "addresses of the kernel do not fit; build with code-model=kernel"
            }
            _ => "use the target files of cargo-sdt",
        };
        match self.elf.os {
            Os::FreeBsd => format!("FreeBSD's loader refuses it; {remedy}"),
            Os::Illumos if got => remedy.to_owned(),
            Os::Illumos => format!("krtld refuses it or applies it incorrectly; {remedy}"),
        }
    }

    /// Returns whether an instruction can have a field of this width there. Code of a shared object has none: its
    /// addresses are between the instructions.
    fn fits_code(&self, width: u64) -> bool {
        let offset = self.relocation.offset;
        match (self.elf.arch.module_kind(), width) {
            (ModuleKind::Relocatable, 8) => {
                let before = offset.checked_sub(2).and_then(|at| self.section.bytes(at, 2));
                // The opcode of `movabs`.
                matches!(before, Some([0x48 | 0x49, 0xb8..=0xbf]))
            }
            (ModuleKind::Relocatable, _) => true,
            (ModuleKind::Shared, 8) => {
                let marks = self.elf.code_marks(self.index);
                marks.iter().rfind(|(at, _)| *at <= offset).is_some_and(|&(_, code)| !code)
            }
            // A branch, which the linker could not resolve.
            (ModuleKind::Shared, _) => false,
        }
    }

    /// Returns whether an address of 8 bytes is in the symbol's section, its end included.
    fn address_is_inside(&self, symbol: &Symbol) -> bool {
        let (elf, relocation) = (self.elf, self.relocation);
        let address = relocation.addend.cast_unsigned();
        if (elf.arch, relocation.kind) == (Arch::Aarch64, elf::R_AARCH64_IRELATIVE) {
            // The address is a resolver, which the kernel calls to get the final address.
            return elf.all_symbols().any(|of| match of.home {
                Home::Section(section) if of.kind == elf::STT_GNU_IFUNC => {
                    elf.sections[section].address.wrapping_add(of.value) == address
                }
                _ => false,
            });
        }
        if elf.is_relative(relocation) {
            return elf.loaded().any(|section| {
                let offset = address.checked_sub(section.address);
                offset.is_some_and(|offset| offset <= section.size)
            });
        }
        match symbol.home {
            Home::Section(section) => {
                let address = symbol.value.checked_add_signed(relocation.addend);
                address.is_some_and(|address| address <= elf.sections[section].size)
            }
            Home::Undefined => relocation.addend.unsigned_abs() <= OBJECT,
            Home::Absolute | Home::Common => true,
        }
    }

    /// Returns the fault of a displacement or an address of 4 bytes.
    fn displacement(&self, symbol: &Symbol) -> Option<Stray> {
        let Relocation { offset, kind, addend, .. } = *self.relocation;
        let relative = kind != elf::R_X86_64_32S;
        // An absolute symbol is a number, so no distance to it exists. krtld defines missing bounds of sets as 0, which is in
        // reach.
        if symbol.home == Home::Absolute && relative && self.elf.os == Os::FreeBsd {
            return Some(Stray::Outside);
        }
        let base = match symbol.home {
            Home::Section(section) => {
                let of = &self.elf.sections[section];
                let at = Target { section, offset: symbol.value };
                Some(Base { at, size: of.size, is_code: of.is_code() })
            }
            Home::Undefined | Home::Absolute | Home::Common => None,
        };
        let code = self.section.is_code().then_some(self.section.data);
        let operand = Operand { section: self.index, code, offset, addend, relative };
        operand.judge(base, self.functions)
    }
}

/// Returns whether FreeBSD's loader looks for a relocation's symbol.
pub(super) fn has_symbol(elf: &Elf<'_>, relocation: &Relocation) -> bool {
    let resolver = (elf.arch, relocation.kind) == (Arch::Aarch64, elf::R_AARCH64_IRELATIVE);
    let has_width = width(elf, relocation.kind).is_some_and(|width| width > 0);
    has_width && !elf.is_relative(relocation) && !resolver
}

/// Returns whether a relocation makes code call its symbol, or jump there: a stub of the procedure linkage table, a branch.
pub(super) fn calls(elf: &Elf<'_>, section: &Section<'_>, relocation: &Relocation) -> bool {
    match (elf.arch, relocation.kind) {
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
            section.is_code() && operand::is_branch(section.data, relocation.offset)
        }
        _ => false,
    }
}

/// Returns the bytes that a relocation changes; `None` for types that the loader refuses. RISC-V's
/// loader also accepts some types of instructions, but applies none of them correctly (`sys/riscv/riscv/elf_machdep.c`).
pub(super) fn width(elf: &Elf<'_>, kind: elf::RelocationType) -> Option<u64> {
    Some(match (elf.arch, kind) {
        (Arch::X86_64, elf::R_X86_64_NONE) if elf.os == Os::FreeBsd => 0,
        (Arch::Aarch64, elf::R_AARCH64_NONE) | (Arch::Riscv64, elf::R_RISCV_NONE) => 0,
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

/// Returns the name of a relocation's type.
pub(super) fn kind_name(arch: Arch, kind: elf::RelocationType) -> String {
    let known = elf::machine_names(arch.machine()).r.name(kind);
    known.map_or_else(|| format!("of type {}", kind.0), Into::into)
}
