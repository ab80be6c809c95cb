//! The aggregating functions (`dtrace_aggregate_*`, dtrace.c).

use core::fmt;

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Llquantize, Lquantize, QUANTIZE_BUCKETS, quantize_bucket};

/// An aggregating function with valid arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    kind: Kind,
    words: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    Stddev,
    Quantize,
    Lquantize(Lquantize),
    Llquantize(Llquantize),
}

/// The reason why an aggregation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadArgument {
    /// The action does not aggregate.
    NoAggregation(Action),
    /// Levels or steps of `lquantize` that are 0.
    Lquantize(Lquantize),
    /// A factor below 2, magnitudes that do not rise, or steps that do not divide them.
    Llquantize(Llquantize),
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAggregation(action) => {
                write!(f, "{}() is not an aggregating function", action.name())
            }
            Self::Lquantize(Lquantize { step, levels, .. }) => {
                write!(f, "lquantize() has invalid arguments: {levels} levels of {step}")
            }
            Self::Llquantize(Llquantize { factor, low, high, steps }) => write!(
                f,
                "llquantize() has invalid arguments: factor {factor}, magnitudes {low} to {high}, \
                 {steps} steps"
            ),
        }
    }
}

impl core::error::Error for BadArgument {}

impl Function {
    /// Creates the function of an action from the action's argument.
    ///
    /// # Errors
    ///
    /// If the action does not aggregate, or the argument is invalid for it (`dtrace_ecb_aggregation_create`).
    pub fn new(action: Action, argument: u64) -> Result<Self, BadArgument> {
        let kind = match action {
            Action::Count => Kind::Count,
            Action::Sum => Kind::Sum,
            Action::Min => Kind::Min,
            Action::Max => Kind::Max,
            Action::Avg => Kind::Avg,
            Action::Stddev => Kind::Stddev,
            Action::Quantize => Kind::Quantize,
            Action::Lquantize => match Lquantize::decode(argument) {
                it if it.step == 0 || it.levels == 0 => return Err(BadArgument::Lquantize(it)),
                it => Kind::Lquantize(it),
            },
            Action::Llquantize => match Llquantize::decode(argument) {
                it if !is_linear(&it) => return Err(BadArgument::Llquantize(it)),
                it => Kind::Llquantize(it),
            },
            _ => return Err(BadArgument::NoAggregation(action)),
        };
        let words = match &kind {
            Kind::Count | Kind::Sum | Kind::Min | Kind::Max => 1,
            Kind::Avg => 2,
            Kind::Stddev => 4,
            Kind::Quantize => QUANTIZE_BUCKETS as u32,
            // One word for each level, and one each for the argument, the values below and the values above all levels.
            Kind::Lquantize(it) => u32::from(it.levels) + 3,
            // One word for the argument, and one for each bucket from 0 to that of the greatest value.
            Kind::Llquantize(it) => bucket(it, i64::MAX) as u32 + 2,
        };
        Ok(Self { kind, words })
    }

    /// Returns the number of its words.
    #[inline]
    pub const fn words(&self) -> usize {
        self.words as usize
    }

    /// Initialises the words before the first value.
    pub fn begin(&self, data: &mut [u64]) {
        data.fill(0);
        let Some(first) = data.first_mut() else { return };
        match &self.kind {
            Kind::Min => *first = i64::MAX as u64,
            Kind::Max => *first = i64::MIN as u64,
            Kind::Lquantize(it) => *first = it.encode(),
            Kind::Llquantize(it) => *first = it.encode(),
            _ => {}
        }
    }

