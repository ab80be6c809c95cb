//! Relocations of what is loaded: of types that krtld does right, on fields that are 0. Those of probes are
//! in [`super::probes`].

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use super::Problem;
use super::file::{File, Relocation, Section};
use super::probes::is_probe;
use crate::check::fields;
use crate::check::finding::{self, Finding, Findings, Place};
use crate::check::functions::Functions;
use crate::check::operand::{OBJECT, Operand, Stray, Target, behind};

/// Sets whose elements are places in functions: of the one [`super::enabled`] knows, of the other the module itself.
pub(super) const ENABLED: &str = "sdt_is_enabled";
pub(super) const SITES: &str = "sdt_sites";

pub(super) fn check(file: &File<'_>, functions: &Functions<'_>, findings: &mut Findings) {
    let places = [ENABLED, SITES];
    let all = file.relocated().flat_map(|(table, _)| table.relocations());
    let calls = all.filter(|of| of.kind == elf::R_X86_64_PLT32);
    let called: BTreeSet<_> = calls.map(|of| of.symbol).collect();
    for (table, target) in file.relocated() {
        let mut fields = BTreeMap::new();
        let mut to_code = BTreeMap::new();
        for relocation in table.relocations() {
            let place = Place::Offset(target.name.clone(), relocation.offset);
            let of = Of { file, functions, index: table.info, target, relocation: &relocation };
            match of.problem() {
                Some(Wrong::Common(problem)) => findings.0.push(Finding { place, problem }),
                Some(Wrong::Own(problem)) => findings.illumos(place, problem),
                None => {
                    let inside = of.inside_function(&called);
                    findings.0.extend(inside.map(|problem| Finding { place, problem }));
                }
            }
            let width = width(relocation.kind).unwrap_or(0);
            if fields.insert(relocation.offset, (width, relocation.symbol)).is_some() {
                twice(file, target, &relocation, findings);
            }
            let pointer = file.target(&relocation).filter(|_| !places.contains(&&*target.name));
            if let Some(place) = pointer.filter(|&(section, _)| file.sections[section].is_code()) {
                to_code.insert(relocation.offset, place);
            }
        }
        if target.is_code() {
            continue;
        }
        let mut end = 0;
        for (&offset, &(width, _)) in &fields {
            if offset < end {
                let overlaps = table.relocations().find(|of| of.offset == offset);
                overlaps.iter().for_each(|of| twice(file, target, of, findings));
            }
            end = offset.saturating_add(width);
        }
        for (at, place) in functions.astray(&to_code) {
            let (function, offset) = functions.describe(place);
            let problem = finding::Problem::MiddleOfFunction { function, offset };
            findings.offset(&target.name, at, problem);
        }
    }
}

/// Checks the code around relocations, of a module in which no error was found.
pub(super) fn fields(file: &File<'_>, functions: &Functions<'_>, findings: &mut Findings) {
    for (table, target) in file.relocated().filter(|(_, target)| target.is_code()) {
        let relocated =
            table.relocations().map(|of| (of.offset, width(of.kind).unwrap_or(0))).collect();
        fields::check((table.info, &target.name, target.data), &relocated, functions, findings);
    }
}

fn twice(file: &File<'_>, target: &Section<'_>, relocation: &Relocation, findings: &mut Findings) {
    // Sites have a rule of their own.
    if let Some(symbol) = file.symbols.get(relocation.symbol).filter(|of| !is_probe(of)) {
        let (kind, symbol) = (kind_name(relocation.kind), file.shown(symbol));
        let problem = finding::Problem::RelocationTwice { kind, symbol };
        findings.offset(&target.name, relocation.offset, problem);
    }
}

/// A rule of krtld's, or of all loaders'.
enum Wrong {
    Own(Problem),
    Common(finding::Problem),
}

/// A relocation and what it is of.
struct Of<'a, 'data> {
    file: &'a File<'data>,
    functions: &'a Functions<'a>,
    /// Number of the section.
    index: usize,
    target: &'a Section<'data>,
    relocation: &'a Relocation,
}

impl Of<'_, '_> {
    /// The address inside one of the functions that the module calls, if the relocation makes one.
    fn inside_function(&self, called: &BTreeSet<usize>) -> Option<finding::Problem> {
        let Relocation { kind, symbol: number, addend, .. } = *self.relocation;
        let symbol = self.file.symbols.get(number)?;
        let function = symbol.is_undefined() && !is_probe(symbol) && called.contains(&number);
        let relative = matches!(kind, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32);
        let inside = function.then(|| behind(&symbol.name, relative, addend))?;
        inside.map(finding::Problem::InsideKernelFunction)
    }

    fn problem(&self) -> Option<Wrong> {
        let Self { file, target, relocation, .. } = *self;
        let own = |problem| Some(Wrong::Own(problem));
        let Some(symbol) = file.symbols.get(relocation.symbol) else {
            return own(Problem::RelocationSymbol(relocation.symbol));
        };
        if relocation.symbol == 0 {
            return own(Problem::NoSymbol(kind_name(relocation.kind)));
        }
        if is_probe(symbol) {
            return None;
        }
        let name = || file.shown(symbol);
        let kind = || kind_name(relocation.kind);
        let Some(width) = width(relocation.kind) else {
            let reason = reason(relocation.kind);
            return own(Problem::RelocationType { kind: kind(), symbol: name(), reason });
        };
        if relocation.offset.checked_add(width).is_none_or(|end| end > target.size) {
            return own(Problem::RelocationOutside { kind: kind(), symbol: name() });
        }
        let field = target.bytes(relocation.offset, width).unwrap_or_default();
        if field.iter().any(|&byte| byte != 0) {
            return own(Problem::FieldNotZero { symbol: name(), found: hex(field) });
        }
        let common = |problem| Some(Wrong::Common(problem));
        let addend = relocation.addend;
        let outside =
            || finding::Problem::RelocationTarget { kind: kind(), symbol: name(), addend };
        let section = file.section_of(symbol);
        if let Some(section) = section.map(|section| &file.sections[section])
            && !section.is_loaded()
        {
            let (kind, symbol, section) = (kind(), name(), section.name.clone());
            return common(finding::Problem::RelocationUnloaded { kind, symbol, section });
        }
        if width == 8 {
            let inside = match section {
                Some(section) => symbol
                    .value
                    .checked_add_signed(addend)
                    .is_some_and(|place| place <= file.sections[section].size),
                None => addend.unsigned_abs() <= OBJECT,
            };
            return if inside { None } else { common(outside()) };
        }
        let of = section.map(|section| {
            let of = &file.sections[section];
            Target { section, value: symbol.value, size: of.size, is_code: of.is_code() }
        });
        let operand = Operand {
            section: self.index,
            code: target.is_code().then_some(target.data),
            offset: relocation.offset,
            addend,
            relative: relocation.kind != elf::R_X86_64_32S,
        };
        match operand.judge(of, self.functions)? {
            Stray::Outside => common(outside()),
            Stray::Call { distance, reason } => {
                common(finding::Problem::Call { symbol: name(), distance, reason })
            }
            Stray::Middle { function, offset } => {
                common(finding::Problem::MiddleOfFunction { function, offset })
            }
        }
    }
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
