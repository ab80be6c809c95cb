//! Doubly linked lists of table entries by index, in which insertion and removal take constant time.

use super::arena::Arena;
use super::growing::Growing;

/// The ends of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    /// Index plus one, or 0 for none; the same for all links of this file.
    first: u32,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { first: 0, len: 0 };

    pub(crate) fn first(&self) -> Option<usize> {
        entry(self.first)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Counts one more entry of a list that has only a number.
    pub(crate) fn count_in(&mut self) {
        self.len += 1;
    }

    /// Counts one entry less of a list that has only a number.
    pub(crate) fn count_out(&mut self) {
        self.len -= 1;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    next: u32,
    /// The previous entry; of the first entry, the last.
    previous: u32,
}

impl Link {
    /// The link of an entry that is in no list.
    pub(crate) const NONE: Self = Self { next: 0, previous: 0 };
}

/// The links of a table. Each entry is in at most one list.
#[derive(Debug)]
pub(crate) struct Links(Growing<Link>);

fn entry(link: u32) -> Option<usize> {
    (link as usize).checked_sub(1)
}

impl Links {
    /// Creates the links of a table without entries.
    pub(crate) const fn none() -> Self {
        Self(Growing::none())
    }

    /// Creates the links of a table with this number of entries; `None` if there is no room.
    pub(crate) fn new(arena: &mut Arena, entries: usize) -> Option<Self> {
        Some(Self(Growing::new(arena, entries)?))
    }

    /// Returns the next entry of the list.
    pub(crate) fn next(&self, at: usize) -> Option<usize> {
        entry(self.0[at].next)
    }

    /// Appends an entry that is in no list.
    pub(crate) fn push(&mut self, list: &mut List, at: usize) {
        self.0.grow_to(at, Link::NONE);
        let link = at as u32 + 1;
        let mut previous = link;
        match entry(list.first) {
            Some(first) => {
                previous = core::mem::replace(&mut self.0[first].previous, link);
                if let Some(last) = entry(previous) {
                    self.0[last].next = link;
                }
            }
            None => list.first = link,
        }
        self.0[at] = Link { next: 0, previous };
        list.len += 1;
    }

    /// Removes an entry from its list.
    pub(crate) fn remove(&mut self, list: &mut List, at: usize) {
        let Link { next, previous } = self.0[at];
        match entry(previous) {
            Some(before) if list.first != at as u32 + 1 => self.0[before].next = next,
            _ => list.first = next,
        }
        // The entry behind it, or the first one if it was the last.
        if let Some(behind) = entry(if next == 0 { list.first } else { next }) {
            self.0[behind].previous = previous;
        }
        list.len -= 1;
    }

    /// Removes the first entry.
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<usize> {
        let first = list.first()?;
        self.remove(list, first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_as_vectors(steps in prop::collection::vec((0..6usize, 0..3usize), 0..60)) {
            let memory = vec![core::mem::MaybeUninit::uninit(); 1024].leak();
            let mut links = Links::new(&mut Arena::new(memory, |_| {}), 6).unwrap();
            let mut lists = [List::EMPTY; 2];
            let mut vectors: [Vec<usize>; 2] = [vec![], vec![]];
            for (entry, list) in steps {
                // Moves a link to this list, or, with a third list of two, to none.
                for (list, vector) in lists.iter_mut().zip(&mut vectors) {
                    if let Some(at) = vector.iter().position(|other| *other == entry) {
                        vector.remove(at);
                        links.remove(list, entry);
                    }
                }
                if let (Some(list), Some(vector)) = (lists.get_mut(list), vectors.get_mut(list)) {
                    links.push(list, entry);
                    vector.push(entry);
                }
                for (list, vector) in lists.iter().zip(&vectors) {
                    let found: Vec<_> =
                        std::iter::successors(list.first(), |at| links.next(*at)).collect();
                    prop_assert_eq!(&found, vector);
                    prop_assert_eq!(list.len(), vector.len());
                }
            }
            let popped: Vec<_> = std::iter::from_fn(|| links.pop(&mut lists[0])).collect();
            prop_assert_eq!(&popped, &vectors[0]);
        }
    }
}
