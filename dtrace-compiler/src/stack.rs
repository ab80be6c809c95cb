//! The stack for functions that recurse through trees.

/// The size in bytes of the stack for the deepest tree. Without optimization, a level of the tree needs up to 12 KiB.
const SIZE: usize = 32 << 20;

/// Calls a function with enough stack for the deepest tree that the parser accepts.
pub(crate) fn with_room<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(SIZE, 2 * SIZE, f)
}
