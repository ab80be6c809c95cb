//! Suggestions for names of programs that do not exist.

use dtrace_abi::ErrTag;

use super::Session;
use crate::error::Result;
use crate::suggest::closest;

impl Session<'_> {
    /// Returns an error about an unknown name, with a suggestion.
    pub fn unknown_name<T>(&self, tag: ErrTag, message: String, hint: Option<String>) -> Result<T> {
        self.error(tag, message).map_err(|mut error| {
            error.hint = hint;
            error
        })
    }

    /// Returns the global name that differs by one letter.
    pub fn close_global(&self, name: &str) -> Option<String> {
        closest(name, self.state.globals.names.keys().map(String::as_str))
    }
}
