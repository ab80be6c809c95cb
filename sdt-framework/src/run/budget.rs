//! The budget of a hit: the work of the clauses of all consumers together, so that no program occupies a CPU for long.
//!
//! The framework divides the budget evenly among the consumers that have enabled the probe. A consumer cannot use units
//! that another one has left, so each share is independent of the others. A sixteenth of a share is reserved for
//! `dtrace:::ERROR`, which reports that the rest is used up.

use crate::base::counters::Work;
use crate::base::word::Word;

/// The units of work to visit an enabling on the chain.
pub(crate) const MEET: u32 = 16;

/// The part of a share that is reserved for `dtrace:::ERROR`.
const RESERVE: u32 = 16;

/// The rest of each consumer's share after its turn at a hit: the number of the hit, and the units.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) entries: &'a [Word],
    /// The number of the hit.
    pub(crate) hit: u32,
    pub(crate) work: &'a Work,
}

/// The shares of the consumers at a hit. This value contains the share of the current consumer; the table of the CPU
/// contains the rests of the consumers that had their turn before.
pub(crate) struct Budget {
    share: u32,
    /// The number of consumers that have not received a share yet.
    others: u32,
    /// The consumer whose turn it is, or [`FIRST`] or [`NONE`].
    consumer: u32,
    /// Units that its clauses may use.
    available: u32,
    /// The units that are reserved for `dtrace:::ERROR` of this consumer.
    kept: u32,
}

/// The value of `consumer` before the first turn: `available` and `kept` are the share of the first consumer, whichever it is, and
/// the table has no entries of this hit.
const FIRST: u32 = u32::MAX;
/// The value of `consumer` between turns.
const NONE: u32 = u32::MAX - 1;

impl Budget {
    /// Gives all these units to the first consumer.
    #[inline(always)]
    pub(crate) const fn new(units: u32) -> Self {
        Self::of_share(units, 0)
    }

    /// Gives a share to the first consumer, and to this number of others.
    const fn of_share(share: u32, others: u32) -> Self {
        let kept = share / RESERVE;
        Self { share, others, consumer: FIRST, available: share - kept, kept }
    }

    /// Divides the units among the consumers that have enabled the probe. If there was none when the hit began, the first one that
    /// has enabled it since has all units. Called before the first turn.
    #[inline(always)]
    pub(crate) fn divide(&mut self, consumers: u32) {
        if consumers > 1 {
            self.divide_among(consumers);
        }
    }

    #[cold]
    fn divide_among(&mut self, consumers: u32) {
        *self = Self::of_share(self.share / consumers, consumers - 1);
    }

    /// Returns the budget for `dtrace:::ERROR`, which fires for a consumer whose clause failed: the whole rest of its
    /// share.
    pub(crate) fn of_error() -> Self {
        Self { share: 0, others: 0, consumer: NONE, available: 0, kept: 0 }
    }

    /// Begins the turn of a consumer. Returns `false` if no share is left, because this consumer enabled the probe
    /// after the hit began.
    #[inline(always)]
    pub(crate) fn turn_to<'a>(&mut self, consumer: u32, table: impl FnOnce() -> Table<'a>) -> bool {
        if self.consumer == FIRST {
            self.consumer = consumer;
        }
        self.consumer == consumer || self.turn_to_other(consumer, table())
    }

    #[cold]
    fn turn_to_other(&mut self, consumer: u32, table: Table<'_>) -> bool {
        self.pause(table);
        let Some(left) = known(consumer, table).or_else(|| self.give()) else { return false };
        self.consumer = consumer;
        self.available = left.saturating_sub(self.share / RESERVE);
        self.kept = left - self.available;
        true
    }

    fn give(&mut self) -> Option<u32> {
        self.others = self.others.checked_sub(1)?;
        Some(self.share)
    }

    /// Ends the turn of the current consumer, and stores the rest of its share in the table. Returns the consumer.
    pub(crate) fn pause(&mut self, table: Table<'_>) -> u32 {
        let consumer = core::mem::replace(&mut self.consumer, NONE);
        if let Some(entry) = table.entries.get(consumer as usize) {
            entry.set(u64::from(table.hit) << 32 | u64::from(self.left()));
            table.work.expect();
        }
        consumer
    }

    /// Ends the last turn of a hit, and notes the units that the clauses of all consumers have used.
    #[cold]
    pub(crate) fn note(&mut self, units: u32, table: Table<'_>) {
        self.pause(table);
        let left = (0..table.entries.len() as u32).filter_map(|consumer| known(consumer, table));
        let used =
            left.fold(0, |used: u32, left| used.saturating_add(self.share.saturating_sub(left)));
        table.work.note(used, units - units / RESERVE);
    }

    /// Units that are left to the consumer whose turn it is.
    fn left(&self) -> u32 {
        self.available + self.kept
    }

    /// Units that its clauses may use, from which they subtract what they use.
    #[inline(always)]
    pub(crate) fn available(&mut self) -> &mut u32 {
        &mut self.available
    }

    /// Returns whether nothing is left, not even of the reserve.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left() == 0
    }

    /// Uses this number of units. `false` if there are fewer; then none are left.
    #[inline(always)]
    pub(crate) fn charge(&mut self, units: u32) -> bool {
        let Some(left) = self.available.checked_sub(units) else {
            self.available = 0;
            return false;
        };
        self.available = left;
        true
    }
}

