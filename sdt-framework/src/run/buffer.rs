//! One CPU's records of programs: the principal buffer, under each of its policies (`dtrace_buffer_reserve`, dtrace.c).
//!
//! Records follow each other, each at a multiple of 8 bytes. The bytes between them are zero (`DTRACE_EPIDNONE`).
//!
//! A dump is consistent wherever the CPU stops: the fill level is changed after a record is complete, and before an old record is
//! overwritten. One CPU writes, so a compiler fence is enough to order the stores.
//!
//! A buffer does not use its memory before it needs it: a record that begins behind all earlier ones first writes zeroes to the next
//! [`GROWTH`] words ([`Prefix`]). When a buffer is switched, it gives memory back that it has not used since the last switch. So a process, whose
//! memory costs nothing until it is used, can have large buffers.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

pub(crate) use dtrace_abi::option::BufPolicy as Policy;

use crate::base::prefix::Prefix;

/// A buffer of records, with one user at a time. The first fields are those that readers of dumps need
/// ([`RecordsState`](dtrace_abi::postmortem::RecordsState)).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RecordBuffer {
    /// Records that were dropped because the buffer was full.
    pub(crate) drops: u64,
    /// Executions that were aborted.
    pub(crate) errors: u64,
    /// The position of the next record.
    head: usize,
    /// In a ring that has wrapped around, the position of the oldest record, which is not before `head`. Otherwise
    /// `NONE`.
    oldest: usize,
    /// While a ring wraps around: the end of its last record, plus one. Otherwise 0.
    turning: usize,
    words: Prefix<'static, u64>,
    policy: Policy,
    /// For rings and speculative buffers: one bit for each word, set at the beginning of a record.
    starts: &'static mut [u64],
    /// Whether a record did not fit into a buffer with policy `fill`.
    full: bool,
    /// The number of words at the end that only `dtrace:::END` may use.
    kept: usize,
    /// Policy `switch`: the number of words that [`reserve_at_once`](Self::reserve_at_once) may fill. They are initialised, and until
    /// the buffer is half full, in its first half.
    limit: usize,
    /// Policy `switch`: whether a record did not fit into the first half since the last switch.
    half_full: bool,
}

/// The number of words by which a buffer grows at a time.
const GROWTH: usize = Prefix::<u64>::STEP;

/// The position of a missing record.
const NONE: usize = usize::MAX;

const _: () = {
    assert!(core::mem::offset_of!(RecordBuffer, head) == 16);
    assert!(core::mem::offset_of!(RecordBuffer, turning) == 16 + 2 * size_of::<usize>());
};

/// Orders the stores of this CPU: the earlier ones happen before the later ones.
#[inline]
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

/// Returns the number of words for the bits that mark the beginnings of records.
pub(crate) const fn bits(words: usize) -> usize {
    words.div_ceil(64)
}

impl RecordBuffer {
    /// Creates an empty buffer. Rings and speculative buffers also need `starts` with [`bits`] words; other buffers
    /// have none. With policy `fill`, `kept` words are reserved for `dtrace:::END`.
    pub(crate) fn new(
        words: &'static mut [MaybeUninit<u64>],
        policy: Policy,
        starts: &'static mut [u64],
        kept: usize,
    ) -> Self {
        Self {
            drops: 0,
            errors: 0,
            head: 0,
            oldest: NONE,
            turning: 0,
            words: Prefix::new(words),
            policy,
            starts,
            full: false,
            kept,
            limit: 0,
            half_full: false,
        }
    }

    /// Returns the words. The fields at the beginning of the buffer describe their content.
    pub(crate) const fn words(&self) -> &[MaybeUninit<u64>] {
        self.words.memory()
    }

    /// Removes all records, and resets all counters to 0. Passes memory to `discard` if the records took less than half of the memory
    /// that the buffer has used: so the memory of a burst is given back, in a few switches, and that of a steady rate is kept.
    pub(crate) fn restart(&mut self, discard: fn(NonNull<[u8]>)) {
        let half = (self.words.values().len() / 2).next_multiple_of(GROWTH);
        if self.head <= half {
            self.words.cut(half).map(discard);
        }
        self.empty();
        (self.drops, self.errors) = (0, 0);
        (self.limit, self.half_full) =
            (self.words.values().len().min(self.words.capacity() / 2), false);
    }

