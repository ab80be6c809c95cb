//! The aggregation buffer of one CPU, indexed by keys.
//!
//! Records follow each other from the beginning: keys, then the words of the function. They never move, so the consumer reads the
//! filled part of the buffer (`dtrace_aggregate`, dtrace.c). A hash table finds a record by its keys.

use core::mem::MaybeUninit;
use core::sync::atomic::{Ordering, compiler_fence};

use super::function::Function;
use crate::base::prefix::Prefix;

/// A record in the hash table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    hash: u32,
    /// The index plus 1 of the next entry of the same bucket; 0 if there is none.
    next: u32,
    /// The position of the record.
    at: u32,
    /// The number of words of its keys.
    keys: u32,
    /// The number of words of the state of its function.
    data: u32,
}

/// The error for a chain that has the greatest length, or that the budget does not suffice to follow further.
struct Crowded;

/// Units of work to pass one tuple of a chain.
const LINK: usize = 32;

/// Subtracts units of work from the budget.
fn take(work: &mut u32, units: usize) -> Result<(), Crowded> {
    let left = u32::try_from(units).ok().and_then(|units| work.checked_sub(units));
    *work = left.unwrap_or(0);
    left.map(drop).ok_or(Crowded)
}

/// The smallest limit for the number of tuples in a chain.
const LONG: usize = 256;

/// The aggregations of one consumer on one CPU. Only this CPU uses the buffer, in probe context, until the buffer is switched.
/// The buffer begins with the fields that readers of dumps need ([`TuplesState`](dtrace_abi::postmortem::TuplesState)). The order
/// of the stores keeps these fields correct wherever the CPU stops.
#[derive(Debug)]
#[repr(C)]
pub struct Buffer<'a> {
    drops: u64,
    /// Words that are filled.
    used: usize,
    /// While a value of several numbers is changed, the position of that value plus 1; otherwise 0.
    changing: usize,
    words: Prefix<'a, u64>,
    /// The index plus 1 of the first entry of each bucket; 0 if there is none.
    buckets: &'a mut [u32],
    entries: Prefix<'a, Entry>,
    /// The number of records.
    count: usize,
    /// The entry that was found last. If there is none, its `data` is 0.
    latest: Entry,
    /// The greatest number of tuples in a chain, many times that of a good distribution. A program can choose keys that
    /// are all in one chain.
    longest: usize,
}

