//! Consistent overhead byte stuffing: bytes without a zero byte (Cheshire and Baker, IEEE/ACM Transactions on Networking 7, 1999).
//!
//! The bytes are divided after each zero byte, and after [`MOST`] bytes without one. A code precedes each part: the number of its bytes
//! without the zero byte, plus one. A part of [`MOST`] bytes has no zero byte. The last part has none either.

use core::ffi::CStr;

/// The largest number of bytes in a part.
const MOST: usize = 254;
/// The code of a part of [`MOST`] bytes.
const FULL: u8 = u8::MAX;

/// Returns the position of the first zero byte.
pub(crate) fn first_zero(bytes: &[u8]) -> Option<usize> {
    // The search for the end of a C string compares several bytes at a time.
    CStr::from_bytes_until_nul(bytes).ok().map(CStr::count_bytes)
}

/// Encodes bytes into `out`. Returns the encoded length, or `None` if there is no room.
pub(crate) fn encode(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut rest, mut written) = (bytes, 0);
    loop {
        let part = rest.get(..MOST).unwrap_or(rest);
        let length = first_zero(part).unwrap_or(part.len());
        let (part, after) = rest.split_at_checked(length)?;
        let (code, room) = out.get_mut(written..)?.split_first_mut()?;
        *code = length as u8 + 1;
        room.get_mut(..length)?.copy_from_slice(part);
        written += 1 + length;
        rest = match after {
            _ if length == MOST => after,
            [_, after @ ..] => after,
            [] => return Some(written),
        };
    }
}

/// Decodes bytes in place. Returns the decoded length, or `None` if the bytes end within a part.
pub(crate) fn decode_in_place(bytes: &mut [u8]) -> Option<usize> {
    let (mut at, mut length) = (0, 0);
    while let Some(&code) = bytes.get(at) {
        let start = at + 1;
        at += usize::from(code.max(1));
        if at > bytes.len() {
            return None;
        }
        bytes.copy_within(start..at, length);
        length += at - start;
        if code != FULL && at < bytes.len() {
            *bytes.get_mut(length)? = 0;
            length += 1;
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![7; bytes.len() + bytes.len() / MOST + 1];
        let length = encode(bytes, &mut out).unwrap();
        assert_eq!(encode(bytes, &mut out[..length - 1]), None, "there is no room");
        out.truncate(length);
        out
    }

    #[test]
    fn parts_are_encoded_as_documented() {
        assert_eq!(encoded(&[]), [1]);
        assert_eq!(encoded(&[0]), [1, 1]);
        assert_eq!(encoded(&[5, 0, 0, 6]), [2, 5, 1, 2, 6]);
        let full = [[FULL].as_slice(), &[9; MOST], &[1]].concat();
        assert_eq!(encoded(&[9; MOST]), full);
        assert_eq!(encoded(&[[9; MOST].as_slice(), &[0]].concat()), [&full[..], &[1]].concat());
    }

    #[test]
    fn bytes_that_end_within_a_part_are_an_error() {
        assert_eq!(decode_in_place(&mut [2]), None);
        assert_eq!(decode_in_place(&mut [1, 3, 5]), None);
        assert_eq!(decode_in_place(&mut [FULL, 1, 2]), None);
    }

    proptest! {
        #[test]
        fn decoded_bytes_are_the_same_again(
            runs in prop::collection::vec((1..=u8::MAX, 0_usize..600, 0_usize..3), 0..6)
        ) {
            let run = |(byte, length, zeroes)| [vec![byte; length], vec![0; zeroes]].concat();
            let bytes = runs.into_iter().map(run).collect::<Vec<_>>().concat();
            let mut encoded = encoded(&bytes);
            prop_assert_eq!(first_zero(&encoded), None);
            let length = decode_in_place(&mut encoded).unwrap();
            prop_assert_eq!(&encoded[..length], bytes);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut decoded = bytes.clone();
            if let Some(length) = decode_in_place(&mut decoded) {
                prop_assert!(length < bytes.len().max(1));
            }
        }
    }
}
