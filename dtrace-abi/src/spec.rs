//! Probe descriptions: patterns that select probes by provider, module, function and name.

use core::fmt;

use crate::glob;
use crate::limits::{FUNCTION_NAME, MODULE_NAME, PROBE_NAME, PROVIDER_NAME};
use crate::name::Name;
use crate::ops::ProbeDesc;

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

/// An error in the text of a probe description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpecError {
    /// The text has more pieces than fields are allowed: those up to the parameter `last` of [`Spec::parse`].
    TooManyPieces {
        /// The number of pieces.
        pieces: usize,
        /// The greatest number of pieces.
        max: usize,
    },
    /// A piece is longer than a name of its field can be.
    TooLong {
        /// The field of the piece.
        field: Field,
        /// The length of the piece in bytes.
        len: usize,
        /// The greatest length in bytes.
        max: usize,
    },
    /// A piece contains a NUL.
    Nul {
        /// The field of the piece.
        field: Field,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPieces { pieces, max } => {
                write!(
                    f,
                    "probe description has {pieces} fields, and at most {max} are allowed \
                           here"
                )
            }
            Self::TooLong { field, len, max } => {
                write!(
                    f,
                    "{field} in probe description has {len} bytes, and at most {max} are \
                           allowed"
                )
            }
            Self::Nul { field } => write!(f, "{field} in probe description contains a NUL"),
        }
    }
}

impl core::error::Error for SpecError {}

/// One field of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern<const N: usize> {
    /// Any name.
    Any,
    /// This name.
    Exact(Name<N>),
    /// Every name that matches.
    Glob(Name<N>),
}

impl<const N: usize> Pattern<N> {
    fn new(field: Field, bytes: &[u8]) -> Result<Self, SpecError> {
        if bytes.contains(&0) {
            return Err(SpecError::Nul { field });
        }
        let text =
            Name::new(bytes).ok_or(SpecError::TooLong { field, len: bytes.len(), max: N - 1 })?;
        Ok(match bytes {
            [] => Self::Any,
            _ if glob::is_glob(bytes) => Self::Glob(text),
            _ => Self::Exact(text),
        })
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => *text == *name,
            Self::Glob(text) => glob::matches(text.to_bytes(), name),
        }
    }

    /// Returns the text of the pattern; empty for `Any`.
    fn text(&self) -> &Name<N> {
        match self {
            Self::Any => const { &Name::EMPTY },
            Self::Exact(text) | Self::Glob(text) => text,
        }
    }

    /// Returns the name if the pattern matches one name only.
    fn exact(&self) -> Option<&[u8]> {
        match self {
            Self::Exact(text) => Some(text.to_bytes()),
            _ => None,
        }
    }
}

/// Returns the pieces of a description, the last one first. Colons separate the pieces. If there are more colons than
/// fields, each `::` belongs to the function, as in listed Rust paths.
pub fn pieces(text: &str, last: Field) -> impl Iterator<Item = &str> {
    let path = with_path(text, last);
    let plain = if path.is_some() { "" } else { text };
    let plain = plain.rsplit(':').filter(move |_| path.is_none());
    path.into_iter().flatten().flatten().chain(plain)
}

/// Splits a description whose function is a Rust path into name, function, module and provider. `None` if the function
/// is not a path, or if provider, module or (for [`Field::Name`]) name is missing. The first piece is `None` for
/// [`Field::Function`].
fn with_path(text: &str, last: Field) -> Option<[Option<&str>; 4]> {
    let (provider, rest) = text.split_once(':')?;
    let (module, rest) = rest.split_once(':')?;
    let (function, name) = match last {
        Field::Name => rest.rsplit_once(':').map(|(function, name)| (function, Some(name)))?,
        Field::Function => (rest, None),
        _ => return None,
    };
    let is_path = function.contains("::")
        && function.split("::").all(|part| !part.is_empty() && !part.contains(':'));
    is_path.then_some([name, Some(function), Some(module), Some(provider)])
}

/// A probe description: a pattern for each of the four names.
///
/// An empty field matches any name. `*`, `?`, `[abc]`, `[a-z]`, `[!x]` and `\` have the same meaning as in DTrace; a
/// field without any of them matches only the identical name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    provider: Pattern<PROVIDER_NAME>,
    module: Pattern<MODULE_NAME>,
    function: Pattern<FUNCTION_NAME>,
    name: Pattern<PROBE_NAME>,
}

impl Spec {
    /// Every probe.
    pub const ALL: Self = Self {
        provider: Pattern::Any,
        module: Pattern::Any,
        function: Pattern::Any,
        name: Pattern::Any,
    };

