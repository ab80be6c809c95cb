//! Names in fixed memory, like those of sys/dtrace.h.

use core::cmp::Ordering;
use core::ffi::{CStr, c_char};
use core::fmt;

/// A name of at most `N - 1` bytes, none of them 0, followed by zeros: a `char[N]` of sys/dtrace.h.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Name<const N: usize>([u8; N]);

impl<const N: usize> Name<N> {
    /// The empty name.
    pub const EMPTY: Self = Self([0; N]);

    /// Returns the name with these bytes; `None` if they do not fit or contain a 0.
    pub const fn new(name: &[u8]) -> Option<Self> {
        if name.len() >= N {
            return None;
        }
        let mut bytes = [0; N];
        let mut at = 0;
        while at < name.len() {
            if name[at] == 0 {
                return None;
            }
            bytes[at] = name[at];
            at += 1;
        }
        Some(Self(bytes))
    }

    /// Returns the name at the beginning of these bytes: as many as fit, up to the first 0 (`strlcpy`).
    #[inline]
    pub fn cut(name: &[u8]) -> Self {
        let mut bytes = [0; N];
        let name = name.get(..N.saturating_sub(1)).unwrap_or(name);
        // Most names have no 0, and `contains` is fast.
        let zero = if name.contains(&0) { name.iter().position(|byte| *byte == 0) } else { None };
        let length = zero.unwrap_or(name.len());
        bytes[..length].copy_from_slice(&name[..length]);
        Self(bytes)
    }

    /// Returns the bytes, without the zeros.
    pub fn to_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    /// Returns the first `count` bytes, or the whole array if it is shorter.
    pub fn first(&self, count: usize) -> &[u8] {
        self.0.get(..count).unwrap_or(&self.0)
    }

    /// Returns the name as a C string. Empty if C code has left no room for the 0.
    pub fn as_c_str(&self) -> &CStr {
        // The constructors leave room for a 0, but C code may have overwritten all bytes.
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    /// Returns whether the name is empty.
    pub fn is_empty(&self) -> bool {
        self.to_bytes().is_empty()
    }

    /// Returns the bytes with the zeros, like a field of a C structure.
    pub const fn chars(&self) -> [c_char; N] {
        let mut chars = [0; N];
        let mut at = 0;
        while at < N {
            chars[at] = self.0[at] as c_char;
            at += 1;
        }
        chars
    }
}

impl<const N: usize> PartialOrd for Name<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Ord for Name<N> {
    /// Compares the bytes; a prefix of another name is less than that name.
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<const N: usize> PartialEq<[u8]> for Name<N> {
    fn eq(&self, other: &[u8]) -> bool {
        self.to_bytes() == other
    }
}

/// Displays the bytes as text, and leaves out those that are not UTF-8.
impl<const N: usize> fmt::Display for Name<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

impl<const N: usize> fmt::Debug for Name<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_c_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_taken_whole() {
        let of = |bytes: &[u8]| Name::<4>::new(bytes).map(|name| name.to_bytes().to_vec());
        assert_eq!(of(b""), Some(b"".to_vec()));
        assert_eq!(of(b"abc"), Some(b"abc".to_vec()));
        for refused in [&b"abcd"[..], b"a\0b", b"\0", b"ab\0"] {
            assert_eq!(of(refused), None, "{refused:?}");
        }
        let ab = Name::<4>::new(b"ab").unwrap();
        assert_eq!(ab.chars(), [b'a' as c_char, b'b' as c_char, 0, 0]);
        for (bytes, cut) in
            [(&b"abcd"[..], &b"abc"[..]), (b"a\0b", b"a"), (b"ab", b"ab"), (b"", b"")]
        {
            assert_eq!(Name::<4>::cut(bytes), Name::new(cut).unwrap());
        }
        assert_eq!(Name::<4>::EMPTY, Name::new(b"").unwrap());
        assert!(Name::<4>::EMPTY.is_empty() && ab == b"ab"[..] && ab != b"abc"[..]);
        assert!(ab < Name::new(b"abc").unwrap() && ab < Name::new(b"b").unwrap());
    }

    #[test]
    fn what_is_no_text_is_left_out() {
        assert_eq!(Name::<8>::new(b"a\xffb").unwrap().to_string(), "ab");
    }
}
