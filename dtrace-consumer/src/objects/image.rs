//! The parts of a mapped file that have names: its symbols and debug information.
//!
//! The file belongs to the traced process. A thread of its own opens and reads it, because a file system of the process can make
//! both wait for ever.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use gimli::SectionId;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, major, minor, openat, openat2};

use super::inflate;
use super::limits::Limits;
use super::mappings::{Identity, Mapping};
use crate::budget::{Budget, Share, Use};

/// The sections that are read.
pub(super) const SECTIONS: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The sections with the locations of variables.
pub(super) const LOCATIONS: [SectionId; 2] = [SectionId::DebugLoc, SectionId::DebugLocLists];

/// The section with unwind tables.
pub(super) const UNWIND: &str = ".eh_frame";

/// The largest file that is read, in bytes. Its parts are charged to the budget, not its size.
pub(super) const LARGEST: u64 = 1 << 30;
/// The most sections, and the most segments.
const MOST: usize = 4096;
/// The longest name of a section that is read, in bytes.
const LONGEST: usize = 32;
/// The size of a page: the unit in which memory is charged.
const PAGE: u64 = 4096;
/// The longest wait for a file.
const WAIT: Duration = Duration::from_secs(5);
/// File systems that report another device in `/proc/PID/maps` than of the file: overlayfs and btrfs (`linux/magic.h`).
const OTHER_DEVICE: [u64; 2] = [0x794c_7630, 0x9123_683e];

/// A part of a file: offset and size in bytes.
pub(super) type Range = std::ops::Range<usize>;

/// A section of a file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub name: String,
    pub kind: u32,
    /// The number of the section with its names.
    pub link: usize,
    pub is_compressed: bool,
    pub is_text: bool,
    /// Its address in the file's own numbering.
    pub address: u64,
    pub bytes: Range,
}

/// A file with the parts that were read, at their offsets. Other parts are zero and take no memory.
#[derive(Debug)]
pub(super) struct Image {
    pub bytes: Vec<u8>,
    pub is_little: bool,
    /// The mapped segments: the range of offsets in the file, and the address of the first byte in the file's own numbering.
    pub segments: Vec<(std::ops::Range<u64>, u64)>,
    pub sections: Vec<Section>,
    charged: Share,
}

/// The parts of a file that are read, in addition to its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Symbols and debug information, without the locations of variables.
    Names,
    /// Debug information with the locations of variables.
    #[cfg(feature = "functions")]
    Signatures,
    /// Symbols, notes and text.
    Text,
    /// Unwind tables.
    Unwind,
    /// The build ID.
    Identity,
}

impl Parts {
    /// Returns whether a section of debug information belongs to the parts.
    fn has_debug(self, name: &str) -> bool {
        let is_one = |ids: &[SectionId]| ids.iter().any(|id| id.name() == name);
        match self {
            Self::Names => is_one(&SECTIONS),
            #[cfg(feature = "functions")]
            Self::Signatures => is_one(&SECTIONS) || is_one(&LOCATIONS),
            Self::Text | Self::Unwind | Self::Identity => false,
        }
    }
}

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is not an ELF file of 64 bits, not the file that is mapped, or not accessible.
    Other,
    /// Its parts exceed the memory.
    TooLarge,
    /// Opening or reading takes too long.
    Waits,
}

/// Reads a mapped file.
pub(super) fn read(
    process: &std::path::Path,
    mapping: &Mapping,
    limits: Limits,
    parts: Parts,
) -> Result<Image, Unread> {
    let (process, mapping) =
        (process.to_owned(), (mapping.addresses.clone(), mapping.file, mapping.path.to_string()));
    limited(move || {
        let (addresses, identity, path) = mapping;
        let mut result = Err(Unread::Other);
        for file in candidates(&process, &addresses, &path) {
            if let Some(length) = is_mapped(&file, identity) {
                result = load(&file, length, &limits, parts);
                if result.is_ok() {
                    break;
                }
            }
        }
        result
    })
}

/// Runs a function in a thread, and waits at most [`WAIT`] for its result.
pub(super) fn limited<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Unread> + Send + 'static,
) -> Result<T, Unread> {
    limited_to(WAIT, run)
}

