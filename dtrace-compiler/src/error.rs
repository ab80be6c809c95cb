//! What is wrong with a program, in libdtrace's words.

use std::fmt;

use dtrace_abi::ErrTag;

use crate::syntax::Place;

/// Why a program was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which error it is. `None` for what has no tag: a table that is full, a stream that cannot be
    /// read.
    pub tag: Option<ErrTag>,
    /// The message, without its place.
    pub message: String,
    /// Where it is, as far as that is known.
    pub place: Option<Place>,
    /// The file, if the place is in one with a name of its own: a library, or what `#line` names.
    pub file: Option<String>,
    /// What was looked at: an action list or a predicate. Said where there are no lines.
    pub region: Option<&'static str>,
    /// Whether the program is a file, whose errors name lines.
    pub in_file: bool,
    /// A name that may have been meant.
    pub hint: Option<String>,
}

/// What the parts of the compiler answer with.
pub(crate) type Result<T> = std::result::Result<T, Box<Error>>;

impl Error {
    /// An error with a tag.
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

    /// An error of the library's, which is nowhere in particular.
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

    /// The message with its tag before it, as with `-xerrtags`.
    pub fn with_tag(&self) -> String {
        match self.tag {
            Some(tag) => format!("[{}] {self}", tag.name()),
            None => self.to_string(),
        }
    }

    /// The line of the source that it is in, with a mark under the place, for those who want more
    /// than the one line. `None` where the place is not known or not in `source`.
    pub fn frame(&self, source: &[u8]) -> Option<String> {
        if self.file.is_some() {
            return None;
        }
        let start = self.place?.start as usize;
        let before = source.get(..start)?;
        let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let line = source.get(begin..)?.split(|&byte| byte == b'\n').next()?;
        let text = String::from_utf8_lossy(line);
        let blanks = source[begin..start].iter().map(|&b| if b == b'\t' { '\t' } else { ' ' });
        Some(format!("{text}\n{}^", blanks.collect::<String>()))
    }
}

impl fmt::Display for Error {
    /// As libdtrace says it, after the program's name that dtrace(1) puts before it.
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
