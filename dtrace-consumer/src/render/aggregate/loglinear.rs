//! Buckets of `llquantize`.

use dtrace_abi::aggregation::Llquantize;

/// The lowest values of the buckets of an `llquantize`, without the buckets below and above all others. Arguments that no
/// compiler accepts have no buckets.
#[derive(Clone, Debug)]
pub(in crate::render) struct Buckets {
    arguments: Llquantize,
    /// The magnitude of the next bucket.
    order: u32,
    value: i64,
    /// The end of that magnitude.
    next: i64,
}

impl Buckets {
    pub fn new(arguments: Llquantize) -> Self {
        let Llquantize { factor, low, high, steps } = arguments;
        let ok = factor >= 2 && low < high && steps >= factor;
        let value = i64::from(factor).checked_pow(low.into());
        let next = value.and_then(|value| value.checked_mul(factor.into()));
        match (value, next) {
            (Some(value), Some(next)) if ok => Self { arguments, order: low.into(), value, next },
            _ => Self { arguments, order: u32::MAX, value: 1, next: 1 },
        }
    }

    /// Returns the lowest value above all buckets, after the iteration.
    const fn end(&self) -> i64 {
        self.value
    }
}

impl Iterator for Buckets {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.order > self.arguments.high.into() {
            return None;
        }
        let value = self.value;
        let steps = i64::from(self.arguments.steps);
        self.value = value.saturating_add(if self.next > steps { self.next / steps } else { 1 });
        if self.value >= self.next {
            self.order += 1;
            match self.next.checked_mul(self.arguments.factor.into()) {
                Some(next) => self.next = next,
                None => self.order = u32::MAX,
            }
        }
        Some(value)
    }
}

/// Returns the lowest values of the buckets above the first, up to a number.
pub(super) fn bounds(arguments: Llquantize, count: usize) -> Vec<i64> {
    let mut buckets = Buckets::new(arguments);
    let mut bounds: Vec<i64> = buckets.by_ref().take(count).collect();
    bounds.push(buckets.end());
    bounds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_ten_and_of_two() {
        let ten = Llquantize { factor: 10, low: 0, high: 1, steps: 10 };
        let values: Vec<i64> = Buckets::new(ten).collect();
        assert_eq!(values, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(bounds(ten, 20).last(), Some(&100));
        let two = Llquantize { factor: 2, low: 1, high: 3, steps: 4 };
        let values: Vec<i64> = Buckets::new(two).collect();
        assert_eq!(values, [2, 3, 4, 6, 8, 12]);
    }

    proptest! {
        #[test]
        fn any_arguments_end(argument: u64) {
            let mut last = i64::MIN;
            for value in Buckets::new(Llquantize::decode(argument)).take(100_000) {
                prop_assert!(value > last);
                last = value;
            }
        }
    }
}
