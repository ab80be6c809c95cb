//! The bytes around an instruction that a jump may overwrite.

/// The bytes around an instruction that a jump may overwrite together with it: whole instructions that are executed one after the other, and to
/// which, except to the first one, nothing jumps. A host that cannot use it, or does not believe it, replaces the instruction alone, by a
/// breakpoint.
///
/// The type has no default, as no bytes around an instruction are still a window: a jump may overwrite the instruction itself if it is long
/// enough. An instruction that no jump may overwrite has no window: `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The number of bytes before the instruction.
    pub before: u8,
    /// The number of bytes after the instruction.
    pub after: u8,
}
