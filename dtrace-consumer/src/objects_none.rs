//! Replaces the module `objects` on systems other than Linux, where no process hosts probes and no file is mapped.

use std::rc::Rc;

use crate::budget::Budget;

/// The names of the functions at an address, the innermost first.
pub type Names = Rc<[Option<String>]>;

/// The mapped files of a process.
#[derive(Debug)]
pub struct Objects(());

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

/// A file of a process with text.
#[cfg(feature = "functions")]
#[derive(Clone, Debug)]
pub struct TextFile {
    /// The name of the file.
    pub module: String,
}

#[cfg(feature = "functions")]
const NO_SIGNATURES: &str = "dtrace reads debug information on Linux only";

/// The debug information of a file.
#[cfg(feature = "functions")]
#[derive(Debug)]
pub(crate) enum Signatures {}

#[cfg(feature = "functions")]
impl Signatures {
    /// Reads no file.
    ///
    /// # Errors
    /// Always.
    pub const fn of_file(
        _: &std::path::Path,
        _: &[u8],
        _: &Rc<crate::signature::StructNames>,
    ) -> Result<Self, &'static str> {
        Err(NO_SIGNATURES)
    }

    /// Returns the declarations of a struct.
    pub const fn declarations(&self, _: &str) -> Option<dtrace_compiler::declared::Declarations> {
        match *self {}
    }

    /// Returns the signature of a function.
    pub const fn at(&self, _: u64) -> Result<crate::signature::Signature, &'static str> {
        match *self {}
    }
}

/// The text of a file.
#[cfg(feature = "functions")]
#[derive(Debug)]
pub enum Text {}

#[cfg(feature = "functions")]
impl Text {
    /// Returns the bytes of the file.
    pub const fn bytes(&self) -> &[u8] {
        match *self {}
    }
}

#[cfg(feature = "functions")]
impl Objects {
    /// Returns nothing.
    pub const fn text_files(&self) -> Vec<TextFile> {
        Vec::new()
    }

    /// Returns nothing.
    pub(crate) const fn new_text_files(&self) -> Vec<TextFile> {
        Vec::new()
    }

    /// Reads no debug information.
    ///
    /// # Errors
    /// Always.
    pub(crate) const fn signatures(
        &self,
        _: &TextFile,
        _: &Rc<crate::signature::StructNames>,
    ) -> Result<Signatures, &'static str> {
        Err(NO_SIGNATURES)
    }

    /// Reads no file.
    ///
    /// # Errors
    /// Always.
    pub const fn text(&self, _: &TextFile) -> Result<Text, &'static str> {
        Err("files of processes are read on Linux only")
    }
}

impl Objects {
    /// Creates an empty set.
    pub const fn new(_: u32, _: &Budget) -> Self {
        Self(())
    }

    /// Returns nothing.
    pub const fn symbol(&self, _: u64) -> Option<Found> {
        None
    }

    /// Returns nothing.
    pub fn functions(&self, _: u64) -> Names {
        Names::default()
    }

    /// Returns nothing.
    pub const fn lines(&self, _: u64) -> Vec<Line> {
        Vec::new()
    }

    /// Does nothing.
    pub const fn note_stack(&self, _: &[u64]) {}

    /// Returns nothing.
    pub const fn stack_message(&self) -> Option<String> {
        None
    }

    /// Returns nothing: no limit is reached.
    pub const fn limit_message(&self) -> Option<String> {
        None
    }
}