/// Runs a function in a thread, and waits at most some time for its result.
fn limited_to<T: Send + 'static>(
    wait: Duration,
    run: impl FnOnce() -> Result<T, Unread> + Send + 'static,
) -> Result<T, Unread> {
    let (send, receive) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("mapped file".into());
    let started = thread.spawn(move || send.send(run()));
    started.map_err(|_| Unread::Other)?;
    receive.recv_timeout(wait).map_err(|error| match error {
        RecvTimeoutError::Timeout => Unread::Waits,
        RecvTimeoutError::Disconnected => Unread::Other,
    })?
}

/// Opens the candidates for the mapped file: `/proc/PID/map_files`, which needs root, then the program's file, then the path, if
/// it contains no symbolic link.
fn candidates(
    process: &std::path::Path,
    addresses: &std::ops::Range<u64>,
    path: &str,
) -> impl Iterator<Item = File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mapped = process.join(format!("map_files/{:x}-{:x}", addresses.start, addresses.end));
    let links = [mapped, process.join("exe")];
    let (root, path) = (process.join("root"), PathBuf::from(path.trim_start_matches('/')));
    let direct = move || {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root: OwnedFd = openat(CWD, &root, directory, Mode::empty()).ok()?;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::IN_ROOT;
        openat2(root, &path, flags, Mode::empty(), resolve).ok()
    };
    let opened = links.into_iter().map(move |path| openat(CWD, path, flags, Mode::empty()).ok());
    opened.chain(std::iter::once_with(direct)).flatten().map(File::from)
}

/// Returns the size of a file if it is the regular file that is mapped.
fn is_mapped(file: &File, identity: Identity) -> Option<u64> {
    let metadata = file.metadata().ok()?;
    let same = metadata.is_file() && metadata.ino() == identity.inode;
    let device = (major(metadata.dev()), minor(metadata.dev()));
    let differs = |file| fstatfs(file).is_ok_and(|of| OTHER_DEVICE.contains(&(of.f_type as u64)));
    (same && (device == identity.device || differs(file))).then_some(metadata.len())
}

/// Reads parts of a file.
pub(super) fn load(
    file: &File,
    length: u64,
    limits: &Limits,
    parts: Parts,
) -> Result<Image, Unread> {
    let (charged, most) = (limits.budget.share(Use::Objects), limits.most);
    if length > LARGEST {
        return Err(Unread::TooLarge);
    }
    let bytes = vec![0; length as usize];
    let mut image = Image { bytes, is_little: true, segments: vec![], sections: vec![], charged };
    let part = |image: &mut Image, range: Range| {
        let pages = (range.len() as u64 / PAGE + 2) * PAGE;
        if image.charged.bytes() + pages > most || image.charged.add(pages).is_err() {
            return Err(Unread::TooLarge);
        }
        let part = image.bytes.get_mut(range.clone()).ok_or(Unread::Other)?;
        file.read_exact_at(part, range.start as u64).map_err(|_| Unread::Other)
    };
    part(&mut image, 0..64)?;
    let header = image.header().ok_or(Unread::Other)?;
    part(&mut image, header.segments.clone())?;
    part(&mut image, header.sections.clone())?;
    image.segments = header.segments.step_by(SEGMENT).filter_map(|at| image.segment(at)).collect();
    let sections: Vec<_> =
        header.sections.step_by(SECTION).filter_map(|at| image.section(at)).collect();
    let names = sections.get(header.names).ok_or(Unread::Other)?.1.bytes.clone();
    part(&mut image, names.clone())?;
    image.sections = sections
        .into_iter()
        .map(|(name, section)| Section { name: image.section_name(&names, name), ..section })
        .collect();
    for range in image.parts(parts) {
        part(&mut image, range)?;
    }
    inflate_all(&mut image, limits, parts)?;
    Ok(image)
}

