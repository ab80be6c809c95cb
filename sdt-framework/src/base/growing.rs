//! Tables whose entries are written when they are first used, so that a host whose memory is provided at the first write (a
//! process) does not pay for entries that are never used.

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

use super::arena::Arena;

/// A table of a fixed capacity. The entries that exist are a slice.
#[derive(Debug)]
pub(crate) struct Growing<T: 'static> {
    room: &'static mut [MaybeUninit<T>],
    /// The number of entries that exist: those before it are initialised.
    count: usize,
}

impl<T: Copy> Growing<T> {
    /// Creates a table without room.
    pub(crate) const fn none() -> Self {
        Self { room: &mut [], count: 0 }
    }

    /// Allocates an empty table for this number of entries; `None` if there is no room.
    pub(crate) fn new(arena: &mut Arena, capacity: usize) -> Option<Self> {
        Some(Self { room: arena.uninit(capacity)?.leak(), count: 0 })
    }

    /// Returns the largest number of entries.
    pub(crate) fn capacity(&self) -> usize {
        self.room.len()
    }

    /// Appends copies of an entry until the entry at this index exists, if there is room.
    pub(crate) fn grow_to(&mut self, at: usize, entry: T) {
        while self.count <= at
            && let Some(place) = self.room.get_mut(self.count)
        {
            place.write(entry);
            self.count += 1;
        }
    }
}

impl<T> Deref for Growing<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let used = self.room.get(..self.count).unwrap_or_default();
        // SAFETY: `grow_to` has initialised the entries before `count`.
        unsafe { used.assume_init_ref() }
    }
}

impl<T> DerefMut for Growing<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let used = self.room.get_mut(..self.count).unwrap_or_default();
        // SAFETY: `grow_to` has initialised the entries before `count`.
        unsafe { used.assume_init_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_up_to_its_capacity() {
        let mut arena = Arena::new(vec![MaybeUninit::uninit(); 1024].leak(), |_| {});
        let mut table = Growing::new(&mut arena, 4).unwrap();
        assert_eq!((table.len(), table.capacity()), (0, 4));
        table.grow_to(1, 7);
        assert_eq!(*table, [7, 7]);
        table[0] = 1;
        table.grow_to(0, 9);
        table.grow_to(9, 5);
        assert_eq!(*table, [1, 7, 5, 5]);
    }
}
