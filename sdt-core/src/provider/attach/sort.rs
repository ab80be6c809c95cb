//! Sorts records in place.
//!
//! There is no memory for copies, and statics cannot be moved. Therefore the records are linked into a list, and the list is
//! sorted.

use core::sync::atomic::{AtomicPtr, Ordering};

/// A record that can be linked into a list.
pub(super) trait Linked: Sized + 'static {
    /// Returns the link to the next record; it is null in the last.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// Links the records into a sorted list, and returns the first. Records that are equal keep their order. Takes at most
/// n log2 n comparisons.
pub(super) fn sort<T: Linked>(
    records: &'static [T],
    less: &mut impl FnMut(&T, &T) -> bool,
) -> Option<&'static T> {
    match records {
        [] => None,
        [one] => {
            one.link().store(core::ptr::null_mut(), Ordering::Relaxed);
            Some(one)
        }
        _ => {
            let (first, second) = records.split_at(records.len() / 2);
            let (first, second) = (sort(first, less), sort(second, less));
            merge(first, second, less)
        }
    }
}

/// Returns the next record of a list that `sort` created.
pub(super) fn next<T: Linked>(record: &T) -> Option<&'static T> {
    // SAFETY: null, or set by `set_next` from a `&'static`.
    unsafe { record.link().load(Ordering::Relaxed).as_ref() }
}

fn set_next<T: Linked>(record: &T, next: Option<&'static T>) {
    let next = next.map_or(core::ptr::null(), core::ptr::from_ref);
    record.link().store(next.cast_mut(), Ordering::Relaxed);
}

/// Makes one sorted list of two.
fn merge<T: Linked>(
    mut first: Option<&'static T>,
    mut second: Option<&'static T>,
    less: &mut impl FnMut(&T, &T) -> bool,
) -> Option<&'static T> {
    let (mut head, mut last): (Option<&'static T>, Option<&'static T>) = (None, None);
    loop {
        let taken = match (first, second) {
            (Some(a), Some(b)) if less(b, a) => {
                second = next(b);
                b
            }
            (Some(a), Some(_)) => {
                first = next(a);
                a
            }
            // The rest is sorted already.
            (rest, None) | (None, rest) => {
                return match last {
                    Some(last) => {
                        set_next(last, rest);
                        head
                    }
                    None => rest,
                };
            }
        };
        match last {
            Some(last) => set_next(last, Some(taken)),
            None => head = Some(taken),
        }
        last = Some(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered {
        key: u32,
        place: usize,
        link: AtomicPtr<Self>,
    }

    impl Linked for Numbered {
        fn link(&self) -> &AtomicPtr<Self> {
            &self.link
        }
    }

    /// Sorts these keys. Returns the sorted keys with their original places, and the number of comparisons.
    fn sorted(keys: impl Iterator<Item = u32>) -> (Vec<(u32, usize)>, u64) {
        let records = keys.enumerate().map(|(place, key)| Numbered {
            key,
            place,
            link: AtomicPtr::new(std::ptr::dangling_mut()),
        });
        let records: &'static [Numbered] = records.collect::<Vec<_>>().leak();
        let mut comparisons = 0;
        let mut at = sort(records, &mut |a, b| {
            comparisons += 1;
            a.key < b.key
        });
        let mut found = Vec::new();
        while let Some(record) = at {
            found.push((record.key, record.place));
            at = next(record);
        }
        (found, comparisons)
    }

    #[test]
    fn equal_ones_stay_in_order() {
        for keys in [&[][..], &[1], &[2, 1], &[3, 1, 3, 2, 1, 3, 1], &[1, 2, 3, 4], &[4, 3, 2, 1]] {
            let mut expected: Vec<_> = keys.iter().copied().zip(0..).collect();
            expected.sort();
            assert_eq!(sorted(keys.iter().copied()).0, expected, "{keys:?}");
        }
    }

    #[test]
    fn many_take_n_log_n_comparisons() {
        const N: u32 = 100_000;
        let orders: [fn(u32) -> u32; 4] =
            [|n| n, |n| N - n, |_| 1, |n| n.wrapping_mul(2_654_435_769) >> 8];
        for order in orders {
            let (found, comparisons) = sorted((0..N).map(order));
            assert!(found.is_sorted() && found.len() == N as usize);
            assert!(comparisons <= u64::from(N) * 17, "{comparisons}");
        }
    }
}
