//! Declarations of loaded modules for programs in D.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use sdt_framework::kernel::ModuleText;
use spin::Mutex;
use stand_in_freebsd::loader;

/// The section of a module's file that contains its declarations for D.
const SECTION: &[u8] = b".sdt_types";

/// For each loaded file with declarations, its name and the declarations.
static FILES: Mutex<Vec<(String, Vec<u8>)>> = Mutex::new(Vec::new());

/// Stores the declarations in the file of a module that has been loaded.
pub(crate) fn keep(file: &str, image: &[u8]) {
    let text = loader::section(image, SECTION).concat();
    if !text.is_empty() {
        FILES.lock().push((file.to_string(), text));
    }
}

/// Removes the declarations of a module that has been unloaded.
pub(crate) fn forget(file: &str) {
    FILES.lock().retain(|(other, _)| other != file);
}

/// Calls `show` with the declarations of the module at `index`; does nothing if there is no such module.
pub(crate) fn show(index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
    if let Some((file, text)) = FILES.lock().get(index) {
        let file = file.rsplit('/').next().unwrap_or(file);
        let module = file.strip_suffix(".ko").unwrap_or(file).as_bytes();
        show(ModuleText { module, text });
    }
}
