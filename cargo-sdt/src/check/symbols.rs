//! Symbols: each defined symbol has a correct address and size, because fbt relies on them; each undefined symbol is
//! exported by the kernel or by a dependency of the module.

use std::fmt::Display;

use object::elf;

use super::elf::{Elf, Home, Symbol, loader};
use super::finding::{Hex, Signed};
use super::functions::Functions;
use super::kernel::{Kernel, Kind, Known};
use super::rules::Rule;
use crate::platform::Os;

/// Checks the places of symbols. fbt reads the code of all functions, even undefined ones, at the addresses in their
/// symbols (`link_elf_each_function_nameval` of both of FreeBSD's loaders, `fbt_provide_module` of illumos).
pub(super) fn check(elf: &Elf<'_>, functions: &Functions<'_>) {
    for symbol in elf.all_symbols() {
        place(elf, symbol, &|rule, details| elf.findings.symbol(&symbol.name, rule, details));
        if let Some(reason) = unresolvable(elf, symbol, functions) {
            elf.findings.symbol(&symbol.name, Rule::Resolver, &[&reason]);
        }
    }
}

/// Returns why the loader cannot resolve an indirect function. FreeBSD's loader calls it during relocation, and uses
/// the result as the address (`elf_obj_lookup` of `sys/kern/link_elf_obj.c`); the resolver is a function with a
/// separate name (`DEFINE_IFUNC` of `sys/*/include/ifunc.h`).
fn unresolvable(elf: &Elf<'_>, symbol: &Symbol, functions: &Functions<'_>) -> Option<&'static str> {
    let Home::Section(section) = symbol.home else { return None };
    if symbol.kind != elf::STT_GNU_IFUNC {
        return None;
    }
    if elf.os == Os::Illumos {
        return Some("for krtld, which supports none");
    }
    let is_resolver = |of: &Symbol| {
        of.kind == elf::STT_FUNC && (of.home, of.value) == (symbol.home, symbol.value)
    };
    let missing = functions.are_known_in(section) && !elf.all_symbols().any(is_resolver);
    missing.then_some("without a resolver; the loader would call the function to get its address")
}

fn place(elf: &Elf<'_>, symbol: &Symbol, wrong: &dyn Fn(Rule, &[&dyn Display])) {
    if symbol.kind == elf::STT_SECTION && symbol.value != 0 {
        return wrong(Rule::SectionSymbol, &[&Hex(symbol.value)]);
    }
    if symbol.kind == elf::STT_TLS {
        return wrong(Rule::ThreadLocal, &[]);
    }
    let function = symbol.is_function();
    let stray = function && symbol.value != 0;
    let section = match symbol.home {
        Home::Common => return wrong(Rule::Common, &[]),
        Home::Undefined | Home::Absolute if stray => {
            return wrong(Rule::StrayFunction, &[&"with an address but without a section"]);
        }
        Home::Undefined | Home::Absolute => return,
        Home::Section(section) => &elf.sections[section],
    };
    let name = &section.name;
    if !section.is_loaded() {
        if stray {
            wrong(Rule::StrayFunction, &[&format_args!("in {name}, which is not loaded")]);
        } else if symbol.binding != elf::STB_LOCAL && elf.os == Os::FreeBsd {
            wrong(Rule::SymbolUnloaded, &[name]);
        }
        return;
    }
    let (value, size) = (symbol.value, symbol.size);
    if value > section.size {
        let what = format!("{} is outside of", Signed(value.cast_signed()));
        wrong(Rule::SymbolOutside, &[&what, name, &section.size]);
    } else if value.checked_add(size).is_none_or(|end| end > section.size) {
        let what = format!("{size:#x} bytes from +{value:#x} on are not all in");
        wrong(Rule::SymbolOutside, &[&what, name, &section.size]);
    } else if function && !section.is_code() {
        wrong(Rule::StrayFunction, &[&format_args!("in {name}, which is not executable")]);
    }
}

