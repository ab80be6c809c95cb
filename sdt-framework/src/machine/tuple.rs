//! The tuple: arguments of a subroutine, keys of an element.

use dtrace_abi::fault::Fault;

use super::declare::VARIABLE_SIZE;
use super::failure::Stop;

/// Bytes of a string that is pushed without a size (`dtrace_strsize_default`, dtrace.c).
pub(crate) const DEFAULT_STRING: u64 = 256;
/// The greatest number of bytes of a key that are compared: the greatest size of a variable.
pub(crate) const KEY_SIZE: u64 = VARIABLE_SIZE as u64;

/// Entries of the tuple stack.
const TUPLE: usize = dtrace_abi::limits::TUPLE_REGISTERS as usize;

/// An entry of the tuple: a number (then `size` is 0), or the address and the size in bytes of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) value: u64,
    pub(super) size: u64,
}

/// Arguments of a subroutine, keys of an element.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuple {
    entries: [Entry; TUPLE],
    depth: usize,
}

impl Tuple {
    pub(super) const EMPTY: Self = Self { entries: [Entry { value: 0, size: 0 }; TUPLE], depth: 0 };

    /// An argument; 0 if it was not pushed.
    pub(crate) fn arg(&self, index: usize) -> u64 {
        self.given(index).unwrap_or(0)
    }

    /// An argument, if it was pushed.
    pub(crate) fn given(&self, index: usize) -> Option<u64> {
        self.entries.get(..self.depth)?.get(index).map(|entry| entry.value)
    }

    /// All entries that were pushed.
    pub(super) fn entries(&self) -> &[Entry] {
        self.entries.get(..self.depth).unwrap_or_default()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.depth == TUPLE
    }

    pub(super) const fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    pub(super) const fn clear(&mut self) {
        self.depth = 0;
    }

    pub(super) fn push(&mut self, value: u64, size: u64) -> Result<(), Stop> {
        let entry = self.entries.get_mut(self.depth).ok_or(Stop::new(Fault::TupleOverflow))?;
        *entry = Entry { value, size };
        self.depth += 1;
        Ok(())
    }
}
