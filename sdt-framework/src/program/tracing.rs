//! What a consumer that goes has for its programs: memory, and buffers for each CPU.

use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::Ordering;

use super::options::Options;
use super::programs::{Needs, Programs};
use super::session::Session;
use super::speculation::{Cleaning, Speculation};
use crate::aggregation;
use crate::arena::{Arena, Bundle};
use crate::buffer::{ConsumerError, Pair, Policy, Traced, bits};
use crate::dif::{Dynamic, Memory, PerCpu, Rights, Statics, Word};
use crate::kernel::Costs;
use crate::postmortem::{Map, SessionBytes};
use crate::sync::{AtomicCount, AtomicU32};

/// Scratch space has room for so many strings, and for so many bytes at least; where memory is short it is made smaller, and a
/// few strings are left. (In dtrace.c it is the buffer of records that is not in use.)
const STRINGS: usize = 32;
const SCRATCH: usize = 8 * 1024;
const FEW: usize = 4;
/// Dynamic variables that there is room for however little is asked for (`dynvarsize`); in DTrace it is one.
const VARIABLES: usize = 3;

/// What a consumer that goes has. Read in probe context; never changed but for what is a CPU's own.
#[derive(Debug)]
pub(crate) struct Tracing {
    /// Number of the consumer: what the probes of `dtrace` are told first.
    pub(crate) number: u32,
    pub(crate) memory: Memory<'static>,
    pub(crate) rights: Rights,
    /// The same for the probes of `dtrace`: what they tell of its own programs it may know.
    pub(crate) own_rights: Rights,
    pub(crate) destructive: bool,
    /// What the kernel's functions cost.
    pub(crate) costs: Costs,
    pub(crate) policy: Policy,
    /// Those that are traced, and the number of the first of them.
    cpus: &'static [Cpu],
    first: usize,
    pub(crate) speculations: &'static [Speculation],
    /// When the consumer was heard of last.
    pub(crate) alive: Word,
}

/// One CPU's part. On cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Cpu {
    pub(crate) records: Pair<Traced>,
    pub(crate) aggregated: Pair<Aggregated>,
    pub(crate) work: UnsafeCell<Work>,
    /// What it has recorded for each speculation.
    pub(crate) speculative: &'static [Speculative],
    /// Records that found no room there.
    pub(crate) speculation_drops: AtomicCount,
    /// How often no speculation was free: as they were being cleaned, as programs had them.
    pub(crate) lacks: [AtomicCount; 2],
    pub(crate) errors: AtomicCount,
    pub(crate) double_errors: AtomicCount,
    /// 1 once its buffer is full that is filled once.
    pub(crate) filled: AtomicCount,
    /// When its buffers were switched: of records, of aggregations. The reader's.
    pub(crate) switched: [Word; 2],
}

// SAFETY: `work` is its CPU's, in probe context, and so is what is speculative, which others have only when it leaves that
// alone (`Speculation`).
unsafe impl Sync for Cpu {}

/// Room that a CPU works in.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) scratch: &'static mut [u8],
    pub(crate) key: &'static mut [u64],
    pub(crate) tuple: &'static mut [u64],
}

impl Tracing {
    /// A CPU's part; `None` for one that is not traced. Probe context.
    #[inline(always)]
    pub(crate) fn here(&self, cpu: usize) -> Option<&Cpu> {
        self.cpus.get(cpu.wrapping_sub(self.first))
    }

