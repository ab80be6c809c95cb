//! This program's file in memory: where its text is, and what its functions are called.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::read::ReadCache;
use object::{Object as _, ObjectSymbol as _, SymbolKind};

/// The file of the program itself.
const PROGRAM: &str = "/proc/self/exe";

/// The program, or the shared object that this crate is in.
#[derive(Debug)]
pub(crate) struct Image {
    /// What is added to an address in the file.
    bias: usize,
    /// Executable segments.
    text: Vec<Range<usize>>,
    /// What is in the file of the other segments.
    data: Vec<Range<usize>>,
    file: PathBuf,
}

/// A function, and how far in it an address is.
pub(crate) type Function = (String, u64);

/// What a symbol says.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) name: Box<str>,
}

impl Image {
    /// The one that this is in.
    pub(crate) fn here() -> &'static Self {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        IMAGE.get_or_init(|| {
            let mut found: Option<Image> = None;
            // SAFETY: `each` gets the option, and calls nothing that would list objects itself.
            unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
            found.unwrap_or(Image {
                bias: 0,
                text: Vec::new(),
                data: Vec::new(),
                file: PathBuf::new(),
            })
        })
    }

    /// Has the dynamic linker keep it until the process ends, if it is a shared object, which `dlclose` would unload otherwise: a
    /// thread runs in it, and handlers of the system's and the C library's are in it.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub(crate) fn keep(&self) -> Result<(), String> {
        if self.file == Path::new(PROGRAM) {
            return Ok(());
        }
        let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        let Ok(file) = CString::new(self.file.as_os_str().as_bytes()) else { return Ok(()) };
        // SAFETY: loaded already, so nothing of it is executed.
        if !unsafe { libc::dlopen(file.as_ptr(), how) }.is_null() {
            return Ok(());
        }
        // SAFETY: null, or a string that stays until this thread calls the linker again.
        let error = unsafe { libc::dlerror().as_ref().map(|error| CStr::from_ptr(error)) };
        Err(error.map_or_else(String::new, |error| error.to_string_lossy().into_owned()))
    }

    /// Where its constants and variables are, except those that begin as zeros.
    pub(crate) fn data(&self) -> &[Range<usize>] {
        &self.data
    }

    /// Whether all of these bytes are text of it.
    pub(crate) fn is_text(&self, address: usize, length: usize) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        self.text.iter().any(|text| text.start <= address && end <= text.end)
    }

    /// What stands in it where, as the file's symbols have it, in the order of addresses. Of a file that is stripped or gone,
    /// nothing.
    pub(crate) fn symbols(&self) -> Vec<Named> {
        let mut found = Vec::new();
        let Ok(file) = File::open(&self.file) else { return found };
        let cache = ReadCache::new(file);
        let Ok(file) = object::File::parse(&cache) else { return found };
        let kinds = [SymbolKind::Text, SymbolKind::Data];
        let symbols = file.symbols().filter(|of| kinds.contains(&of.kind()) && of.size() > 0);
        found.extend(symbols.filter_map(|of| {
            let address = of.address().wrapping_add(self.bias as u64);
            Some(Named { address, size: of.size(), name: of.name().ok()?.into() })
        }));
        found.sort_by_key(|of| of.address);
        found
    }

    /// The functions that addresses are in, which are in order; as the file's symbols have them. Of a file that is stripped
    /// or gone, none.
    pub(crate) fn functions(&self, addresses: &[usize]) -> Vec<Option<Function>> {
        let mut found = vec![None; addresses.len()];
        let Ok(file) = File::open(&self.file) else { return found };
        let cache = ReadCache::new(file);
        let Ok(file) = object::File::parse(&cache) else { return found };
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let start = (symbol.address() as usize).wrapping_add(self.bias);
            let end = start.saturating_add(symbol.size() as usize);
            let first = addresses.partition_point(|address| *address < start);
            let past = addresses.partition_point(|address| *address < end);
            let Some(inside) = addresses.get(first..past) else { continue };
            for (address, found) in inside.iter().zip(&mut found[first..past]) {
                let name = symbol.name().unwrap_or_default();
                *found = Some((name.to_owned(), (address - start) as u64));
            }
        }
        found
    }
}