    /// Returns whether the buffer has policy `fill` and is full.
    pub(crate) const fn is_full(&self) -> bool {
        self.full
    }

    /// Returns whether the buffer has policy `switch` and more than half of it was used since the last switch.
    pub(crate) const fn is_half_full(&self) -> bool {
        self.half_full
    }

    /// Reserves this number of words, whose contents are undefined, if the words that may be filled at once have room for them.
    /// Returns their position. Probe context.
    #[inline(always)]
    pub(crate) fn reserve_at_once(&self, words: usize) -> Option<usize> {
        let end = self.head.checked_add(words)?;
        (self.policy == Policy::Switch && end <= self.limit).then_some(self.head)
    }

    /// Reserves this number of words, whose contents are undefined. Returns their position, or `None` if they do not
    /// fit; unless the policy is `fill`, this counts a drop. `end` returns whether `dtrace:::END` is firing. Probe
    /// context.
    pub(crate) fn reserve(&mut self, words: usize, end: impl FnOnce() -> bool) -> Option<usize> {
        if let Some(at) = self.reserve_at_once(words) {
            return Some(at);
        }
        self.reserve_elsewhere(words, end())
    }

    /// Reserves words that do not fit into those that may be filled at once.
    #[inline(never)]
    fn reserve_elsewhere(&mut self, words: usize, end: bool) -> Option<usize> {
        let found = match self.policy {
            Policy::Switch => self.fits(words, 0),
            Policy::Fill => self.fill(words, end),
            Policy::Ring => self.go_round(words),
        };
        if let Some(at) = found {
            self.words.extend(at + words, 0);
        } else if !self.full {
            self.drops = self.drops.wrapping_add(1);
        }
        if self.policy == Policy::Switch {
            let half = self.words.capacity() / 2;
            self.half_full |= found.is_none_or(|at| at + words > half);
            let initialised = self.words.values().len();
            self.limit = if self.half_full { initialised } else { initialised.min(half) };
        }
        found
    }

    #[inline(always)]
    fn fits(&self, words: usize, kept: usize) -> Option<usize> {
        let end = self.head.checked_add(words)?;
        (end <= self.words.capacity().saturating_sub(kept)).then_some(self.head)
    }

    fn fill(&mut self, words: usize, end: bool) -> Option<usize> {
        if self.full && !end {
            return None;
        }
        let found = self.fits(words, if end { 0 } else { self.kept });
        self.full |= found.is_none();
        found
    }

    /// Reserves words in a ring, and removes the oldest records if necessary.
    fn go_round(&mut self, words: usize) -> Option<usize> {
        if words > self.words.capacity() {
            return None;
        }
        if self.fits(words, 0).is_none() {
            self.turning = self.head + 1;
            in_order();
            // Zeroes the words after the last record.
            self.words.extend(self.words.capacity(), 0);
            let head = self.head;
            self.words.values_mut().get_mut(head..)?.fill(0);
            self.forget(self.head, self.words.capacity());
            self.head = 0;
            self.oldest = self.next_start(0);
            in_order();
            self.turning = 0;
        }
        let end = self.head + words;
        while self.oldest < end {
            let oldest = self.oldest;
            self.forget(oldest, oldest + 1);
            self.oldest = self.next_start(oldest + 1);
        }
        in_order();
        Some(self.head)
    }

    fn forget(&mut self, from: usize, to: usize) {
        for at in from..to {
            if let Some(bits) = self.starts.get_mut(at / 64) {
                *bits &= !(1 << (at % 64));
            }
        }
    }