/// Returns the rest of a consumer's share, if the consumer had a turn at this hit.
fn known(consumer: u32, table: Table<'_>) -> Option<u32> {
    let entry = table.entries.get(consumer as usize)?.get();
    ((entry >> 32) as u32 == table.hit).then_some(entry as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The units of a hit.
    const WORK: u32 = crate::kernel::Costs::BUDGET;

    /// Returns the units that each consumer used at a hit. `turns` are the turns: the consumer, the units, and whether its clause
    /// fails and ERROR fires.
    fn charged(consumers: u32, turns: &[(u32, u32, bool)], table: &[Word]) -> Vec<u64> {
        let work = Work::new();
        let kept = Table { entries: table, hit: 1, work: &work };
        let mut budget = Budget::new(WORK);
        budget.divide(consumers);
        let mut all = vec![0; table.len()];
        for &(consumer, units, fails) in turns {
            if !budget.turn_to(consumer, || kept) {
                continue;
            }
            let before = budget.left();
            budget.charge(units);
            all[consumer as usize] += u64::from(before - budget.left());
            if fails {
                budget.pause(kept);
                let mut error = Budget::of_error();
                assert!(error.turn_to(consumer, || kept));
                let before = error.left();
                error.charge(units);
                all[consumer as usize] += u64::from(before - error.left());
                error.pause(kept);
            }
        }
        if work.may_be_most(*budget.available()) {
            budget.note(WORK, kept);
        }
        assert_eq!(u64::from(work.most()), all.iter().sum());
        all
    }

    proptest! {
        /// All charges together take at most the budget of a hit, and each consumer takes at most its share, in any order.
        #[test]
        fn a_budget_is_divided_and_kept(
            consumers in 1u32..5,
            turns in prop::collection::vec((0u32..6, 0u32..2 * WORK, any::<bool>()), 0..60),
            stale in prop::collection::vec(any::<u32>(), 6),
        ) {
            // The rests of earlier hits.
            let table: Vec<_> = stale.iter().map(|_| Word::new()).collect();
            table.iter().zip(&stale).for_each(|(entry, left)| entry.set(u64::from(*left) | 7 << 32));
            let all = charged(consumers, &turns, &table);
            prop_assert!(all.iter().sum::<u64>() <= u64::from(WORK));
            prop_assert!(all.iter().all(|of| *of <= u64::from(WORK / consumers)));
        }
    }

    #[test]
    fn a_share_does_not_depend_on_what_others_do() {
        let table: Vec<_> = (0..3).map(|_| Word::new()).collect();
        let all = charged(3, &[(0, u32::MAX, true), (1, 1_000_000, false), (2, 5, false)], &table);
        assert_eq!(all, [u64::from(WORK / 3), 1_000_000, 5]);
        // A consumer that has enabled the probe since the hit began has no share.
        let table: Vec<_> = (0..3).map(|_| Word::new()).collect();
        let all = charged(2, &[(0, 1, false), (1, 1, false), (2, 1, false), (0, 1, false)], &table);
        assert_eq!(all, [2, 1, 0]);
    }
}