/// Decompresses the wanted sections to the end of the image. A damaged one stays compressed, as does one beyond the limit of work.
fn inflate_all(image: &mut Image, limits: &Limits, parts: Parts) -> Result<(), Unread> {
    let mut sections = std::mem::take(&mut image.sections);
    for section in &mut sections {
        if !section.is_compressed || !parts.has_debug(&section.name) {
            continue;
        }
        let Some(size) = image.inflated_size(section) else { continue };
        let less = |left: u64| left.checked_sub(size);
        if limits.inflated.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            continue;
        }
        if image.charged.bytes() + size > limits.most || image.charged.add(size).is_err() {
            return Err(Unread::TooLarge);
        }
        let end = image.bytes.len();
        image.bytes.reserve_exact(size as usize);
        image.bytes.resize(end + size as usize, 0);
        let (file, to) = image.bytes.split_at_mut(end);
        let content = section.bytes.start + inflate::HEADER..section.bytes.end;
        if inflate::inflate(file.get(content).unwrap_or_default(), to) {
            section.bytes = end..image.bytes.len();
            section.is_compressed = false;
        } else {
            image.bytes.truncate(end);
        }
    }
    image.sections = sections;
    Ok(())
}

/// The first bytes of a 64-bit file, and the value of the next byte in a little-endian file (System V ABI, gABI 4.3, "ELF
/// Header").
const IDENT: [u8; 5] = *b"\x7fELF\x02";
const LITTLE: u8 = 1;
/// The type of a segment that is mapped (gABI 4.3, "Program Header").
const PT_LOAD: u32 = 1;
/// Types and flags of sections (gABI 4.3, "Sections").
const SHT_SYMTAB: u32 = 2;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHT_DYNSYM: u32 = 11;
const SHF_EXECINSTR: u64 = 1 << 2;
const SHF_COMPRESSED: u64 = 1 << 11;
/// The sections that name a separate debug file (GNU binutils, `bfd/opncls.c`), and the type of the note.
const BUILD_ID: &str = ".note.gnu.build-id";
const DEBUG_LINK: &str = ".gnu_debuglink";
const NT_GNU_BUILD_ID: u32 = 3;
/// Sizes of a header of a segment and of a section (`Elf64_Phdr`, `Elf64_Shdr`).
const SEGMENT: usize = 56;
const SECTION: usize = 64;

/// The tables that the header of a file names.
struct Header {
    segments: Range,
    sections: Range,
    /// The number of the section with the names of sections.
    names: usize,
}