    /// All parts that there are, with the numbers of their CPUs.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, &Cpu)> {
        (self.first..).zip(self.cpus)
    }

    /// Whether there are speculations to clean. The one thread that cleans then waits until every CPU has been outside
    /// probe context.
    pub(crate) fn begin_cleaning(&self) -> bool {
        self.speculations.iter().fold(false, |any, of| of.begin_cleaning() | any)
    }

    /// Cleans speculations that are over. What one CPU has of those that were committed goes into its records, with this
    /// time, if they are given; the others wait for theirs.
    ///
    /// # Safety
    /// Since `begin_cleaning`, by this thread, every CPU has been outside probe context. Nobody else cleans.
    pub(crate) unsafe fn clean(&self, mut records: Option<(&Cpu, &mut Traced, u64)>) {
        for (index, speculation) in self.speculations.iter().enumerate() {
            let Some(cleaning) = speculation.cleaning() else { continue };
            let mut is_clean = true;
            for cpu in self.cpus {
                let Some(part) = cpu.speculative.get(index) else { continue };
                // SAFETY: it is over, and no CPU that saw it active is in probe context any more.
                let buffer = unsafe { &mut *part.buffer.get() };
                match (&mut records, cleaning) {
                    (_, Cleaning::Discard) => buffer.empty(),
                    (Some((of, records, now)), Cleaning::Commit) if core::ptr::eq(*of, cpu) => {
                        records.take_over(buffer, *now, true);
                    }
                    _ => {}
                }
                is_clean &= buffer.is_empty();
                part.is_there.store((!buffer.is_empty()).into(), Ordering::Relaxed);
            }
            if is_clean {
                speculation.cleaned();
            }
        }
    }
}

/// What a CPU has recorded for a speculation.
#[derive(Debug)]
pub(crate) struct Speculative {
    /// The CPU's alone, in probe context, after the speculation has said that it may; then the consumer's thread's, which
    /// cleans it.
    pub(crate) buffer: UnsafeCell<Traced>,
    /// 1 if there is something in it.
    pub(crate) is_there: AtomicU32,
}

impl Speculative {
    /// Whether the CPU, this one, has recorded something. It is written by others when the speculation is over only: who has
    /// seen it active with Acquire sees that.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed) != 0
    }
}

/// What was aggregated. As in C, for dumps ([`TuplesState`](dtrace_abi::postmortem::TuplesState)).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Aggregated {
    /// Drops of the buffer that have been reported.
    before: u64,
    pub(crate) buffer: aggregation::Buffer<'static>,
}

const _: () = assert!(core::mem::offset_of!(Aggregated, buffer) == 8);

impl Aggregated {
    /// Forgets everything.
    pub(crate) fn restart(&mut self) {
        self.buffer.clear();
        self.before = self.buffer.drops();
    }

    /// Values that found no room since then.
    pub(crate) fn drops(&self) -> u64 {
        self.buffer.drops().wrapping_sub(self.before)
    }
}

/// How large everything is going to be, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    records: usize,
    aggregations: usize,
    dynamic: usize,
    /// Of one speculation's buffer, and how many there are.
    speculative: usize,
    speculations: usize,
    scratch: usize,
}

/// What was made for a consumer that goes, and what describes it to who finds it in a dump.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) tracing: &'static Tracing,
    pub(crate) shown: &'static SessionBytes,
}

impl Session {
    /// Gives back what [`prepare`](Self::prepare) has made.
    ///
    /// # Safety
    /// Nobody has it.
    pub(crate) unsafe fn unprepare(&mut self, arena: &mut Arena) {
        let made = core::mem::replace(&mut self.running, Bundle::new());
        // SAFETY: by the contract above.
        unsafe { made.free(arena) };
    }