const _: () = {
    assert!(core::mem::offset_of!(Buffer<'static>, used) == 8);
    assert!(core::mem::offset_of!(Buffer<'static>, changing) == 8 + size_of::<usize>());
};

impl<'a> Buffer<'a> {
    /// Creates an empty buffer. The number of `entries` is the largest number of records. `words` and `entries` are initialised as
    /// records need them.
    pub fn new(
        words: &'a mut [MaybeUninit<u64>],
        buckets: &'a mut [u32],
        entries: &'a mut [MaybeUninit<Entry>],
    ) -> Self {
        let longest = entries.len().checked_div(buckets.len()).unwrap_or(0).saturating_mul(16);
        let longest = LONG.saturating_add(longest);
        let (words, entries) = (Prefix::new(words), Prefix::new(entries));
        let (drops, used, changing, count, latest) = (0, 0, 0, 0, Entry::default());
        let mut this =
            Self { drops, used, changing, words, buckets, entries, count, latest, longest };
        this.clear();
        this
    }

    /// Removes all records. The number of drops does not change.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.used, self.count, self.latest) = (0, 0, Entry::default());
    }

    /// Returns the words of all records.
    pub fn records(&self) -> &[u64] {
        self.words.values().get(..self.used).unwrap_or_default()
    }

    /// Returns all words of the buffer, also the unused ones.
    pub(crate) const fn words(&self) -> &[MaybeUninit<u64>] {
        self.words.memory()
    }

    /// Returns the number of records.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no records.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of drops since the buffer was created.
    pub const fn drops(&self) -> u64 {
        self.drops
    }

    /// Adds a value to the record with these keys, which is created if it does not exist. The first key contains the number of
    /// the aggregation, so all values of a record have the same function. Returns `false`, and counts a drop, if there is no room
    /// for a new record, if the record has another function, or if its chain has the greatest length. Probe context.
    #[inline]
    pub fn add(&mut self, keys: &[u64], function: &Function, value: u64, increment: u64) -> bool {
        self.add_padded(keys, keys.len(), function, value, increment, &mut u32::MAX.clone())
    }

    /// Like [`add`](Self::add), for keys of `length` words. The words after `keys` are zero, because strings are often shorter
    /// than their place. Equal tuples must have the same number of words in `keys`. Subtracts from `work` the units for each
    /// tuple that is passed in the chain, and for a new tuple. If `work` does not suffice, the value is dropped.
    #[inline]
    pub(crate) fn add_padded(
        &mut self,
        keys: &[u64],
        length: usize,
        function: &Function,
        value: u64,
        increment: u64,
        work: &mut u32,
    ) -> bool {
        let Entry { at, keys: its, data, .. } = self.latest;
        let at = at as usize;
        let is_it =
            its as usize == length && data as usize == function.words() && self.begins(at, keys);
        let at = if is_it { Some(at + length) } else { self.look_up(keys, length, function, work) };
        let data =
            at.and_then(|at| self.words.values_mut().get_mut(at..)?.get_mut(..function.words()));
        match data {
            // A number is stored in one step.
            Some(data @ [_]) => {
                function.add(data, value, increment);
                true
            }
            Some(data) => {
                self.changing = at.map_or(0, |at| at + 1);
                compiler_fence(Ordering::SeqCst);
                function.add(data, value, increment);
                compiler_fence(Ordering::SeqCst);
                self.changing = 0;
                true
            }
            None => {
                self.drops = self.drops.wrapping_add(1);
                false
            }
        }
    }

    /// Returns whether a record begins with these words.
    #[inline(always)]
    fn begins(&self, at: usize, keys: &[u64]) -> bool {
        let its = self.words.values().get(at..).and_then(|words| words.get(..keys.len()));
        its.is_some_and(|its| its.iter().zip(keys).all(|(its, key)| its == key))
    }

    /// Returns the position of the value for these keys. Creates the record if it does not exist.
    #[inline(never)]
    fn look_up(
        &mut self,
        keys: &[u64],
        length: usize,
        function: &Function,
        work: &mut u32,
    ) -> Option<usize> {
        let hash = hash(keys);
        let number = match self.find(keys, length, hash, work) {
            Ok(0) => {
                take(work, length.saturating_add(function.words())).ok()?;
                self.insert(keys, length, hash, function)?
            }
            Ok(number) => number,
            Err(Crowded) => return None,
        };
        let entry = self.entries.values().get((number as usize).checked_sub(1)?)?;
        if entry.data as usize != function.words() {
            return None;
        }
        self.latest = *entry;
        Some(entry.at as usize + length)
    }

    /// Returns the bucket of keys. The upper bits of the hash select a bucket (a multiplication instead of a division). The
    /// number of the aggregation, with which the keys begin, is added. So tuples with equal keys of several aggregations are in
    /// adjacent buckets, as their entries and records are adjacent.
    fn bucket(&self, keys: &[u64], hash: u32) -> usize {
        let count = self.buckets.len();
        let chosen = ((u64::from(hash) * count as u64) >> 32) as usize;
        let id = keys.first().map_or(0, |first| *first as u32 as usize);
        let bucket = chosen.wrapping_add(id);
        if bucket < count { bucket } else { bucket.checked_rem(count).unwrap_or(0) }
    }

    /// Returns the index plus 1 of the entry with these keys; 0 if there is none.
    fn find(&self, keys: &[u64], length: usize, hash: u32, work: &mut u32) -> Result<u32, Crowded> {
        let mut next = self.buckets.get(self.bucket(keys, hash)).copied().unwrap_or(0);
        for _ in 0..self.longest {
            let entry =
                (next as usize).checked_sub(1).and_then(|index| self.entries.values().get(index));
            let Some(entry) = entry else { return Ok(0) };
            take(work, LINK)?;
            if entry.hash == hash && entry.keys as usize == length {
                take(work, keys.len())?;
                if self.begins(entry.at as usize, keys) {
                    return Ok(next);
                }
            }
            next = entry.next;
        }
        Err(Crowded)
    }

    #[cold]
    fn insert(
        &mut self,
        keys: &[u64],
        length: usize,
        hash: u32,
        function: &Function,
    ) -> Option<u32> {
        let bucket = self.bucket(keys, hash);
        let at = self.used;
        let end = at.checked_add(length)?.checked_add(function.words())?;
        let first = self.buckets.get_mut(bucket)?;
        if end > self.words.capacity() || self.count >= self.entries.capacity() {
            return None;
        }
        self.words.extend(end, 0);
        self.entries.extend(self.count + 1, Entry::default());
        let entry = self.entries.values_mut().get_mut(self.count)?;
        let record = self.words.values_mut().get_mut(at..end)?;
        let (to, data) = record.split_at_mut_checked(length)?;
        let number = u32::try_from(self.count + 1).ok()?;
        *entry = Entry {
            hash,
            next: *first,
            at: u32::try_from(at).ok()?,
            keys: u32::try_from(length).ok()?,
            data: u32::try_from(function.words()).ok()?,
        };
        to.fill(0);
        to.iter_mut().zip(keys).for_each(|(to, key)| *to = *key);
        function.begin(data);
        *first = number;
        self.count += 1;
        compiler_fence(Ordering::SeqCst);
        self.used = end;
        Some(number)
    }
}

/// Hashes all keys except the number of the aggregation, which is the lower half of the first word.
fn hash(keys: &[u64]) -> u32 {
    let (first, rest) = keys.split_first().unwrap_or((&0, &[]));
    let first = 0x9e37_79b9_7f4a_7c15 ^ first >> 32;
    let hash = rest
        .iter()
        .fold(first, |hash, key| (hash ^ key).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29));
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dtrace_abi::action::Action;
    use proptest::prelude::*;

    use super::*;

    const UNUSED: MaybeUninit<u64> = MaybeUninit::uninit();
    const NONE: MaybeUninit<Entry> = MaybeUninit::uninit();

    #[test]
    fn a_tuple_with_another_function_leaves_its_neighbours_alone() {
        let (mut words, mut table, mut list) = ([UNUSED; 40], [0; 4], [NONE; 8]);
        let mut buffer = Buffer::new(&mut words, &mut table, &mut list);
        let count = Function::new(Action::Count, 0).unwrap();
        let stddev = Function::new(Action::Stddev, 0).unwrap();
        assert!(buffer.add(&[1, 1], &count, 0, 1));
        assert!(buffer.add(&[1, 2], &count, 0, 1));
        assert!(!buffer.add(&[1, 1], &stddev, 7, 1));
        assert_eq!(buffer.records(), [1, 1, 1, 1, 2, 1]);
        assert_eq!(buffer.drops(), 1);
    }

    /// Keys that a program has chosen to be in one chain do not make the chain longer than the limit.
    #[test]
    fn a_chain_does_not_grow_without_end() {
        let (mut words, mut table) = (vec![UNUSED; 40_000], vec![0; 10_000]);
        let mut list = vec![NONE; 10_000];
        let mut buffer = Buffer::new(&mut words, &mut table, &mut list);
        let count = Function::new(Action::Count, 0).unwrap();
        let is_chosen = |keys: &[u64; 2]| buffer.bucket(keys, hash(keys)) == 7;
        let chosen: Vec<_> = (0..).map(|key| [1, key]).filter(is_chosen).take(400).collect();
        let taken = chosen.iter().filter(|keys| buffer.add(*keys, &count, 0, 1)).count();
        assert_eq!(taken, LONG + 16);
        assert_eq!(buffer.drops(), (chosen.len() - taken) as u64);
        assert!(buffer.add(&chosen[0], &count, 0, 1), "a present tuple is found");
    }

    /// A probe with many aggregations finds the record of each beside that of the previous one.
    #[test]
    fn aggregations_without_keys_are_neighbours() {
        let (mut words, mut table, mut list) = ([UNUSED; 40], [0; 16], [NONE; 16]);
        let buffer = Buffer::new(&mut words, &mut table, &mut list);
        let bucket = |id| {
            let keys = [id, 7];
            buffer.bucket(&keys, hash(&keys))
        };
        for id in 1..40 {
            assert_eq!(bucket(id + 1), (bucket(id) + 1) % 16);
        }
    }

    proptest! {
        /// A buffer is a map that can become full. It continues to count the tuples that it contains.
        #[test]
        fn a_buffer_is_a_map(
            values in prop::collection::vec((prop::collection::vec(0u64..4, 1..3), any::<u64>()), 0..60),
            words in 0usize..80, buckets in 0usize..5, entries in 0usize..20,
        ) {
            let (mut memory, mut table, mut list) =
                (vec![UNUSED; words], vec![9; buckets], vec![NONE; entries]);
            let mut buffer = Buffer::new(&mut memory, &mut table, &mut list);
            let sum = Function::new(Action::Avg, 0).unwrap();
            let mut model: BTreeMap<Vec<u64>, (u64, u64)> = BTreeMap::new();
            let mut order = Vec::new();
            let mut drops = 0;
            for (keys, value) in values {
                let used: usize = order.iter().map(|keys: &Vec<u64>| keys.len() + 2).sum();
                let room = used + keys.len() + 2 <= words && order.len() < entries && buckets > 0;
                let taken = buffer.add(&keys, &sum, value, 1);
                prop_assert_eq!(taken, model.contains_key(&keys) || room);
                if !taken {
                    drops += 1;
                    continue;
                }
                let (count, total) = model.entry(keys.clone()).or_insert_with(|| {
                    order.push(keys);
                    (0, 0)
                });
                (*count, *total) = (*count + 1, total.wrapping_add(value));
            }
            let mut expected = Vec::new();
            for keys in &order {
                let (count, total) = model[keys];
                expected.extend(keys);
                expected.extend([count, total]);
            }
            prop_assert_eq!(buffer.records(), expected);
            prop_assert_eq!((buffer.len(), buffer.drops()), (order.len(), drops));
            buffer.clear();
            prop_assert!(buffer.is_empty() && buffer.records().is_empty());
        }
    }
}
