//! The name and the arguments of this program.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Texts about this program that programs in D can read.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name of the program's file: `execname`.
    pub(crate) name: Box<[u8]>,
    /// The arguments, separated by spaces: `execargs`.
    pub(crate) arguments: Box<[u8]>,
}

impl Program {
    /// Reads the texts of this process.
    pub(crate) fn this() -> Self {
        let arguments: Vec<_> = std::env::args_os().collect();
        let arguments: Vec<_> = arguments.iter().map(|of| of.as_bytes()).collect();
        Self { name: file_name().as_bytes().into(), arguments: arguments.join(&b' ').into() }
    }
}

/// Returns the name of the program's file; empty if the system does not tell it.
fn file_name() -> OsString {
    let file = std::env::current_exe().ok();
    file.as_deref().and_then(Path::file_name).unwrap_or_default().to_owned()
}

/// Returns the module part of the probes' descriptions: the program's name, without characters that a description cannot have,
/// at most 63 bytes.
pub(crate) fn module() -> CString {
    let name = file_name();
    let name = name.to_string_lossy();
    let name = name.chars().filter(char::is_ascii_graphic).take(63).collect::<String>();
    CString::new(name).unwrap_or_default()
}