    /// Adds a value; distributions count it `increment` times. `data` are the words that [`begin`](Self::begin) has initialised,
    /// with the values that were added since. Probe context.
    #[inline]
    pub fn add(&self, data: &mut [u64], value: u64, increment: u64) {
        match (&self.kind, data) {
            (Kind::Count, [count, ..]) => *count = count.wrapping_add(1),
            (Kind::Sum, [sum, ..]) => *sum = sum.wrapping_add(value),
            (Kind::Min, [min, ..]) => *min = (*min as i64).min(value as i64) as u64,
            (Kind::Max, [max, ..]) => *max = (*max as i64).max(value as i64) as u64,
            (Kind::Avg, [count, sum, ..]) => {
                *count = count.wrapping_add(1);
                *sum = sum.wrapping_add(value);
            }
            (Kind::Stddev, [count, sum, low, high, ..]) => {
                *count = count.wrapping_add(1);
                *sum = sum.wrapping_add(value);
                let square = u128::from((value as i64).unsigned_abs()).pow(2);
                let squares = (u128::from(*high) << 64 | u128::from(*low)).wrapping_add(square);
                (*low, *high) = (squares as u64, (squares >> 64) as u64);
            }
            (Kind::Quantize, buckets) => {
                count(buckets, quantize_bucket(value as i64), increment);
            }
            (Kind::Lquantize(it), [_, levels @ ..]) => count(levels, level(it, value), increment),
            (Kind::Llquantize(it), [_, buckets @ ..]) => {
                count(buckets, bucket(it, value as i64), increment);
            }
            // `data` has fewer words than the function needs.
            _ => {}
        }
    }
}

fn count(buckets: &mut [u64], index: usize, increment: u64) {
    if let Some(bucket) = buckets.get_mut(index) {
        *bucket = bucket.wrapping_add(increment);
    }
}

/// Returns the level of `lquantize`; 0 is below the base. Only the lower 32 bits of a value are used.
fn level(it: &Lquantize, value: u64) -> usize {
    let above = i64::from(value as i32) - i64::from(it.base);
    if above < 0 {
        return 0;
    }
    // `step` is not 0.
    let level = above.checked_div(it.step.into()).unwrap_or(0);
    level.min(it.levels.into()) as usize + 1
}

/// Returns whether the bounds of all buckets are integers, and the buckets of each magnitude have the same width.
fn is_linear(it: &Llquantize) -> bool {
    let (factor, steps) = (u64::from(it.factor), u64::from(it.steps));
    if factor < 2 || it.low >= it.high || steps < factor {
        return false;
    }
    let mut power = factor;
    while power < steps {
        power *= factor;
    }
    power % steps == 0 && steps % factor == 0
}

