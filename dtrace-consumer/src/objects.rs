//! The files that a traced process has mapped: symbols of its libraries and, from debug information, inlined functions and lines.
//!
//! The files belong to the process and are not trusted: a file is opened without waiting, it must be the regular file that the system
//! has mapped, and the readers of ELF and DWARF are safe code. A wrong file makes wrong names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 30;
/// The most functions that are inlined at one address.
const DEEPEST: usize = 64;
/// The most addresses whose names are kept.
const KEPT: usize = 1 << 16;

type Reader = gimli::EndianRcSlice<gimli::RunTimeEndian>;

/// The mapped files of a process.
#[derive(Debug)]
pub struct Objects {
    /// The folder of the process below `/proc`.
    process: PathBuf,
    mappings: RefCell<Vec<Mapping>>,
    /// By inode.
    files: RefCell<HashMap<u64, Option<Rc<Mapped>>>>,
    places: RefCell<HashMap<u64, Rc<[Line]>>>,
}

/// A function at an address, and its place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its symbol, as in the file.
    pub function: Option<String>,
    /// The source file and the line, as far as they are known.
    pub place: Option<(String, u32)>,
}

/// A symbol of a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of the file, without folders.
    pub module: String,
    /// The symbol, as in the file.
    pub name: String,
    /// Its address in the process.
    pub address: u64,
}

/// Addresses of the process that are a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<u64>,
    /// Offset of the part in the file.
    offset: u64,
    inode: u64,
    path: String,
}

/// A file that is read.
struct Mapped {
    /// Offsets in the file, and the address of each first one in the file's own numbering.
    segments: Vec<(Range<u64>, u64)>,
    /// Address, size and name, in the order of the addresses.
    symbols: Vec<(u64, u64, String)>,
    lines: Option<addr2line::Context<Reader>>,
}

impl std::fmt::Debug for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapped").field("symbols", &self.symbols.len()).finish_non_exhaustive()
    }
}

impl Objects {
    /// Creates the mapped files of a process. They are read when an address is asked for.
    pub fn new(id: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{id}"));
        let objects = Self {
            process,
            mappings: RefCell::default(),
            files: RefCell::default(),
            places: RefCell::default(),
        };
        // The process may exit before its records are shown.
        objects.read_mappings();
        objects
    }

    fn read_mappings(&self) {
        if let Ok(text) = std::fs::read(self.process.join("maps")) {
            let text = String::from_utf8_lossy(&text);
            *self.mappings.borrow_mut() = text.lines().filter_map(mapping).collect();
        }
    }

    /// Returns the file at an address, and the address in the file's own numbering.
    fn find(&self, address: u64) -> Option<(Mapping, Rc<Mapped>, u64)> {
        let known = |objects: &Self| {
            let mappings = objects.mappings.borrow();
            mappings.iter().find(|of| of.addresses.contains(&address)).cloned()
        };
        let mapping = known(self)?;
        let file = self.file(&mapping)?;
        let offset = address - mapping.addresses.start + mapping.offset;
        let (range, start) = file.segments.iter().find(|(range, _)| range.contains(&offset))?;
        let own = start.checked_add(offset - range.start)?;
        Some((mapping, file, own))
    }

    fn file(&self, mapping: &Mapping) -> Option<Rc<Mapped>> {
        if let Some(file) = self.files.borrow().get(&mapping.inode) {
            return file.clone();
        }
        let path = mapping.path.trim_start_matches('/');
        let paths = [self.process.join("exe"), self.process.join("root").join(path)];
        let read = paths.iter().find_map(|path| read(path, mapping.inode)).map(Rc::new);
        self.files.borrow_mut().insert(mapping.inode, read.clone());
        read
    }

    /// Returns the symbol at an address.
    pub fn symbol(&self, address: u64) -> Option<Found> {
        let (mapping, file, own) = self.find(address)?;
        let before = file.symbols.partition_point(|(start, ..)| *start <= own);
        let (start, size, name) = file.symbols.get(before.checked_sub(1)?)?;
        let within = own - start;
        (within < *size || (*size == 0 && within == 0)).then_some(())?;
        Some(Found { module: mapping.module(), name: name.clone(), address: address - within })
    }

