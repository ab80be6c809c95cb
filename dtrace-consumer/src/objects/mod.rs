//! The files that a traced process has mapped: symbols of its libraries and, from debug information, inlined functions and lines.
//!
//! The files belong to the process and are not trusted. dtrace opens a file without waiting and without following links; it must be
//! the regular file that the system has mapped, or its separate debug file ([`debug_file`]). Only parts with names are read, and
//! compressed sections of the debug information, too. The readers of ELF and DWARF are safe code. [`meter`] limits their memory and work: at a limit, functions
//! have no names, and dtrace prints one message. A wrong file gives wrong names. [`stacks`] and [`unwind`] find out why frames
//! are missing.

mod debug_file;
mod dwarf;
mod image;
mod inflate;
mod limits;
mod mappings;
mod meter;
mod part;
#[cfg(feature = "functions")]
mod signatures;
mod stacks;
mod symbols;
#[cfg(feature = "functions")]
mod text;
mod unwind;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;

use crate::budget::Budget;
use dwarf::Debug;
pub use dwarf::Line;
use image::{Image, Parts, Unread};
use mappings::{Identity, Mapping, Mappings};
use meter::{Exceeded, Meter};
use part::Metered;
#[cfg(feature = "functions")]
pub(crate) use signatures::Signatures;
use stacks::Stacks;
use symbols::Function;
#[cfg(feature = "functions")]
pub use text::{Text, TextFile};

/// The most memory of names that are kept, in bytes.
const KEPT: u64 = 16 << 20;
/// The charge for the names at an address, in addition to their text, and for a file.
const ENTRY: u64 = 512;

/// The names of the functions at an address, the innermost first.
pub type Names = Rc<[Option<String>]>;

/// The mapped files of a process.
#[derive(Debug)]
pub struct Objects {
    id: u32,
    /// The folder of the process below `/proc`.
    process: PathBuf,
    mappings: RefCell<Mappings>,
    /// Mappings with text that do not exist any more, the last first: records may have their addresses.
    unmapped: RefCell<VecDeque<Mapping>>,
    files: RefCell<HashMap<Identity, Option<Rc<Mapped>>>>,
    names: RefCell<(HashMap<u64, Names>, u64)>,
    meter: Rc<Meter>,
    reported: Cell<bool>,
    stacks: Stacks,
    debug_files: debug_file::Limit,
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

/// A file that is read.
#[derive(Debug)]
struct Mapped {
    file: Rc<Metered>,
    /// The file with the symbols: the same, or its separate debug file.
    symbols: Rc<Metered>,
    functions: Vec<Function>,
    /// The file with the debug information: the same, or its separate debug file.
    lines: Rc<Metered>,
    debug: OnceCell<Option<Debug>>,
}

impl Objects {
    /// Creates the mapped files of a process. A file is read when an address in it is looked up, and charged to the
    /// budget.
    pub fn new(id: u32, budget: &Budget) -> Self {
        let meter = Meter::new(budget);
        let process = PathBuf::from(format!("/proc/{id}"));
        Self {
            id,
            // The process may exit before its records are shown.
            mappings: mappings::read(&process, &meter).into(),
            unmapped: RefCell::default(),
            process,
            files: RefCell::default(),
            names: RefCell::default(),
            meter: meter.into(),
            reported: Cell::new(false),
            stacks: Stacks::default(),
            debug_files: debug_file::Limit::default(),
        }
    }

    /// Returns the number that the process has in its own pid namespace, by which it names its provider.
    pub fn own_number(&self) -> u32 {
        let status = std::fs::read_to_string(self.process.join("status")).unwrap_or_default();
        // The numbers in all namespaces, beginning with that of this command (Linux 4.1).
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = numbers.and_then(|all| all.split_ascii_whitespace().last()?.parse().ok());
        own.unwrap_or(self.id)
    }

    /// Returns the file at an address, and the address in the file's own numbering.
    fn find(&self, address: u64) -> Option<(Mapping, Rc<Mapped>, u64)> {
        let mapping = self.mapping(address)?;
        let file = self.file(&mapping)?;
        let offset = (address - mapping.addresses.start).checked_add(mapping.offset)?;
        let mut segments = file.file.image.segments.iter();
        let (range, start) = segments.find(|(range, _)| range.contains(&offset))?;
        let own = start.checked_add(offset - range.start)?;
        Some((mapping, file, own))
    }

