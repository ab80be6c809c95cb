//! Makes the state of a run.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;

use super::buffer::{Policy, RecordBuffer, bits};
use super::pair::Pair;
use super::speculation::Speculation;
use super::state::{Aggregated, Cpu, RunState, Speculative, Work};
use crate::base::arena::{Arena, Bundle};
use crate::base::sync::{AtomicCount, AtomicU32};
use crate::base::word::Word;
use crate::kernel::Costs;
use crate::machine::aggregation;
use crate::machine::{Access, Dynamic, Memory, PerCpu, Statics};

/// The resources of clauses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Words of the longest record.
    pub(crate) record: usize,
    /// The total number of words of the longest records of all clauses of `dtrace:::END`.
    pub(crate) end: usize,
    /// The greatest number of words of a tuple's keys, and of a tuple with its value. Both are 0 without aggregations.
    pub(crate) tuple: usize,
    pub(crate) element: usize,
    /// The number of words of the largest dynamic variable; 0 if there are none.
    pub(crate) chunk: usize,
    pub(crate) speculates: bool,
    /// Whether a program may allocate scratch space.
    pub(crate) scratch: bool,
}

/// The sizes of all parts of a state, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) records: usize,
    pub(crate) aggregations: usize,
    pub(crate) dynamic: usize,
    /// The size of a speculation's buffer, and the number of speculations.
    pub(crate) speculative: usize,
    pub(crate) speculations: usize,
    pub(crate) scratch: usize,
}

/// The parameters of the state of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Number of the consumer.
    pub(crate) number: u32,
    pub(crate) memory: &'static Memory<'static>,
    pub(crate) needs: Needs,
    pub(crate) access: Access,
    pub(crate) destructive: bool,
    pub(crate) costs: Costs,
    pub(crate) policy: Policy,
    /// The number of CPUs, and the traced ones.
    pub(crate) cpus: usize,
    pub(crate) traced: Range<usize>,
    /// The current time in nanoseconds since boot.
    pub(crate) now: u64,
}

/// The approximate number of words of a chunk's two links and its share of the buckets.
pub(crate) const CHUNK_LINKS: usize = 2;

/// The division of an aggregation buffer: the words of tuples, entries and buckets of the table.
struct Division {
    words: usize,
    entries: usize,
    buckets: usize,
}

const fn divide(words: usize) -> Division {
    // An entry is a third as long as the shortest tuple.
    let entries = words / 8;
    let table = entries * size_of::<aggregation::Entry>() / 8 + entries / 4;
    Division { words: words.saturating_sub(table), entries, buckets: entries / 2 }
}

impl Plan {
    fn halves(&self) -> usize {
        if self.policy == Policy::Switch { 2 } else { 1 }
    }

    /// Returns the approximate size in bytes of a state with these sizes.
    pub(crate) fn bytes(&self, sizes: Sizes) -> usize {
        let speculative = sizes.speculations.saturating_mul(sizes.speculative);
        let records = sizes.records.saturating_mul(self.halves());
        let work = sizes.scratch + self.needs.chunk + self.needs.tuple;
        let each = [records, sizes.aggregations.saturating_mul(2), speculative, work];
        let each = each.into_iter().fold(0, usize::saturating_add);
        let each = each.saturating_mul(8).saturating_add(size_of::<Cpu>());
        each.saturating_mul(self.traced.len()).saturating_add(sizes.dynamic.saturating_mul(8))
    }

