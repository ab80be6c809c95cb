//! Text that a probe carries by address and length: one value for D, a string.

use crate::surroundings::Argument;

/// Whether an argument is the address of text, whose length is the one behind it.
///
/// Probes of Rust's say it by what D is to see (`sdt_core::arg`): a `string` for the address, and behind it a `size_t` that
/// is given as one, too. Who only wants a `char *` to be a string says nothing of the next argument's `size_t`.
pub(super) fn is_text(arguments: &[Argument], argument: &Argument) -> bool {
    let behind =
        arguments.iter().find(|other| argument.mapping.checked_add(1) == Some(other.mapping));
    argument.translated == "string"
        && argument.native.ends_with('*')
        && behind.is_some_and(|length| length.native == "size_t" && length.translated == "size_t")
}
