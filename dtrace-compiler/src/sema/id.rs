//! Numbers of names and translators, by which nodes refer to them.

/// The index of a name in the list of all names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct IdentId(pub u32);

/// The index of a translator in the list of all translators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XlatorId(pub usize);
