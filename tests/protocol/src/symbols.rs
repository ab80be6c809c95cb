//! The kernel's symbols, sorted by address, as the bench puts them into memory after the kernel.
//!
//! | bytes | |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | how many there are |
//! | 24 each | address, size (8 bytes each), where its name begins among the names, and its length (4 bytes each) |
//! | | the names |
//!
//! Numbers are little-endian.

use alloc::vec::Vec;

/// The first bytes of the table.
pub const MAGIC: [u8; 8] = *b"symbols\0";

/// Bytes before the first entry, and of an entry.
const HEADER: usize = 16;
const ENTRY: usize = 24;

/// A function or a static of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The address of its first byte.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its name, unchanged from the file.
    pub name: &'a [u8],
}

/// A table of symbols in memory.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    entries: &'a [[u8; ENTRY]],
    names: &'a [u8],
}

impl<'a> Table<'a> {
    /// Bytes that a table may have.
    pub const ROOM: usize = 8 << 20;

    /// Returns the table at the start of `memory`; `None` if there is no table.
    pub fn new(memory: &'a [u8]) -> Option<Self> {
        let (magic, rest) = memory.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let (entries, names) = rest.split_at_checked(count.checked_mul(ENTRY)?)?;
        (*magic == MAGIC).then_some(Self { entries: entries.as_chunks().0, names })
    }

    /// The symbol that contains an address.
    pub fn at(&self, address: u64) -> Option<Symbol<'a>> {
        let behind = self.entries.partition_point(|entry| word(entry, 0) <= address);
        let entry = self.entries.get(behind.checked_sub(1)?)?;
        let (start, size) = (word(entry, 0), word(entry, 8));
        let place = word(entry, 16);
        let (offset, length) = (place as u32 as usize, (place >> 32) as usize);
        let name = self.names.get(offset..)?.get(..length)?;
        (address - start < size).then_some(Symbol { address: start, size, name })
    }
}

fn word(entry: &[u8; ENTRY], at: usize) -> u64 {
    entry[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the table of these symbols. If several symbols have one address, it contains the last of them.
pub fn table<'a>(symbols: impl IntoIterator<Item = Symbol<'a>>) -> Vec<u8> {
    let mut symbols: Vec<_> = symbols.into_iter().collect();
    symbols.sort_by_key(|symbol| symbol.address);
    let mut bytes = Vec::with_capacity(HEADER + symbols.len() * ENTRY);
    bytes.extend(MAGIC);
    bytes.extend((symbols.len() as u64).to_le_bytes());
    let mut offset = 0;
    for Symbol { address, size, name } in &symbols {
        bytes.extend(address.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((offset as u32).to_le_bytes());
        bytes.extend((name.len() as u32).to_le_bytes());
        offset += name.len();
    }
    bytes.extend(symbols.iter().flat_map(|symbol| symbol.name));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_what_they_are_in() {
        let of = |address, size, name: &'static [u8]| Symbol { address, size, name };
        let bytes = table([of(0x40, 8, b"second"), of(0x10, 0x20, b"first"), of(0x48, 0, b"none")]);
        let table = Table::new(&bytes).unwrap();
        let found = |address| table.at(address).map(|symbol| (symbol.address, symbol.name));
        for at in [0x10, 0x2f] {
            assert_eq!(found(at), Some((0x10, &b"first"[..])));
        }
        assert_eq!(found(0x47), Some((0x40, &b"second"[..])));
        for nothing in [0, 0xf, 0x30, 0x3f, 0x48, u64::MAX] {
            assert_eq!(found(nothing), None, "{nothing:#x}");
        }
    }

    #[test]
    fn what_is_no_table_is_none() {
        let bytes = table([Symbol { address: 1, size: 1, name: b"a" }]);
        assert!(Table::new(&bytes[..HEADER + ENTRY - 1]).is_none(), "cut off");
        assert!(Table::new(&[0; 64]).is_none(), "memory that nothing is in");
        assert_eq!(Table::new(&bytes[..bytes.len() - 1]).unwrap().at(1), None, "no name");
    }
}
