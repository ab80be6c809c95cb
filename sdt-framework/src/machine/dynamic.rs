//! Dynamic variables: thread-local ones, and elements of associative arrays.
//!
//! Each variable is in a chunk, and the chunks are in a hash table whose chains are lists without locks. To remove a variable, a
//! CPU marks the link in its chunk, so that no chunk can be inserted after it; the next search that passes the chunk unlinks it
//! (Michael, "High performance dynamic lock-free hash tables and list-based sets", SPAA 2002). dtrace.c takes a lock for each
//! bucket for removals instead.
//!
//! Another CPU can still read a removed chunk, so it is not reused at once. As in dtrace.c it is *dirty* first.
//! [`Dynamic::clean`], which a thread calls from time to time, makes it *rinsing* while every CPU leaves probe context, and then
//! *clean*. A CPU takes a chunk from its own list of free chunks, then from its clean chunks, then from the lists of other CPUs.
//! If there is none, the assignment is a drop; there is a counter for each state of the chunks. With one CPU, a removed chunk is
//! free at once.

use super::work::{LINK, MAKE};
use crate::base::sync::{AtomicCount, AtomicU32, Ordering, const_fn, widen};
use crate::base::word::Word;

/// The number of words of a chunk before its keys and its value: the hash, and a word with the number of words of the keys and
/// the number of bytes of the value.
pub(crate) const HEADER: usize = 2;

/// Returns the number of words of a key: a number (0 bytes), or a value of this size.
pub(crate) const fn key_words(size: usize) -> usize {
    1 + size.div_ceil(8)
}

/// The chunks of one CPU in four lists, and its drops. On a separate cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct PerCpu {
    free: AtomicU32,
    clean: AtomicU32,
    dirty: AtomicU32,
    rinsing: AtomicU32,
    drops: AtomicCount,
    dirty_drops: AtomicCount,
    rinsing_drops: AtomicCount,
}

impl PerCpu {
    const_fn! {
        /// Returns a state without variables.
        pub fn new() -> Self {
            Self {
                free: AtomicU32::new(0),
                clean: AtomicU32::new(0),
                dirty: AtomicU32::new(0),
                rinsing: AtomicU32::new(0),
                drops: AtomicCount::new(0),
                dirty_drops: AtomicCount::new(0),
                rinsing_drops: AtomicCount::new(0),
            }
        }
    }
}

impl Default for PerCpu {
    fn default() -> Self {
        Self::new()
    }
}

/// The numbers of dynamic variables that were dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DynamicDrops {
    /// No chunk was free, dirty or rinsing, or the variable was larger than a chunk.
    pub empty: u64,
    /// No chunk was free, but some were dirty.
    pub dirty: u64,
    /// No chunk was free, but some were rinsing.
    pub rinsing: u64,
}

/// The dynamic variables of one consumer.
#[derive(Debug)]
pub struct Dynamic<'a> {
    /// The first chunk of each chain.
    buckets: &'a [AtomicU32],
    /// For each chunk, the link to the next chunk of its chain, with a mark if the chunk itself was removed.
    chain: &'a [AtomicU32],
    /// For each chunk, the link to the next chunk of its list.
    list: &'a [AtomicU32],
    words: &'a [Word],
    chunk: usize,
    cpus: &'a [PerCpu],
}

/// A link is the number of a chunk plus 1, times 2; 0 is the end. In `chain`, an odd link means that its chunk was
/// removed.
const MARK: u32 = 1;

const fn link(chunk: u32) -> u32 {
    (chunk + 1) << 1
}

/// The chunk that a link leads to.
const fn chunk(link: u32) -> Option<u32> {
    (link >> 1).checked_sub(1)
}

/// The error for a search that exceeds the budget.
#[derive(Debug)]
pub(crate) struct Endless;

/// The result of a search.
enum Found<'a> {
    Chunk(u32),
    /// The variable does not exist: the link to the first chunk of the chain at the time of the search, and the chain.
    None(u32, &'a AtomicU32),
}

/// The keys of a search: their words, and their hash.
#[derive(Clone, Copy)]
pub(crate) struct Key<'k> {
    words: &'k [u64],
    hash: u64,
}

impl<'k> Key<'k> {
    pub(crate) fn new(words: &'k [u64]) -> Self {
        // A usual hash for words: multiplication and rotation.
        let hash = words.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |hash, word| {
            (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
        });
        Self { words, hash: hash ^ hash >> 32 }
    }
}