    /// Allocates the state; returns `None` if there is no room.
    pub(crate) fn make(
        &self,
        arena: &mut Arena,
        bundle: &mut Bundle,
        sizes: Sizes,
    ) -> Option<&'static RunState> {
        let dynamic = self.dynamic(arena, bundle, sizes.dynamic)?;
        let of = self.memory;
        let copy = |statics: &Statics<'static>| Statics {
            extents: statics.extents,
            words: statics.words,
            copies: statics.copies,
        };
        let memory = Memory {
            literals: of.literals,
            globals: copy(&of.globals),
            locals: copy(&of.locals),
            dynamic,
            string_size: of.string_size,
        };
        let mut parts = Some(());
        let count = self.traced.len();
        let cpus = bundle.slice(arena, count, |_| MaybeUninit::<Cpu>::uninit())?;
        for place in &mut *cpus {
            match self.cpu(arena, bundle, sizes) {
                Some(cpu) => {
                    place.write(cpu);
                }
                None => parts = None,
            }
        }
        parts?;
        // SAFETY: the loop above has written every element, because `parts` is `Some`.
        let cpus: &'static [Cpu] = unsafe { &*(core::ptr::from_mut(cpus) as *const [Cpu]) };
        let speculations = bundle.slice(arena, sizes.speculations, |_| Speculation::new())?;
        let heard = Word::new();
        heard.set(self.now);
        let state = RunState {
            number: self.number,
            memory,
            access: self.access,
            destructive: self.destructive,
            costs: self.costs,
            policy: self.policy,
            cpus,
            first: self.traced.start,
            speculations,
            heard,
        };
        bundle.alloc(arena, state).map(|state| &*state)
    }

    fn cpu(&self, arena: &mut Arena, bundle: &mut Bundle, sizes: Sizes) -> Option<Cpu> {
        let speculative = bundle.lines(arena, sizes.speculations, |_| {
            let buffer = UnsafeCell::new(RecordBuffer::new(&mut [], Policy::Switch, &mut [], 0));
            Speculative { buffer, is_there: AtomicU32::new(0) }
        })?;
        let mut traced = |words: usize, policy: Policy, is_known: bool| -> Option<RecordBuffer> {
            let starts = if is_known { bits(words) } else { 0 };
            let starts = bundle.zeros(arena, starts)?;
            let words = bundle.uninit(arena, words)?;
            Some(RecordBuffer::new(words, policy, starts, self.needs.end))
        };
        let policy = self.policy;
        let is_ring = policy == Policy::Ring;
        let second = if self.halves() == 2 { sizes.records } else { 0 };
        let records =
            Pair::new(traced(sizes.records, policy, is_ring)?, traced(second, policy, is_ring)?);
        for place in &mut *speculative {
            *place.buffer.get_mut() = traced(sizes.speculative, Policy::Switch, true)?;
        }
        let mut aggregated = || -> Option<Aggregated> {
            let Division { words, entries, buckets } = divide(sizes.aggregations);
            let words = bundle.uninit(arena, words)?;
            let buckets = bundle.zeros(arena, buckets)?;
            let entries = bundle.uninit(arena, entries)?;
            Some(Aggregated {
                buffer: aggregation::Buffer::new(words, buckets, entries),
                before: 0,
            })
        };
        let aggregated = Pair::new(aggregated()?, aggregated()?);
        let work = Work {
            scratch: bundle.zeros(arena, sizes.scratch * 8)?,
            key: bundle.zeros(arena, self.needs.chunk)?,
            tuple: bundle.zeros(arena, self.needs.tuple)?,
        };
        Some(Cpu {
            records,
            aggregated,
            work: UnsafeCell::new(work),
            speculative,
            speculation_drops: AtomicCount::new(0),
            lacks: [AtomicCount::new(0), AtomicCount::new(0)],
            errors: AtomicCount::new(0),
            double_errors: AtomicCount::new(0),
            filled: AtomicCount::new(0),
            half_filled: AtomicCount::new(0),
            switched: [Word::new(), Word::new()],
        })
    }

    fn dynamic(
        &self,
        arena: &mut Arena,
        bundle: &mut Bundle,
        words: usize,
    ) -> Option<Dynamic<'static>> {
        let chunk = self.needs.chunk;
        let chunks = words.checked_div(chunk + CHUNK_LINKS).unwrap_or(0);
        let mut links = |count| -> Option<&'static [AtomicU32]> {
            Some(bundle.slice(arena, count, |_| AtomicU32::new(0))?)
        };
        let (buckets, chain, list) = (links(chunks.div_ceil(2))?, links(chunks)?, links(chunks)?);
        let words = bundle.slice(arena, chunks * chunk, |_| Word::new())?;
        let cpus = bundle.slice(arena, self.cpus, |_| PerCpu::new())?;
        Some(Dynamic::new(buckets, chain, list, words, chunk, cpus))
    }
}
