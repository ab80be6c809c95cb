//! Links a file: creates its image, resolves the symbols, and relocates the sections.

use alloc::vec::Vec;

use object_core::LittleEndian as LE;
use object_core::elf;

use super::relocating::Relocating;
use super::{File, Linked, Symbol, string};
use crate::PREFIX;
use crate::marking::Marking;
use crate::refusal::Refusal;
use crate::relocate;
use stand_in_base::image::{Image, Segment};

impl File<'_> {
    /// Creates the image for the address `base`, and replaces the calls of probes as `marking` requires (`do_common`, then
    /// `do_relocations`). `lookup` returns the address of a symbol that the file does not define.
    ///
    /// # Errors
    /// If a symbol is undefined, or a relocation cannot be applied.
    pub fn link(
        &self,
        base: u64,
        marking: Marking,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Linked, Refusal> {
        let mut bytes = alloc::vec![0; self.size];
        for (header, place) in self.headers.iter().zip(&self.places) {
            let Some(place) = place else { continue };
            let contents = self.contents(header)?;
            bytes[place.offset..place.offset + contents.len()].copy_from_slice(contents);
        }
        let symbols = self.resolve(base, lookup)?;
        let mut sites = Vec::new();
        for (index, header) in self.headers.iter().enumerate() {
            match header.sh_type.get(LE) {
                elf::SHT_REL => return Err(Refusal::Rel),
                elf::SHT_RELA => {}
                _ => continue,
            }
            if header.sh_addr.get(LE) != 0 {
                // krtld would treat `sh_addr` as the address of the relocations in memory.
                return Err(Refusal::Unsound {
                    place: alloc::format!("section {index}"),
                    reason: "relocations that say where in memory they are".into(),
                });
            }
            if header.sh_link.get(LE) as usize != self.table {
                return Err(Refusal::OtherTable);
            }
            let target = header.sh_info.get(LE) as usize;
            let place = self.places.get(target).ok_or(Refusal::Target(index))?;
            if let Some(place) = place {
                let (places, symbols) = (&*self.places, &*symbols);
                let relocating = Relocating { base, target, place, places, symbols, marking };
                relocating.section(self.contents(header)?, &mut bytes, &mut sites)?;
            }
        }
        // krtld inserts each site at the head of its list, so the list is in reverse order.
        sites.reverse();
        let of = |segment: &Segment| {
            let start = base + segment.offset as u64;
            start..start + segment.size as u64
        };
        let (text, data) = (of(&self.segments[0]), of(&self.segments[1]));
        let image = Image::new(base, bytes, self.segments.clone());
        let linked = Linked { image, symbols, sites, text, data };
        linked.check_functions()?;
        linked.check_twins()?;
        Ok(linked)
    }

    /// All symbols with their addresses (`do_symbols`).
    fn resolve(
        &self,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Vec<Symbol>, Refusal> {
        let (mut undefined, mut thread_local) = (Vec::new(), Vec::new());
        let mut common = base + self.common as u64;
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for entry in self.symbols {
            let mut symbol = Symbol {
                name: string(self.strings, entry.st_name.get(LE).into())?,
                value: entry.st_value.get(LE),
                size: entry.st_size.get(LE),
                binding: entry.st_bind(),
                kind: entry.st_type(),
                section: entry.st_shndx.get(LE),
            };
            let local = symbol.binding == elf::STB_LOCAL;
            match symbol.section {
                elf::SHN_UNDEF | elf::SHN_COMMON if symbol.kind == elf::STT_TLS => {
                    thread_local.push(symbol.name.clone());
                }
                elf::SHN_UNDEF | elf::SHN_COMMON => {
                    let found = if local { None } else { lookup(&symbol.name) };
                    if let Some(address) = found {
                        (symbol.section, symbol.value) = (elf::SHN_ABS, address);
                    } else if symbol.section == elf::SHN_COMMON {
                        common = common.next_multiple_of(symbol.value.max(1));
                        (symbol.section, symbol.value) = (elf::SHN_ABS, common);
                        common += symbol.size;
                    } else if !symbols.is_empty()
                        && !symbol.name.starts_with(PREFIX)
                        && !relocate::is_hot_inline(&symbol.name)
                        && symbol.binding != elf::STB_WEAK
                    {
                        undefined.push(symbol.name.clone());
                    }
                }
                section if section.0 < elf::SHN_LORESERVE => {
                    // `get`: `read_symbols` does not check the section index of the null symbol.
                    if let Some(&Some(place)) = self.places.get(usize::from(section.0)) {
                        symbol.value = symbol.value.wrapping_add(base + place.offset as u64);
                    }
                }
                _ => {}
            }
            symbols.push(symbol);
        }
        if undefined.is_empty() && thread_local.is_empty() {
            return Ok(symbols);
        }
        Err(Refusal::Undefined { undefined, thread_local, missing: None })
    }
}
