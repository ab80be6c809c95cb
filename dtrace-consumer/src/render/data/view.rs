//! The context for rendering: options, symbols, types, and settings of the output.

use std::borrow::Cow;

use dtrace_abi::option::OptionId;
use dtrace_compiler::options::{Encoding, Options};
use dtrace_compiler::types::Types;
use jiff::tz::TimeZone;

use crate::escape;
use crate::render::data::symbol::{Names, Symbols};

/// The context of everything that is shown: options, symbols, types, the time zone.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The options, with the changes that programs have made.
    pub options: &'a Options,
    /// Symbols by address.
    pub symbols: &'a dyn Symbols,
    /// The compiler's types, for `print`.
    pub types: &'a Types,
    /// The time zone of `%Y` and `%T`.
    pub zone: &'a TimeZone,
    /// Whether bars have a colour.
    pub color: bool,
    /// Whether the output goes to a terminal: control characters in data are escaped.
    pub terminal: bool,
    /// The kernel's name, if there are several kernels.
    pub host: Option<&'a str>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    pub(in crate::render) fn names(&self) -> Names<'a> {
        Names { symbols: self.symbols, raw: self.options.raw_names }
    }

    /// Returns the beginning of messages: the kernel's name, if there are several kernels.
    pub(in crate::render) fn whose(&self) -> String {
        self.host.map_or_else(String::new, |host| format!("{host}: "))
    }

    /// Returns recorded text as it is written: unchanged, or with escaped control characters for a terminal.
    pub(in crate::render) fn data<'d>(&self, text: &'d [u8]) -> Cow<'d, [u8]> {
        if self.terminal { escape::data(text) } else { Cow::Borrowed(text) }
    }

    /// Returns whether an option was set.
    pub(in crate::render) const fn is_set(&self, option: OptionId) -> bool {
        self.options.is_set(option)
    }

    /// Returns the characters of bars, if the user has chosen them.
    pub(in crate::render) fn encoding(&self) -> Option<Encoding> {
        self.options.encoding
    }

    /// Returns the size of a string in bytes.
    pub(in crate::render) fn strsize(&self) -> usize {
        let size = self.options.number(OptionId::Strsize);
        size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default()
    }
}
