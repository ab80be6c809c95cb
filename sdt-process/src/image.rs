//! The program or shared object that contains this crate: its segments and symbols.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::read::{NativeFile, ReadCache};
use object::{Object as _, ObjectSymbol as _, SymbolKind};

/// The path of the program's file.
const PROGRAM: &str = "/proc/self/exe";

/// The program, or the shared object that this crate is in.
#[derive(Debug)]
pub(crate) struct Image {
    /// The difference between an address in memory and in the file.
    bias: usize,
    /// The executable segments.
    text: Vec<Range<usize>>,
    /// The parts of the segments with constants and variables that are in the file.
    data: Vec<Range<usize>>,
    /// The parts of the segments with constants that are in the file. Empty unless the kernel has mapped the image, as it
    /// maps programs but not shared objects.
    constants: Vec<Range<usize>>,
    file: PathBuf,
}

/// The symbol of a function, and the offset of an address in it.
pub(crate) type Function = (Arc<str>, u64);

/// A symbol.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) name: Box<str>,
}

impl Image {
    /// Returns the image that contains this crate.
    pub(crate) fn here() -> &'static Self {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        IMAGE.get_or_init(|| {
            let mut found: Option<Image> = None;
            // SAFETY: `find_here` gets the option that it expects, and does not list objects itself.
            unsafe { libc::dl_iterate_phdr(Some(find_here), (&raw mut found).cast()) };
            found.unwrap_or(Image {
                bias: 0,
                text: Vec::new(),
                data: Vec::new(),
                constants: Vec::new(),
                file: PathBuf::new(),
            })
        })
    }

    /// Makes the dynamic linker keep the image loaded until the process ends, if it is a shared object. A thread runs in it, and it contains
    /// handlers that the kernel and the C library call.
    ///
    /// # Errors
    /// The message of the dynamic linker.
    pub(crate) fn keep(&self) -> Result<(), String> {
        if self.file == Path::new(PROGRAM) {
            return Ok(());
        }
        let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        let Ok(file) = CString::new(self.file.as_os_str().as_bytes()) else { return Ok(()) };
        // SAFETY: with RTLD_NOLOAD no object is loaded, so no constructor runs.
        if !unsafe { libc::dlopen(file.as_ptr(), how) }.is_null() {
            return Ok(());
        }
        // SAFETY: `dlerror` returns null, or a string that is valid until this thread calls the linker again.
        let error = unsafe { libc::dlerror().as_ref().map(|error| CStr::from_ptr(error)) };
        Err(error.map_or_else(String::new, |error| error.to_string_lossy().into_owned()))
    }

    /// Returns the parts of the segments with constants and variables that are in the file: all variables except those that are
    /// initially zero.
    pub(crate) fn data(&self) -> &[Range<usize>] {
        &self.data
    }

    /// Returns whether all these bytes are in a segment with constants of the program's file, which stays mapped while the program runs. Text is
    /// among them only if the linker has placed both in one segment. Probe context.
    pub(crate) fn is_constant(&self, address: usize, length: usize) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        self.constants.iter().any(|of| of.start <= address && end <= of.end)
    }

    /// Returns the difference between an address in memory and in the file.
    pub(crate) const fn bias(&self) -> usize {
        self.bias
    }

    /// Returns whether all these bytes are text of this image.
    pub(crate) fn is_text(&self, address: usize, length: usize) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        self.text.iter().any(|text| text.start <= address && end <= text.end)
    }

    /// Returns the symbols of functions and variables, in the order of their addresses. A file that is stripped or removed has none.
    pub(crate) fn symbols(&self) -> Vec<Named> {
        let mut found = Vec::new();
        let Ok(file) = File::open(&self.file) else { return found };
        let cache = ReadCache::new(file);
        let Ok(file) = NativeFile::parse(&cache) else { return found };
        let kinds = [SymbolKind::Text, SymbolKind::Data];
        let symbols = file.symbols().filter(|of| kinds.contains(&of.kind()) && of.size() > 0);
        found.extend(symbols.filter_map(|of| {
            let address = of.address().wrapping_add(self.bias as u64);
            Some(Named { address, size: of.size(), name: of.name().ok()?.into() })
        }));
        found.sort_by_key(|of| of.address);
        found
    }

    /// Returns the function of each address, according to the symbols of the file. The addresses are in ascending order. A file that is
    /// stripped or removed has no functions.
    pub(crate) fn functions(&self, addresses: &[usize]) -> Vec<Option<Function>> {
        let mut found = vec![None; addresses.len()];
        let Ok(file) = File::open(&self.file) else { return found };
        let cache = ReadCache::new(file);
        let Ok(file) = NativeFile::parse(&cache) else { return found };
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let start = (symbol.address() as usize).wrapping_add(self.bias);
            let end = start.saturating_add(symbol.size() as usize);
            let first = addresses.partition_point(|address| *address < start);
            let past = addresses.partition_point(|address| *address < end);
            let Some(inside) = addresses.get(first..past).filter(|of| !of.is_empty()) else {
                continue;
            };
            let name: Arc<str> = symbol.name().unwrap_or_default().into();
            for (address, found) in inside.iter().zip(&mut found[first..past]) {
                *found = Some((name.clone(), (address - start) as u64));
            }
        }
        found
    }
}

