//! Probe descriptions: which probes are meant.

use core::fmt;

use sdt_core::ops::{
    FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN, ProbeDesc,
};

use crate::glob;
use crate::name::Name;

/// The fields of a probe description, from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Provider (`dtrace -P`).
    Provider,
    /// Module (`dtrace -m`).
    Module,
    /// Function (`dtrace -f`).
    Function,
    /// Name (`dtrace -n`).
    Name,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "provider",
            Self::Module => "module",
            Self::Function => "function",
            Self::Name => "name",
        })
    }
}

/// What is wrong with the text of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpecError {
    /// There are more pieces than fields up to the last one.
    TooManyPieces {
        /// How many there are.
        pieces: usize,
        /// How many there may be.
        max: usize,
    },
    /// A piece is longer than a name of its field can be.
    TooLong {
        /// Which field it is for.
        field: Field,
        /// Its length in bytes.
        len: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// A piece holds a NUL.
    Nul {
        /// Which field it is for.
        field: Field,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPieces { pieces, max } => {
                write!(f, "probe description has {pieces} pieces, at most {max} are possible here")
            }
            Self::TooLong { field, len, max } => {
                write!(f, "{field} in probe description is {len} bytes long, at most {max} fit")
            }
            Self::Nul { field } => write!(f, "{field} in probe description holds a NUL"),
        }
    }
}

impl core::error::Error for SpecError {}

/// One field of a description.
#[derive(Clone, Copy, Debug)]
struct Pattern<const N: usize> {
    text: Name<N>,
    glob: bool,
}

impl<const N: usize> Pattern<N> {
    const ANY: Self = Self { text: Name::EMPTY, glob: false };

    fn new(field: Field, text: &str) -> Result<Self, SpecError> {
        let bytes = text.as_bytes();
        if bytes.contains(&0) {
            return Err(SpecError::Nul { field });
        }
        let name =
            Name::new(bytes).ok_or(SpecError::TooLong { field, len: bytes.len(), max: N - 1 })?;
        Ok(Self { text: name, glob: glob::is_glob(bytes) })
    }

    fn matches(&self, name: &Name<N>) -> bool {
        if self.text.is_empty() {
            true
        } else if self.glob {
            glob::matches(self.text.as_bytes(), name.as_bytes())
        } else {
            self.text == *name
        }
    }
}

/// A probe description: a pattern for each of the four names.
///
/// An empty field is any name. `*`, `?`, `[abc]`, `[a-z]`, `[!x]` and `\` mean what they mean to
/// DTrace; a field without any of them is compared as it is.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    provider: Pattern<PROVIDER_NAME_LEN>,
    module: Pattern<MODULE_NAME_LEN>,
    function: Pattern<FUNCTION_NAME_LEN>,
    name: Pattern<PROBE_NAME_LEN>,
}

impl Spec {
    /// Every probe.
    pub const ALL: Self = Self {
        provider: Pattern::ANY,
        module: Pattern::ANY,
        function: Pattern::ANY,
        name: Pattern::ANY,
    };

    /// The description that `text` is, its pieces, divided by `:`, filling the fields from the right:
    /// the last piece is field `last`, the piece before it the field before. White space around the
    /// text is left out, as D's lexer does.
    ///
    /// ```
    /// use sdt_framework::{Field, Spec};
    ///
    /// Spec::parse("exec-success", Field::Name)?; // any provider, module and function
    /// Spec::parse("proc:::exec-*", Field::Name)?;
    /// Spec::parse("vfs:lookup", Field::Function)?; // module vfs, function lookup
    /// assert!(Spec::parse("proc::exec", Field::Module).is_err());
    /// # Ok::<(), sdt_framework::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// Too many pieces for `last`, or one that is too long.
    pub fn parse(text: &str, last: Field) -> Result<Self, SpecError> {
        let text = text.trim();
        let max = last as usize + 1;
        let pieces = text.split(':').count();
        if pieces > max {
            return Err(SpecError::TooManyPieces { pieces, max });
        }
        let mut spec = Self::ALL;
        for (back, piece) in text.rsplit(':').enumerate() {
            match last as usize - back {
                0 => spec.provider = Pattern::new(Field::Provider, piece)?,
                1 => spec.module = Pattern::new(Field::Module, piece)?,
                2 => spec.function = Pattern::new(Field::Function, piece)?,
                _ => spec.name = Pattern::new(Field::Name, piece)?,
            }
        }
        Ok(spec)
    }

    pub(crate) fn matches(
        &self,
        provider: &Name<PROVIDER_NAME_LEN>,
        module: &Name<MODULE_NAME_LEN>,
        function: &Name<FUNCTION_NAME_LEN>,
        name: &Name<PROBE_NAME_LEN>,
    ) -> bool {
        // The most telling field first.
        self.name.matches(name)
            && self.provider.matches(provider)
            && self.module.matches(module)
            && self.function.matches(function)
    }

    /// The description as it is handed to a provider's `provide`.
    pub(crate) fn desc(&self) -> ProbeDesc {
        ProbeDesc {
            id: 0,
            provider: self.provider.text.as_chars(),
            module: self.module.text.as_chars(),
            function: self.function.text.as_chars(),
            name: self.name.text.as_chars(),
        }
    }
}
