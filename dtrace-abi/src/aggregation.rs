//! Distributions: the arguments of `lquantize` and `llquantize`, and the buckets of `quantize`.

/// The number of buckets of `quantize`: 63 negative powers of two, zero, 63 positive powers
/// (`DTRACE_QUANTIZE_NBUCKETS`).
pub const QUANTIZE_BUCKETS: usize = 127;
/// The index of the bucket of zero (`DTRACE_QUANTIZE_ZEROBUCKET`).
pub const QUANTIZE_ZERO: usize = 63;

/// Returns the value that labels a bucket of `quantize` (`DTRACE_QUANTIZE_BUCKETVAL`). For an invalid index, that of
/// the nearest bucket.
pub const fn quantize_value(bucket: usize) -> i64 {
    if bucket < QUANTIZE_ZERO {
        -(1 << (QUANTIZE_ZERO - 1 - bucket))
    } else if bucket == QUANTIZE_ZERO {
        0
    } else if bucket < QUANTIZE_BUCKETS {
        1 << (bucket - QUANTIZE_ZERO - 1)
    } else {
        1 << (QUANTIZE_BUCKETS - QUANTIZE_ZERO - 2)
    }
}

/// Returns the bucket of `quantize` for a value (`dtrace_aggregate_quantize`, dtrace.c): of the buckets with the same
/// sign, the one with the largest label that is not farther from zero than the value.
pub const fn quantize_bucket(value: i64) -> usize {
    if value == 0 {
        return QUANTIZE_ZERO;
    }
    let power = value.unsigned_abs().ilog2() as usize;
    // i64::MIN shares the last bucket, instead of having its own.
    let power = if power > QUANTIZE_ZERO - 1 { QUANTIZE_ZERO - 1 } else { power };
    if value < 0 { QUANTIZE_ZERO - 1 - power } else { QUANTIZE_ZERO + 1 + power }
}

/// The arguments of `lquantize`, encoded in one number before the values (`DTRACE_LQUANTIZE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lquantize {
    /// The lower bound of the first bucket.
    pub base: i32,
    /// The width of each bucket.
    pub step: u16,
    /// The number of buckets, without those for values below and above.
    pub levels: u16,
}

impl Lquantize {
    /// Returns the argument of the action.
    pub const fn encode(self) -> u64 {
        (self.step as u64) << 48 | (self.levels as u64) << 32 | self.base as u32 as u64
    }

    /// Decodes the argument of the action.
    pub const fn decode(argument: u64) -> Self {
        Self {
            base: argument as u32 as i32,
            step: (argument >> 48) as u16,
            levels: (argument >> 32) as u16,
        }
    }
}

/// The arguments of `llquantize`, encoded in one number before the values (`DTRACE_LLQUANTIZE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Llquantize {
    /// The base of the magnitudes.
    pub factor: u16,
    /// The lowest magnitude.
    pub low: u16,
    /// The highest magnitude.
    pub high: u16,
    /// The number of linear steps of each magnitude.
    pub steps: u16,
}

impl Llquantize {
    /// Returns the argument of the action.
    pub const fn encode(self) -> u64 {
        (self.factor as u64) << 48
            | (self.low as u64) << 32
            | (self.high as u64) << 16
            | self.steps as u64
    }

    /// Decodes the argument of the action.
    pub const fn decode(argument: u64) -> Self {
        Self {
            factor: (argument >> 48) as u16,
            low: (argument >> 32) as u16,
            high: (argument >> 16) as u16,
            steps: argument as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets() {
        assert_eq!(quantize_value(QUANTIZE_ZERO + 1), 1);
        assert_eq!(quantize_value(0), -(1 << 62));
        assert_eq!(quantize_value(QUANTIZE_BUCKETS - 1), 1 << 62);
        assert_eq!(quantize_value(usize::MAX), 1 << 62);
        for (value, stands_at) in [
            (0, 0),
            (1, 1),
            (-1, -1),
            (7, 4),
            (-7, -4),
            (i64::MAX, 1 << 62),
            (i64::MIN, -(1 << 62)),
        ] {
            assert_eq!(quantize_value(quantize_bucket(value)), stands_at, "{value}");
        }
    }

    proptest! {
        #[test]
        fn arguments_come_back(argument: u64) {
            prop_assert_eq!(Lquantize::decode(argument).encode(), argument);
            prop_assert_eq!(Llquantize::decode(argument).encode(), argument);
        }

        #[test]
        fn a_bucket_holds_its_value(value: i64) {
            let bucket = quantize_bucket(value);
            prop_assert!(bucket < QUANTIZE_BUCKETS);
            prop_assert!(quantize_value(bucket).unsigned_abs() <= value.unsigned_abs());
        }
    }
}
