//! Files for the loaders: a real module with some edits, or bytes as they are.
//!
//! The edits use the places of the file's tables. So most of the resulting files have one error only, and a loader reads them up
//! to that error.

use arbitrary::{Arbitrary, Unstructured};
use stand_in_freebsd::loader::Machine;

/// An unchanged module, and the machine that it is for.
pub type Module = (Machine, &'static [u8]);

/// Modules for FreeBSD: one for each machine, built by `cargo xtask kmod`, and two small ones with several items of each kind.
pub const FREEBSD: &[Module] = &[
    (Machine::X86_64, include_bytes!("../../../fuzz/modules/x86_64.ko")),
    (Machine::Aarch64, include_bytes!("../../../fuzz/modules/aarch64.ko")),
    (Machine::Riscv64, include_bytes!("../../../fuzz/modules/riscv64.ko")),
    (Machine::X86_64, include_bytes!("../../../fuzz/modules/small-x86_64.ko")),
    (Machine::Aarch64, include_bytes!("../../../fuzz/modules/small-aarch64.ko")),
];

/// Modules for illumos: the example, by both routes, with its companion, and one in C.
pub const ILLUMOS: &[Module] = &[
    (Machine::X86_64, include_bytes!("../../../fuzz/modules/illumos")),
    (Machine::X86_64, include_bytes!("../../../fuzz/modules/illumos-provider")),
    (Machine::X86_64, include_bytes!("../../../fuzz/modules/illumos-companion")),
    (Machine::X86_64, include_bytes!("../../../fuzz/modules/illumos-c")),
];

/// A changed module, decoded from a fuzzer's input.
#[derive(Debug)]
pub struct Input {
    /// The machine that the module is for.
    pub machine: Machine,
    /// The unchanged module.
    pub whole: &'static [u8],
    /// Bits with which a target chooses what else happens.
    pub choices: u8,
    /// FreeBSD's major release, 10 to 15.
    pub release: i32,
    /// The file.
    pub file: Vec<u8>,
}

impl Input {
    /// Decodes an input. The first byte selects the module, the second contains the choices. The third contains the release, and
    /// selects whether the rest is edits of the module or a file for the same machine. Returns `None` if the input contains no
    /// file.
    pub fn new(modules: &[Module], input: &[u8]) -> Option<Self> {
        let [module, choices, third, rest @ ..] = input else { return None };
        let (machine, whole) = modules[usize::from(*module) % modules.len()];
        let file = if third % 2 == 0 {
            let edits = Vec::<Edit>::arbitrary_take_rest(Unstructured::new(rest)).ok()?;
            edit(whole, edits)
        } else {
            rest.to_vec()
        };
        // 0 is the latest.
        let release = 15 - i32::from(third / 2 % 6);
        Some(Self { machine, whole, choices: *choices, release, file })
    }
}

/// A change of a file.
#[derive(Debug, Arbitrary)]
enum Edit {
    /// A field of an entry of a table.
    Entry { table: u8, entry: u16, field: u8, width: Width, value: Value },
    /// Bytes anywhere.
    Bytes { at: u16, bytes: Vec<u8> },
    /// The file is cut at this offset.
    Cut { at: u16 },
    /// Bytes are appended to the file.
    More { bytes: Vec<u8> },
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Width {
    Byte,
    Half,
    Word,
    Long,
}

#[derive(Debug, Arbitrary)]
enum Value {
    Small(u8),
    /// The greatest value less this number.
    Great(u8),
    /// A power of two, and a little more or less.
    Power(u8, i8),
    /// The present value, plus or minus a small number.
    Near(i16),
    /// The value of another field of the table.
    Like(u16),
    Any(u64),
}

/// The positions of the entries of a table.
#[derive(Clone, Copy, Debug)]
struct Table {
    start: usize,
    entry: usize,
    count: usize,
}

impl Table {
    fn place(self, entry: usize, field: usize, width: usize) -> usize {
        self.start + entry % self.count * self.entry + field % self.entry / width * width
    }
}

fn edit(whole: &[u8], edits: Vec<Edit>) -> Vec<u8> {
    let tables = tables(whole);
    let mut file = whole.to_vec();
    for edit in edits {
        match edit {
            Edit::Entry { table, entry, field, width, value } => {
                let table = tables[usize::from(table) % tables.len()];
                let width = 1 << width as usize;
                let at = table.place(entry.into(), field.into(), width);
                let now = number(&file, at, width);
                let value = match value {
                    Value::Small(value) => value.into(),
                    Value::Great(less) => u64::MAX - u64::from(less),
                    Value::Power(power, more) => {
                        (1u64 << (power % 64)).wrapping_add_signed(more.into())
                    }
                    Value::Near(more) => now.wrapping_add_signed(more.into()),
                    Value::Like(entry) => {
                        number(&file, table.place(entry.into(), field.into(), width), width)
                    }
                    Value::Any(value) => value,
                };
                put(&mut file, at, &value.to_le_bytes()[..width]);
            }
            Edit::Bytes { at, bytes } => put(&mut file, at.into(), &bytes),
            Edit::Cut { at } => file.truncate(at.into()),
            Edit::More { bytes } => file.extend(bytes),
        }
    }
    file
}

/// Overwrites bytes of the file, up to its end.
fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    let room = file.get_mut(at..).unwrap_or_default();
    room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

/// Returns a little-endian number. Bytes after the end of the file count as 0.
fn number(file: &[u8], at: usize, width: usize) -> u64 {
    let bytes = file.get(at..).unwrap_or_default().iter().take(width);
    bytes.rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns the tables of a file: its header, the program headers, the section headers, and the contents of segments and sections.
/// Contents that are not tables are divided into words.
fn tables(file: &[u8]) -> Vec<Table> {
    const DYNAMIC: u64 = 2;
    const NOBITS: u64 = 8;
    let long = |at| number(file, at, 8) as usize;
    let half = |at| number(file, at, 2) as usize;
    let segments = Table { start: long(0x20), entry: 56, count: half(0x38) };
    let sections = Table { start: long(0x28), entry: 64, count: half(0x3c) };
    let mut tables = vec![Table { start: 0, entry: 64, count: 1 }, segments, sections];
    for segment in 0..segments.count {
        let header = segments.start + segment * segments.entry;
        let entry = if number(file, header, 4) == DYNAMIC { 16 } else { 8 };
        tables.push(Table { start: long(header + 8), entry, count: long(header + 0x20) / entry });
    }
    for section in 0..sections.count {
        let header = sections.start + section * sections.entry;
        let entry = match long(header + 0x38) {
            0 => 8,
            size => size,
        };
        if number(file, header + 4, 4) != NOBITS {
            let count = long(header + 0x20) / entry;
            tables.push(Table { start: long(header + 0x18), entry, count });
        }
    }
    tables.retain(|table| table.count != 0);
    tables
}
