//! The ring beside a queue, whatever its size and that of the records.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::buffer::ring::{NoRoom, Ring, Word};

/// A record of so many words, from two on: its number, its size, and the number again.
fn record(number: u64, words: usize) -> Vec<u64> {
    let mut record = vec![number; words.max(2)];
    record[1] = (8 * record.len() as u64) << 32;
    record
}

fn ring(words: usize) -> Ring {
    Ring::new(Vec::leak((0..words).map(|_| Word::new()).collect()))
}

/// Reads what fits into so many bytes, as words.
fn read(ring: &Ring, bytes: usize) -> Result<Vec<u64>, NoRoom> {
    let mut into = vec![0; bytes];
    // SAFETY: one thread writes and reads.
    let count = unsafe { ring.read(&mut into) }?;
    Ok(into[..count].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { words: usize },
    Read { bytes: usize },
}

/// Writes and reads as `steps` say and checks that nothing is lost but what is counted. The counts of a ring wrap
/// after twice its size, so many times in each run.
fn behaves(size: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let ring = ring(size);
    let mut queue: VecDeque<Vec<u64>> = VecDeque::new();
    let (mut number, mut dropped) = (0, 0);
    for &step in steps {
        match step {
            Step::Write { words } => {
                number += 1;
                let record = record(number, words);
                let used: usize = queue.iter().map(Vec::len).sum();
                let fits = used + record.len() <= size;
                // SAFETY: one thread writes and reads.
                prop_assert_eq!(unsafe { ring.push(&record) }, fits);
                match fits {
                    true => queue.push_back(record),
                    false => dropped += 1,
                }
            }
            Step::Read { bytes } => {
                let mut expected = Vec::new();
                let mut left = bytes;
                while let Some(next) = queue.front().filter(|next| 8 * next.len() <= left) {
                    left -= 8 * next.len();
                    expected.extend(queue.pop_front().unwrap_or_default());
                }
                let expected = match queue.front() {
                    Some(next) if expected.is_empty() => Err(NoRoom { needed: 8 * next.len() }),
                    _ => Ok(expected),
                };
                prop_assert_eq!(read(&ring, bytes), expected);
            }
        }
    }
    prop_assert_eq!(ring.dropped(), dropped);
    Ok(())
}

proptest! {
    #[test]
    fn a_ring_is_a_queue_that_drops(
        size in 1..50usize,
        steps in prop::collection::vec(
            prop_oneof![
                (2..9usize).prop_map(|words| Step::Write { words }),
                (0..200usize).prop_map(|bytes| Step::Read { bytes }),
            ],
            0..200,
        ),
    ) {
        behaves(size, &steps)?;
    }
}

/// Where a count of the machine's words wraps, nothing is lost either.
#[test]
fn a_ring_has_all_its_places_after_any_number_of_records() {
    for before in [0, 95, 191, u32::MAX as usize - 19, usize::MAX - 19, usize::MAX] {
        let ring = ring(96);
        ring.skip(before);
        for n in 0..50 {
            // SAFETY: one thread writes and reads.
            unsafe { ring.push(&record(n, 2)) };
        }
        assert_eq!(ring.dropped(), 2);
        let all: Vec<_> = (0..48).flat_map(|n| record(n, 2)).collect();
        assert_eq!(read(&ring, 4096), Ok(all), "after {before}");
    }
}
