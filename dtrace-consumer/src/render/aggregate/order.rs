//! The order in which elements of aggregations are shown.

use std::cmp::Ordering;

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{
    Llquantize, Lquantize, QUANTIZE_BUCKETS, QUANTIZE_ZERO, quantize_value,
};
use dtrace_abi::option::OptionId;
use dtrace_compiler::options::Options;

use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::loglinear::Buckets;
use crate::render::aggregate::merge;
use crate::render::data::bits::{u64_of, unsigned};

/// The order that options choose; the default is by value, then by key.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::render) struct Order {
    /// `aggsortkey`: by key first.
    pub keys_first: bool,
    /// `aggsortrev`: the last one first.
    pub reversed: bool,
    /// `aggsortkeypos`: which key is compared first.
    pub key: usize,
    /// `aggsortpos`: the position of the aggregation that is compared first, if several are printed together.
    pub position: usize,
}

impl Order {
    pub fn of(options: &Options) -> Self {
        let is_set = |option| options.is_set(option);
        let number = |option| usize::try_from(options.get(option)).unwrap_or(0);
        Self {
            keys_first: is_set(OptionId::Aggsortkey),
            reversed: is_set(OptionId::Aggsortrev),
            key: number(OptionId::Aggsortkeypos),
            position: number(OptionId::Aggsortpos),
        }
    }

    fn direction(self, ordering: Ordering) -> Ordering {
        if self.reversed { ordering.reverse() } else { ordering }
    }

    /// Compares elements of any aggregations, so that the elements of one aggregation are adjacent.
    pub fn single(self, left: &Entry, right: &Entry) -> Ordering {
        let by = |left, right| match self.keys_first {
            true => self.keys(left, right),
            false => self.value_then_key(left, right),
        };
        self.direction(left.variable.cmp(&right.variable).then_with(|| by(left, right)))
    }

    /// Compares two rows of values of several aggregations. The first part of each row is the element with the keys.
    pub fn joined(self, left: (&Entry, &[&Entry]), right: (&Entry, &[&Entry])) -> Ordering {
        let keys = || self.keys(left.0, right.0);
        let values = || {
            let pairs = left.1.iter().zip(right.1);
            let mut pairs = pairs.map(|(left, right)| self.values(left, right));
            pairs.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
        };
        self.direction(match self.keys_first {
            true => keys().then_with(values),
            false => values().then_with(keys),
        })
    }

    /// Compares by value, then by key, independently of options: the order of `trunc`.
    pub fn value_then_key(self, left: &Entry, right: &Entry) -> Ordering {
        self.values(left, right).then_with(|| self.keys(left, right))
    }

    /// Compares by key only (`dt_aggregate_keycmp`): numbers as unsigned, all others by bytes.
    pub fn keys(self, left: &Entry, right: &Entry) -> Ordering {
        let (left, right): (Vec<_>, Vec<_>) = (left.keys().collect(), right.keys().collect());
        if left.len() != right.len() {
            return left.len().cmp(&right.len());
        }
        let first = if self.key < left.len() { self.key } else { 0 };
        for index in (first..left.len()).chain(0..first) {
            let (left, right) = (&left[index], &right[index]);
            let ordering = left.data.len().cmp(&right.data.len()).then_with(|| {
                match (unsigned(left.data), unsigned(right.data), left.action) {
                    (Some(left), Some(right), _) => left.cmp(&right),
                    (.., Action::Umod | Action::Uaddr | Action::Usym) => {
                        let numbers =
                            |data: &[u8]| (u64_of(data), u64_of(data.get(8..).unwrap_or_default()));
                        numbers(left.data).cmp(&numbers(right.data))
                    }
                    _ => left.data.cmp(right.data),
                }
            });
            if ordering.is_ne() {
                return ordering;
            }
        }
        Ordering::Equal
    }

    /// Compares by value only (`dt_aggregate_valcmp`), not normalized.
    fn values(self, left: &Entry, right: &Entry) -> Ordering {
        match left.action {
            Action::Stddev => {
                merge::deviation(&left.words, 1).cmp(&merge::deviation(&right.words, 1))
            }
            Action::Quantize | Action::Lquantize | Action::Llquantize => {
                let (left, right) = (weight(left), weight(right));
                left.cmp(&right)
            }
            _ => left.number_over(1).cmp(&right.number_over(1)),
        }
    }
}

/// Returns the weight of a distribution: the sum of its values, and the count of the bucket of zero.
fn weight(entry: &Entry) -> (i128, i64) {
    let words = &entry.words;
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let argument = word(0) as u64;
    let sum = |values: &mut dyn Iterator<Item = (i64, i64)>| {
        values.fold(0_i128, |sum, (value, count)| {
            sum.saturating_add(i128::from(value) * i128::from(count))
        })
    };
    match entry.action {
        Action::Quantize => {
            let mut values = (0..QUANTIZE_BUCKETS).map(|bin| (quantize_value(bin), word(bin)));
            (sum(&mut values), word(QUANTIZE_ZERO))
        }
        Action::Lquantize => {
            let Lquantize { base, step, levels } = Lquantize::decode(argument);
            let (base, step) = (i64::from(base), i64::from(step));
            let end = base + i64::from(levels) * step;
            let between = (0..i64::from(levels)).map(|level| base + level * step);
            let values = std::iter::once(base - 1).chain(between).chain([end + 1]);
            let values = values.zip(words.iter().skip(1).copied());
            let zero = values.clone().find(|(value, _)| *value == 0).map_or(0, |(_, count)| count);
            (sum(&mut values.into_iter()), zero)
        }
        _ => {
            let buckets = Buckets::new(Llquantize::decode(argument));
            let first = buckets.clone().next().unwrap_or(1).saturating_sub(1);
            let last = buckets.clone().last().unwrap_or(1);
            let values = std::iter::once(first).chain(buckets).chain([last]);
            let mut values = values.zip(words.iter().skip(1).copied());
            (sum(&mut values), word(1))
        }
    }
}
