//! Packed buffers: records and aggregations consist of words of which most bytes are zero.
//!
//! Each word of eight bytes is packed as a tag and the bytes that are not zero. The tag has one bit for each byte that
//! is not zero; the lowest bit is for the first byte. After two of the tags a count follows, so that neither many
//! zeroes nor data without a zero grow:
//!
//! | tag | then |
//! |---|---|
//! | 0 | a count: this number of further words is zero |
//! | 255 | the eight bytes of the word, a count, and this number of further words, unpacked |
//! | other | the bytes that are not zero |
//!
//! The last word is padded with zeroes. This is the packing of Cap'n Proto ("Packing" in its encoding specification). A record
//! of two small numbers takes about 16 bytes instead of 32, and the unused end of a string takes two bytes.

use core::fmt;

/// The size of a word in bytes.
pub const WORD: usize = 8;
/// The most words that a count after a tag can add.
const MOST: usize = u8::MAX as usize;

/// The error if packed bytes end within a word, or if the unpacked words do not fit into the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packed bytes are damaged")
    }
}

impl core::error::Error for Malformed {}

/// Packs bytes from the beginning of `bytes` until `out` is full. Returns the number of bytes that it packed, which is a multiple
/// of [`WORD`] or the length of `bytes`, and the size of the result.
pub fn pack(bytes: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut taken, mut written) = (0, 0);
    while let (Some(rest @ [_, ..]), Some(room)) = (bytes.get(taken..), out.get_mut(written..)) {
        let Some((words, length)) = pack_words(rest, room) else { break };
        (taken, written) = (taken + words * WORD, written + length);
    }
    (taken.min(bytes.len()), written)
}

/// Packs the first word, and the further words that the count after its tag covers. Returns the number of words, and the size of
/// the result; `None` if there is no room.
#[inline]
fn pack_words(bytes: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
    let word = first_word(bytes);
    let tag = tag(word);
    let ([first, second], _) = out.split_first_chunk_mut()?;
    *first = tag;
    if tag == 0 {
        let further = bytes.chunks(WORD).skip(1).take(MOST);
        let count = further.take_while(|next| first_word(next) == 0).count();
        *second = count as u8;
        return Some((1 + count, 2));
    }
    let (_, out) = out.split_first_mut()?;
    if tag != u8::MAX {
        // A store of eight bytes needs room for eight bytes, even if fewer are used: each byte is stored without a
        // test.
        let room = out.first_chunk_mut::<WORD>()?;
        if let Some([low, high]) = numbers(tag) {
            *room = (word & u64::from(u32::MAX) | word >> 32 << low).to_le_bytes();
            return Some((1, 1 + (low + high) as usize / 8));
        }
        let mut at = 0;
        for byte in word.to_le_bytes() {
            room[at % WORD] = byte;
            at += usize::from(byte != 0);
        }
        return Some((1, 1 + at));
    }
    // A word with one zero byte would take eight bytes when packed on its own, so it is no longer if it is stored unpacked.
    let is_dense = |next: &&[u8; WORD]| self::tag(u64::from_le_bytes(**next)).count_ones() >= 7;
    let further = bytes.as_chunks::<WORD>().0.iter().skip(1).take(MOST);
    let count = further.take_while(is_dense).count();
    let count = count.min(out.len().checked_sub(WORD + 1)? / WORD);
    let (whole, out) = out.split_first_chunk_mut::<WORD>()?;
    *whole = word.to_le_bytes();
    let (counted, out) = out.split_first_mut()?;
    *counted = count as u8;
    let length = count * WORD;
    out.get_mut(..length)?.copy_from_slice(bytes.get(WORD..WORD + length)?);
    Some((1 + count, 1 + WORD + 1 + length))
}

/// Returns the number of bytes that the packed bytes unpack to.
///
/// # Errors
/// [`Malformed`]: they end within a word.
pub fn unpacked_len(packed: &[u8]) -> Result<usize, Malformed> {
    let (mut rest, mut length) = (packed, 0);
    while let [tag, after @ ..] = rest {
        let (words, skip) = match *tag {
            0 => (1 + count(after)?, 1),
            u8::MAX => {
                let further = count(after.get(WORD..).ok_or(Malformed)?)?;
                (1 + further, WORD + 1 + further * WORD)
            }
            tag => (1, tag.count_ones() as usize),
        };
        rest = after.get(skip..).ok_or(Malformed)?;
        length += words * WORD;
    }
    Ok(length)
}

/// Unpacks into `out`. Returns the number of bytes.
///
/// # Errors
/// [`Malformed`]: the packed bytes end within a word, or there is no room.
pub fn unpack(packed: &[u8], out: &mut [u8]) -> Result<usize, Malformed> {
    let (mut rest, mut at) = (packed, 0);
    while let [tag, after @ ..] = rest {
        let left = out.get_mut(at..).ok_or(Malformed)?;
        let (words, skip) = match *tag {
            0 => {
                let words = 1 + count(after)?;
                left.get_mut(..words * WORD).ok_or(Malformed)?.fill(0);
                (words, 1)
            }
            u8::MAX => {
                let further = count(after.get(WORD..).ok_or(Malformed)?)?;
                let (word, after) = after.split_first_chunk::<WORD>().ok_or(Malformed)?;
                let (to, left) = left.split_first_chunk_mut::<WORD>().ok_or(Malformed)?;
                *to = *word;
                let from = after.get(1..=further * WORD).ok_or(Malformed)?;
                left.get_mut(..from.len()).ok_or(Malformed)?.copy_from_slice(from);
                (1 + further, WORD + 1 + further * WORD)
            }
            tag => {
                let skip = tag.count_ones() as usize;
                if let Some([low, high]) = numbers(tag)
                    && let (Some(bytes), Some(to)) = (after.first_chunk(), left.first_chunk_mut())
                {
                    let packed = u64::from_le_bytes(*bytes);
                    let number = |packed: u64, bits: u32| packed & ((1 << bits) - 1);
                    let word = number(packed, low) | number(packed >> low, high) << 32;
                    *to = word.to_le_bytes();
                    (rest, at) = (after.get(skip..).ok_or(Malformed)?, at + WORD);
                    continue;
                }
                let mut bytes = after.get(..skip).ok_or(Malformed)?.iter();
                let to = left.first_chunk_mut::<WORD>().ok_or(Malformed)?;
                for (index, to) in to.iter_mut().enumerate() {
                    *to = if tag >> index & 1 == 0 { 0 } else { *bytes.next().unwrap_or(&0) };
                }
                (1, skip)
            }
        };
        rest = after.get(skip..).ok_or(Malformed)?;
        at += words * WORD;
    }
    Ok(at)
}

