//! The program and the shared objects that are traced.
//!
//! An object is listed when a consumer first sends a function of it. Then the dynamic linker keeps it loaded until the process ends, because
//! breakpoints may be stored to its text. The list only grows, so signal handlers can read it.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::{NativeEndian, read::elf::NoteIterator};

use super::excluded::{Role, Rule};
use super::list::List;
use crate::image;
use crate::text_access::site_bytes;

/// A loaded object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The path by which the dynamic linker knows it; empty for the program.
    name: CString,
    pub(super) build_id: Vec<u8>,
    /// The difference between an address in memory and in the file.
    pub(super) bias: usize,
    /// Not a `Vec`: signal handlers read it, and must not call a function of the crate `alloc`, which may be traced.
    text: Box<[Range<usize>]>,
}

impl Loaded {
    /// Returns the name of its file.
    fn file_name(&self) -> &[u8] {
        let path = self.name.to_bytes();
        path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
    }

    /// Returns whether all these bytes are text of this object.
    pub(super) fn contains(&self, address: usize, length: usize) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        self.text.iter().any(|text| text.start <= address && end <= text.end)
    }
}

/// An entry of the list of traced objects.
struct Entry {
    object: Loaded,
    rule: Rule,
}

/// The traced objects.
static TRACED: List<Entry> = List::new();

/// Returns the difference between addresses in memory and in the file for a traced object.
pub(super) fn bias(build_id: &[u8]) -> Option<usize> {
    TRACED.iter().find(|of| of.object.build_id == build_id).map(|of| of.object.bias)
}

/// Returns the text of a traced object that contains an address. Async-signal-safe.
pub(super) fn text_at(address: usize) -> Option<&'static Range<usize>> {
    TRACED.iter().find_map(|of| of.object.text.iter().find(|text| text.contains(&address)))
}

/// Returns whether an instruction of a traced object may be traced.
pub(super) fn allow(address: usize, length: usize) -> bool {
    let is_allowed =
        |of: &Entry| of.object.contains(address, length) && of.rule.allows(address, length);
    TRACED.iter().any(is_allowed)
}

/// Starts to trace the loaded object with a build ID. Returns the difference between addresses in memory and in the
/// file. `None` if no such object is loaded, if it was unloaded meanwhile, or if its file cannot be read. The caller
/// holds the framework's lock.
pub(super) fn trace(build_id: &[u8]) -> Option<usize> {
    if let Some(bias) = bias(build_id) {
        return Some(bias);
    }
    let object = loaded().into_iter().find(|object| object.build_id == build_id)?;
    let is_program = object.name.is_empty();
    if !is_program {
        keep(&object.name)?;
        // The object may have been unloaded before `keep`, and another object loaded in its place.
        loaded().contains(&object).then_some(())?;
    }
    let role = Role {
        is_here: object.contains(add as *const () as usize, 1),
        has_c_library: object.contains(libc::getpid as *const () as usize, 1)
            || PARTS_OF_C_LIBRARY.iter().any(|part| object.file_name().starts_with(part)),
        is_program,
    };
    let path = if is_program { c"/proc/self/exe" } else { &*object.name };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let rule = Rule::new(path, build_id, object.bias, role)?;
    let bias = object.bias;
    TRACED.add(Entry { object, rule });
    Some(bias)
}

/// The beginnings of the names of libraries that are parts of the C library before glibc 2.34, and of the dynamic linker, if it was started as a
/// program.
const PARTS_OF_C_LIBRARY: [&[u8]; 4] = [b"libpthread", b"librt.", b"libanl.", b"ld-"];

/// Makes the dynamic linker keep a loaded object until the process ends.
fn keep(name: &CStr) -> Option<()> {
    let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: with RTLD_NOLOAD no object is loaded, so no constructor runs.
    (!unsafe { libc::dlopen(name.as_ptr(), how) }.is_null()).then_some(())
}

/// Returns the loaded objects that have a build ID, except the dynamic linker, which the signal handler may call, and the vDSO of
/// the kernel.
pub(super) fn loaded() -> Vec<Loaded> {
    let mut found = Found::default();
    // SAFETY: `add` gets the objects that it expects, and does not list objects itself.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut found).cast()) };
    found.all
}

/// The objects that [`loaded`] has found.
#[derive(Default)]
struct Found {
    all: Vec<Loaded>,
    /// The number of objects that `dl_iterate_phdr(3)` has passed.
    passed: usize,
}

/// Adds an object to `found`.
unsafe extern "C" fn add(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> libc::c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid description, and the pointer to the objects that `loaded` passed to it.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
    // The first object is the program (dl_iterate_phdr(3)). musl has a name for it.
    let is_program = found.passed == 0;
    found.passed += 1;
    let name = match is_program || info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: the name of a loaded object is a string.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    // SAFETY: return numbers that never change.
    let special = unsafe { [libc::AT_BASE, libc::AT_SYSINFO_EHDR].map(|of| libc::getauxval(of)) };
    // SAFETY: `dl_iterate_phdr` passed the description.
    let text = unsafe { image::text(info) };
    let is_special = info.dlpi_addr != 0 && special.contains(&info.dlpi_addr)
        || text.iter().any(|text| text.contains(&(special[1] as usize)));
    if !is_special {
        // SAFETY: `dl_iterate_phdr` passed the description.
        let notes = unsafe { image::notes(info) };
        if let Some(build_id) = notes.into_iter().find_map(build_id) {
            let (name, bias) = (name.to_owned(), info.dlpi_addr as usize);
            found.all.push(Loaded { name, build_id, bias, text: text.into() });
        }
    }
    0
}

/// Returns the build ID that is in a segment with notes.
fn build_id(notes: Range<usize>) -> Option<Vec<u8>> {
    // A segment of notes is small.
    let notes = site_bytes(notes.start, notes.len().min(4096));
    let mut all = NoteIterator::<FileHeader64<NativeEndian>>::new(NativeEndian, 4, &notes).ok()?;
    while let Ok(Some(note)) = all.next() {
        if note.name() == ELF_NOTE_GNU && note.n_type(NativeEndian) == NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_found() {
        let all = loaded();
        let here = build_id as *const () as usize;
        let program = all.iter().find(|object| object.contains(here, 1)).unwrap();
        assert!(program.build_id.len() >= 8, "{program:?}");
        let bias = trace(&program.build_id).unwrap();
        assert_eq!(bias, program.bias);
        assert_eq!(trace(&program.build_id), Some(bias));
        assert!(text_at(here).is_some() && !allow(here, 16));
        assert!(text_at((&raw const TRACED).addr()).is_none());
        assert_eq!(trace(b"no such build ID"), None);
        let library = libc::getpid as *const () as usize;
        let library = all.iter().find(|object| object.contains(library, 1)).unwrap();
        assert_eq!(trace(&library.build_id), Some(library.bias));
    }
}