/// Returns the executable segments of a loaded object.
///
/// # Safety
/// `dl_iterate_phdr` passed `info`, and its callback has not returned.
pub(crate) unsafe fn text(info: &libc::dl_phdr_info) -> Vec<Range<usize>> {
    // SAFETY: the caller guarantees that `dl_iterate_phdr` passed `info`, and that its callback has not returned.
    let segments = unsafe { segments(info) };
    let executable = segments.iter().filter(|of| of.p_flags & libc::PF_X != 0);
    executable.map(|of| memory(info, of.p_vaddr, of.p_memsz)).collect()
}

/// Returns the parts of the segments with constants and variables of a loaded object that are in the file.
///
/// # Safety
/// As [`text`].
unsafe fn data(info: &libc::dl_phdr_info) -> Vec<Range<usize>> {
    // SAFETY: the caller guarantees that `dl_iterate_phdr` passed `info`, and that its callback has not returned.
    let segments = unsafe { segments(info) };
    let constant = flags_of_constants(&segments);
    let data = segments.iter().filter(|of| of.p_flags == constant || of.p_flags & libc::PF_X == 0);
    data.map(|of| memory(info, of.p_vaddr, of.p_filesz)).collect()
}

/// Returns the parts of the segments with constants of a loaded object that are in the file.
///
/// # Safety
/// As [`text`].
unsafe fn constants(info: &libc::dl_phdr_info) -> Vec<Range<usize>> {
    // SAFETY: the caller guarantees that `dl_iterate_phdr` passed `info`, and that its callback has not returned.
    let segments = unsafe { segments(info) };
    let constant = flags_of_constants(&segments);
    let constants = segments.iter().filter(|of| of.p_flags == constant);
    constants.map(|of| memory(info, of.p_vaddr, of.p_filesz)).collect()
}

/// Returns the flags of the segments with constants. On aarch64 and riscv64, GNU ld places the constants in the segment of the text.
fn flags_of_constants(segments: &[libc::Elf64_Phdr]) -> u32 {
    let are_separate = segments.iter().any(|of| of.p_flags == libc::PF_R);
    if are_separate { libc::PF_R } else { libc::PF_R | libc::PF_X }
}

/// Returns the segments with notes of a loaded object.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn notes(info: &libc::dl_phdr_info) -> Vec<Range<usize>> {
    // SAFETY: the caller guarantees that `dl_iterate_phdr` passed `info`, and that its callback has not returned.
    let headers = unsafe { headers(info) };
    let notes = headers.iter().filter(|of| of.p_type == libc::PT_NOTE);
    notes.map(|of| memory(info, of.p_vaddr, of.p_filesz)).collect()
}

/// Returns the memory of a part of a loaded object.
fn memory(info: &libc::dl_phdr_info, address: u64, length: u64) -> Range<usize> {
    let start = (info.dlpi_addr as usize).wrapping_add(address as usize);
    start..start + length as usize
}

/// Returns whether the program was started as an argument of the dynamic linker: it names its linker, but the kernel has loaded none for it.
/// Then the linker has mapped the program like a library, and any process can write to the file.
///
/// # Safety
/// As [`text`].
unsafe fn is_argument_of_linker(info: &libc::dl_phdr_info) -> bool {
    // SAFETY: the caller guarantees that `dl_iterate_phdr` passed `info`, and that its callback has not returned.
    let has_linker = unsafe { headers(info) }.iter().any(|of| of.p_type == libc::PT_INTERP);
    // SAFETY: returns a number that never changes.
    has_linker && unsafe { libc::getauxval(libc::AT_BASE) } == 0
}

