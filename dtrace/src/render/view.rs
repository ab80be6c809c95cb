//! What is needed to show anything.

use std::borrow::Cow;

use dtrace_abi::option::{OptionId, UNSET};
use dtrace_compiler::options::{Encoding, Options};
use dtrace_compiler::types::Types;
use jiff::tz::TimeZone;

use super::symbol::{Names, Symbols};
use crate::escape;

/// The surroundings of everything that is shown: options, names, types, the time zone.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Options, as they are by now.
    pub options: &'a Options,
    /// What stands at addresses.
    pub symbols: &'a dyn Symbols,
    /// The compiler's types: those that `print` names.
    pub types: &'a Types,
    /// Where `%Y` and `%T` are.
    pub zone: &'a TimeZone,
    /// Names of Rust's symbols are shown as they are in the file.
    pub raw_names: bool,
    /// Bars have a colour: escapes of a terminal's.
    pub color: bool,
    /// Data go to a terminal: it is shown the characters that it would obey.
    pub terminal: bool,
    /// The kernel that is shown, where there are several.
    pub host: Option<&'a str>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    pub(super) fn names(&self) -> Names<'a> {
        Names { symbols: self.symbols, raw: self.raw_names }
    }

    /// What a message begins with: the kernel that it is of, where there are several.
    pub(super) fn whose(&self) -> String {
        self.host.map_or_else(String::new, |host| format!("{host}: "))
    }

    /// Recorded text as it is written: as it is, unless a terminal would obey it.
    pub(super) fn data<'d>(&self, text: &'d [u8]) -> Cow<'d, [u8]> {
        if self.terminal { escape::data(text) } else { Cow::Borrowed(text) }
    }

    /// Whether an option was set.
    pub(super) const fn is_set(&self, option: OptionId) -> bool {
        self.options.get(option) != UNSET
    }

    /// Whether distributions are drawn with block elements: asked for, or not.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        self.options.encoding
    }

    /// Room for a string.
    pub(super) fn strsize(&self) -> usize {
        match self.options.get(OptionId::Strsize) {
            UNSET => 256,
            size => usize::try_from(size).unwrap_or(256),
        }
    }
}
