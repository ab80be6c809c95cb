//! A list that only grows, so that signal handlers can read it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The list. Its values are never freed.
pub(super) struct List<T: 'static>(AtomicPtr<Entry<T>>);

struct Entry<T: 'static> {
    value: T,
    next: Option<&'static Self>,
}

impl<T> List<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the values, the newest first. Async-signal-safe.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        let mut entry = self.first();
        std::iter::from_fn(move || {
            let this = entry?;
            entry = this.next;
            Some(&this.value)
        })
    }

    /// Adds a value. Only one thread at a time may call this: otherwise a value may be lost.
    pub(super) fn add(&self, value: T) -> &'static T {
        let entry = Box::leak(Box::new(Entry { value, next: self.first() }));
        self.0.store(entry, Ordering::Release);
        &entry.value
    }

    fn first(&self) -> Option<&'static Entry<T>> {
        // SAFETY: the pointer is null, or refers to an entry that `add` has leaked.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_the_first() {
        static LIST: List<u8> = List::new();
        assert_eq!(LIST.iter().next(), None);
        assert_eq!([*LIST.add(1), *LIST.add(2)], [1, 2]);
        assert_eq!(LIST.iter().copied().collect::<Vec<_>>(), [2, 1]);
    }
}
