//! Declarations of loaded modules for programs in D.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use sdt_framework::kernel::ModuleText;
use spin::Mutex;
use stand_in_freebsd::loader;

/// The section that a module's file has it in.
const SECTION: &[u8] = b".sdt_types";

/// A file's name, and what it declares.
static FILES: Mutex<Vec<(String, Vec<u8>)>> = Mutex::new(Vec::new());

/// Keeps what the file of a module declares that has been loaded.
pub(crate) fn keep(file: &str, image: &[u8]) {
    let text = loader::section(image, SECTION).concat();
    if !text.is_empty() {
        FILES.lock().push((file.to_string(), text));
    }
}

/// A module has been unloaded.
pub(crate) fn forget(file: &str) {
    FILES.lock().retain(|(other, _)| other != file);
}

/// Shows what the module at an index declares.
pub(crate) fn show(index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
    if let Some((file, text)) = FILES.lock().get(index) {
        let file = file.rsplit('/').next().unwrap_or(file);
        let module = file.strip_suffix(".ko").unwrap_or(file).as_bytes();
        show(ModuleText { module, text });
    }
}
