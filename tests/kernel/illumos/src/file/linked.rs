//! A linked module: its memory and symbols, queries of both, and the checks before the module is mapped.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use object_core::elf;

use crate::refusal::Refusal;
use stand_in_base::image::Image;

/// The symbol of the bounds of a module's set of is-enabled words ("twins", `sdt_core::illumos::native`).
const TWINS: &str = "__sdt_is_enabled";

/// A call that krtld marks as a probe's site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the called symbol, without [`PREFIX`](crate::PREFIX).
    pub name: String,
    /// The address of the byte that `sdt` stores to.
    pub address: u64,
}

/// A symbol whose value is an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name of the symbol.
    pub name: String,
    /// The address of the symbol; 0 if it is undefined.
    pub value: u64,
    /// The size of the symbol in bytes.
    pub size: u64,
    /// The binding of the symbol.
    pub binding: elf::SymbolBind,
    /// The type of the symbol.
    pub kind: elf::SymbolType,
    /// The section that defines the symbol.
    pub section: elf::SymbolSection,
}

/// A module that is ready to be mapped.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The memory of the module.
    pub image: Image,
    /// All symbols of the module.
    pub symbols: Vec<Symbol>,
    /// The sites of the module's probes, in krtld's order: last site first.
    pub sites: Vec<Call>,
    /// The addresses of the text.
    pub text: Range<u64>,
    /// The addresses of the data.
    pub data: Range<u64>,
}

impl Symbol {
    /// Returns whether other modules may use it: `get_syms` compares it with theirs.
    pub fn is_exported(&self) -> bool {
        let defined = self.section != elf::SHN_UNDEF && self.section.0 < elf::SHN_LORESERVE;
        self.binding == elf::STB_GLOBAL && defined
    }
}

impl Linked {
    /// Checks that all functions are inside the module, because fbt reads their code (`fbt_provide_module`).
    pub(super) fn check_functions(&self) -> Result<(), Refusal> {
        let functions = self.symbols.iter().skip(1).filter(|of| of.kind == elf::STT_FUNC);
        for symbol in
            functions.filter(|of| of.section != elf::SHN_UNDEF && of.section != elf::SHN_ABS)
        {
            let end = symbol.value.checked_add(symbol.size.max(1)).map(|end| end - 1);
            if !self.holds(symbol.value) || !end.is_some_and(|end| self.holds(end)) {
                return Err(Refusal::Unsound {
                    place: symbol.name.clone(),
                    reason: "a function outside of the module, which fbt would read".into(),
                });
            }
        }
        Ok(())
    }

    /// Checks the set of twins, because a module's `_init` reads it: `_init` follows each pointer between the two bounds
    /// (`sdt_core::illumos::native`).
    pub(super) fn check_twins(&self) -> Result<(), Refusal> {
        let Some(bounds) = self.lookup(TWINS) else { return Ok(()) };
        let unsound =
            |reason: &str| Refusal::Unsound { place: TWINS.into(), reason: reason.into() };
        let word = |at: u64| self.image.read::<8>(at).map(|&word| u64::from_le_bytes(word));
        let bound = |at: u64| word(at).ok_or_else(|| unsound("bounds that are not there"));
        let (start, stop) = (bound(bounds)?, bound(bounds.wrapping_add(8))?);
        if start > stop || !start.is_multiple_of(8) {
            return Err(unsound("bounds of no set"));
        }
        for at in (start..stop).step_by(8) {
            let twin = word(at).ok_or_else(|| unsound("a set that is not all there"))?;
            if self.image.read::<4>(twin).is_none() {
                return Err(unsound("a twin that is not there"));
            }
        }
        Ok(())
    }

    /// The address of a symbol that the module defines (`lookup_one`).
    pub fn lookup(&self, name: &str) -> Option<u64> {
        let defined = |symbol: &&Symbol| symbol.section != elf::SHN_UNDEF && symbol.name == name;
        self.symbols.iter().skip(1).find(defined).map(|symbol| symbol.value)
    }

    /// Returns the address of a symbol for other modules, which do not see local symbols.
    pub fn exported(&self, name: &str) -> Option<u64> {
        let symbols = self.symbols.iter().skip(1);
        let mut exported = symbols
            .filter(|symbol| symbol.binding != elf::STB_LOCAL && symbol.section != elf::SHN_UNDEF);
        exported.find(|symbol| symbol.name == name).map(|symbol| symbol.value)
    }

    /// Returns whether an address is in the module (`kobj_addrcheck`).
    pub fn holds(&self, address: u64) -> bool {
        self.text.contains(&address) || self.data.contains(&address)
    }

    /// Returns the name of the symbol for an address (`kobj_searchsym`): the largest function that contains the address, or else
    /// the nearest symbol before it.
    pub fn symbol_at(&self, address: u64) -> Option<&str> {
        self.around(address).map(|symbol| symbol.name.as_str())
    }

    pub(crate) fn around(&self, address: u64) -> Option<&Symbol> {
        if !self.holds(address) {
            return None;
        }
        let mut best: Option<&Symbol> = None;
        let mut distance = u64::MAX;
        for symbol in self.symbols.iter().skip(1) {
            let function = symbol.kind == elf::STT_FUNC;
            let named = function || symbol.kind == elf::STT_OBJECT;
            let considered =
                symbol.binding == elf::STB_GLOBAL || symbol.binding == elf::STB_LOCAL && named;
            let Some(offset) = address.checked_sub(symbol.value).filter(|_| considered) else {
                continue;
            };
            let best_function = best.filter(|best| best.kind == elf::STT_FUNC);
            if function || best_function.is_some() {
                let larger = best_function.is_none_or(|best| function && symbol.size > best.size);
                if offset >= symbol.size || !larger {
                    continue;
                }
            } else if offset >= distance {
                continue;
            }
            distance = offset;
            best = Some(symbol);
        }
        best
    }
}
