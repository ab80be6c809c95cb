//! The ring beside a queue, whatever its size.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::buffer::ring::Ring;

/// Writes and reads as `steps` say, so many records at a time, and checks that nothing is lost but what is
/// counted. The counts of a ring wrap after twice its size, so many times in each run.
fn behaves<const N: usize>(steps: &[(bool, usize)]) -> Result<(), TestCaseError> {
    let ring = Ring::<u64, N>::new();
    let mut queue = VecDeque::new();
    let (mut number, mut dropped) = (0, 0);
    for &(write, count) in steps {
        for _ in 0..count {
            if write {
                number += 1;
                // SAFETY: one thread writes and reads.
                unsafe { ring.push(&number) };
                if queue.len() < N {
                    queue.push_back(number);
                } else {
                    dropped += 1;
                }
            } else {
                // SAFETY: as above.
                prop_assert_eq!(unsafe { ring.pop() }, queue.pop_front());
            }
            prop_assert_eq!(ring.len(), queue.len());
        }
    }
    prop_assert_eq!(ring.dropped(), dropped);
    Ok(())
}

proptest! {
    #[test]
    fn a_ring_is_a_queue_that_drops(steps in prop::collection::vec((any::<bool>(), 0..12usize), 0..80)) {
        behaves::<1>(&steps)?;
        behaves::<2>(&steps)?;
        behaves::<3>(&steps)?;
        behaves::<5>(&steps)?;
        behaves::<8>(&steps)?;
        behaves::<48>(&steps)?;
    }
}

/// Where a count of the machine's words wraps, 2^32 records on small ones, nothing is lost either.
#[test]
fn a_ring_of_48_has_48_places_after_any_number_of_records() {
    for before in [0, 47, 95, u32::MAX as usize - 19, usize::MAX - 19, usize::MAX] {
        let ring = Ring::<u64, 48>::new();
        ring.skip(before);
        for n in 0..50 {
            // SAFETY: one thread writes and reads.
            unsafe { ring.push(&n) };
        }
        assert_eq!((ring.len(), ring.dropped()), (48, 2));
        // SAFETY: as above.
        let read: Vec<_> = std::iter::from_fn(|| unsafe { ring.pop() }).collect();
        assert_eq!(read, (0..48).collect::<Vec<_>>(), "after {before}");
    }
}