    /// Parses a description. Colons separate its pieces, and the last piece is the field `last`, the piece before it the field
    /// before, and so on. Other fields match everything. White space around a piece is ignored, as libdtrace does
    /// (`dtrace_xstr2desc`).
    ///
    /// ```
    /// use dtrace_abi::spec::{Field, Spec};
    ///
    /// Spec::parse("exec-success", Field::Name)?; // any provider, module and function
    /// Spec::parse("proc:::exec-*", Field::Name)?;
    /// Spec::parse("vfs:lookup", Field::Function)?; // module vfs, function lookup
    /// Spec::parse("shop:shop:shop::serve:sale", Field::Name)?; // function shop::serve
    /// assert!(Spec::parse("proc::exec", Field::Module).is_err());
    /// # Ok::<(), dtrace_abi::spec::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// There are too many pieces for `last`, or a piece is too long or contains a NUL.
    pub fn parse(text: &str, last: Field) -> Result<Self, SpecError> {
        let max = last as usize + 1;
        let mut spec = Self::ALL;
        for (back, piece) in pieces(text, last).map(str::trim).enumerate() {
            let Some(field) = (last as usize).checked_sub(back) else {
                return Err(SpecError::TooManyPieces { pieces: text.split(':').count(), max });
            };
            match field {
                0 => spec.provider = Pattern::new(Field::Provider, piece.as_bytes())?,
                1 => spec.module = Pattern::new(Field::Module, piece.as_bytes())?,
                2 => spec.function = Pattern::new(Field::Function, piece.as_bytes())?,
                _ => spec.name = Pattern::new(Field::Name, piece.as_bytes())?,
            }
        }
        Ok(spec)
    }

    /// Returns the description with these fields, in the order of a DOF: provider, module, function, name.
    ///
    /// # Errors
    /// A field is too long or contains a NUL.
    pub fn of_fields([provider, module, function, name]: [&[u8]; 4]) -> Result<Self, SpecError> {
        Ok(Self {
            provider: Pattern::new(Field::Provider, provider)?,
            module: Pattern::new(Field::Module, module)?,
            function: Pattern::new(Field::Function, function)?,
            name: Pattern::new(Field::Name, name)?,
        })
    }

    /// Returns whether the description matches the probe with these names: provider, module, function, name.
    pub fn matches(&self, [provider, module, function, name]: [&[u8]; 4]) -> bool {
        // The name first: it differs most often.
        self.name.matches(name)
            && self.provider.matches(provider)
            && self.module.matches(module)
            && self.function.matches(function)
    }

    /// Returns for provider, function and name the only name that the description matches; `None` for a field that
    /// matches several.
    pub fn exact(&self) -> [Option<&[u8]>; 3] {
        [self.provider.exact(), self.function.exact(), self.name.exact()]
    }

    /// Returns the description in the form that a provider's `provide` function receives.
    pub fn desc(&self) -> ProbeDesc {
        ProbeDesc {
            id: 0,
            provider: *self.provider.text(),
            module: *self.module.text(),
            function: *self.function.text(),
            name: *self.name.text(),
        }
    }
}

/// `provider:module:function:name`
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, module, function, name } = self;
        let (provider, module) = (provider.text(), module.text());
        write!(f, "{provider}:{module}:{}:{}", function.text(), name.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str, last: Field) -> Result<[String; 4], SpecError> {
        let spec = Spec::parse(text, last)?;
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        Ok([
            text(spec.provider.text().to_bytes()),
            text(spec.module.text().to_bytes()),
            text(spec.function.text().to_bytes()),
            text(spec.name.text().to_bytes()),
        ])
    }

    #[test]
    fn paths_are_functions() {
        let four = |text| fields(text, Field::Name);
        let found = |fields: [&str; 4]| Ok(fields.map(str::to_owned));
        assert_eq!(four("shop:shop:a::b:sale"), found(["shop", "shop", "a::b", "sale"]));
        assert_eq!(four("shop::a::b::c:sale"), found(["shop", "", "a::b::c", "sale"]));
        assert_eq!(four("::a::b:"), found(["", "", "a::b", ""]));
        assert_eq!(four("p:m:*::b:n"), found(["p", "m", "*::b", "n"]));
        assert_eq!(fields("p:m:a::b", Field::Function), found(["p", "m", "a::b", ""]));
        // As in DTrace, a text of four pieces has one piece for each field, and no other text is a path.
        assert_eq!(four("a::b:c"), found(["a", "", "b", "c"]));
        for text in ["a:b:c:d:e", "a:b::c:d", "a:b:c:::d:e", "a:b:c::d::e", "a:b:::c::d:e"] {
            let wrong = SpecError::TooManyPieces { pieces: text.split(':').count(), max: 4 };
            assert_eq!(four(text), Err(wrong), "{text}");
        }
        assert!(fields("p:m:a::b", Field::Module).is_err());
    }
}