/// Returns the bucket of `llquantize` (`dtrace_aggregate_llquantize_bucket`); 0 is below the lowest magnitude. A
/// magnitude that does not fit into 64 bits ends the buckets.
fn bucket(it: &Llquantize, value: i64) -> usize {
    let (factor, steps) = (i64::from(it.factor), i64::from(it.steps));
    let Some(lowest) = factor.checked_pow(it.low.into()) else { return 0 };
    if value < lowest {
        return 0;
    }
    let (mut base, mut last) = (1, lowest);
    for _ in it.low..=it.high {
        let Some(this) = last.checked_mul(factor) else { return base };
        let buckets = this.min(steps);
        let next = this.checked_mul(factor);
        // The last representable magnitude includes all larger values.
        let value = if next.is_none() { value.min(this - 1) } else { value };
        if value < this {
            let width = this.checked_div(buckets).unwrap_or(1).max(1);
            return base + (value - last).checked_div(width).unwrap_or(0) as usize;
        }
        base += (buckets - buckets.checked_div(factor).unwrap_or(0)) as usize;
        last = this;
    }
    base
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn aggregate(action: Action, argument: u64, values: &[i64]) -> Vec<u64> {
        let function = Function::new(action, argument).unwrap();
        let mut data = vec![7; function.words()];
        function.begin(&mut data);
        for &value in values {
            function.add(&mut data, value as u64, 1);
        }
        data
    }

    fn llquantize(factor: u16, low: u16, high: u16, steps: u16) -> u64 {
        Llquantize { factor, low, high, steps }.encode()
    }

    proptest! {
        #[test]
        fn sums(values in prop::collection::vec(any::<i64>(), 1..40)) {
            let sum = values.iter().fold(0i64, |sum, value| sum.wrapping_add(*value)) as u64;
            let count = values.len() as u64;
            let squares = values.iter().fold(0u128, |sum, value| {
                sum.wrapping_add((i128::from(*value) * i128::from(*value)) as u128)
            });
            prop_assert_eq!(aggregate(Action::Count, 0, &values), [count]);
            prop_assert_eq!(aggregate(Action::Sum, 0, &values), [sum]);
            prop_assert_eq!(aggregate(Action::Avg, 0, &values), [count, sum]);
            let stddev = [count, sum, squares as u64, (squares >> 64) as u64];
            prop_assert_eq!(aggregate(Action::Stddev, 0, &values), stddev);
            let min = *values.iter().min().unwrap() as u64;
            let max = *values.iter().max().unwrap() as u64;
            prop_assert_eq!(aggregate(Action::Min, 0, &values), [min]);
            prop_assert_eq!(aggregate(Action::Max, 0, &values), [max]);
        }

        /// Each value counts once, and no bucket is missing.
        #[test]
        fn distributions_lose_nothing(
            values in prop::collection::vec(any::<i64>(), 1..40),
            base: i32, step in 1u16.., levels in 1u16..200,
            (factor, times) in (2u16..12, 1u16..4), low in 0u16..20, more in 1u16..80,
        ) {
            let total = |data: &[u64]| data.iter().sum::<u64>();
            let count = values.len() as u64;
            prop_assert_eq!(total(&aggregate(Action::Quantize, 0, &values)), count);
            let argument = Lquantize { base, step, levels }.encode();
            let data = aggregate(Action::Lquantize, argument, &values);
            prop_assert_eq!((data[0], total(&data[1..])), (argument, count));
            let steps = factor.pow(times.into());
            let argument = llquantize(factor, low, low + more, steps);
            let data = aggregate(Action::Llquantize, argument, &values);
            prop_assert_eq!((data[0], total(&data[1..])), (argument, count));
        }

        #[test]
        fn levels_are_where_they_are_said_to_be(value: i32, base in -1000i32..1000, step in 1u16..50, levels in 1u16..50) {
            let argument = Lquantize { base, step, levels }.encode();
            let data = aggregate(Action::Lquantize, argument, &[value.into()]);
            let at = data[1..].iter().position(|&count| count == 1).unwrap() as i64;
            let (low, high) = (i64::from(base) + (at - 1) * i64::from(step), i64::from(base) + at * i64::from(step));
            if at > 0 {
                prop_assert!(low <= value.into());
            }
            if at <= i64::from(levels) {
                prop_assert!(i64::from(value) < high);
            }
        }
    }

    #[test]
    fn logarithmic_buckets() {
        let argument = llquantize(10, 0, 2, 20);
        let at = |value| {
            let data = aggregate(Action::Llquantize, argument, &[value]);
            data[1..].iter().position(|&count| count == 1).unwrap()
        };
        // 1 to 9 one by one, 10 to 95 by 5, 100 to 950 by 50.
        assert_eq!(
            [0, 1, 9, 10, 14, 15, 99, 100, 149, 150, 999].map(at),
            [0, 1, 9, 10, 10, 11, 27, 28, 28, 29, 45]
        );
        assert_eq!([1000, i64::MAX, -5, i64::MIN].map(at), [46, 46, 0, 0]);
    }

    #[test]
    fn an_increment_counts_so_often() {
        let function = Function::new(Action::Quantize, 0).unwrap();
        let mut data = vec![0; function.words()];
        function.begin(&mut data);
        function.add(&mut data, 5, 3);
        assert_eq!(data[quantize_bucket(5)], 3);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let it = Lquantize { base: 0, step: 0, levels: 4 };
        assert_eq!(Function::new(Action::Lquantize, it.encode()), Err(BadArgument::Lquantize(it)));
        for (factor, low, high, steps) in
            [(1, 0, 2, 10), (10, 2, 2, 10), (10, 0, 2, 7), (10, 0, 2, 30)]
        {
            let argument = llquantize(factor, low, high, steps);
            assert!(matches!(
                Function::new(Action::Llquantize, argument),
                Err(BadArgument::Llquantize(_))
            ));
        }
        assert_eq!(Function::new(Action::Stack, 0), Err(BadArgument::NoAggregation(Action::Stack)));
    }
}
