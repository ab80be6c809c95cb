//! Who changes what the image is attached to, or a provider of it, and who waits until nobody does.
//!
//! A process that forks copies the rights to change as they are. Those that another thread has nobody would give back in the
//! child. So who forks [asks for a standstill](Standstill).

use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use crate::atomic::AtomicUsize;

/// How many rights to change there are, and whether somebody asks for a standstill.
#[derive(Debug)]
struct Changes(AtomicUsize);

/// Somebody asks for a standstill. If that is all there is, it is reached.
const ASKED: usize = 1 << (usize::BITS - 1);

static CHANGES: Changes = Changes(AtomicUsize::new(0));

impl Changes {
    /// Waits while there is a standstill. While one is only asked for nobody waits: a thread that changes something already may
    /// come here again before it is done.
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

/// Something may be changed until this is dropped.
#[derive(Debug)]
pub(crate) struct Begun<'c>(&'c Changes);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

/// Before any right to change is taken.
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

/// Asks that nobody attach or detach the image, nor open, change or close a provider that is made at [run time](crate::runtime): for
/// the moment of a `fork`. Until this is dropped, in the child as in the parent, who would begin to waits, spinning.
///
/// It is [reached](Self::is_reached) when those are done who are at it. The thread that asks must not begin any of this itself,
/// nor wait without an end, as it may have interrupted somebody who is at it.
#[derive(Debug)]
pub struct Standstill(Asked<'static>);

impl Standstill {
    /// `None` while another thread has one.
    pub fn ask() -> Option<Self> {
        CHANGES.ask().map(Self)
    }

    /// Whether nobody changes anything. From then on that stays so.
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
    fn who_is_at_it_finishes_first() {
        let changes = Changes(super::AtomicUsize::new(0));
        let outer = changes.begin();
        let asked = changes.ask().unwrap();
        assert!(changes.ask().is_none(), "one at a time");
        assert!(!asked.is_reached());
        // Within what has begun: does not wait.
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
        // Of 100 standstills: who was at it, and how many had begun before and after a while.
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
