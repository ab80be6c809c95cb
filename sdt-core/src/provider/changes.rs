//! Counts the threads that attach or detach the image or change a provider, and stops them for a `fork`.
//!
//! A `fork` copies the memory in its current state, so a change that another thread has begun would never end in the
//! child. Therefore the forking thread first [requests a standstill](Standstill).

use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use crate::atomic::AtomicUsize;

/// The number of changes that are being made, with the bit [`ASKED`] set if a thread has requested a standstill.
#[derive(Debug)]
struct Changes(AtomicUsize);

/// The bit that requests a standstill. The standstill is reached when the number of changes is 0.
const ASKED: usize = 1 << (usize::BITS - 1);

static CHANGES: Changes = Changes(AtomicUsize::new(0));

impl Changes {
    /// Begins a change. Waits first while a standstill is reached. Does not wait for a requested standstill that is not reached
    /// yet, because a thread that is making a change may begin another one within it.
    fn begin(&self) -> Begun<'_> {
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            let counted = seen != ASKED
                && self
                    .0
                    .compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if counted {
                return Begun(self);
            }
            spin_loop();
        }
    }

    fn ask(&self) -> Option<Asked<'_>> {
        (self.0.fetch_or(ASKED, Ordering::AcqRel) & ASKED == 0).then(|| Asked(self))
    }
}

/// A change that is being made, until this is dropped.
#[derive(Debug)]
pub(crate) struct Begun<'c>(&'c Changes);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

/// Begins a change.
pub(crate) fn begin() -> Begun<'static> {
    CHANGES.begin()
}

#[derive(Debug)]
struct Asked<'c>(&'c Changes);

impl Asked<'_> {
    fn is_reached(&self) -> bool {
        self.0.0.load(Ordering::Acquire) == ASKED
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_and(!ASKED, Ordering::Release);
    }
}

/// Prevents changes for the duration of a `fork`: attaching and detaching the image, and opening, changing and closing a
/// provider that is made at [run time](crate::runtime).
///
/// Until this is dropped, in the child as in the parent, a thread that begins a change waits, spinning. The standstill is
/// [reached](Self::is_reached) when all changes that were being made have ended. The thread that asks must not begin a change
/// itself, and must bound its waiting, because it may have interrupted a change of its own.
#[derive(Debug)]
pub struct Standstill(Asked<'static>);

impl Standstill {
    /// Asks for a standstill; `None` while another thread has one.
    pub fn ask() -> Option<Self> {
        CHANGES.ask().map(Self)
    }

    /// Returns whether no change is being made. That does not change until this is dropped.
    pub fn is_reached(&self) -> bool {
        self.0.is_reached()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    use super::Changes;

    #[test]
    fn a_change_that_has_begun_ends_first() {
        let changes = Changes(super::AtomicUsize::new(0));
        let outer = changes.begin();
        let asked = changes.ask().unwrap();
        assert!(changes.ask().is_none(), "one at a time");
        assert!(!asked.is_reached());
        // A change within another one does not wait.
        drop(changes.begin());
        drop(outer);
        assert!(asked.is_reached());
        drop(asked);
        drop(changes.begin());
        assert!(changes.ask().unwrap().is_reached());
    }

    #[test]
    fn nothing_changes_at_a_standstill() {
        let changes = Changes(super::AtomicUsize::new(0));
        let (at_it, begun, done) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        // For 100 standstills: the thread, and the numbers of changes before and after a while.
        let seen = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        let outer = changes.begin();
                        at_it.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        drop(changes.begin());
                        begun.fetch_add(1, Ordering::Relaxed);
                        at_it.fetch_sub(1, Ordering::Relaxed);
                        drop(outer);
                        thread::yield_now();
                    }
                });
            }
            while begun.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let seen: Vec<_> = (0..100)
                .map_while(|_| {
                    let asked = changes.ask()?;
                    while !asked.is_reached() {
                        thread::yield_now();
                    }
                    let before = begun.load(Ordering::Relaxed);
                    thread::yield_now();
                    Some((at_it.load(Ordering::Relaxed), before, begun.load(Ordering::Relaxed)))
                })
                .collect();
            done.store(true, Ordering::Release);
            seen
        });
        assert_eq!(seen.len(), 100);
        assert!(
            seen.iter().all(|(at_it, before, after)| *at_it == 0 && before == after),
            "{seen:?}"
        );
    }
}
