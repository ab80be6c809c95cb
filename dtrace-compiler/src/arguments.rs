//! Arguments by name: `args.path`.
//!
//! An argument in Rust occupies one or two of D's arguments. The types of the two identify their common meaning
//! (`sdt_core::arg`).

use crate::surroundings::Argument;

/// The types of the address of text or bytes, for kernels whose D has no strings of known length.
const BYTES: [&str; 2] = ["char *", "uint8_t *"];

/// The common meaning of the positions of a named argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value.
    One,
    /// Text: address and length; a string in D.
    Text,
    /// A slice: address and length in elements.
    Slice,
    /// An optional value: the value, and whether it exists.
    Optional,
    /// The halves of an integer of 128 bits, the low one first.
    Wide,
    /// Two values of another meaning.
    Pair,
}

impl Shape {
    /// Returns the shape of a named argument. `words` are its positions, of which `all` are the probe's.
    fn of(all: &[Argument], words: &[Argument]) -> Self {
        let [first, second] = words else { return Self::One };
        let is_wide = first.native == "uint64_t"
            && (second.native == "uint64_t" || second.native == "int64_t");
        match &*second.native {
            _ if is_text(all, first) => Self::Text,
            "size_t" if BYTES.contains(&&*first.native) => Self::Text,
            "size_t" if first.native.ends_with('*') => Self::Slice,
            "_Bool" => Self::Optional,
            _ if is_wide => Self::Wide,
            _ => Self::Pair,
        }
    }

    /// Returns the names of the members that select the first and the second position, such as `len`.
    pub const fn parts(self) -> [Option<&'static str>; 2] {
        match self {
            Self::One | Self::Pair => [None, None],
            Self::Text | Self::Slice => [None, Some("len")],
            Self::Optional => [None, Some("is_some")],
            Self::Wide => [Some("low"), Some("high")],
        }
    }
}

/// A named argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The index of its first position in `args[]`.
    pub index: usize,
    pub shape: Shape,
}

/// Returns the argument with a name.
pub(crate) fn find(arguments: &[Argument], name: &str) -> Option<Found> {
    let index = arguments.iter().position(|argument| argument.name == name)?;
    Some(Found { index, shape: Shape::of(arguments, words(arguments, index)) })
}

/// Returns the names of a probe's arguments, each once.
pub(crate) fn names(arguments: &[Argument]) -> Vec<&str> {
    let mut names: Vec<&str> = arguments.iter().map(|argument| &*argument.name).collect();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the name of a position in `args[]` as a program writes it after `args.`: `path` or `path.len`.
pub fn name_of(arguments: &[Argument], index: usize) -> Option<String> {
    let name = &*arguments.get(index)?.name;
    let found = find(arguments, name).filter(|_| !name.is_empty())?;
    let position = index - found.index;
    match found.shape.parts()[position.min(1)] {
        Some(part) => Some(format!("{name}.{part}")),
        None if position == 0 && found.shape != Shape::Pair => Some(name.to_owned()),
        None => None,
    }
}

/// Returns the positions of the argument that begins at an index: those with its name.
fn words(arguments: &[Argument], index: usize) -> &[Argument] {
    let rest = &arguments[index..];
    let count = rest.iter().take_while(|argument| argument.name == rest[0].name).count();
    &rest[..count]
}

/// Returns whether an argument is the address of text whose length is the next argument.
///
/// Probes in Rust express this by translated types (`sdt_core::arg`): the address is translated to `string`, and the
/// next argument from `size_t` to `size_t`. A declaration that only translates a `char *` to a string does not
/// translate the next argument.
pub(crate) fn is_text(arguments: &[Argument], argument: &Argument) -> bool {
    let behind =
        arguments.iter().find(|other| argument.mapping.checked_add(1) == Some(other.mapping));
    argument.translated == "string"
        && argument.native.ends_with('*')
        && behind.is_some_and(|length| length.native == "size_t" && length.translated == "size_t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(all: &[(&str, &str, &str)]) -> Vec<Argument> {
        let argument = |(&(name, native, translated), mapping)| Argument {
            name: String::from(name),
            native: String::from(native),
            translated: String::from(translated),
            mapping,
            obstacle: None,
        };
        all.iter().zip(0..).map(argument).collect()
    }

    #[test]
    fn positions_have_names() {
        let all = arguments(&[
            ("id", "uint64_t", ""),
            ("path", "char *", "string"),
            ("path", "size_t", "size_t"),
            ("all", "uint32_t *", ""),
            ("all", "size_t", ""),
            ("tries", "int", ""),
            ("tries", "_Bool", ""),
            ("", "int", ""),
            ("key", "uint64_t", ""),
            ("key", "int64_t", ""),
        ]);
        let named: Vec<_> = (0..=all.len()).map(|index| name_of(&all, index)).collect();
        let named: Vec<_> = named.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        let expected = [
            "id",
            "path",
            "path.len",
            "all",
            "all.len",
            "tries",
            "tries.is_some",
            "-",
            "key.low",
            "key.high",
            "-",
        ];
        assert_eq!(named, expected);
        assert_eq!(names(&all), ["id", "path", "all", "tries", "key"]);
        assert_eq!(find(&all, "all"), Some(Found { index: 3, shape: Shape::Slice }));
        assert_eq!(find(&all, "none"), None);
    }

    #[test]
    fn two_values_of_a_type_with_its_own_words_have_no_parts() {
        let all = arguments(&[("point", "int", ""), ("point", "int", "")]);
        assert_eq!(find(&all, "point"), Some(Found { index: 0, shape: Shape::Pair }));
        assert_eq!(name_of(&all, 0), None);
    }

    #[test]
    fn text_of_freebsd_and_illumos_is_text() {
        let all = arguments(&[("name", "char *", ""), ("name", "size_t", "")]);
        assert_eq!(find(&all, "name"), Some(Found { index: 0, shape: Shape::Text }));
    }
}