/// The executable segments of a loaded object.
///
/// # Safety
/// `dl_iterate_phdr` has given it.
pub(crate) unsafe fn text(info: &libc::dl_phdr_info) -> Vec<Range<usize>> {
    // SAFETY: by contract.
    let segments = unsafe { segments(info) };
    let executable = segments.iter().filter(|of| of.p_flags & libc::PF_X != 0);
    executable.map(|of| at(info, of.p_vaddr, of.p_memsz)).collect()
}

/// What is in the file of the segments of a loaded object that are not executable.
///
/// # Safety
/// As [`text`].
unsafe fn data(info: &libc::dl_phdr_info) -> Vec<Range<usize>> {
    // SAFETY: by contract.
    let segments = unsafe { segments(info) };
    let data = segments.iter().filter(|of| of.p_flags & libc::PF_X == 0);
    data.map(|of| at(info, of.p_vaddr, of.p_filesz)).collect()
}

fn at(info: &libc::dl_phdr_info, address: u64, length: u64) -> Range<usize> {
    let start = (info.dlpi_addr as usize).wrapping_add(address as usize);
    start..start + length as usize
}

/// The segments of a loaded object.
///
/// # Safety
/// As [`text`].
unsafe fn segments(info: &libc::dl_phdr_info) -> Vec<libc::Elf64_Phdr> {
    if info.dlpi_phdr.is_null() {
        return Vec::new();
    }
    // SAFETY: by contract so many headers are there.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    headers.iter().filter(|of| of.p_type == libc::PT_LOAD).copied().collect()
}

/// Keeps an object, if this function is in it; then there is no need to look further.
unsafe extern "C" fn each(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> libc::c_int {
    // SAFETY: what `dl_iterate_phdr` gives, and `here` has given it.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Option<Image>>()) };
    let bias = info.dlpi_addr as usize;
    // SAFETY: as above.
    let (text, data) = unsafe { (text(info), data(info)) };
    let here = each as *const () as usize;
    if !text.iter().any(|text| text.contains(&here)) {
        return 0;
    }
    let name = match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: the object's name.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    // The program itself has no name, or not one that can be opened from everywhere.
    let is_object = info.dlpi_name.is_null() || !name.to_bytes().starts_with(b"/");
    let file = if is_object { PROGRAM.as_bytes() } else { name.to_bytes() };
    *found = Some(Image { bias, text, data, file: OsStr::from_bytes(file).into() });
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
    fn text_is_known() {
        let image = Image::here();
        let here = a_function_with_a_name();
        assert!(image.is_text(here, 5));
        assert!(!image.is_text((&raw const image).addr(), 1));
        assert!(!image.is_text(0, 1) && !image.is_text(usize::MAX, 2));
        let end = image.text.iter().map(|text| text.end).max().unwrap();
        assert!(image.is_text(end - 1, 1) && !image.is_text(end - 1, 2));
    }

    #[test]
    fn functions_are_known_by_their_symbols() {
        let image = Image::here();
        let here = a_function_with_a_name();
        let found = image.functions(&[1, here, here + 1, usize::MAX]);
        assert_eq!((&found[0], &found[3]), (&None, &None));
        for (offset, function) in found[1..3].iter().enumerate() {
            let (name, at) = function.as_ref().unwrap();
            assert!(name.contains("a_function_with_a_name"), "{name}");
            assert_eq!(*at, offset as u64);
        }
        let gone = Image { file: "/nowhere".into(), bias: 0, text: Vec::new(), data: Vec::new() };
        assert_eq!(gone.functions(&[here]), [None]);
    }
}
