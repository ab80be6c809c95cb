//! Copies the results of programs into records and tuples. Probe context.

use dtrace_abi::record::RecordHeader;

use super::surroundings::Surroundings;
use super::words::put_bytes;
use crate::base::host::Host;
use crate::machine::{Firing, Stop};

/// Zeroes the words from `from` to `to`; does nothing if `from` is not less than `to`.
pub(crate) fn clear(words: &mut [u64], from: usize, to: usize) {
    if from < to
        && let Some(words) = words.get_mut(from..to)
    {
        words.fill(0);
    }
}

/// Writes the header of a record.
pub(crate) fn header(room: &mut [u64], epid: u32, timestamp: u64) {
    const { assert!(RecordHeader::SIZE == 12) };
    if let [first, second, ..] = room {
        *first = u64::from(epid) | timestamp >> 32 << 32;
        *second = u64::from(timestamp as u32);
    }
}

/// Returns the data of `print`, an address and a size in scratch space; `None` if there is no room.
pub(crate) fn memref<H: Host>(
    firing: &Firing<'_, Surroundings<'_, H>>,
    at: u64,
    size: usize,
) -> Result<Option<(u64, u64)>, Stop> {
    let mut words = [[0; 8]; 2];
    firing.fetch(at, words.as_flattened_mut())?;
    let [address, length] = words.map(u64::from_le_bytes);
    Ok((length.saturating_add(8) <= size as u64).then_some((address, length)))
}

/// Writes a piece of a string to an offset, and zeroes the rest of its last word, unless an earlier piece has done so.
#[inline(always)]
pub(crate) fn put_piece(to: &mut [u64], offset: usize, piece: &[u8]) {
    let end = offset + piece.len();
    if !end.is_multiple_of(8)
        && end / 8 >= offset.div_ceil(8)
        && let Some(last) = to.get_mut(end / 8)
    {
        *last = 0;
    }
    put_bytes(to, offset, piece);
}

/// The number of bytes that are copied at once.
const PART: usize = 64;
/// Units of work for each piece of a string, in addition to half a unit for each byte.
pub(crate) const PIECE: u64 = 8;

/// Copies this number of bytes.
pub(crate) fn store<H: Host>(
    firing: &Firing<'_, Surroundings<'_, H>>,
    to: &mut [u64],
    offset: usize,
    length: usize,
    from: u64,
    is_users: bool,
) -> Result<(), Stop> {
    let mut part = [0; PART];
    for at in (0..length).step_by(PART) {
        let Some(part) = part.get_mut(..(length - at).min(PART)) else { break };
        let address = from.wrapping_add(at as u64);
        match is_users {
            true => firing.fetch_user(address, part)?,
            false => firing.fetch(address, part)?,
        }
        put_bytes(to, offset + at, part);
        firing.charge(part.len() as u64 / 2)?;
    }
    Ok(())
}

/// Copies a string of at most this number of bytes, and zeroes the rest of its last word. Returns its length, which
/// includes the NUL if the NUL fits.
pub(crate) fn store_string<H: Host>(
    firing: &mut Firing<'_, Surroundings<'_, H>>,
    to: &mut [u64],
    offset: usize,
    length: usize,
    from: u64,
    is_users: bool,
) -> Result<usize, Stop> {
    let mut put = |firing: &Firing<'_, _>, at: usize, piece: &[u8]| {
        put_piece(to, offset + at, piece);
        firing.charge(PIECE + piece.len() as u64 / 2)
    };
    if !is_users {
        return firing.read_string(from, length, put);
    }
    // Byte by byte, because the next byte may be on an unmapped page.
    let mut byte = [1];
    let mut at = 0;
    while at < length && byte != [0] {
        firing.fetch_user(from.wrapping_add(at as u64), &mut byte)?;
        put(firing, at, &byte)?;
        at += 1;
    }
    Ok(at)
}
