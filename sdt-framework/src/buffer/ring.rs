//! One CPU's buffer for one consumer: a ring with one writer and one reader.
//!
//! The writer is the CPU itself, in probe context; the reader is whoever reads, on any CPU. Neither
//! ever waits for the other: a record that finds no room is dropped and counted.

use core::fmt;

use crate::sync::{AtomicCount, AtomicUsize, Count, Ordering, UnsafeCell};

/// A value on a cache line of its own, so that writer and reader do not take the line from each other.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// The writer's half.
#[derive(Debug)]
struct Writer {
    /// Words ever written, modulo twice the ring's.
    head: AtomicUsize,
    /// Records ever dropped.
    dropped: AtomicCount,
}

/// What a ring is made of.
#[derive(Debug)]
pub(crate) struct Word(UnsafeCell<u64>);

// SAFETY: a word is accessed by its ring only, which says how.
unsafe impl Sync for Word {}

impl Word {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
}

/// Bytes of a record, of which there is a whole number of words, as its second word has them in its upper half.
pub(crate) const fn length(second: u64) -> usize {
    (second >> 32) as usize
}

/// A ring of words, in which records lie one behind the other, and around the end.
///
/// What was written and read is counted modulo twice the number of words. So a full ring is told from an empty
/// one, and the place of a word follows from its number whatever the size is; a count that wraps at a power of
/// two would lead to another place there.
pub(crate) struct Ring {
    writer: Line<Writer>,
    /// Words ever read, modulo the same: from none to all behind `head`.
    tail: Line<AtomicUsize>,
    words: &'static [Word],
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

/// There is a record to read, and no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// Bytes that it has.
    pub(crate) needed: usize,
}

impl Ring {
    /// An empty ring, in words that nobody else has.
    pub(crate) fn new(words: &'static [Word]) -> Self {
        Self {
            writer: Line(Writer { head: AtomicUsize::new(0), dropped: AtomicCount::new(0) }),
            tail: Line(AtomicUsize::new(0)),
            words,
        }
    }

    /// Its words.
    pub(crate) fn words(&self) -> &'static [Word] {
        self.words
    }

    /// The number `words` behind another one, of which there are no more than the ring has.
    fn after(&self, number: usize, words: usize) -> usize {
        let turn = 2 * self.words.len();
        if number + words >= turn { number + words - turn } else { number + words }
    }

    /// The word with this number.
    fn word(&self, number: usize) -> Option<&UnsafeCell<u64>> {
        let size = self.words.len();
        self.words.get(if number < size { number } else { number - size }).map(|word| &word.0)
    }

    /// How many words there are from the number `tail` to `head`.
    fn between(&self, tail: usize, head: usize) -> usize {
        if head < tail { head + 2 * self.words.len() - tail } else { head - tail }
    }

    /// Writes a record and returns `true`, or counts it as dropped when there is no room. Probe context.
    ///
    /// Its second word says how [long](length) it is.
    ///
    /// # Safety
    /// There is one writer: calls of `push` on this ring do not overlap, and what one call did is
    /// visible to the next.
    pub(crate) unsafe fn push(&self, record: &[u64]) -> bool {
        let Writer { head, .. } = &self.writer.0;
        // Relaxed: only the writer stores to it.
        let mut at = head.load(Ordering::Relaxed);
        // Acquire, with the reader's Release: its reads of the words are over before we write there.
        let tail = self.tail.0.load(Ordering::Acquire);
        if record.len() > self.words.len() - self.between(tail, at) {
            self.refuse();
            return false;
        }
        for value in record {
            if let Some(word) = self.word(at) {
                // SAFETY: the word is outside tail..head, where the writer, this call, is alone.
                word.with_mut(|word| unsafe { *word = *value });
            }
            at = self.after(at, 1);
        }
        // Release: who sees the new head sees the record.
        head.store(at, Ordering::Release);
        true
    }

    /// Takes records, oldest first, as long as they fit whole, and returns how many bytes they are.
    ///
    /// # Safety
    /// There is one reader: calls of `read` on this ring do not overlap, and what one call did is
    /// visible to the next.
    ///
    /// # Errors
    /// Not even the oldest fits.
    pub(crate) unsafe fn read(&self, into: &mut [u8]) -> Result<usize, NoRoom> {
        // Relaxed: only the reader stores to it.
        let mut at = self.tail.0.load(Ordering::Relaxed);
        // Acquire, with the writer's Release: the records are there.
        let head = self.writer.0.head.load(Ordering::Acquire);
        let mut done = 0;
        let mut error = None;
        while at != head {
            // SAFETY: inside tail..head: the writer has filled it and leaves it alone until tail has
            // passed it, and the reader, this call, is alone.
            let read = |number| self.word(number).map_or(0, |word| word.with(|w| unsafe { *w }));
            let needed = length(read(self.after(at, 1)));
            let Some(place) = into.get_mut(done..done + needed) else {
                error = Some(NoRoom { needed });
                break;
            };
            for chunk in place.as_chunks_mut().0 {
                *chunk = read(at).to_le_bytes();
                at = self.after(at, 1);
            }
            done += needed;
        }
        // Release: the writer that sees the new tail writes only after our reads.
        self.tail.0.store(at, Ordering::Release);
        match error {
            Some(error) if done == 0 => Err(error),
            _ => Ok(done),
        }
    }

    /// As if so many words had been written and read.
    #[cfg(test)]
    pub(crate) fn skip(&self, words: usize) {
        let number = words % (2 * self.words.len());
        self.writer.0.head.store(number, Ordering::Relaxed);
        self.tail.0.store(number, Ordering::Relaxed);
    }

    /// Counts a record that is not written. Probe context, by the writer.
    pub(crate) fn refuse(&self) {
        let dropped = &self.writer.0.dropped;
        // No read-modify-write: the reader never stores to the count.
        dropped.store(dropped.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How many records have been dropped since the ring was made, modulo the count's range.
    pub(crate) fn dropped(&self) -> Count {
        self.writer.0.dropped.load(Ordering::Relaxed)
    }
}
