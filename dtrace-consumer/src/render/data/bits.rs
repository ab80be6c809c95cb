//! Numbers in bytes, which are little-endian everywhere in this project. Missing bytes are zero.

/// Returns the first `N` bytes, padded with zeroes.
pub(in crate::render) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let count = bytes.len().min(N);
    array[..count].copy_from_slice(&bytes[..count]);
    array
}

/// Returns the number in the first eight bytes.
#[inline]
pub(in crate::render) fn u64_of(bytes: &[u8]) -> u64 {
    // Most numbers have one of these sizes, and a copy of a size that the compiler knows is a load.
    match (bytes.first_chunk(), bytes) {
        (Some(bytes), _) => u64::from_le_bytes(*bytes),
        (None, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
        (None, _) => u64::from_le_bytes(array(bytes)),
    }
}

/// Returns an integer of 1, 2, 4 or 8 bytes, extended with zeroes; `None` for other sizes.
pub(in crate::render) fn unsigned(bytes: &[u8]) -> Option<u64> {
    matches!(bytes.len(), 1 | 2 | 4 | 8).then(|| u64_of(bytes))
}

/// Returns an integer of 1, 2, 4 or 8 bytes, extended with its sign; `None` for other sizes.
pub(in crate::render) fn signed(bytes: &[u8]) -> Option<i64> {
    let value = unsigned(bytes)?;
    let unused = 64 - 8 * bytes.len() as u32;
    Some((value << unused) as i64 >> unused)
}

/// Returns the numbers in each eight bytes.
pub(in crate::render) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(u64_of)
}

/// Returns the bytes before the first zero.
pub(in crate::render) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Returns a floating-point number of 4, 8 or 16 bytes; 16 bytes are ten of the x87 and padding.
pub(in crate::render) fn float(data: &[u8]) -> Option<f64> {
    Some(match data.len() {
        4 => f32::from_le_bytes(array(data)).into(),
        8 => f64::from_le_bytes(array(data)),
        16 => {
            let (mantissa, head) = (u64_of(data), u64_of(&data[8..]) as u16);
            let power = i32::from(head & 0x7fff) - 16383 - 63;
            let magnitude = match head & 0x7fff {
                0x7fff if mantissa << 1 != 0 => f64::NAN,
                0x7fff => f64::INFINITY,
                _ => mantissa as f64 * 2_f64.powi(power),
            };
            if head & 0x8000 != 0 { -magnitude } else { magnitude }
        }
        _ => return None,
    })
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
