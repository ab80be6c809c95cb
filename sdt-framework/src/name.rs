//! Names in fixed memory.

use core::ffi::{CStr, c_char};
use core::fmt;

/// A name of at most `N - 1` bytes, none of them 0, followed by a NUL. All bytes 0 is the empty name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<const N: usize>([u8; N]);

impl<const N: usize> Name<N> {
    pub(crate) const EMPTY: Self = Self([0; N]);

    /// `None` when the bytes do not fit or hold a 0.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() >= N || bytes.contains(&0) {
            return None;
        }
        let mut name = Self::EMPTY;
        name.0[..bytes.len()].copy_from_slice(bytes);
        Some(name)
    }

    pub(crate) fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.as_cstr().to_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    pub(crate) fn as_chars(&self) -> [c_char; N] {
        self.0.map(|byte| byte as c_char)
    }
}

impl<const N: usize> fmt::Debug for Name<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_cstr().fmt(f)
    }
}
