//! Names for the arguments of probes, as inlines.
//!
//! The kernel's D numbers arguments: a `&str` is `arg0` and `arg1`. The library declares `PROVIDER__PROBE__ARGUMENT`
//! for its value, and with `__len`, `__is_some`, `__low` or `__high` for its parts. Dashes and dots in the names become
//! underscores. If two arguments would get the same name, neither gets it, and the library contains a comment instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dtrace_compiler::declared::{Declarations, Named, Probe};

use super::library::KNOWN;
use crate::platform::Os;

/// The number of arguments that D names: `arg0` to `arg9`.
const ARGUMENTS: usize = 10;

/// Types of the address of text.
const TEXT: [&str; 2] = ["char *", "uint8_t *"];

/// An inline for an argument, or for a part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inline {
    name: String,
    /// Its type in D, followed by a blank unless it ends with a star.
    ty: String,
    value: String,
    /// The struct or union that it points to, which must be declared in D.
    pub(super) points_to: Option<String>,
    /// The argument, as the declaration names it.
    of: String,
}

/// Returns the inlines for the arguments of all probes whose types are known.
pub(super) fn inlines(description: &Declarations, os: Os) -> Vec<Inline> {
    let mut all = Vec::new();
    for probe in &description.probes {
        let mut position = 0;
        for argument in &probe.arguments {
            let end = position + argument.words;
            if end <= ARGUMENTS && argument.is_typed() && !argument.name.is_empty() {
                let maker = Maker { description, os, probe, argument };
                maker.make(position, &mut all);
            }
            position = end;
        }
    }
    all
}

/// Returns the text of inlines.
pub(super) fn render(inlines: &[Inline]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for inline in inlines {
        *counts.entry(&inline.name).or_default() += 1;
    }
    let mut text = String::new();
    if !inlines.is_empty() {
        text.push('\n');
    }
    for Inline { name, ty, value, of, .. } in inlines {
        let line = match counts[&**name] {
            1 => format!("inline {ty}{name} = {value};"),
            _ => {
                format!("/* {of} has no name here: another argument would have the same, {name} */")
            }
        };
        writeln!(text, "{line}").expect("strings take writes");
    }
    text
}

/// Makes the inlines of an argument.
struct Maker<'a> {
    description: &'a Declarations,
    os: Os,
    probe: &'a Probe,
    argument: &'a Named,
}

impl Maker<'_> {
    fn make(&self, position: usize, all: &mut Vec<Inline>) {
        let word = |offset: usize| format!("arg{}", position + offset);
        let types: Vec<&str> = self.argument.types.iter().map(String::as_str).collect();
        match types[..] {
            ["uint64_t", "uint64_t" | "int64_t"] => {
                self.typed("__low", 0, &word, all);
                self.typed("__high", 1, &word, all);
            }
            [address, "size_t"] if TEXT.contains(&address) => {
                let value = self.text(&word(0), &word(1));
                all.push(self.inline("", "string ", value));
                self.typed("__len", 1, &word, all);
            }
            [address, "size_t"] if address.ends_with('*') => {
                self.typed("", 0, &word, all);
                self.typed("__len", 1, &word, all);
            }
            [_, "_Bool"] => {
                self.typed("", 0, &word, all);
                self.typed("__is_some", 1, &word, all);
            }
            [_] => self.typed("", 0, &word, all),
            _ => {}
        }
    }

    /// Adds the inline for a word of the argument, with the word's type.
    fn typed(
        &self,
        part: &str,
        offset: usize,
        word: &impl Fn(usize) -> String,
        all: &mut Vec<Inline>,
    ) {
        let (ty, points_to) = self.ty(&self.argument.types[offset]);
        let value = format!("({}){}", ty.trim_end(), word(offset));
        all.push(Inline { points_to, ..self.inline(part, &ty, value) });
    }

    fn inline(&self, part: &str, ty: &str, value: String) -> Inline {
        let Probe { provider, name, .. } = self.probe;
        let name_of = |name: &str| name.replace(['-', '.'], "_");
        let argument = &self.argument.name;
        Inline {
            name: format!("{}__{}__{argument}{part}", name_of(provider), name_of(name)),
            ty: ty.to_owned(),
            value,
            points_to: None,
            of: format!("{argument} of {provider}:::{name}"),
        }
    }

    /// Returns the expression for text by address and length. On FreeBSD it reads no byte after the text.
    fn text(&self, address: &str, length: &str) -> String {
        match self.os {
            Os::FreeBsd => {
                format!("memstr((void *){address}, '?', ({length} < 4095 ? {length} : 4095) + 1)")
            }
            Os::Illumos => format!("substr(stringof((char *){address}), 0, {length})"),
        }
    }

    /// Returns the type of a value in D, and the struct or union to which it points. D refuses a library with an
    /// unknown type: an unknown pointer is a `void *`, and an unknown number an `uint64_t`.
    fn ty(&self, native: &str) -> (String, Option<String>) {
        let known = |name: &str| KNOWN.iter().find(|(known, ..)| *known == name);
        let Some(to) = native.strip_suffix('*') else {
            let is_enum = self.description.enums.iter().any(|of| of.name == native);
            let ty = known(native).map_or("uint64_t", |(_, _, written)| written);
            return (format!("{} ", if is_enum { native } else { ty }), None);
        };
        let to = to.trim_end_matches(['*', ' ']);
        let stars = &native[to.len()..];
        let is_declared = self.description.structs.iter().any(|of| of.name == to);
        let is_tagged = to.starts_with("struct ") || to.starts_with("union ");
        match known(to) {
            Some((_, _, written)) => (format!("{written}{stars}"), None),
            None if to == "void" || is_declared => (native.to_owned(), None),
            None if is_tagged => (native.to_owned(), Some(to.to_owned())),
            None => ("void *".to_owned(), None),
        }
    }
}