    /// Makes what the programs need to run.
    pub(crate) fn prepare(
        &mut self,
        arena: &mut Arena,
        cpus: usize,
        number: u32,
        (usual, share): (usize, usize),
        (now, costs): (u64, Costs),
        (map, activity): (&Map, &AtomicU32),
    ) -> Result<Option<Prepared>, ConsumerError> {
        self.settle(arena);
        let Some(programs) = &self.programs else { return Ok(None) };
        let (options, needs) = (&self.options, programs.needs);
        let strings = options.string() as usize;
        let all = Sizes {
            records: options.records().unwrap_or(usual) / 8,
            aggregations: match needs.tuple {
                0 => 0,
                _ => options.aggregations().unwrap_or(usual) / 8,
            },
            dynamic: match needs.chunk {
                0 => 0,
                // Some find room in any case, as one does in `dtrace_dstate_init`.
                chunk => {
                    (options.dynamic().unwrap_or(usual) / 8).max((chunk + CHUNK_LINKS) * VARIABLES)
                }
            },
            speculative: options.speculations().1 / 8,
            speculations: if needs.speculates { options.speculations().0 } else { 0 },
            scratch: (strings * STRINGS).max(SCRATCH) / 8,
        };
        let all_cpus = 0..cpus;
        let traced = options.cpu().map_or(all_cpus, |one| one..one.saturating_add(1));
        let least = needs.record.max(1);
        if all.records < least {
            return Err(ConsumerError::SmallBuffer { bytes: all.records * 8, least: least * 8 });
        }
        let aggregates = needs.element != 0 && all.aggregations == 0;
        if aggregates || all.speculations != 0 && all.speculative == 0 {
            return Err(ConsumerError::SmallBuffer { bytes: 0, least: 8 });
        }
        let mut sizes = all;
        let mut share = if options.halves() { share } else { usize::MAX };
        loop {
            let left = arena.left();
            let mut bundle = Bundle::new();
            let maker = Maker {
                programs,
                options,
                needs,
                cpus,
                traced: traced.clone(),
                number,
                rights: self.rights,
                costs,
            };
            // One kind of buffer does not take what the others need.
            let needed = maker.bytes(sizes);
            let made = (needed <= left.min(share)).then(|| -> Option<Prepared> {
                let tracing = maker.tracing(arena, &mut bundle, sizes, now)?;
                let shown =
                    map.describe(arena, &mut bundle, activity, programs, (tracing, cpus))?;
                Some(Prepared { tracing, shown })
            });
            if let Some(Some(prepared)) = made {
                self.running.append(bundle);
                return Ok(Some(prepared));
            }
            // SAFETY: nothing of it has gone anywhere.
            unsafe { bundle.free(arena) };
            // As with `bufresize=auto`, what takes most is made half as large, unless that would be too small: nothing pays for
            // what another one was asked to be.
            let all = Sizes {
                records: (sizes.records / 2).max(least),
                aggregations: half(sizes.aggregations, needs.element * 4),
                dynamic: half(sizes.dynamic, needs.chunk * 4),
                speculative: half(sizes.speculative, least),
                scratch: half(sizes.scratch, strings * FEW / 8),
                ..sizes
            };
            let one = [
                Sizes { records: all.records, ..sizes },
                Sizes { aggregations: all.aggregations, ..sizes },
                Sizes { dynamic: all.dynamic, ..sizes },
                Sizes { speculative: all.speculative, ..sizes },
                Sizes { scratch: all.scratch, ..sizes },
            ];
            let smallest = one.into_iter().min_by_key(|sizes| maker.bytes(*sizes));
            // Of more than can be counted, one is no difference.
            let smaller = smallest.filter(|smaller| maker.bytes(*smaller) < needed).unwrap_or(all);
            let is_same = smaller == sizes;
            // What cannot be smaller need not leave room for others.
            if is_same && share != usize::MAX {
                share = usize::MAX;
                continue;
            }
            if is_same || !options.halves() {
                return Err(ConsumerError::NoMemory { needed, left });
            }
            sizes = smaller;
        }
    }
}

/// Words of a chunk's two links and half a bucket, roughly.
const CHUNK_LINKS: usize = 2;

fn half(words: usize, least: usize) -> usize {
    if words / 2 < least { words } else { words / 2 }
}

struct Maker<'a> {
    programs: &'a Programs,
    options: &'a Options,
    needs: Needs,
    cpus: usize,
    /// Those that are traced.
    traced: Range<usize>,
    number: u32,
    rights: Rights,
    costs: Costs,
}

/// How the words of a buffer of aggregations are divided: for tuples, entries and buckets of the table.
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