impl<'a> Dynamic<'a> {
    /// Creates the variables in this memory, and divides the chunks among the CPUs. A chunk has `chunk` words: the largest
    /// [`chunk_words`](super::Program::chunk_words) of all programs. The number of chunks is the largest for which `chain`,
    /// `list` and `words` have room, at most 2^24 - 1. Without chunks or buckets, every assignment is a drop.
    pub fn new(
        buckets: &'a [AtomicU32],
        chain: &'a [AtomicU32],
        list: &'a [AtomicU32],
        words: &'a [Word],
        chunk: usize,
        cpus: &'a [PerCpu],
    ) -> Self {
        let this = Self { buckets, chain, list, words, chunk, cpus };
        let count = chain.len().min(list.len()).min(words.len().checked_div(chunk).unwrap_or(0));
        let count = count.min(super::address::MOST as usize);
        buckets.iter().chain(chain).chain(list).for_each(|link| link.store(0, Ordering::Relaxed));
        // Clears the data of the previous consumer of this memory.
        words.iter().for_each(|word| word.set(0));
        for cpu in cpus {
            for list in [&cpu.free, &cpu.clean, &cpu.dirty, &cpu.rinsing] {
                list.store(0, Ordering::Relaxed);
            }
        }
        if !cpus.is_empty() {
            for index in (0..count as u32).rev() {
                if let Some(cpu) = cpus.get(index as usize % cpus.len()) {
                    this.push(&cpu.free, index);
                }
            }
        }
        this
    }

    /// Returns the number of words of a chunk.
    pub const fn chunk_words(&self) -> usize {
        self.chunk
    }

