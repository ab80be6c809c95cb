//! Files of ELF and DWARF, from their parts.

/// A section: name, type (gABI 4.3, "Sections"), flags, and bytes.
pub struct Section {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u64,
    pub bytes: Vec<u8>,
}

pub fn debug(name: &'static str, bytes: Vec<u8>) -> Section {
    Section { name, kind: 1, flags: 0, bytes }
}

/// Builds a file with one segment, whose addresses are the offsets in the file. `whole` makes each section as large as the file.
pub fn elf(sections: &[Section], whole: bool) -> Vec<u8> {
    let mut names = vec![0];
    let mut headers = vec![[0_u8; 64]];
    let mut bytes = vec![0; 64 + 56];
    let count = sections.len();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for section in sections {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        parts.push((bytes.len(), section.bytes.len()));
        bytes.extend(&section.bytes);
    }
    let of_names = bytes.len();
    let mut starts = Vec::new();
    for name in sections.iter().map(|of| of.name).chain([".shstrtab"]) {
        starts.push(names.len() as u32);
        names.extend(name.bytes().chain([0]));
    }
    parts.push((of_names, names.len()));
    bytes.extend(&names);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let table = bytes.len();
    for (index, (offset, size)) in parts.iter().enumerate() {
        let (kind, flags) = sections.get(index).map_or((3, 0), |of| (of.kind, of.flags));
        let is_whole = whole && index < count;
        let (offset, size) = if is_whole { (0, table) } else { (*offset, *size) };
        let mut header = [0; 64];
        header[0..4].copy_from_slice(&starts[index].to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[8..16].copy_from_slice(&flags.to_le_bytes());
        header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        // The names of symbols are in the next section.
        header[40..44].copy_from_slice(&(index as u32 + 2).to_le_bytes());
        headers.push(header);
    }
    headers.iter().for_each(|header| bytes.extend(header));
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    bytes[16..20].copy_from_slice(&[3, 0, 62, 0]);
    let length = bytes.len() as u64;
    for (at, value) in [(32, 64), (40, table as u64), (64 + 32, length), (64 + 40, length)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    for (at, value) in [(54, 56), (56, 1), (58, 64), (60, headers.len()), (62, count + 1)] {
        bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }
    bytes[64] = 1;
    bytes
}

/// Builds `Elf64_Sym` of a function.
pub fn symbol(name: u32, address: u64, size: u64) -> Vec<u8> {
    let mut bytes = name.to_le_bytes().to_vec();
    bytes.extend([2, 0, 1, 0]);
    bytes.extend(address.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes
}

pub fn uleb(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

// Tags, attributes and forms of DWARF 5, section 7.5.
pub const UNIT: u64 = 0x11;
pub const FUNCTION: u64 = 0x2e;
pub const INLINED: u64 = 0x1d;
pub const LOW: u64 = 0x11;
pub const HIGH: u64 = 0x12;
pub const NAME: u64 = 0x03;
pub const LINES: u64 = 0x10;
pub const ORIGIN: u64 = 0x31;
pub const ADDR: u64 = 0x01;
pub const DATA8: u64 = 0x07;
pub const STRING: u64 = 0x08;
pub const REF4: u64 = 0x13;
pub const OFFSET: u64 = 0x17;
pub const PRESENT: u64 = 0x19;

/// Builds an abbreviation: number, tag, whether it has children, and its attributes with their forms.
pub fn abbreviation(code: u64, tag: u64, children: bool, attributes: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = [uleb(code), uleb(tag), vec![children.into()]].concat();
    for (name, form) in attributes {
        bytes.extend([uleb(*name), uleb(*form)].concat());
    }
    bytes.extend([0, 0]);
    bytes
}

/// Builds a unit of DWARF 4 whose abbreviations are at the beginning of their section.
pub fn unit(entries: &[u8]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend([4, 0, 0, 0, 0, 0, 8]);
    bytes.extend(entries);
    bytes
}

/// Builds the attributes [`LOW`] and [`HIGH`] of an entry that contains all addresses.
pub fn everything() -> Vec<u8> {
    [1_u64.to_le_bytes(), (1_u64 << 40).to_le_bytes()].concat()
}
