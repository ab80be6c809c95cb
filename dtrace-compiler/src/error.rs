//! Errors in programs, in libdtrace's words.

use std::fmt;

use dtrace_abi::ErrTag;

use crate::place::Place;

/// An error in a program, because of which the compiler refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The tag. `None` for errors that have no tag, such as a full table or a library that cannot be read.
    pub tag: Option<ErrTag>,
    /// The message, without its place.
    pub message: String,
    /// The place, if it is known.
    pub place: Option<Place>,
    /// The file of the place, if it is a library or named by `#line`.
    pub file: Option<String>,
    /// The part of the clause that has the error: an action list or a predicate. Printed for programs without lines.
    pub region: Option<&'static str>,
    /// Whether the program is a file, whose errors name lines.
    pub in_file: bool,
    /// A hint how to correct the program, such as a question about a similar name.
    pub hint: Option<String>,
}

/// The result of the compiler's stages.
pub(crate) type Result<T> = std::result::Result<T, Box<Error>>;

impl Error {
    /// Creates an error with a tag.
    pub(crate) fn new(tag: ErrTag, place: Place, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            tag: Some(tag),
            message: message.into(),
            place: Some(place),
            file: None,
            region: None,
            in_file: false,
            hint: None,
        })
    }

    /// Creates an error of the compiler itself, without a place.
    pub(crate) fn library(message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            tag: None,
            message: message.into(),
            place: None,
            file: None,
            region: None,
            in_file: false,
            hint: None,
        })
    }

    /// Returns the message with its tag, as with `-x errtags`.
    pub fn with_tag(&self) -> String {
        match self.tag {
            Some(tag) => format!("[{}] {self}", tag.name()),
            None => self.to_string(),
        }
    }

    /// Returns the line of the source with a mark under the place; `None` if the place is unknown or not in `source`.
    pub fn frame(&self, source: &[u8]) -> Option<String> {
        if self.file.is_some() {
            return None;
        }
        self.place?.frame(source)
    }
}

impl fmt::Display for Error {
    /// Writes the message as libdtrace does; dtrace(1) puts the program's name before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tag.is_some() {
            let line = self.place.map_or(0, |place| place.line);
            match (&self.file, self.region) {
                (Some(file), _) => write!(f, "\"{file}\", line {line}: ")?,
                (None, _) if self.in_file && line != 0 => write!(f, "line {line}: ")?,
                (None, Some(region)) => write!(f, "in {region}: ")?,
                (None, None) => {}
            }
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