    /// Returns the mapping at an address.
    fn mapping(&self, address: u64) -> Option<Mapping> {
        let contains = |of: &&Mapping| of.addresses.contains(&address);
        let Mappings { all, .. } = &*self.mappings.borrow();
        let before = all.partition_point(|of| of.addresses.start <= address);
        let mapping = before.checked_sub(1).and_then(|before| all.get(before)).filter(contains);
        mapping.or(self.unmapped.borrow().iter().find(contains)).cloned()
    }

    fn file(&self, mapping: &Mapping) -> Option<Rc<Mapped>> {
        if let Some(file) = self.files.borrow().get(&mapping.file) {
            return file.clone();
        }
        let read = self.read(mapping).map(Rc::new);
        if self.meter.keep(ENTRY) {
            self.files.borrow_mut().insert(mapping.file, read.clone());
        }
        read
    }

    fn read(&self, mapping: &Mapping) -> Option<Mapped> {
        // If a file system has blocked once, it is not accessed again.
        if self.meter.exceeded() == Some(Exceeded::Wait) {
            return None;
        }
        match image::read(&self.process, mapping, self.meter.limits(), Parts::Names) {
            Ok(image) => {
                self.meter.keep_file(image.charged());
                let file = Rc::new(Metered { image, meter: self.meter.clone() });
                let (has_symbols, has_debug) = file.image.has_names();
                let separate = self.read_separate(mapping, &file.image);
                let separate = separate.as_ref().unwrap_or(&file);
                let (more_symbols, more_debug) = separate.image.has_names();
                let symbols = if !has_symbols && more_symbols { separate } else { &file };
                let lines = if !has_debug && more_debug { separate } else { &file };
                let (symbols, lines) = (symbols.clone(), lines.clone());
                self.meter.begin();
                let functions = symbols::read(&symbols.image, &self.meter);
                Some(Mapped { file, symbols, functions, lines, debug: OnceCell::new() })
            }
            Err(reason) => {
                self.note_unread(reason);
                None
            }
        }
    }

    /// Reads the separate debug file of a file, if it has names that the file lacks.
    fn read_separate(&self, mapping: &Mapping, image: &Image) -> Option<Rc<Metered>> {
        let (has_symbols, has_debug) = image.has_names();
        if has_symbols && has_debug {
            return None;
        }
        let limits = (self.meter.limits(), &self.debug_files);
        match debug_file::read(&self.process, mapping, image, limits, Parts::Names)? {
            Ok(separate) => {
                let (more_symbols, more_debug) = separate.has_names();
                let is_useful = more_symbols && !has_symbols || more_debug && !has_debug;
                is_useful.then_some(())?;
                let image = separate;
                self.meter.keep_file(image.charged());
                Some(Rc::new(Metered { image, meter: self.meter.clone() }))
            }
            Err(reason) => {
                self.note_unread(reason);
                None
            }
        }
    }

    fn note_unread(&self, reason: Unread) {
        match reason {
            Unread::Other => {}
            Unread::TooLarge => {
                self.meter.exceed(Exceeded::Memory(self.meter.budget().limit() / 2));
            }
            Unread::Waits => self.meter.exceed(Exceeded::Wait),
        }
    }

    /// Returns the symbol at an address.
    pub fn symbol(&self, address: u64) -> Option<Found> {
        let (mapping, file, own) = self.find(address)?;
        let before = file.functions.partition_point(|of| of.address <= own);
        let function = file.functions.get(before.checked_sub(1)?)?;
        let within = own - function.address;
        (within < function.size || (function.size == 0 && within == 0)).then_some(())?;
        let name = function.name(&file.symbols.image);
        Some(Found { module: mapping.module(), name, address: address - within })
    }

    /// Returns the names of the functions at an address by debug information: the innermost inlined one first, the one that contains
    /// them last. Empty without debug information.
    pub fn functions(&self, address: u64) -> Names {
        if let Some(names) = self.names.borrow().0.get(&address) {
            return names.clone();
        }
        let names: Names = self.of_debug(address, Debug::functions_at).into();
        let bytes = ENTRY + names.iter().flatten().map(|name| name.len() as u64 + 64).sum::<u64>();
        let mut kept = self.names.borrow_mut();
        if kept.1 + bytes > KEPT {
            self.meter.release(std::mem::take(&mut *kept).1);
        }
        if self.meter.keep(bytes) {
            kept.0.insert(address, names.clone());
            kept.1 += bytes;
        }
        names
    }

    /// Returns the functions at an address with their places in the source, in the order of [`functions`](Self::functions).
    pub fn lines(&self, address: u64) -> Vec<Line> {
        self.of_debug(address, Debug::lines_at)
    }