    /// Returns the first record at or after a word; `NONE` if there is none.
    fn next_start(&self, from: usize) -> usize {
        let mut skip = from % 64;
        for (index, bits) in self.starts.iter().enumerate().skip(from / 64) {
            let bits = bits & (u64::MAX << skip);
            if bits != 0 {
                return index * 64 + bits.trailing_zeros() as usize;
            }
            skip = 0;
        }
        NONE
    }

    /// Returns the reserved words. Probe context.
    #[inline]
    pub(crate) fn room(&mut self, at: usize, words: usize) -> &mut [u64] {
        self.words.values_mut().get_mut(at..at.wrapping_add(words)).unwrap_or_default()
    }

    /// Marks a record of this number of words as written. Probe context.
    #[inline]
    pub(crate) fn commit(&mut self, at: usize, words: usize) {
        if words == 0 {
            return;
        }
        self.mark(at);
        in_order();
        self.head = at + words;
    }

    fn mark(&mut self, at: usize) {
        if let Some(bits) = self.starts.get_mut(at / 64) {
            *bits |= 1 << (at % 64);
        }
    }

    /// Returns whether there is no record.
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == 0
    }

    /// Moves all records of `other`, a speculative buffer, to this buffer, with the time `now`, and empties `other`.
    /// Records that do not fit count as one drop.
    pub(crate) fn take_over(&mut self, other: &mut Self, now: u64, end: bool) {
        if !other.is_empty()
            && let Some(at) = self.reserve(other.head, || end)
        {
            let words = other.head;
            let from = other.room(0, words);
            let room = self.room(at, words).iter_mut();
            room.zip(from).for_each(|(to, from)| *to = *from);
            let mut start = other.next_start(0);
            while start != NONE {
                // Words 0 and 1 of a record are its header: the number, the time.
                let room = self.room(at + start, 2);
                super::words::put_number(room, 4, now >> 32, 4);
                super::words::put_number(room, 8, now, 4);
                self.mark(at + start);
                start = other.next_start(start + 1);
            }
            in_order();
            self.head = at + words;
        }
        other.empty();
    }

    /// Returns the number of units of work to [move the records](Self::take_over) of this buffer to another one, or to
    /// empty it.
    pub(crate) const fn work_of_taking(&self) -> u64 {
        2 * self.head as u64 + self.starts.len() as u64
    }

    /// Removes all records, but keeps the counters.
    pub(crate) fn empty(&mut self) {
        self.starts.fill(0);
        (self.head, self.oldest, self.full) = (0, NONE, false);
    }

    /// Returns the number of bytes to read, and the offset of the oldest record.
    pub(crate) fn extent(&self) -> (usize, usize) {
        match self.oldest {
            NONE => (self.head * 8, 0),
            oldest => (self.words.capacity() * 8, oldest * 8),
        }
    }

    /// Reads bytes from an offset on. Returns the number of bytes read.
    pub(crate) fn read(&mut self, offset: usize, into: &mut [u8]) -> usize {
        let (head, oldest) = (self.head, self.oldest);
        let (size, _) = self.extent();
        let words = self.words.values_mut();
        if let Some(gap) = words.get_mut(head..oldest) {
            // The gap between the newest and the oldest record contains no complete record.
            gap.fill(0);
        }
        super::words::get_bytes(words.get(..size / 8).unwrap_or_default(), offset, into)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn traced(words: usize, policy: Policy, kept: usize) -> RecordBuffer {
        let starts = vec![0; bits(words)].leak();
        RecordBuffer::new(vec![MaybeUninit::uninit(); words].leak(), policy, starts, kept)
    }

    /// A record: its first word contains its length; other words do not.
    fn push(buffer: &mut RecordBuffer, words: usize, number: u64, end: bool) -> bool {
        let Some(at) = buffer.reserve(words, || end) else { return false };
        let room = buffer.room(at, words);
        assert_eq!(room.len(), words);
        room.fill(0);
        room[0] = number << 8 | words as u64;
        buffer.commit(at, words);
        true
    }

    /// The numbers of all records, oldest first.
    fn records(buffer: &mut RecordBuffer) -> Vec<u64> {
        let (size, oldest) = buffer.extent();
        let mut bytes = vec![0; size];
        assert_eq!(buffer.read(0, &mut bytes), size);
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let mut numbers = Vec::new();
        for range in [oldest / 8..size / 8, 0..oldest / 8] {
            let mut at = range.start;
            while at < range.end {
                if words[at] == 0 {
                    at += 1;
                    continue;
                }
                numbers.push(words[at] >> 8);
                at += (words[at] & 0xff) as usize;
            }
            assert_eq!(at, range.end);
        }
        numbers
    }

    #[test]
    fn memory_of_a_burst_is_given_back_and_that_of_a_steady_rate_is_kept() {
        thread_local!(static DISCARDED: Cell<usize> = const { Cell::new(0) });
        fn discard(memory: NonNull<[u8]>) {
            DISCARDED.set(DISCARDED.get() + memory.len());
        }
        let mut buffer = traced(64 * GROWTH, Policy::Switch, 0);
        let mut fill = |words: usize| {
            buffer.restart(discard);
            for number in 0..words / 8 {
                assert!(push(&mut buffer, 8, number as u64, false));
            }
            assert_eq!(buffer.is_half_full(), words > 32 * GROWTH);
            let numbers: Vec<_> = (0..words as u64 / 8).collect();
            assert_eq!(records(&mut buffer), numbers);
            assert_eq!(buffer.drops, 0);
        };
        // The burst, and a steady rate.
        for parts in [64, 33, 40, 33] {
            fill(parts * GROWTH);
        }
        assert_eq!(DISCARDED.get(), 0);
        // Half of the rest at each switch after little use.
        for left in [64, 32, 16, 8, 4, 2, 1, 1] {
            fill(8);
            assert_eq!(DISCARDED.get(), (64 - left) * GROWTH * 8);
        }
        fill(64 * GROWTH);
    }

    proptest! {
        #[test]
        fn a_ring_has_the_latest(room in 1..200usize, lengths in prop::collection::vec(1..40usize, 0..100)) {
            let mut buffer = traced(room, Policy::Ring, 0);
            let mut model = VecDeque::new();
            let mut drops = 0;
            for (number, length) in (1..).zip(lengths) {
                if push(&mut buffer, length, number, false) {
                    model.push_back(number);
                } else {
                    drops += 1;
                    prop_assert!(length > room);
                }
                let read = records(&mut buffer);
                // The latest records without a gap, at most two fewer than fit.
                prop_assert!(model.iter().rev().zip(read.iter().rev()).all(|(a, b)| a == b));
                prop_assert!(read.len() <= model.len());
                prop_assert_eq!(read.is_empty(), model.is_empty());
            }
            prop_assert_eq!(buffer.drops, drops);
        }

        #[test]
        fn others_have_the_first(room in 0..100usize, kept in 0..20usize, lengths in prop::collection::vec(1..20usize, 0..60)) {
            let mut switch = traced(room, Policy::Switch, 0);
            let mut fill = traced(room, Policy::Fill, kept);
            let (mut all, mut first, mut used, mut filled, mut drops) = (vec![], vec![], 0, 0, 0);
            let mut full = false;
            for (number, length) in (1..).zip(lengths) {
                if push(&mut switch, length, number, false) {
                    all.push(number);
                    used += length;
                } else {
                    prop_assert!(used + length > room);
                    drops += 1;
                }
                let taken = push(&mut fill, length, number, false);
                prop_assert_eq!(taken, !full && filled + length <= room.saturating_sub(kept));
                if taken {
                    first.push(number);
                    filled += length;
                }
                full |= !taken;
            }
            prop_assert_eq!(push(&mut fill, 1, 99, true), filled < room);
            if filled < room {
                first.push(99);
            }
            prop_assert_eq!(records(&mut switch), all);
            prop_assert_eq!(switch.drops, drops);
            prop_assert_eq!(records(&mut fill), first);
            prop_assert_eq!(fill.drops, 0);
            switch.restart(|_| {});
            prop_assert_eq!(switch.extent(), (0, 0));
        }
    }
}