/// Returns the sizes in bits of the two numbers of four bytes in a word, if all bytes of each number that are zero follow its
/// other bytes. Most words consist of such numbers, or are one number of eight bytes that is not large.
#[inline]
const fn numbers(tag: u8) -> Option<[u32; 2]> {
    let (low, high) = (tag & 15, tag >> 4);
    if low & (low + 1) != 0 || high & (high + 1) != 0 {
        return None;
    }
    Some([8 * low.count_ones(), 8 * high.count_ones()])
}

/// Returns the count at the beginning.
fn count(bytes: &[u8]) -> Result<usize, Malformed> {
    bytes.first().map(|count| usize::from(*count)).ok_or(Malformed)
}

/// Returns the first word; missing bytes are zero.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Returns a bit for each byte that is not zero.
#[inline]
const fn tag(word: u64) -> u8 {
    const LOW: u64 = u64::from_le_bytes([0x7f; WORD]);
    // Sets the highest bit of each byte that is not zero, and then collects these bits in one byte.
    let bytes = (((word & LOW) + LOW) | word) & !LOW;
    ((bytes >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0; bytes.len() * 2 + 16];
        let (taken, written) = pack(bytes, &mut out);
        assert_eq!(taken, bytes.len());
        out.truncate(written);
        out
    }

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let length = unpacked_len(packed).unwrap();
        let mut out = vec![1; length];
        if length != 0 {
            assert_eq!(unpack(packed, &mut out[1..]), Err(Malformed), "there is no room");
        }
        assert_eq!(unpack(packed, &mut out), Ok(length));
        out
    }

    #[test]
    fn words_are_packed_as_documented() {
        let word = |bytes: [u8; 8]| bytes;
        assert_eq!(packed(&word([8, 0, 0, 0, 3, 0, 2, 0])), [0x51, 8, 3, 2]);
        assert_eq!(packed(&[0; 32]), [0, 3]);
        assert_eq!(packed(&[0; 8 * 257]), [0, 255, 0, 0]);
        assert_eq!(packed(&[7; 16]), [255, 7, 7, 7, 7, 7, 7, 7, 7, 1, 7, 7, 7, 7, 7, 7, 7, 7]);
        assert_eq!(packed(&[1, 2, 3]), [7, 1, 2, 3], "the last word is padded");
        assert_eq!(packed(&[]), []);
    }

    #[test]
    fn damaged_bytes_are_errors() {
        for damaged in [
            &[0][..],
            &[1],
            &[3, 1],
            &[255],
            &[255, 1, 2, 3, 4, 5, 6, 7, 8],
            &[255, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1],
        ] {
            assert_eq!(unpacked_len(damaged), Err(Malformed), "{damaged:?}");
            assert_eq!(unpack(damaged, &mut [0; 64]), Err(Malformed), "{damaged:?}");
        }
    }

    /// Bytes of which some regions are zero, some dense.
    fn mixed() -> impl Strategy<Value = Vec<u8>> {
        let region = (0..3, 0_usize..700).prop_flat_map(|(kind, length)| {
            let byte = match kind {
                0 => Just(0).boxed(),
                1 => (1..=u8::MAX).boxed(),
                _ => prop_oneof![Just(0), any::<u8>()].boxed(),
            };
            prop::collection::vec(byte, length)
        });
        prop::collection::vec(region, 0..6).prop_map(|all| all.concat())
    }

    proptest! {
        #[test]
        fn packed_bytes_are_the_same_again(bytes in mixed()) {
            let packed = packed(&bytes);
            let mut padded = bytes.clone();
            padded.resize(bytes.len().next_multiple_of(WORD), 0);
            prop_assert_eq!(unpacked(&packed), padded);
            // Ten bytes for each eight at most, and far fewer in the long run.
            prop_assert!(packed.len() <= bytes.len().div_ceil(WORD) * 10);
        }

        #[test]
        fn pieces_of_any_room_make_up_the_whole(bytes in mixed(), room in 18_usize..400) {
            let (mut at, mut whole) = (0, Vec::new());
            while at < bytes.len() {
                let mut out = vec![0; room];
                let (taken, written) = pack(&bytes[at..], &mut out);
                prop_assert!(taken > 0 && (taken % WORD == 0 || at + taken == bytes.len()));
                whole.extend(unpacked(&out[..written]));
                at += taken;
            }
            whole.truncate(bytes.len());
            prop_assert_eq!(whole, bytes);
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(packed in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = vec![0; 300 * 256 * WORD];
            prop_assert_eq!(unpack(&packed, &mut out), unpacked_len(&packed));
        }
    }
}