impl Image {
    /// Returns the memory that is charged for it, in bytes.
    pub fn charged(&self) -> u64 {
        self.charged.bytes()
    }

    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    pub fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(if self.is_little { u16::from_le_bytes } else { u16::from_be_bytes })
    }

    pub fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(if self.is_little { u32::from_le_bytes } else { u32::from_be_bytes })
    }

    pub fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(if self.is_little { u64::from_le_bytes } else { u64::from_be_bytes })
    }

    fn size(&self, at: usize) -> Option<usize> {
        self.u64(at)?.try_into().ok()
    }

    fn range(&self, offset: usize, size: usize) -> Option<Range> {
        let range = offset..offset.checked_add(size)?;
        (range.end <= self.bytes.len()).then_some(range)
    }

    /// Reads `Elf64_Ehdr`.
    fn header(&mut self) -> Option<Header> {
        let ident: [u8; 16] = self.array(0)?;
        let is_elf = ident[..5] == IDENT;
        self.is_little = ident[5] == LITTLE;
        let table = |image: &Self, offset, (size, number), wanted| {
            let number = usize::from(image.u16(number)?);
            let fits = number <= MOST && usize::from(image.u16(size)?) == wanted;
            image.range(image.size(offset)?, number * wanted).filter(|_| fits || number == 0)
        };
        is_elf.then_some(())?;
        Some(Header {
            segments: table(self, 32, (54, 56), SEGMENT)?,
            sections: table(self, 40, (58, 60), SECTION)?,
            names: self.u16(62)?.into(),
        })
    }

    /// Reads `Elf64_Phdr`.
    fn segment(&self, at: usize) -> Option<(std::ops::Range<u64>, u64)> {
        let [offset, address, size] = [8, 16, 32].map(|field| self.u64(at + field));
        let range = offset?..offset?.checked_add(size?)?;
        (self.u32(at)? == PT_LOAD).then_some((range, address?))
    }

    /// Reads `Elf64_Shdr`. Returns the offset of the name, too.
    fn section(&self, at: usize) -> Option<(usize, Section)> {
        let kind = self.u32(at + 4)?;
        let (offset, size) = (self.size(at + 24)?, self.size(at + 32)?);
        let bytes = match kind == SHT_NOBITS {
            true => Some(0..0),
            false => self.range(offset, size),
        };
        let section = Section {
            name: String::new(),
            kind,
            link: self.u32(at + 40)? as usize,
            is_compressed: self.u64(at + 8)? & SHF_COMPRESSED != 0,
            is_text: self.u64(at + 8)? & SHF_EXECINSTR != 0,
            address: self.u64(at + 16)?,
            bytes: bytes.unwrap_or(0..0),
        };
        Some((self.u32(at)? as usize, section))
    }

    fn section_name(&self, names: &Range, offset: usize) -> String {
        let rest = self.bytes[names.clone()].get(offset..).unwrap_or_default();
        let end = rest.iter().take(LONGEST).position(|byte| *byte == 0).unwrap_or(0);
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    /// Returns the architecture (`e_machine`).
    pub fn machine(&self) -> Option<u16> {
        self.u16(18)
    }

    /// Returns the tables of symbols, each with its names.
    pub fn symbol_tables(&self) -> impl Iterator<Item = (Range, Range)> {
        [SHT_SYMTAB, SHT_DYNSYM].into_iter().filter_map(|kind| {
            let table = self.sections.iter().find(|of| of.kind == kind)?;
            let names = self.sections.get(table.link)?;
            Some((table.bytes.clone(), names.bytes.clone()))
        })
    }

    /// Returns the size of a compressed section after decompression (`ch_size`); `None` if it is not compressed with zlib.
    fn inflated_size(&self, section: &Section) -> Option<u64> {
        let start = section.bytes.start;
        let is_zlib = section.bytes.len() >= inflate::HEADER && self.u32(start)? == inflate::ZLIB;
        self.u64(start + 8).filter(|_| is_zlib)
    }

    /// Returns a section of debug information; `None` if it could not be decompressed.
    pub fn debug_section(&self, name: &str) -> Option<Range> {
        match self.sections.iter().find(|of| of.name == name) {
            Some(section) => (!section.is_compressed).then(|| section.bytes.clone()),
            None => Some(0..0),
        }
    }

    /// Returns a section of at most one page.
    fn small_section(&self, name: &str) -> Option<Range> {
        let section = self.sections.iter().find(|of| of.name == name && !of.is_compressed)?;
        (section.bytes.len() as u64 <= PAGE).then(|| section.bytes.clone())
    }

    /// Returns the sections that name a separate debug file.
    fn small_sections(&self) -> impl Iterator<Item = Range> {
        [BUILD_ID, DEBUG_LINK].into_iter().filter_map(|name| self.small_section(name))
    }

    /// Returns the build ID.
    pub fn build_id(&self) -> Option<&[u8]> {
        let section = self.small_section(BUILD_ID)?;
        let start = section.start;
        let [name, size, kind] = [0, 4, 8].map(|at| self.u32(start + at));
        let text = start + 12..start + 16;
        let is_id = (name, kind) == (Some(4), Some(NT_GNU_BUILD_ID));
        let id = start + 16..(start + 16).checked_add(size? as usize)?;
        let is_whole = is_id && self.bytes.get(text)? == b"GNU\0" && id.end <= section.end;
        is_whole.then(|| self.bytes.get(id)).flatten()
    }

    /// Returns the name and the checksum of the separate debug file.
    pub fn debug_link(&self) -> Option<(&str, u32)> {
        let section = self.small_section(DEBUG_LINK)?;
        let bytes = self.bytes.get(section.clone())?;
        let name = CStr::from_bytes_until_nul(bytes).ok()?.to_str().ok()?;
        let checksum = section.start.checked_add((name.len() + 1).next_multiple_of(4))?;
        let is_name = !matches!(name, "" | "." | "..") && !name.contains('/');
        let is_whole = is_name && checksum + 4 <= section.end;
        is_whole.then(|| Some((name, self.u32(checksum)?))).flatten()
    }

    /// Returns whether the file has all symbols, and whether it has debug information that can be read.
    pub fn has_names(&self) -> (bool, bool) {
        let symbols = self.sections.iter().any(|of| of.kind == SHT_SYMTAB && !of.bytes.is_empty());
        let debug =
            self.debug_section(SectionId::DebugInfo.name()).is_some_and(|of| !of.is_empty());
        (symbols, debug)
    }

    fn parts(&self, wanted: Parts) -> Vec<Range> {
        let mut parts = Vec::new();
        if matches!(wanted, Parts::Names | Parts::Text) {
            parts.extend(self.symbol_tables().flat_map(|(table, names)| [table, names]));
        }
        match wanted {
            Parts::Names => parts.extend(self.small_sections()),
            #[cfg(feature = "functions")]
            Parts::Signatures => parts.extend(self.small_sections()),
            Parts::Identity => parts.extend(self.small_section(BUILD_ID)),
            Parts::Text => {
                let is_wanted = |of: &&Section| of.is_text || of.kind == SHT_NOTE;
                parts.extend(self.sections.iter().filter(is_wanted).map(|of| of.bytes.clone()));
            }
            Parts::Unwind => parts.extend(self.debug_section(UNWIND)),
        }
        let is_wanted = |of: &&Section| wanted.has_debug(&of.name);
        parts.extend(self.sections.iter().filter(is_wanted).map(|of| of.bytes.clone()));
        // A part within another one is read once.
        parts.sort_unstable_by_key(|part| (part.start, usize::MAX - part.end));
        let mut end = 0;
        parts.retain(|part| {
            let is_new = part.end > end;
            end = end.max(part.end);
            is_new
        });
        parts
    }
}

