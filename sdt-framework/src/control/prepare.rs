//! Chooses the sizes of a consumer's buffers, and creates the state of its run.

use crate::base::arena::{Arena, Bundle};
use crate::control::dump::{Map, SessionBytes};
use crate::control::error::ConsumerError;
use crate::control::options::Options;
use crate::control::programs::Programs;
use crate::kernel::Costs;
use crate::run::consumer::Consumer;
use crate::run::make::{CHUNK_LINKS, Needs, Plan, Sizes};
use crate::run::state::RunState;

/// The size of scratch space: this number of strings, and at least this number of bytes. If memory is short, it is
/// smaller, with room for a few strings. (In dtrace.c it is the inactive buffer of records.)
const STRINGS: usize = 32;
const SCRATCH: usize = 8 * 1024;
const FEW: usize = 4;

/// The number of dynamic variables that always fit, for any `dynvarsize`; DTrace guarantees one.
const VARIABLES: usize = 3;

/// The state of a run, and its description for dumps.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) state: &'static RunState,
    pub(crate) shown: &'static SessionBytes,
    /// The sizes of the buffers.
    pub(crate) sizes: Sizes,
}

/// The resources of the framework for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    /// The number of CPUs.
    pub(crate) cpus: usize,
    /// Bytes of a buffer whose size the consumer does not choose.
    pub(crate) usual: usize,
    /// The largest size in bytes of all buffers of a consumer together, if they may be smaller than requested.
    pub(crate) share: usize,
    pub(crate) costs: Costs,
    pub(crate) now: u64,
}

/// Returns the sizes that the consumer has requested.
fn wanted(options: &Options, needs: Needs, usual: usize) -> Result<Sizes, ConsumerError> {
    let sizes = Sizes {
        records: options.records().unwrap_or(usual) / 8,
        aggregations: match needs.tuple {
            0 => 0,
            _ => options.aggregations().unwrap_or(usual) / 8,
        },
        dynamic: match needs.chunk {
            0 => 0,
            // At least some chunks exist, as in `dtrace_dstate_init`, which has at least one.
            chunk => {
                (options.dynamic().unwrap_or(usual) / 8).max((chunk + CHUNK_LINKS) * VARIABLES)
            }
        },
        speculative: options.speculations().1 / 8,
        speculations: if needs.speculates { options.speculations().0 } else { 0 },
        scratch: match needs.scratch {
            false => 0,
            true => (options.string() as usize * STRINGS).max(SCRATCH) / 8,
        },
    };
    let least = needs.record.max(1);
    if sizes.records < least {
        return Err(ConsumerError::SmallBuffer { bytes: sizes.records * 8, least: least * 8 });
    }
    let no_tuples = needs.element != 0 && sizes.aggregations == 0;
    if no_tuples || sizes.speculations != 0 && sizes.speculative == 0 {
        return Err(ConsumerError::SmallBuffer { bytes: 0, least: 8 });
    }
    Ok(sizes)
}

/// Returns smaller sizes. Like `bufresize=auto`, it halves the part that takes most memory, unless that part would
/// become too small. If that saves nothing, it halves all parts.
fn smaller(plan: &Plan, sizes: Sizes, string: usize) -> Sizes {
    let needs = plan.needs;
    let least = needs.record.max(1);
    let all = Sizes {
        records: (sizes.records / 2).max(least),
        aggregations: half(sizes.aggregations, needs.element * 4),
        dynamic: half(sizes.dynamic, needs.chunk * 4),
        speculative: half(sizes.speculative, least),
        scratch: half(sizes.scratch, string * FEW / 8),
        ..sizes
    };
    let one = [
        Sizes { records: all.records, ..sizes },
        Sizes { aggregations: all.aggregations, ..sizes },
        Sizes { dynamic: all.dynamic, ..sizes },
        Sizes { speculative: all.speculative, ..sizes },
        Sizes { scratch: all.scratch, ..sizes },
    ];
    let smallest = one.into_iter().min_by_key(|sizes| plan.bytes(*sizes));
    // If the sizes overflow, halving one part makes no difference, so all parts are halved.
    smallest.filter(|smaller| plan.bytes(*smaller) < plan.bytes(sizes)).unwrap_or(all)
}

fn half(words: usize, least: usize) -> usize {
    if words / 2 < least { words } else { words / 2 }
}

/// Creates the state of a run of these programs. `bundle` owns its memory.
pub(crate) fn prepare(
    (programs, options): (&Programs, &Options),
    consumer: (u32, &Consumer),
    given: Given,
    map: &Map,
    (arena, kept): (&mut Arena, &mut Bundle),
) -> Result<Prepared, ConsumerError> {
    let (number, consumer) = consumer;
    let all_cpus = 0..given.cpus;
    let plan = Plan {
        number,
        memory: programs.memory,
        needs: programs.needs,
        access: consumer.access(),
        destructive: options.destructive(),
        costs: given.costs,
        policy: options.policy(),
        cpus: given.cpus,
        traced: options.cpu().map_or(all_cpus, |one| one..one.saturating_add(1)),
        now: given.now,
    };
    let mut sizes = wanted(options, programs.needs, given.usual)?;
    let mut share = if options.halves() { given.share } else { usize::MAX };
    loop {
        let left = arena.left();
        let mut bundle = Bundle::new();
        // Checks the total first, so that one kind of buffer does not take the memory that the others need.
        let needed = plan.bytes(sizes);
        let made = (needed <= left.min(share)).then(|| -> Option<Prepared> {
            let state = plan.make(arena, &mut bundle, sizes)?;
            let shown =
                map.describe(arena, &mut bundle, consumer, programs, (state, given.cpus))?;
            Some(Prepared { state, shown, sizes })
        });
        if let Some(Some(prepared)) = made {
            kept.append(bundle);
            return Ok(prepared);
        }
        // SAFETY: `make` or `describe` has failed, and no reference to these allocations was published.
        unsafe { bundle.free(arena) };
        let smaller = smaller(&plan, sizes, options.string() as usize);
        let is_same = smaller == sizes;
        // If no part can become smaller, the limit `share` no longer applies.
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
