//! Applies the relocations of one section (`do_relocate`), and turns the calls of probes into sites (`sdt_reloc_resolve`).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use object_core::LittleEndian as LE;
use object_core::elf::{self, Rela64};

use super::{Call, Place, Symbol};
use crate::PREFIX;
use crate::marking::Marking;
use crate::refusal::Refusal;
use crate::relocate::{self, Relocation, Wrong};

/// x86-64's `call rel32`.
const CALL: u8 = 0xe8;

/// The state of relocating one section.
pub(super) struct Relocating<'a> {
    pub(super) base: u64,
    /// The index of the section.
    pub(super) target: usize,
    pub(super) place: &'a Place,
    pub(super) places: &'a [Option<Place>],
    pub(super) symbols: &'a [Symbol],
    pub(super) marking: Marking,
}

impl Relocating<'_> {
    /// Applies the relocations in `table`, and appends the sites of probes to `sites` (`do_relocate`).
    pub(super) fn section(
        &self,
        table: &[u8],
        bytes: &mut [u8],
        sites: &mut Vec<Call>,
    ) -> Result<(), Refusal> {
        let entries: &[Rela64<LE>] = object_core::pod::slice_from_all_bytes(table)
            .map_err(|()| Refusal::Truncated("a relocation table"))?;
        let memory = &mut bytes[self.place.offset..self.place.offset + self.place.size];
        for (number, entry) in entries.iter().enumerate() {
            let symbol = self.symbols.get(entry.r_sym(LE, false) as usize);
            let symbol = symbol.ok_or(Refusal::SymbolNumber(number))?;
            let (kind, offset) = (entry.r_type(LE, false).0, entry.r_offset.get(LE));
            relocate::check(kind).map_err(|()| Refusal::Type { kind, offset })?;
            if kind == elf::R_X86_64_NONE.0 {
                continue;
            }
            let unsound = |reason: &str| Refusal::Unsound {
                place: alloc::format!("section {}+{offset:#x}", self.target),
                reason: reason.to_string(),
            };
            let at = usize::try_from(offset).ok().filter(|&at| at < memory.len());
            let at = at.ok_or_else(|| unsound("a relocation outside of its section"))?;
            let address = self.base + (self.place.offset + at) as u64;
            let undefined = symbol.section == elf::SHN_UNDEF && symbol.binding != elf::STB_LOCAL;
            let probe = symbol.name.strip_prefix(PREFIX);
            if let (true, Some(name)) = (undefined, probe) {
                let mark = self.marking.disabled();
                self.mark(memory, at, mark).map_err(|reason| unsound(&reason))?;
                let address = address - 1 + self.marking.patchpoint() as u64;
                sites.push(Call { name: name.to_string(), address });
                continue;
            }
            if undefined && relocate::is_hot_inline(&symbol.name) {
                let nops = Marking::Nops.disabled();
                self.mark(memory, at, nops).map_err(|reason| unsound(&reason))?;
                continue;
            }
            if undefined {
                // The symbol is weak: `resolve` refuses other undefined symbols.
                continue;
            }
            self.check_target(kind, symbol, entry.r_addend.get(LE)).map_err(unsound)?;
            let call = at.checked_sub(1).map(|before| memory[before]) == Some(CALL);
            if self.place.code && call && matches!(kind, 2 | 4) {
                self.check_call(symbol, entry.r_addend.get(LE)).map_err(unsound)?;
            }
            let relocation = Relocation {
                kind,
                place: address,
                symbol: symbol.value,
                addend: entry.r_addend.get(LE),
                base: self.base + self.place.offset as u64,
            };
            relocate::apply(&relocation, &mut memory[at..]).map_err(|wrong| match wrong {
                Wrong::NotSupported => Refusal::NotSupported { kind, symbol: symbol.name.clone() },
                Wrong::Fit(value) => Refusal::Fit { kind, symbol: symbol.name.clone(), value },
                Wrong::Unsound(reason) => unsound(reason),
            })?;
        }
        Ok(())
    }

    /// Checks that a pointer to a section stays in the section or points to its end.
    fn check_target(&self, kind: u32, symbol: &Symbol, addend: i64) -> Result<(), &'static str> {
        let place = self.places.get(usize::from(symbol.section.0)).copied().flatten();
        let Some(place) = place.filter(|_| kind == elf::R_X86_64_64.0) else { return Ok(()) };
        let start = self.base + place.offset as u64;
        let inside = symbol.value.wrapping_add_signed(addend).wrapping_sub(start);
        if inside <= place.size as u64 {
            Ok(())
        } else {
            Err("a pointer to outside of its section")
        }
    }

    /// Checks that the target of a call is the start of a function.
    fn check_call(&self, symbol: &Symbol, addend: i64) -> Result<(), &'static str> {
        let to = symbol.value.wrapping_add_signed(addend).wrapping_add(4);
        let starts = |of: &Symbol| {
            let label = of.kind == elf::STT_NOTYPE && !of.name.is_empty();
            of.value == to && (of.kind == elf::STT_FUNC || label)
        };
        let known = self.symbols.iter().any(|of| of.kind == elf::STT_FUNC);
        if to == symbol.value && symbol.kind != elf::STT_SECTION
            || !known
            || self.symbols.iter().any(starts)
        {
            return Ok(());
        }
        Err("a call that leads to where no function starts")
    }

    /// Replaces the call whose operand is at `field` by `mark` (`sdt_reloc_resolve`). krtld does not check that these five bytes
    /// are a call; this function does.
    fn mark(&self, memory: &mut [u8], field: usize, mark: [u8; 5]) -> Result<(), String> {
        let start = field.checked_sub(1).ok_or("a probe's field without an instruction")?;
        let site = memory.get_mut(start..start + 5).ok_or("a probe's field without an end")?;
        if !self.place.code {
            return Err("a probe's address in data, which becomes a site there".into());
        }
        if site[0] != 0xe8 {
            return Err(alloc::format!("a probe's site is no call but {:02x}", site[0]));
        }
        site.copy_from_slice(&mark);
        Ok(())
    }
}