    fn words(&self, chunk: u32) -> &'a [Word] {
        let start = (chunk as usize).checked_mul(self.chunk);
        start.and_then(|start| self.words.get(start..)?.get(..self.chunk)).unwrap_or_default()
    }

    /// Returns the value of the variable in a chunk: its words, and its size in bytes.
    pub(crate) fn value(&self, chunk: u32) -> Option<(&'a [Word], u32)> {
        let words = self.words(chunk);
        let sizes = words.get(1)?.get();
        let (keys, size) = (sizes as u32 as usize, (sizes >> 32) as u32);
        let words = words.get(HEADER..)?.get(keys..)?.get(..size.div_ceil(8) as usize)?;
        Some((words, size))
    }

    /// The chunk of a variable. Probe context.
    pub(crate) fn find(
        &self,
        cpu: usize,
        key: Key<'_>,
        work: &mut u32,
    ) -> Result<Option<u32>, Endless> {
        Ok(match self.search(cpu, key, work)? {
            Some(Found::Chunk(chunk)) => Some(chunk),
            Some(Found::None(..)) | None => None,
        })
    }

    /// Returns the chunk of a variable, which is created with zeroes if it does not exist. `None` after a drop, which
    /// is counted. Probe context.
    pub(crate) fn find_or_make(
        &self,
        cpu: usize,
        key: Key<'_>,
        size: u32,
        work: &mut u32,
    ) -> Result<Option<u32>, Endless> {
        let mut made = None;
        let (first, bucket) = match self.search(cpu, key, work)? {
            Some(Found::Chunk(chunk)) => return Ok(Some(chunk)),
            Some(Found::None(first, bucket)) => (first, bucket),
            None => return Ok(self.refuse(cpu)),
        };
        let (mut first, mut bucket) = (first, bucket);
        loop {
            let chunk = match made {
                Some(chunk) => chunk,
                None => {
                    // The search for a free chunk may visit the lists of every CPU.
                    let lists = 4 * self.cpus.len() as u32;
                    take(work, MAKE.saturating_add(lists).saturating_add(self.chunk as u32))?;
                    let Some(chunk) = self.make(cpu, key, size) else { return Ok(None) };
                    made = Some(chunk);
                    chunk
                }
            };
            if let Some(next) = self.chain.get(chunk as usize) {
                next.store(first, Ordering::Relaxed);
            }
            // Release: a CPU that finds the chunk sees its content.
            let linked =
                bucket.compare_exchange(first, link(chunk), Ordering::Release, Ordering::Relaxed);
            if linked.is_ok() {
                return Ok(Some(chunk));
            }
            // Another CPU was faster. No CPU has seen this chunk, but it must not return to a list of free chunks: while probes
            // fire, CPUs only remove chunks from these lists (see `pop`).
            match self.search(cpu, key, work).inspect_err(|_| self.retire(cpu, chunk))? {
                Some(Found::None(now, chain)) => (first, bucket) = (now, chain),
                Some(Found::Chunk(found)) => {
                    self.retire(cpu, chunk);
                    return Ok(Some(found));
                }
                None => {
                    self.retire(cpu, chunk);
                    return Ok(self.refuse(cpu));
                }
            }
        }
    }

    /// Removes a variable, if there is one. Probe context.
    pub(crate) fn remove(&self, cpu: usize, key: Key<'_>, work: &mut u32) -> Result<(), Endless> {
        let Some(Found::Chunk(chunk)) = self.search(cpu, key, work)? else { return Ok(()) };
        let Some(next) = self.chain.get(chunk as usize) else { return Ok(()) };
        // Release: all stores to the variable happen before its removal.
        if next.fetch_or(MARK, Ordering::AcqRel) & MARK == 0 {
            // This search unlinks the chunk, unless another CPU does.
            self.search(cpu, key, work)?;
        }
        Ok(())
    }

    /// Searches for a variable, and unlinks removed variables that it passes. Returns `None` if there are no buckets. Subtracts
    /// units of `work` for each variable that it passes, because a program can choose keys that are all in one chain.
    fn search(
        &self,
        cpu: usize,
        key: Key<'_>,
        work: &mut u32,
    ) -> Result<Option<Found<'a>>, Endless> {
        // The upper bits of the lower half of the hash select the bucket: a multiplication instead of a division.
        let index = (key.hash as u32 as u64 * self.buckets.len() as u64) >> 32;
        let Some(bucket) = self.buckets.get(index as usize) else { return Ok(None) };
        'again: loop {
            let mut first = bucket.load(Ordering::Acquire);
            let (mut before, mut now) = (bucket, first);
            while let Some(chunk) = chunk(now) {
                take(work, LINK)?;
                let Some(place) = self.chain.get(chunk as usize) else { return Ok(None) };
                let next = place.load(Ordering::Acquire);
                if next & MARK != 0 {
                    let next = next & !MARK;
                    let unlinked =
                        before.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed);
                    if unlinked.is_err() {
                        continue 'again;
                    }
                    self.retire(cpu, chunk);
                    if core::ptr::eq(before, bucket) {
                        first = next;
                    }
                    now = next;
                    continue;
                }
                if let [hash, sizes, rest @ ..] = self.words(chunk)
                    && hash.get() == key.hash
                {
                    take(work, key.words.len() as u32)?;
                    if sizes.get() as u32 as usize == key.words.len()
                        && rest.iter().zip(key.words).all(|(word, key)| word.get() == *key)
                    {
                        return Ok(Some(Found::Chunk(chunk)));
                    }
                }
                (before, now) = (place, next);
            }
            return Ok(Some(Found::None(first, bucket)));
        }
    }

    /// Takes a chunk and writes keys and zeroes into it.
    fn make(&self, cpu: usize, key: Key<'_>, size: u32) -> Option<u32> {
        let needed = key.words.len().checked_add(HEADER + size.div_ceil(8) as usize);
        if needed.is_none_or(|needed| needed > self.chunk) {
            return self.refuse(cpu);
        }
        let chunk = self.take(cpu)?;
        if let [hash, sizes, rest @ ..] = self.words(chunk) {
            hash.set(key.hash);
            sizes.set(u64::from(size) << 32 | key.words.len() as u64);
            let words = key.words.iter().copied().chain(core::iter::repeat(0));
            rest.iter().zip(words).for_each(|(word, value)| word.set(value));
        }
        Some(chunk)
    }

    /// Counts a variable that is larger than any chunk.
    pub(crate) fn refuse(&self, cpu: usize) -> Option<u32> {
        self.count_drop(cpu);
        None
    }

    fn count_drop(&self, cpu: usize) {
        if let Some(cpu) = self.cpus.get(cpu) {
            count(&cpu.drops);
        }
    }

    /// Takes a chunk that no CPU can reach.
    fn take(&self, cpu: usize) -> Option<u32> {
        let mine = self.cpus.get(cpu)?;
        let (before, after) = self.cpus.split_at_checked(cpu)?;
        for from in after.iter().chain(before) {
            if let Some(chunk) = self.pop(&from.free) {
                return Some(chunk);
            }
            let clean = from.clean.swap(0, Ordering::AcqRel);
            if let Some(chunk) = chunk(clean) {
                // Only this CPU fills its list of free chunks, and it was empty.
                let rest =
                    self.list.get(chunk as usize).map_or(0, |next| next.load(Ordering::Relaxed));
                mine.free.store(rest, Ordering::Release);
                return Some(chunk);
            }
        }
        let has = |list: fn(&PerCpu) -> &AtomicU32| {
            self.cpus.iter().any(|cpu| list(cpu).load(Ordering::Relaxed) != 0)
        };
        count(if has(|cpu| &cpu.rinsing) {
            &mine.rinsing_drops
        } else if has(|cpu| &cpu.dirty) {
            &mine.dirty_drops
        } else {
            &mine.drops
        });
        None
    }

    /// Makes an unlinked chunk available again: with one CPU at once, otherwise after [`clean`](Self::clean).
    fn retire(&self, cpu: usize, chunk: u32) {
        match self.cpus {
            // No other CPU can read the chunk.
            [only] => self.push(&only.free, chunk),
            cpus => {
                if let Some(cpu) = cpus.get(cpu) {
                    self.push(&cpu.dirty, chunk);
                }
            }
        }
    }

    fn push(&self, list: &AtomicU32, chunk: u32) {
        let Some(next) = self.list.get(chunk as usize) else { return };
        let mut first = list.load(Ordering::Relaxed);
        loop {
            next.store(first, Ordering::Relaxed);
            match list.compare_exchange(first, link(chunk), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Removes the first chunk of a list. A chunk returns to a list of free chunks only after every CPU has left probe context.
    /// So if the first chunk has not changed, its link has not changed either.
    fn pop(&self, list: &AtomicU32) -> Option<u32> {
        let mut first = list.load(Ordering::Acquire);
        loop {
            let chunk = chunk(first)?;
            let next = self.list.get(chunk as usize)?.load(Ordering::Relaxed);
            match list.compare_exchange(first, next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(chunk),
                Err(now) => first = now,
            }
        }
    }

    /// Makes the chunks of removed variables usable again. Called outside probe context, by one thread at a time.
    ///
    /// `sync` returns after every CPU has been outside probe context: [`Host::sync`](crate::Host::sync).
    pub fn clean(&self, sync: impl FnOnce()) {
        let mut any = false;
        for cpu in self.cpus {
            let dirty = cpu.dirty.swap(0, Ordering::AcqRel);
            cpu.rinsing.store(dirty, Ordering::Relaxed);
            any |= dirty != 0;
        }
        if !any {
            return;
        }
        sync();
        for cpu in self.cpus {
            let rinsed = cpu.rinsing.load(Ordering::Relaxed);
            if rinsed != 0 {
                self.join(rinsed, &cpu.clean);
                cpu.rinsing.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Moves all chunks of a list to the front of a list of clean ones. Other users only empty that list completely, so
    /// its first chunk stays the first while it is in the list.
    fn join(&self, first: u32, clean: &AtomicU32) {
        let next = |link| self.list.get(chunk(link)? as usize);
        let mut last = next(first);
        while let Some(behind) = last.and_then(|last| next(last.load(Ordering::Relaxed))) {
            last = Some(behind);
        }
        let Some(last) = last else { return };
        let mut there = clean.load(Ordering::Relaxed);
        loop {
            last.store(there, Ordering::Relaxed);
            match clean.compare_exchange(there, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => there = now,
            }
        }
    }

    /// Returns the drops of all CPUs since the start.
    pub fn drops(&self) -> DynamicDrops {
        let sum = |field: fn(&PerCpu) -> &AtomicCount| {
            self.cpus
                .iter()
                .fold(0u64, |sum, cpu| sum.wrapping_add(widen(field(cpu).load(Ordering::Relaxed))))
        };
        DynamicDrops {
            empty: sum(|cpu| &cpu.drops),
            dirty: sum(|cpu| &cpu.dirty_drops),
            rinsing: sum(|cpu| &cpu.rinsing_drops),
        }
    }

    /// Returns the first word of a value: all of it, if the value is a number.
    pub(crate) fn number(&self, chunk: u32) -> Option<&'a Word> {
        self.value(chunk)?.0.first()
    }
}

/// Subtracts units of work from the budget.
fn take(work: &mut u32, units: u32) -> Result<(), Endless> {
    match work.checked_sub(units) {
        Some(left) => *work = left,
        None => {
            *work = 0;
            return Err(Endless);
        }
    }
    Ok(())
}

/// Increments a counter. This needs no atomic read-modify-write, because only one CPU writes the counter.
fn count(count: &AtomicCount) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
