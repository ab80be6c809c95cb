//! One CPU's buffer for one consumer: a ring with one writer and one reader.
//!
//! The writer is the CPU itself, in probe context; the reader is whoever drains, on any CPU. Neither
//! ever waits for the other: a record that finds the ring full is dropped and counted.

use core::mem::MaybeUninit;

use crate::sync::{AtomicCount, AtomicUsize, Count, Ordering, UnsafeCell, array, const_fn};

/// A value on a cache line of its own, so that writer and reader do not take the line from each other.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// The writer's half.
#[derive(Debug)]
struct Writer {
    /// Records ever written, modulo `2 * N`.
    head: AtomicUsize,
    /// Records ever dropped.
    dropped: AtomicCount,
}

/// A ring of `N` records. A new one is all zeros.
///
/// What was written and read is counted modulo `2 * N`. So a full ring is told from an empty one, and the
/// place of a record follows from its number whatever `N` is; a count that wraps at a power of two would
/// lead to another place there.
#[derive(Debug)]
pub(crate) struct Ring<T, const N: usize> {
    writer: Line<Writer>,
    /// Records ever read, modulo `2 * N`: from none to `N` behind `head`.
    tail: Line<AtomicUsize>,
    slots: [UnsafeCell<MaybeUninit<T>>; N],
}

// SAFETY: a slot is accessed by the writer only while it is outside tail..head, by the reader only
// while it is inside; the contracts of `push` and `pop` allow one of each. A record moves from the
// writer's thread to the reader's, hence Send.
unsafe impl<T: Copy + Send, const N: usize> Sync for Ring<T, N> {}

impl<T: Copy, const N: usize> Ring<T, N> {
    const TURN: usize = {
        assert!(N > 0 && N <= usize::MAX / 2, "a ring has records, and they can be counted");
        2 * N
    };

    /// The number behind another one.
    const fn after(number: usize) -> usize {
        if number + 1 == Self::TURN { 0 } else { number + 1 }
    }

    /// The place of the record with this number.
    const fn place(number: usize) -> usize {
        if number < N { number } else { number - N }
    }

    /// How many records there are from the number `tail` to `head`.
    const fn between(tail: usize, head: usize) -> usize {
        if head < tail { head + Self::TURN - tail } else { head - tail }
    }

    const_fn! {
        /// An empty ring.
        pub(crate) fn new() -> Self {
            Self {
                writer: Line(Writer { head: AtomicUsize::new(0), dropped: AtomicCount::new(0) }),
                tail: Line(AtomicUsize::new(0)),
                slots: array![UnsafeCell::new(MaybeUninit::zeroed()); N],
            }
        }
    }

    /// Writes a record, or counts it as dropped when there is no room. Probe context.
    ///
    /// # Safety
    /// There is one writer: calls of `push` on this ring do not overlap, and what one call did is
    /// visible to the next.
    pub(crate) unsafe fn push(&self, record: &T) {
        let Writer { head, dropped } = &self.writer.0;
        // Relaxed: only the writer stores to it.
        let at = head.load(Ordering::Relaxed);
        // Acquire, with the reader's Release: its read of the slot is over before we write there.
        let tail = self.tail.0.load(Ordering::Acquire);
        if Self::between(tail, at) >= N {
            // No read-modify-write: the reader never stores to the count.
            dropped.store(dropped.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            return;
        }
        if let Some(slot) = self.slots.get(Self::place(at)) {
            // SAFETY: the slot is outside tail..head, where the writer, this call, is alone.
            slot.with_mut(|slot| unsafe { (*slot).write(*record) });
        }
        // Release: who sees the new head sees the record.
        head.store(Self::after(at), Ordering::Release);
    }

    /// Takes the oldest record.
    ///
    /// # Safety
    /// There is one reader: calls of `pop` on this ring do not overlap, and what one call did is
    /// visible to the next.
    pub(crate) unsafe fn pop(&self) -> Option<T> {
        // Relaxed: only the reader stores to it.
        let at = self.tail.0.load(Ordering::Relaxed);
        // Acquire, with the writer's Release: the record is there.
        let head = self.writer.0.head.load(Ordering::Acquire);
        if head == at {
            return None;
        }
        let slot = self.slots.get(Self::place(at))?;
        // SAFETY: the slot is inside tail..head: the writer has filled it and leaves it alone until
        // tail has passed it, and the reader, this call, is alone.
        let record = slot.with(|slot| unsafe { (*slot).assume_init() });
        // Release: the writer that sees the new tail writes only after our read.
        self.tail.0.store(Self::after(at), Ordering::Release);
        Some(record)
    }

    /// As if so many records had been written and read.
    #[cfg(test)]
    pub(crate) fn skip(&self, records: usize) {
        self.writer.0.head.store(records % Self::TURN, Ordering::Relaxed);
        self.tail.0.store(records % Self::TURN, Ordering::Relaxed);
    }

    /// How many records there are to read at this moment. For the reader.
    pub(crate) fn len(&self) -> usize {
        let tail = self.tail.0.load(Ordering::Relaxed);
        Self::between(tail, self.writer.0.head.load(Ordering::Relaxed))
    }

    /// How many records have been dropped since the ring was made, modulo the count's range.
    pub(crate) fn dropped(&self) -> Count {
        self.writer.0.dropped.load(Ordering::Relaxed)
    }
}