    fn of_debug<T>(&self, address: u64, ask: impl FnOnce(&Debug, u64) -> Vec<T>) -> Vec<T> {
        let Some((_, file, own)) = self.find(address) else { return Vec::new() };
        self.meter.begin();
        let debug = file.debug.get_or_init(|| Debug::new(&file.lines));
        debug.as_ref().map_or_else(Vec::new, |debug| ask(debug, own))
    }

    /// Returns a message, once, if names are missing because a limit was reached.
    pub fn limit_message(&self) -> Option<String> {
        let limit = self.meter.exceeded().filter(|_| !self.reported.replace(true))?;
        let reason = match limit {
            Exceeded::Memory(bytes) => format!(
                "they exceed {bytes} bytes, half of the memory that dtrace keeps for one process: -x memory=SIZE raises the limit"
            ),
            Exceeded::Steps => "their debug information takes too long to read".to_owned(),
            Exceeded::Wait => "their file system does not answer".to_owned(),
        };
        Some(format!(
            "files of process {}: some functions have no names, because {reason}",
            self.id
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use super::limits::Limits;

    #[inline(never)]
    fn outer(from: u64) -> u64 {
        std::hint::black_box(from) + 1
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let objects = Objects::new(std::process::id(), &Budget::default());
        assert_eq!(outer(1), 2);
        let here = outer as *const () as u64;
        let found = objects.symbol(here + 1).unwrap();
        assert!(found.name.contains("outer"), "{found:?}");
        assert_eq!(found.address, here);
        assert_eq!(objects.symbol(8), None);
    }

    #[test]
    fn functions_of_the_c_library_have_names() {
        let objects = Objects::new(std::process::id(), &Budget::default());
        let mappings = objects.mappings.borrow().all.clone();
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

    #[test]
    fn inlined_functions_and_lines_are_found() {
        finds_inlined_functions_and_lines(&[]);
    }

    #[test]
    fn compressed_debug_information_is_read() {
        finds_inlined_functions_and_lines(&["-Clink-arg=-Wl,--compress-debug-sections=zlib"]);
    }

    /// Tests with a program that is compiled with debug information and optimisation: this test program may have
    /// neither.
    fn finds_inlined_functions_and_lines(options: &[&str]) {
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
        compiler.args(options).args(["-g", "-Copt-level=1", "-o"]).arg(&program).arg(&source);
        assert!(compiler.status().unwrap().success());
        let file = std::fs::read(&program).unwrap();
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*file).unwrap();
        let info = object::Object::section_by_name(&file, ".debug_info").unwrap();
        let format = object::ObjectSection::compressed_file_range(&info).unwrap().format;
        assert_eq!(format != object::CompressionFormat::None, !options.is_empty());

        let (file, budget) = (std::fs::File::open(&program).unwrap(), Budget::default());
        let limits = Limits { inflated: Arc::default(), ..Limits::new(&budget, budget.limit()) };
        let length = file.metadata().unwrap().len();
        let image = image::load(&file, length, &limits, Parts::Names).unwrap();
        assert_eq!(image.debug_section(".debug_info").is_none(), !options.is_empty());

        let meter = Rc::new(Meter::new(&budget));
        let image = image::of_file(&program, &budget, Parts::Names).unwrap();
        meter.begin();
        let functions = symbols::read(&image, &meter);
        let outer = functions.iter().find(|of| of.name(&image).contains("outer")).copied().unwrap();
        let debug = Debug::new(&Rc::new(Metered { image, meter: meter.clone() })).unwrap();
        let addresses = outer.address..outer.address + outer.size;
        let inlined = addresses.clone().map(|address| debug.lines_at(address)).find(|lines| {
            let is = |line: &Line, name| line.function.as_ref().is_some_and(|of| of.contains(name));
            lines.iter().any(|line| is(line, "inner"))
                && lines.last().is_some_and(|line| is(line, "outer"))
        });
        for address in addresses {
            let names: Vec<_> =
                debug.lines_at(address).into_iter().map(|line| line.function).collect();
            assert_eq!(debug.functions_at(address), names);
        }
        assert_eq!(meter.exceeded(), None);
        let inlined = inlined.unwrap();
        let (path, line) = inlined.last().unwrap().place.clone().unwrap();
        assert!(path.ends_with("main.rs") && line == 5, "{path}:{line}");
        let inner = inlined
            .iter()
            .find(|line| line.function.as_ref().is_some_and(|of| of.contains("inner")));
        assert_eq!(inner.unwrap().place.as_ref().unwrap().1, 3);
    }
}
