//! The module loader.

/// What may be done with a stretch of memory. None may be both written and executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Code.
    Execute,
    /// Constants.
    Read,
    /// Data.
    Write,
}