/// Returns the segments of a loaded object.
///
/// # Safety
/// As [`text`].
unsafe fn segments(info: &libc::dl_phdr_info) -> Vec<libc::Elf64_Phdr> {
    // SAFETY: the caller guarantees that `dl_iterate_phdr` passed `info`, and that its callback has not returned.
    let headers = unsafe { headers(info) };
    headers.iter().filter(|of| of.p_type == libc::PT_LOAD).copied().collect()
}

/// Returns the program headers of a loaded object.
///
/// # Safety
/// As [`text`].
unsafe fn headers(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the pointer is not null, and the dynamic linker guarantees `dlpi_phnum` headers.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
}

/// Stores an object in the option `found` if it contains this function, and ends the iteration.
unsafe extern "C" fn find_here(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> libc::c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid description, and the pointer to the option that `here` passed to it.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Option<Image>>()) };
    let bias = info.dlpi_addr as usize;
    // SAFETY: `dl_iterate_phdr` passed the description, and this is its callback.
    let (text, data, constants) = unsafe { (text(info), data(info), constants(info)) };
    let here = find_here as *const () as usize;
    if !text.iter().any(|text| text.contains(&here)) {
        return 0;
    }
    let name = match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: the name of a loaded object is a string.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    // The name of the program is empty, or is a relative path, which cannot be opened from every folder.
    let is_program = info.dlpi_name.is_null() || !name.to_bytes().starts_with(b"/");
    // SAFETY: `dl_iterate_phdr` passed the description, and this is its callback.
    let is_mapped_by_kernel = is_program && !unsafe { is_argument_of_linker(info) };
    let file = match (is_program, is_mapped_by_kernel) {
        (true, true) => PROGRAM.as_bytes(),
        // `/proc/self/exe` is the dynamic linker.
        (true, false) => b"",
        (false, _) => name.to_bytes(),
    };
    let constants = if is_mapped_by_kernel { constants } else { Vec::new() };
    *found = Some(Image { bias, text, data, constants, file: OsStr::from_bytes(file).into() });
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_with_a_name() -> usize {
        std::hint::black_box(a_function_with_a_name as *const () as usize)
    }

    #[test]
    fn text_is_told_from_data() {
        let image = Image::here();
        let here = a_function_with_a_name();
        assert!(image.is_text(here, 5));
        assert!(!image.is_text((&raw const image).addr(), 1));
        assert!(!image.is_text(0, 1) && !image.is_text(usize::MAX, 2));
        let constant = c"a constant of this program".to_bytes().as_ptr().addr();
        assert!(image.is_constant(constant, 26) && !image.is_constant(constant, usize::MAX));
        let (heap, local) = (Box::new(0_u8), 0_u8);
        for other in [(&raw const *heap).addr(), (&raw const local).addr(), 0] {
            assert!(!image.is_constant(other, 1), "{other:#x}");
        }
        // Elsewhere, the linker may place constants in the segment of the text.
        assert!(!image.is_constant(here, 1) || !cfg!(target_arch = "x86_64"));
        let end = image.text.iter().map(|text| text.end).max().unwrap();
        assert!(image.is_text(end - 1, 1) && !image.is_text(end - 1, 2));
    }

    #[test]
    fn constants_may_be_in_the_segment_of_the_text() {
        let segments = |flags: &[u32]| -> Vec<libc::Elf64_Phdr> {
            let of = |&p_flags| libc::Elf64_Phdr {
                p_type: libc::PT_LOAD,
                p_flags,
                p_offset: 0,
                p_vaddr: 0,
                p_paddr: 0,
                p_filesz: 0,
                p_memsz: 0,
                p_align: 0,
            };
            flags.iter().map(of).collect()
        };
        let (constants, text) = (libc::PF_R, libc::PF_R | libc::PF_X);
        let data = libc::PF_R | libc::PF_W;
        assert_eq!(flags_of_constants(&segments(&[constants, text, constants, data])), constants);
        assert_eq!(flags_of_constants(&segments(&[text, data])), text);
    }

    #[test]
    fn functions_have_the_names_of_their_symbols() {
        let image = Image::here();
        let here = a_function_with_a_name();
        let found = image.functions(&[1, here, here + 1, usize::MAX]);
        assert_eq!((&found[0], &found[3]), (&None, &None));
        for (offset, function) in found[1..3].iter().enumerate() {
            let (name, at) = function.as_ref().unwrap();
            assert!(name.contains("a_function_with_a_name"), "{name}");
            assert_eq!(*at, offset as u64);
        }
        let missing = Image {
            file: "/nowhere".into(),
            bias: 0,
            text: Vec::new(),
            data: Vec::new(),
            constants: Vec::new(),
        };
        assert_eq!(missing.functions(&[here]), [None]);
    }
}