/// Returns the set for a symbol that is the bound of a set.
pub(super) fn bound(symbol: &str) -> Option<&str> {
    symbol.strip_prefix("__start_").or_else(|| symbol.strip_prefix("__stop_"))
}

/// The use of an undefined symbol by a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Code calls it.
    pub(super) called: bool,
    /// The loader makes it 0 if nothing defines it.
    pub(super) weak: bool,
}

/// The answer of the lists of symbols, if no file of the kernel was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// The kernel or a dependency exports the symbol.
    Fine,
    /// The symbol is a variable, and code calls it.
    Variable,
    /// The release does not export the symbol.
    NotInRelease,
    /// A module that is not a dependency exports the symbol.
    NoDependency(&'static str),
    /// The lists do not contain the symbol.
    Unknown,
}

/// Looks up the symbols that a module does not define.
pub(super) struct Imports<'a> {
    elf: &'a Elf<'a>,
    kernel: &'a Kernel,
    depends: &'a [String],
    /// Whether the loader also finds local symbols of other files.
    leaky: bool,
    /// The release, for messages.
    release: String,
    unasked: Vec<String>,
}

impl<'a> Imports<'a> {
    pub(super) fn new(
        elf: &'a Elf<'a>,
        kernel: &'a Kernel,
        depends: &'a [String],
        leaky: bool,
        release: String,
    ) -> Self {
        Self { elf, kernel, depends, leaky, release, unasked: Vec::new() }
    }

    /// Checks that the files of `--kernel` are for the module's architecture.
    pub(super) fn check_files(&self) {
        for file in self.kernel.files() {
            if let Some(arch) = file.arch.filter(|&arch| arch != self.elf.arch) {
                self.elf.findings.file(Rule::OtherKernel, &[&file.name, &arch, &self.elf.arch]);
            }
        }
    }

    /// Checks one symbol against the kernel's files; without files, against the result of `listed`.
    pub(super) fn check(&mut self, symbol: &str, used: Use, listed: impl FnOnce() -> Listed) {
        let wrong =
            |rule, details: &[&dyn Display]| self.elf.findings.symbol(symbol, rule, details);
        if !self.kernel.is_known() {
            return match listed() {
                Listed::Fine => {}
                Listed::Variable => {
                    wrong(Rule::CallsVariable, &[&format_args!("FreeBSD {}", self.release)]);
                }
                _ if used.weak => {}
                Listed::NotInRelease => wrong(Rule::NotInRelease, &[&self.release]),
                Listed::NoDependency(module) => wrong(Rule::NoDependency, &[&module]),
                Listed::Unknown => self.unasked.push(symbol.to_owned()),
            };
        }
        let asked = self.kernel.names();
        match self.kernel.ask(symbol, self.depends, self.leaky) {
            Known::Exported(Kind::Variable) if used.called => wrong(Rule::CallsVariable, &[&asked]),
            Known::Exported(_) => {}
            _ if used.weak => {}
            Known::Elsewhere(module) => wrong(Rule::NoDependency, &[&module]),
            Known::Missing => {
                let many = self.kernel.files().len() > 1;
                wrong(Rule::Undefined, &[&asked, &if many { "do" } else { "does" }]);
            }
            Known::Unasked(modules) => {
                wrong(Rule::UnaskedModule, &[&asked, &modules.join(", ")]);
            }
        }
    }

    /// Reports the symbols that cannot be checked without the kernel's own files.
    pub(super) fn done(self) {
        let names = self.unasked.join(", ");
        match self.unasked.len() {
            0 => {}
            1 => self.elf.findings.file(Rule::Unasked, &[&"uses a symbol", &"is", &"it", &names]),
            count => {
                let uses = format!("uses {count} symbols");
                self.elf.findings.file(Rule::Unasked, &[&uses, &"are", &"them", &names]);
            }
        }
    }
}

/// Reports an undefined symbol that the loader does not look for.
pub(super) fn not_looked_for(elf: &Elf<'_>, symbol: &Symbol, what: &str) {
    elf.findings.symbol(&symbol.name, Rule::NotLookedFor, &[&what, &loader(elf.os)]);
}