impl Maker<'_> {
    fn halves(&self) -> usize {
        if self.options.policy() == Policy::Switch { 2 } else { 1 }
    }

    /// Bytes that everything takes, roughly.
    fn bytes(&self, sizes: Sizes) -> usize {
        let speculative = sizes.speculations.saturating_mul(sizes.speculative);
        let records = sizes.records.saturating_mul(self.halves());
        let work = sizes.scratch + self.needs.chunk + self.needs.tuple;
        let each = [records, sizes.aggregations.saturating_mul(2), speculative, work];
        let each = each.into_iter().fold(0, usize::saturating_add);
        let each = each.saturating_mul(8).saturating_add(size_of::<Cpu>());
        each.saturating_mul(self.traced.len()).saturating_add(sizes.dynamic.saturating_mul(8))
    }

    fn tracing(
        &self,
        arena: &mut Arena,
        bundle: &mut Bundle,
        sizes: Sizes,
        now: u64,
    ) -> Option<&'static Tracing> {
        let dynamic = self.dynamic(arena, bundle, sizes.dynamic)?;
        let of = self.programs.memory;
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
        let cpus = bundle.slice::<core::mem::MaybeUninit<Cpu>>(arena, count, |_| {
            core::mem::MaybeUninit::uninit()
        })?;
        for place in &mut *cpus {
            match self.cpu(arena, bundle, sizes) {
                Some(cpu) => {
                    place.write(cpu);
                }
                None => parts = None,
            }
        }
        parts?;
        // SAFETY: each has been written.
        let cpus: &'static [Cpu] = unsafe { &*(core::ptr::from_mut(cpus) as *const [Cpu]) };
        let speculations = bundle.slice(arena, sizes.speculations, |_| Speculation::new())?;
        let alive = Word::new();
        alive.set(now);
        let tracing = Tracing {
            number: self.number,
            memory,
            rights: self.rights,
            own_rights: Rights { args: true, ..self.rights },
            destructive: self.options.destructive(),
            costs: self.costs,
            policy: self.options.policy(),
            cpus,
            first: self.traced.start,
            speculations,
            alive,
        };
        bundle.alloc(arena, tracing).map(|tracing| &*tracing)
    }

    fn cpu(&self, arena: &mut Arena, bundle: &mut Bundle, sizes: Sizes) -> Option<Cpu> {
        let speculative = bundle.lines(arena, sizes.speculations, |_| {
            let buffer = UnsafeCell::new(Traced::new(&mut [], Policy::Switch, &mut [], 0));
            Speculative { buffer, is_there: AtomicU32::new(0) }
        })?;
        let mut traced = |words: usize, policy: Policy, is_known: bool| -> Option<Traced> {
            let starts = if is_known { bits(words) } else { 0 };
            let starts = bundle.lines(arena, starts, |_| 0)?;
            let words = bundle.lines(arena, words, |_| 0)?;
            Some(Traced::new(words, policy, starts, self.needs.end))
        };
        let policy = self.options.policy();
        let is_ring = policy == Policy::Ring;
        let second = if self.halves() == 2 { sizes.records } else { 0 };
        let records =
            Pair::new(traced(sizes.records, policy, is_ring)?, traced(second, policy, is_ring)?);
        for place in &mut *speculative {
            *place.buffer.get_mut() = traced(sizes.speculative, Policy::Switch, true)?;
        }
        let mut aggregated = || -> Option<Aggregated> {
            let Division { words, entries, buckets } = divide(sizes.aggregations);
            let words = bundle.lines(arena, words, |_| 0)?;
            let buckets = bundle.lines(arena, buckets, |_| 0)?;
            let entries = bundle.lines(arena, entries, |_| aggregation::Entry::default())?;
            Some(Aggregated {
                buffer: aggregation::Buffer::new(words, buckets, entries),
                before: 0,
            })
        };
        let aggregated = Pair::new(aggregated()?, aggregated()?);
        let work = Work {
            scratch: bundle.lines(arena, sizes.scratch * 8, |_| 0)?,
            key: bundle.lines(arena, self.needs.chunk, |_| 0)?,
            tuple: bundle.lines(arena, self.needs.tuple, |_| 0)?,
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
