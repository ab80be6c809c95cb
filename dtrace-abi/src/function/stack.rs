//! The memory that emulated instructions access.

/// The stack of the code whose instruction is emulated.
///
/// The addresses are those that the instruction itself would have accessed: at the stack pointer or above it, and for an
/// instruction that pushes, at most 512 bytes below it.
pub trait Stack {
    /// Returns the word at an address.
    fn load(&mut self, address: u64) -> u64;

    /// Stores a word at an address.
    fn store(&mut self, address: u64, value: u64);
}
