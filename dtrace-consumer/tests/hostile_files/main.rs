//! Files of a hostile process: dtrace reads them with the memory of its budget, with limited work, and without waiting.
#![cfg(target_os = "linux")]

mod build;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use build::*;
use dtrace_consumer::budget::Budget;
use dtrace_consumer::objects::Objects;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

thread_local! {
    /// The bytes that this thread has allocated, less those that it has freed, and their maximum. Each test is a thread, and dtrace
    /// reads files in the thread that asks for names.
    static USED: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn add(bytes: usize) {
    USED.set(USED.get() + bytes as i64);
    PEAK.set(PEAK.get().max(USED.get()));
}

// SAFETY: forwards all calls to the system's allocator, with the layouts of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.set(USED.get() - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting;

/// A file that this process has mapped.
struct Mapped {
    address: u64,
    size: usize,
    path: std::path::PathBuf,
    folder: tempfile::TempDir,
}

impl Mapped {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("evil");
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: the address is null, so the mapping is new and replaces no other one. The test never reads it.
        let address =
            unsafe { mmap(std::ptr::null_mut(), bytes.len(), protection, flags, &file, 0) };
        let address = address.unwrap() as u64;
        Self { address, size: bytes.len(), path, folder }
    }

    /// Returns the files of this process with a budget.
    fn objects(&self, budget: &Budget) -> Objects {
        Objects::new(std::process::id(), budget)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` created this mapping, and no reference to it exists.
        unsafe { munmap(self.address as *mut _, self.size) }.unwrap();
    }
}

/// Debug information of one unit.
fn unit_file(abbreviations: &[Vec<u8>], entries: &[u8], others: Vec<Section>) -> Vec<u8> {
    let mut sections = vec![
        debug(".debug_abbrev", [abbreviations.concat(), vec![0]].concat()),
        debug(".debug_info", unit(entries)),
    ];
    sections.extend(others);
    elf(&sections, false)
}

fn root(attributes: &[(u64, u64)]) -> Vec<u8> {
    abbreviation(1, UNIT, true, &[&[(LOW, ADDR), (HIGH, DATA8)], attributes].concat())
}

fn function() -> Vec<u8> {
    abbreviation(2, FUNCTION, true, &[(LOW, ADDR), (HIGH, DATA8), (NAME, STRING)])
}

fn entry(code: u8, rest: &[u8]) -> Vec<u8> {
    [vec![code], everything(), rest.to_vec()].concat()
}

/// Looks up all names at an address of a hostile file, twice. Returns the names of functions and the message about a limit.
/// Asserts that neither lookup used more memory than the budget.
fn names(bytes: &[u8], limit: u64) -> (Vec<Option<String>>, Option<String>) {
    let mapped = Mapped::new(bytes);
    let budget = Budget::new(limit);
    let before = USED.get();
    PEAK.set(before);
    let objects = mapped.objects(&budget);
    let at = mapped.address + 64;
    objects.symbol(at);
    let names = objects.functions(at).to_vec();
    objects.lines(at);
    objects.functions(at + 1);
    let message = objects.limit_message();
    assert_eq!(objects.limit_message(), None, "it is said once");
    let peak = PEAK.get() - before;
    assert!(budget.used() <= limit / 2, "{} of {limit}", budget.used());
    assert!(peak as u64 <= limit, "{peak} bytes of {limit}");
    (names, message)
}

#[test]
fn functions_of_a_right_file_have_names() {
    let inlined = abbreviation(3, INLINED, false, &[(LOW, ADDR), (HIGH, DATA8), (NAME, STRING)]);
    let entries = [entry(1, &[]), entry(2, b"outer\0"), entry(3, b"in\x1bner\0"), vec![0, 0]];
    let file = unit_file(&[root(&[]), function(), inlined], &entries.concat(), vec![]);
    let (names, message) = names(&file, 64 << 20);
    // No terminal obeys a name.
    assert_eq!(names, [Some("in\\u{1b}ner".to_owned()), Some("outer".to_owned())]);
    assert_eq!(message, None);
}

/// A reader that recurses would overflow its stack.
#[test]
fn functions_nest_without_limit() {
    let inlined = abbreviation(3, INLINED, true, &[(LOW, ADDR), (HIGH, DATA8)]);
    let deep = [entry(1, &[]), entry(2, b"f\0"), entry(3, &[]).repeat(1_000_000)].concat();
    let (found, _) = names(&unit_file(&[root(&[]), function(), inlined], &deep, vec![]), 256 << 20);
    assert_eq!(found, []);
    let other = abbreviation(3, 0x0b, true, &[]);
    let deep = [entry(1, &[]), entry(2, b"f\0"), vec![3; 4_000_000]].concat();
    let (found, _) = names(&unit_file(&[root(&[]), function(), other], &deep, vec![]), 256 << 20);
    assert_eq!(found, [Some("f".to_owned())]);
}

/// gimli reserves memory for as many files as the header of a line program is long.
#[test]
fn a_table_of_files_reserves_little() {
    let header = 1 << 24;
    let mut lines = (header + 16_u32).to_le_bytes().to_vec();
    lines.extend([5, 0, 8, 0]);
    lines.extend(header.to_le_bytes());
    // Instruction length, operations, default, base, range, first opcode; then formats and counts.
    lines.extend([1, 1, 1, 0, 1, 1, 1, 1, 0x08, 0, 1, 1, 0x08]);
    lines.extend(uleb(u64::MAX));
    lines.resize(header as usize + 20, b'a');
    let entries = [entry(1, &[0; 4]), entry(2, b"f\0"), vec![0, 0]].concat();
    let root = root(&[(LINES, OFFSET)]);
    let file = unit_file(&[root, function()], &entries, vec![debug(".debug_line", lines)]);
    let (names, _) = names(&file, 128 << 20);
    assert_eq!(names, [Some("f".to_owned())]);
}

/// Attributes without bytes make a walk expensive.
#[test]
fn work_has_a_limit() {
    let empty = abbreviation(3, 0x0b, false, &vec![(0x3f, PRESENT); 100_000]);
    let many = [entry(1, &[]), entry(2, b"f\0"), vec![3; 10_000_000]].concat();
    let (found, message) =
        names(&unit_file(&[root(&[]), function(), empty], &many, vec![]), 256 << 20);
    assert_eq!(found, []);
    let message = message.unwrap();
    assert!(
        message.ends_with("because their debug information takes too long to read"),
        "{message}"
    );
}

#[test]
fn origins_in_a_circle_end() {
    // The entry of the function is behind the header of 11 bytes and the unit of 17.
    let own = 28_u32.to_le_bytes();
    let function = abbreviation(2, FUNCTION, true, &[(LOW, ADDR), (HIGH, DATA8), (ORIGIN, REF4)]);
    let entries = [entry(1, &[]), entry(2, &own), vec![0, 0]].concat();
    let (names, message) = names(&unit_file(&[root(&[]), function], &entries, vec![]), 64 << 20);
    assert_eq!((names, message), (vec![None], None));
}

/// Each unit reads the same table of abbreviations.
#[test]
fn units_share_abbreviations_with_a_limit() {
    let mut table = root(&[]);
    for code in 2..60_000 {
        table.extend(abbreviation(code * 2, 0x0b, false, &[]));
    }
    let small = [entry(1, &[]), vec![0]].concat();
    let sections = [
        debug(".debug_abbrev", [table, vec![0]].concat()),
        debug(".debug_info", unit(&small).repeat(100_000)),
    ];
    let (found, message) = names(&elf(&sections, false), 128 << 20);
    assert!(found.is_empty() && message.is_some());
}

/// A table of abbreviations takes some thirty times its size in memory.
#[test]
fn abbreviations_have_a_limit_of_memory() {
    let mut table = root(&[]);
    for code in 2..2_000_000 {
        table.extend(abbreviation(code * 2, 0x0b, false, &[]));
    }
    let small = [entry(1, &[]), vec![0]].concat();
    let sections = [
        debug(".debug_abbrev", [table, vec![0]].concat()),
        debug(".debug_info", unit(&small).repeat(10)),
    ];
    names(&elf(&sections, false), 128 << 20);
}

#[test]
fn names_of_symbols_that_overlap_are_not_copied() {
    let mut symbols = Vec::new();
    for at in 0..50_000 {
        symbols.extend(symbol(at, 60, 100));
    }
    let sections = [
        Section { name: ".symtab", kind: 2, flags: 0, bytes: symbols },
        Section {
            name: ".strtab",
            kind: 3,
            flags: 0,
            bytes: [vec![b'a'; 100_000], vec![0]].concat(),
        },
    ];
    names(&elf(&sections, false), 64 << 20);
}

#[test]
fn sections_that_overlap_are_read_once() {
    let names_of = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_str",
        ".debug_line",
        ".debug_line_str",
        ".debug_addr",
        ".debug_ranges",
        ".debug_rnglists",
        ".debug_str_offsets",
    ];
    let sections: Vec<_> = names_of.map(|name| debug(name, vec![1; 2 << 20])).into();
    names(&elf(&sections, true), 64 << 20);
}

/// A file of which only a part fits the budget.
#[test]
fn a_large_file_is_not_read() {
    let entries = [entry(1, &[]), entry(2, b"f\0"), vec![0, 0]].concat();
    let text = debug(".debug_str", vec![b'a'; 40 << 20]);
    let file = unit_file(&[root(&[]), function()], &entries, vec![text]);
    let (found, message) = names(&file, 64 << 20);
    assert_eq!(found, []);
    let message = message.unwrap();
    assert!(message.contains("they exceed 33554432 bytes"), "{message}");
    assert_eq!(names(&file, 128 << 20), (vec![Some("f".to_owned())], None));
}

/// Returns a file with the compressed section `.debug_str`, whose header states this algorithm and size.
fn compressed(kind: u32, size: u64, content: &[u8]) -> Vec<u8> {
    let entries = [entry(1, &[]), entry(2, b"f\0"), vec![0, 0]].concat();
    let header = [&kind.to_le_bytes()[..], &[0; 4], &size.to_le_bytes(), &1_u64.to_le_bytes()];
    let mut text = debug(".debug_str", [&header.concat(), content].concat());
    text.flags = 1 << 11;
    unit_file(&[root(&[]), function()], &entries, vec![text])
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(vec![], flate2::Compression::best());
    out.write_all(content).unwrap();
    out.finish().unwrap()
}

#[test]
fn compressed_sections_are_read_as_their_header_states() {
    let content = zlib(&[b'a'; 1000]);
    let found = (vec![Some("f".to_owned())], None);
    assert_eq!(names(&compressed(1, 1000, &content), 64 << 20), found);
    let none = (vec![], None);
    for size in [0, 999, 1001, 1 << 20, 1 << 40, u64::MAX] {
        assert_eq!(names(&compressed(1, size, &content), 64 << 20), none, "{size}");
    }
    for kind in [0, 2, u32::MAX] {
        assert_eq!(names(&compressed(kind, 1000, &content), 64 << 20), none, "{kind}");
    }
    for end in 0..content.len() {
        assert_eq!(names(&compressed(1, 1000, &content[..end]), 64 << 20), none, "{end}");
    }
}

/// A kilobyte that becomes a megabyte.
#[test]
fn decompressed_sections_are_charged() {
    let size = 40_usize << 20;
    let file = compressed(1, size as u64, &zlib(&vec![b'a'; size]));
    let (found, message) = names(&file, 64 << 20);
    assert_eq!(found, []);
    let message = message.unwrap();
    assert!(message.contains("they exceed 33554432 bytes"), "{message}");
    assert_eq!(names(&file, 128 << 20), (vec![Some("f".to_owned())], None));
}

/// Ranges that all contain an address.
#[test]
fn units_that_overlap_are_tried_a_few_times() {
    let small = [entry(1, &[]), vec![0]].concat();
    let sections = [
        debug(".debug_abbrev", [root(&[]), vec![0]].concat()),
        debug(".debug_info", unit(&small).repeat(100_000)),
    ];
    let (found, message) = names(&elf(&sections, false), 64 << 20);
    assert_eq!((found, message), (vec![], None));
}

/// No change of a file makes its reader panic.
#[test]
fn changed_files_are_read() {
    let inlined = abbreviation(3, INLINED, true, &[(LOW, ADDR), (HIGH, DATA8), (ORIGIN, REF4)]);
    let origin = 28_u32.to_le_bytes();
    let mut lines = 60_u32.to_le_bytes().to_vec();
    lines.extend([4, 0, 30, 0, 0, 0, 1, 1, 1, 251, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    lines.extend(b"d\0\0f\0\x01\0\0\0\0\x09\x02");
    lines.resize(64, 1);
    let entries = [entry(1, &[0; 4]), entry(2, b"outer\0"), entry(3, &origin), vec![0, 0, 0]];
    let symbols = Section { name: ".symtab", kind: 2, flags: 0, bytes: symbol(1, 64, 64) };
    let strings = Section { name: ".strtab", kind: 3, flags: 0, bytes: b"\0f\0".to_vec() };
    let all = [root(&[(LINES, OFFSET)]), function(), inlined];
    let file =
        unit_file(&all, &entries.concat(), vec![debug(".debug_line", lines), symbols, strings]);
    let mut random = 1_u64;
    for _ in 0..300 {
        let mut changed = file.clone();
        for _ in 0..3 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = 64 + (random >> 33) as usize % (changed.len() - 64);
            changed[at] =
                [0, 1, 0x7f, 0x80, 0xff, (random >> 20) as u8][(random >> 16) as usize % 6];
        }
        names(&changed, 64 << 20);
    }
}

/// A file at the same path that is not the mapped one.
#[test]
fn only_the_mapped_file_is_read() {
    let entries = [entry(1, &[]), entry(2, b"f\0"), vec![0, 0]].concat();
    let file = unit_file(&[root(&[]), function()], &entries, vec![]);
    let read = |mapped: &Mapped| {
        let objects = mapped.objects(&Budget::new(64 << 20));
        objects.functions(mapped.address + 64).iter().flatten().cloned().collect::<Vec<_>>()
    };
    let is_privileged = rustix::process::geteuid().is_root();
    let mapped = Mapped::new(&file);
    assert_eq!(read(&mapped), ["f"]);
    std::fs::remove_file(&mapped.path).unwrap();
    let others: [&dyn Fn(&Path); 4] = [
        &|_| {},
        &|path| std::fs::write(path, &file).unwrap(),
        &|path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
                .unwrap();
        },
        &|path| symlink("/dev/zero", path).unwrap(),
    ];
    for other in others {
        other(&mapped.path);
        // As root, dtrace reads the mapped file itself; as another user, it reads no file.
        let found = read(&mapped);
        assert!(found == ["f"] || found.is_empty() && !is_privileged, "{found:?}");
        let _ = std::fs::remove_file(&mapped.path);
    }
    assert!(mapped.folder.path().exists());
}

/// A note with a build ID.
fn build_id(id: &[u8]) -> Section {
    let mut bytes = [4, id.len() as u32, 3].map(u32::to_le_bytes).concat();
    bytes.extend(b"GNU\0");
    bytes.extend(id);
    Section { name: ".note.gnu.build-id", kind: 7, flags: 0, bytes }
}

fn debug_link(name: &str, checksum: u32) -> Section {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(4), 0);
    bytes.extend(checksum.to_le_bytes());
    debug(".gnu_debuglink", bytes)
}

/// The checksum of `.gnu_debuglink`, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ 0xedb8_8320 }
        })
    })
}

/// dtrace uses the names of a debug file if it belongs to the mapped file, by the build ID or the checksum.
#[test]
fn separate_debug_files_have_names() {
    let entries = [entry(1, &[]), entry(2, b"separate\0"), vec![0, 0]].concat();
    let debug_file = |id: &[u8]| {
        let symbols = Section { name: ".symtab", kind: 2, flags: 0, bytes: symbol(1, 64, 64) };
        let strings = Section { name: ".strtab", kind: 3, flags: 0, bytes: b"\0linked\0".to_vec() };
        // The names of symbols are in the next section.
        unit_file(&[root(&[]), function()], &entries, vec![symbols, strings, build_id(id)])
    };
    let right = debug_file(&[7; 20]);
    let sum = checksum(&right);
    let cases: [(&str, &[u8], Vec<Section>, bool); 7] = [
        ("", &right, vec![build_id(&[7; 20]), debug_link("d", 0)], true),
        (".debug", &right, vec![build_id(&[7; 20]), debug_link("d", 0)], true),
        ("", &right, vec![build_id(&[8; 20]), debug_link("d", sum)], false),
        ("", &right, vec![debug_link("d", sum)], true),
        ("", &right, vec![debug_link("d", sum ^ 1)], false),
        ("", &right[..100], vec![build_id(&[7; 20]), debug_link("d", 0)], false),
        ("", &right, vec![build_id(&[7; 20]), debug_link("../d", 0)], false),
    ];
    for (index, (folder, bytes, sections, is_found)) in cases.into_iter().enumerate() {
        let mapped = Mapped::new(&elf(&sections, false));
        let folder = mapped.path.with_file_name(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("d"), bytes).unwrap();
        let budget = Budget::new(64 << 20);
        let objects = mapped.objects(&budget);
        let at = mapped.address + 64;
        let found = (
            objects.symbol(at).map(|found| found.name),
            objects.functions(at).iter().flatten().cloned().collect::<Vec<_>>(),
        );
        let expected = match is_found {
            true => (Some("linked".to_owned()), vec!["separate".to_owned()]),
            false => (None, vec![]),
        };
        assert_eq!(found, expected, "case {index}");
        assert!(budget.used() <= budget.limit() / 2);
        assert_eq!(objects.limit_message(), None);
    }
}

/// The mapped file keeps its names if the memory does not suffice for its debug file, and dtrace says so.
#[test]
fn a_separate_debug_file_has_a_limit_of_memory() {
    let strings = || Section { name: ".strtab", kind: 3, flags: 0, bytes: b"\0own\0".to_vec() };
    let symbols = || Section { name: ".symtab", kind: 2, flags: 0, bytes: symbol(1, 64, 64) };
    let large = [build_id(&[7; 20]), debug(".debug_info", vec![1; 16 << 20])];
    let own = [symbols(), strings(), build_id(&[7; 20]), debug_link("d", 0)];
    let mapped = Mapped::new(&elf(&own, false));
    std::fs::write(mapped.path.with_file_name("d"), elf(&large, false)).unwrap();
    let budget = Budget::new(8 << 20);
    let objects = mapped.objects(&budget);
    let found = objects.symbol(mapped.address + 64).unwrap();
    assert_eq!(found.name, "own");
    assert!(budget.used() <= budget.limit() / 2);
    assert!(objects.limit_message().unwrap().contains("some functions have no names"));
}
