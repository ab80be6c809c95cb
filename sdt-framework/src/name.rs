//! Names in fixed memory.

use core::ffi::c_char;

use heapless::CString;

/// A name of at most `N - 1` bytes, none of them 0.
pub(crate) type Name<const N: usize> = CString<N, u8>;

/// `None` when the bytes do not fit or hold a 0.
pub(crate) fn name<const N: usize>(bytes: &[u8]) -> Option<Name<N>> {
    if bytes.contains(&0) {
        return None;
    }
    Name::from_bytes_with_nul(bytes).ok()
}

/// The name as `dtrace_probedesc_t` holds it: followed by zeros.
pub(crate) fn chars<const N: usize>(name: &[u8]) -> [c_char; N] {
    let mut chars = [0; N];
    for (to, from) in chars.iter_mut().zip(name) {
        *to = *from as c_char;
    }
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_taken_whole() {
        let of = |bytes: &[u8]| name::<4>(bytes).map(|name| name.to_bytes().to_vec());
        assert_eq!(of(b""), Some(b"".to_vec()));
        assert_eq!(of(b"abc"), Some(b"abc".to_vec()));
        for refused in [&b"abcd"[..], b"a\0b", b"\0", b"ab\0"] {
            assert_eq!(of(refused), None, "{refused:?}");
        }
        assert_eq!(chars::<4>(b"ab"), [b'a' as c_char, b'b' as c_char, 0, 0]);
    }
}
