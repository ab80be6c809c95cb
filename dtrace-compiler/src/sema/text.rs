//! Text that a probe passes as address and length: in D it is one value, a string.

use crate::surroundings::Argument;

/// Returns whether an argument is the address of text whose length is the next argument.
///
/// Probes in Rust express this by translated types (`sdt_core::arg`): the address is translated to `string`, and the
/// next argument from `size_t` to `size_t`. A probe that only translates a `char *` to a string does not translate the
/// next argument.
pub(super) fn is_text(arguments: &[Argument], argument: &Argument) -> bool {
    let behind =
        arguments.iter().find(|other| argument.mapping.checked_add(1) == Some(other.mapping));
    argument.translated == "string"
        && argument.native.ends_with('*')
        && behind.is_some_and(|length| length.native == "size_t" && length.translated == "size_t")
}
