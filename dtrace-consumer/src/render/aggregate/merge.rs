//! The values of aggregations: checks their size, and merges two values.

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Lquantize, QUANTIZE_BUCKETS};

use crate::render::data::bits;
use crate::render::data::error::{RenderError, Result};

/// The most numbers in a value: an `lquantize` has this many.
pub(super) const WORDS: usize = 65_535 + 3;

/// Returns the numbers of a value, or an error if its size does not fit the action.
pub(super) fn words(action: Action, value: &[u8]) -> Result<Vec<i64>> {
    let words: Vec<i64> = bits::words(value).map(|word| word as i64).collect();
    let first = words.first().copied().unwrap_or(0);
    let fits = match action {
        Action::Avg => words.len() == 2,
        Action::Stddev => words.len() == 4,
        Action::Quantize => words.len() == QUANTIZE_BUCKETS,
        Action::Lquantize => words.len() == usize::from(Lquantize::decode(first as u64).levels) + 3,
        // The number of buckets is not checked: missing ones are empty.
        Action::Llquantize => (2..=WORDS).contains(&words.len()),
        _ => words.len() == 1,
    };
    if fits && value.len().is_multiple_of(8) { Ok(words) } else { Err(RenderError::Mismatch) }
}

/// Adds a value that another CPU has aggregated, or that the same CPU has aggregated later.
pub(super) fn merge(action: Action, into: &mut [i64], from: &[i64]) {
    let arguments = matches!(action, Action::Lquantize | Action::Llquantize);
    let pairs = into.iter_mut().zip(from).skip(arguments.into());
    for (into, from) in pairs {
        *into = match action {
            Action::Min => (*into).min(*from),
            Action::Max => (*into).max(*from),
            _ => into.wrapping_add(*from),
        };
    }
    // The sum of squares of `stddev` is a number of 128 bits. Its halves were added separately, so this adds the carry.
    if let (Action::Stddev, [_, _, low, high]) = (action, into)
        && (*low as u64) < (from[2] as u64)
    {
        *high = high.wrapping_add(1);
    }
}

/// Returns the standard deviation from count, sum, and sum of squares in two halves (`dt_stddev`, dt_consume.c):
/// the root of the average square minus the squared average. Squares are normalized twice.
pub(super) fn deviation(words: &[i64], normal: i64) -> u64 {
    let [count, sum, low, high] = words else { return 0 };
    let over = u128::from(normal.unsigned_abs());
    let (Ok(count @ 1..), 1..) = (u128::try_from(*count), over) else { return 0 };
    let squares = u128::from(*high as u64) << 64 | u128::from(*low as u64);
    let average = sum.checked_div(normal).unwrap_or(0) / (count as i64);
    let square = u128::from(average.unsigned_abs()).pow(2);
    u64::try_from((squares / over / over / count).saturating_sub(square).isqrt())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations() {
        // 2 and 4: average 3, squares 20.
        assert_eq!(deviation(&[2, 6, 20, 0], 1), 1);
        assert_eq!(deviation(&[0, 0, 0, 0], 1), 0);
        // 10 and 30, halved.
        assert_eq!(deviation(&[2, 40, 1000, 0], 2), 5);
        assert_eq!(deviation(&[1, -1, -1, -1], 1), u64::MAX);
        let mut sum = [1, 0, -1, 0];
        merge(Action::Stddev, &mut sum, &[1, 0, 2, 0]);
        assert_eq!(sum, [2, 0, 1, 1]);
    }

    #[test]
    fn merges() {
        let merged = |action, mut into: Vec<i64>, from: &[i64]| {
            merge(action, &mut into, from);
            into
        };
        assert_eq!(merged(Action::Min, vec![3], &[-3]), [-3]);
        assert_eq!(merged(Action::Max, vec![3], &[-3]), [3]);
        assert_eq!(merged(Action::Sum, vec![i64::MAX], &[1]), [i64::MIN]);
        assert_eq!(merged(Action::Llquantize, vec![9, 1, 2], &[9, 3, 4]), [9, 4, 6]);
    }
}
