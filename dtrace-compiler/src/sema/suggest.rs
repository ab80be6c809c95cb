//! Suggestions for names of programs that do not exist.

use dtrace_abi::ErrTag;

use super::Session;
use super::session::Scope;
use crate::error::Result;
use crate::suggest::{closest, did_you_mean, prefixed};

impl Session<'_> {
    /// Returns an error about an unknown name; `similar` is a similar name that exists.
    pub fn unknown_name<T>(
        &self,
        tag: ErrTag,
        message: String,
        similar: Option<String>,
    ) -> Result<T> {
        self.error_with_hint(tag, message, similar.map(|name| did_you_mean(&name)))
    }

    /// Returns an error with a hint.
    pub fn error_with_hint<T>(
        &self,
        tag: ErrTag,
        message: String,
        hint: Option<String>,
    ) -> Result<T> {
        self.error(tag, message).map_err(|mut error| {
            error.hint = hint;
            error
        })
    }

    /// Returns the global name that differs by one letter.
    pub fn close_global(&self, name: &str) -> Option<String> {
        closest(name, self.state.globals.names.keys().map(String::as_str))
    }

    /// Returns the variable or enumerator that a name of this scope may mean.
    pub fn similar_name(&self, scope: Scope, name: &str) -> Option<String> {
        let own = || self.table(scope).names.keys().map(String::as_str);
        let of_modules = || self.state.names_of_modules().filter(|_| scope == Scope::Global);
        let all = || own().chain(of_modules());
        closest(name, all()).or_else(|| prefixed(name, all()))
    }
}
