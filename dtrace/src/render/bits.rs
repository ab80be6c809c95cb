//! Numbers in bytes: little endian, as everywhere in this project. What is not there is zero.

/// The first `N` bytes; zeroes where there are fewer.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let count = bytes.len().min(N);
    array[..count].copy_from_slice(&bytes[..count]);
    array
}

/// The number in the first eight bytes.
pub(super) fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(array(bytes))
}

/// An integer of 1, 2, 4 or 8 bytes, extended with zeroes; of other sizes there is none.
pub(super) fn unsigned(bytes: &[u8]) -> Option<u64> {
    matches!(bytes.len(), 1 | 2 | 4 | 8).then(|| u64_of(bytes))
}

/// An integer of 1, 2, 4 or 8 bytes, extended with its sign; of other sizes there is none.
pub(super) fn signed(bytes: &[u8]) -> Option<i64> {
    let value = unsigned(bytes)?;
    let unused = 64 - 8 * bytes.len() as u32;
    Some((value << unused) as i64 >> unused)
}

/// Eight bytes each.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(u64_of)
}

/// What stands before the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths() {
        assert_eq!(signed(&[0xff]), Some(-1));
        assert_eq!(unsigned(&[0xff, 0xff]), Some(65535));
        assert_eq!(signed(&[0, 0, 0, 0, 0, 0, 0, 0x80]), Some(i64::MIN));
        assert_eq!(signed(&[1, 2, 3]), None);
        assert_eq!(until_zero(b"ab\0cd"), b"ab");
    }
}
