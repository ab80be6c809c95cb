//! Records in 64-bit words. On every machine, the bytes of a word are in little-endian order.

/// Writes a number of 1, 2, 4 or 8 bytes to any offset. Bytes outside of the words are left out.
#[inline]
pub(crate) fn put_number(words: &mut [u64], offset: usize, value: u64, size: usize) {
    let (index, shift) = (offset / 8, (offset % 8 * 8) as u32);
    let Some(word) = words.get_mut(index) else { return };
    if size >= 8 && shift == 0 {
        *word = value;
        return;
    }
    let mask = if size >= 8 { u64::MAX } else { (1u64 << (size * 8)) - 1 };
    *word = *word & !(mask << shift) | (value & mask) << shift;
    if offset % 8 + size > 8
        && let Some(word) = words.get_mut(index + 1)
    {
        let shift = 64 - shift;
        *word = *word & !(mask >> shift) | (value & mask) >> shift;
    }
}

/// Writes bytes to an offset. Bytes outside of the words are left out.
pub(crate) fn put_bytes(words: &mut [u64], offset: usize, bytes: &[u8]) {
    let lead = (offset.next_multiple_of(8) - offset).min(bytes.len());
    let (first, rest) = bytes.split_at(lead);
    for (at, &byte) in (offset..).zip(first) {
        put_number(words, at, byte.into(), 1);
    }
    let (whole, last) = rest.as_chunks::<8>();
    let mut words = words.get_mut(offset.div_ceil(8)..).unwrap_or_default().iter_mut();
    for (bytes, word) in whole.iter().zip(words.by_ref()) {
        *word = u64::from_le_bytes(*bytes);
    }
    if !last.is_empty()
        && let Some(word) = words.next()
    {
        let number = last.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        *word = *word & u64::MAX << (last.len() * 8) | number;
    }
}

/// Reads bytes from an offset on, until `into` is full or the words end. Returns the number of bytes read.
pub(crate) fn get_bytes(words: &[u64], offset: usize, into: &mut [u8]) -> usize {
    let words = words.get(offset / 8..).unwrap_or_default();
    let (mut done, mut skip) = (0, offset % 8);
    if skip == 0 {
        let whole = into.as_chunks_mut().0.iter_mut().zip(words);
        for (to, word) in whole {
            *to = word.to_le_bytes();
            done += 8;
        }
    }
    let mut words = words.get(done / 8..).unwrap_or_default().iter();
    while done < into.len()
        && let Some(word) = words.next()
    {
        let bytes = word.to_le_bytes();
        let bytes = bytes.get(skip..).unwrap_or_default();
        let to = into.get_mut(done..).unwrap_or_default();
        let count = bytes.len().min(to.len());
        to.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        (done, skip) = (done + count, 0);
    }
    done
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_bytes(
            writes in prop::collection::vec((0..40usize, prop::collection::vec(any::<u8>(), 0..24)), 0..20),
            numbers in prop::collection::vec((0..6usize, 0..4u32, any::<u64>()), 0..20),
            from in 0..60usize, length in 0..60usize,
        ) {
            let (mut words, mut bytes) = ([0; 6], [0; 48]);
            for (offset, data) in writes {
                put_bytes(&mut words, offset, &data);
                let to = &mut bytes[offset.min(48)..];
                let count = to.len().min(data.len());
                to[..count].copy_from_slice(&data[..count]);
            }
            for (word, log, value) in numbers {
                let size = 1 << log;
                let offset = word * 8 + value as usize % 8;
                put_number(&mut words, offset, value, size);
                let end = (offset + size).min(48);
                bytes[offset..end].copy_from_slice(&value.to_le_bytes()[..end - offset]);
            }
            let mut read = vec![7; length];
            let count = get_bytes(&words, from, &mut read);
            let expected = &bytes[from.min(48)..(from + length).clamp(from.min(48), 48)];
            prop_assert_eq!(&read[..count], expected);
        }
    }
}