    /// Returns the functions at an address by debug information: the innermost inlined one first, the one that contains them
    /// last. Empty without debug information.
    pub fn lines(&self, address: u64) -> Rc<[Line]> {
        if let Some(lines) = self.places.borrow().get(&address) {
            return lines.clone();
        }
        let lines: Rc<[Line]> =
            self.find(address).map_or_else(Vec::new, |(_, file, own)| file.lines(own)).into();
        let mut places = self.places.borrow_mut();
        if places.len() >= KEPT {
            places.clear();
        }
        places.insert(address, lines.clone());
        lines
    }
}

impl Mapping {
    fn module(&self) -> String {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        crate::escape::name(path.rsplit('/').next().unwrap_or(path).as_bytes())
    }
}

impl Mapped {
    fn lines(&self, address: u64) -> Vec<Line> {
        let mut lines = Vec::new();
        let Some(context) = &self.lines else { return lines };
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return lines };
        while let Ok(Some(frame)) = frames.next()
            && lines.len() < DEEPEST
        {
            let function =
                frame.function.and_then(|of| of.raw_name().ok().map(|name| name.into_owned()));
            let place = frame.location.and_then(|of| Some((of.file?.to_owned(), of.line?)));
            lines.push(Line { function, place });
        }
        lines
    }
}

/// Returns a mapping of a file, from a line of `/proc/PID/maps`.
fn mapping(line: &str) -> Option<Mapping> {
    // address perms offset dev inode pathname
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        word
    };
    let [addresses, _, offset, _, inode] = [(); 5].map(|()| word());
    let (start, end) = addresses.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let path = rest.trim_start();
    path.starts_with('/').then(|| {
        Some(Mapping {
            addresses: hex(start)?..hex(end)?,
            offset: hex(offset)?,
            inode: inode.parse().ok()?,
            path: path.to_owned(),
        })
    })?
}

/// Reads a file if it is the regular file with this inode. The device is not compared: file systems in layers report another one.
fn read(path: &Path, inode: u64) -> Option<Mapped> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.ino() == inode && metadata.len() <= LARGEST).then_some(())?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

/// Reads an ELF file.
fn parse(bytes: &[u8]) -> Option<Mapped> {
    let file = object::File::parse(bytes).ok()?;
    let segments = file.segments().map(|segment| {
        let (offset, size) = segment.file_range();
        (offset..offset.saturating_add(size), segment.address())
    });
    let is_code = |symbol: &object::Symbol<'_, '_>| {
        symbol.is_definition() && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown)
    };
    let named = |symbol: object::Symbol<'_, '_>| {
        Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()))
    };
    let mut symbols: Vec<_> =
        file.symbols().chain(file.dynamic_symbols()).filter(is_code).filter_map(named).collect();
    // Of several names of one function, the shortest.
    symbols.sort_by(|a, b| (a.0, a.2.len(), &a.2).cmp(&(b.0, b.2.len(), &b.2)));
    symbols.dedup_by_key(|symbol| symbol.0);
    Some(Mapped { segments: segments.collect(), symbols, lines: debug_information(&file) })
}