/// Reads a file that no process has mapped.
#[cfg(any(test, feature = "functions"))]
pub(super) fn of_file(
    path: &std::path::Path,
    budget: &Budget,
    parts: Parts,
) -> Result<Image, Unread> {
    let file = File::open(path).map_err(|_| Unread::Other)?;
    let length = file.metadata().map_err(|_| Unread::Other)?.len();
    load(&file, length, &Limits::new(budget, budget.limit()), parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_waited_for() {
        let (_send, receive) = mpsc::channel::<()>();
        let waits = move || receive.recv().map_err(|_| Unread::Other);
        assert_eq!(limited_to(Duration::from_millis(1), waits), Err(Unread::Waits));
        assert_eq!(limited(|| Ok(7)), Ok(7));
    }

    #[test]
    fn another_file_is_not_read() {
        let file = File::open("/proc/self/exe").unwrap();
        let metadata = file.metadata().unwrap();
        let device = (major(metadata.dev()), minor(metadata.dev()));
        let identity = Identity { device, inode: metadata.ino() };
        assert_eq!(is_mapped(&file, identity), Some(metadata.len()));
        assert_eq!(is_mapped(&file, Identity { inode: metadata.ino() + 1, ..identity }), None);
        let is_layered = fstatfs(&file).is_ok_and(|of| OTHER_DEVICE.contains(&(of.f_type as u64)));
        let moved = Identity { device: (device.0, device.1 + 1), ..identity };
        assert_eq!(is_mapped(&file, moved).is_some(), is_layered);
        let zero = File::open("/dev/zero").unwrap();
        let inode = zero.metadata().unwrap().ino();
        assert_eq!(is_mapped(&zero, Identity { device: (0, 0), inode }), None);
    }

    #[test]
    fn files_that_are_not_elf_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [&b""[..], b"\x7fELF", &[0x7f; 200]] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(of_file(&path, &Budget::default(), Parts::Names).err(), Some(Unread::Other));
        }
        let file = File::create(&path).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        assert_eq!(of_file(&path, &Budget::default(), Parts::Names).err(), Some(Unread::TooLarge));
    }
}