/// Returns the debug information of a file; `None` if it has none, or a part of it is compressed or damaged.
fn debug_information(file: &object::File<'_>) -> Option<addr2line::Context<Reader>> {
    let endian = if file.is_little_endian() {
        gimli::RunTimeEndian::Little
    } else {
        gimli::RunTimeEndian::Big
    };
    file.section_by_name(".debug_info")?;
    let load = |id: gimli::SectionId| -> Result<Reader, object::Error> {
        let data = match file.section_by_name(id.name()) {
            Some(section) => section.data()?,
            None => &[],
        };
        Ok(Reader::new(data.into(), endian))
    };
    addr2line::Context::from_dwarf(gimli::Dwarf::load(load).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn outer(from: u64) -> u64 {
        std::hint::black_box(from) + 1
    }

    #[test]
    fn mappings_of_files_are_read() {
        let line = "7f00-7f80 r-xp 00001000 fe:00 4711      /usr/lib/a b.so (deleted)";
        let expected = Mapping {
            addresses: 0x7f00..0x7f80,
            offset: 0x1000,
            inode: 4711,
            path: "/usr/lib/a b.so (deleted)".into(),
        };
        assert_eq!(mapping(line), Some(expected.clone()));
        assert_eq!(expected.module(), "a b.so");
        for other in [
            "",
            "7f00-7f80 rw-p 00000000 00:00 0",
            "7f00-7f80 rw-p 00000000 00:00 0 [heap]",
            "x r 0 0 0 /a",
        ] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let objects = Objects::new(std::process::id());
        assert_eq!(outer(1), 2);
        let here = outer as *const () as u64;
        let found = objects.symbol(here + 1).unwrap();
        assert!(found.name.contains("outer"), "{found:?}");
        assert_eq!(found.address, here);
        assert_eq!(objects.symbol(8), None);
    }

    #[test]
    fn functions_of_the_c_library_have_names() {
        let objects = Objects::new(std::process::id());
        let mappings = objects.mappings.borrow().clone();
        let library =
            |of: &&Mapping| of.module().starts_with("libc.") || of.module().starts_with("libc-");
        let mut parts = mappings.iter().filter(library).peekable();
        if parts.peek().is_none() {
            // The C library is linked into this program.
            return;
        }
        let found = parts.any(|of| {
            let mut some = of.addresses.clone().step_by(64).take(4096);
            some.any(|address| {
                objects.symbol(address).is_some_and(|found| found.module == of.module())
            })
        });
        assert!(found, "{mappings:?}");
    }

    /// A program that is compiled with debug information and optimised, as this one may not be.
    #[test]
    fn inlined_functions_and_lines_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let [source, program] = ["main.rs", "main"].map(|name| folder.path().join(name));
        let text = "use std::hint::black_box;\n\
            #[inline(always)]\n\
            fn inner(from: u64) -> u64 { black_box(from).rotate_left(3) }\n\
            #[inline(never)]\n\
            fn outer(from: u64) -> u64 { inner(from) + 1 }\n\
            fn main() { black_box(outer(black_box(1))); }\n";
        std::fs::write(&source, text).unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compiler = std::process::Command::new(rustc);
        compiler.args(["-g", "-Copt-level=1", "-o"]).arg(&program).arg(&source);
        assert!(compiler.status().unwrap().success());

        let file = parse(&std::fs::read(&program).unwrap()).unwrap();
        let (start, size, _) =
            file.symbols.iter().find(|(.., name)| name.contains("outer")).unwrap().clone();
        let inlined = (start..start + size).map(|address| file.lines(address)).find(|lines| {
            let is = |line: &Line, name| line.function.as_ref().is_some_and(|of| of.contains(name));
            lines.iter().any(|line| is(line, "inner"))
                && lines.last().is_some_and(|line| is(line, "outer"))
        });
        let inlined = inlined.unwrap();
        let (path, line) = inlined.last().unwrap().place.clone().unwrap();
        assert!(path.ends_with("main.rs") && line == 5, "{path}:{line}");
        let inner = inlined
            .iter()
            .find(|line| line.function.as_ref().is_some_and(|of| of.contains("inner")));
        assert_eq!(inner.unwrap().place.as_ref().unwrap().1, 3);
    }

    #[test]
    fn another_file_is_not_read() {
        let exe = Path::new("/proc/self/exe");
        let inode = std::fs::metadata(exe).unwrap().ino();
        assert!(read(exe, inode).is_some());
        assert!(read(exe, inode + 1).is_none());
        assert!(read(Path::new("/dev/zero"), 0).is_none());
        assert!(parse(b"\x7fELF").is_none() && parse(b"").is_none());
    }
}
