//! A reader of untrusted bytes, with one bounds check.

use core::fmt;

/// Fewer bytes were left than the read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Offset of the read in the whole input.
    pub at: u64,
    /// The number of bytes of the read.
    pub wanted: u64,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}: fewer than {} bytes are left", self.at, self.wanted)
    }
}

impl core::error::Error for Truncated {}

/// A position in untrusted bytes, and the rest of them.
///
/// A reader of a part counts offsets from the beginning of the whole input, so that every error names an offset in the
/// file.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    at: u64,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the beginning of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    /// Returns the offset of the next byte in the whole input.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Returns the bytes that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns whether all bytes were read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `count` bytes.
    ///
    /// # Errors
    ///
    /// If fewer bytes are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                self.at = self.at.saturating_add(count as u64);
                Ok(head)
            }
            None => Err(self.truncated(count as u64)),
        }
    }

    /// Returns a reader of `count` bytes at `offset` from this position.
    ///
    /// # Errors
    ///
    /// If not all of them exist.
    pub fn cut(&self, offset: u64, count: u64) -> Result<Self, Truncated> {
        let at = self.at.saturating_add(offset);
        usize::try_from(offset)
            .ok()
            .and_then(|offset| self.rest.get(offset..))
            .and_then(|rest| rest.get(..usize::try_from(count).ok()?))
            .map(|rest| Self { rest, at })
            .ok_or(Truncated { at, wanted: count })
    }

    #[cold]
    fn truncated(&self, wanted: u64) -> Truncated {
        Truncated { at: self.at, wanted }
    }
}

/// A field of a layout.
pub trait Field: Sized {
    /// Size in bytes.
    const SIZE: usize;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// There are fewer than [`SIZE`](Self::SIZE) bytes left.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Truncated>;

    /// Writes the value to `bytes`, which are [`SIZE`](Self::SIZE) long.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            const SIZE: usize = size_of::<$type>();

            fn read(reader: &mut Reader<'_>) -> Result<Self, Truncated> {
                let mut number = [0; size_of::<$type>()];
                number.copy_from_slice(reader.bytes(size_of::<$type>())?);
                Ok(<$type>::from_le_bytes(number))
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 i32 i64);

impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Truncated> {
        let mut all = [0; N];
        all.copy_from_slice(reader.bytes(N)?);
        Ok(all)
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_byte_of_the_whole() {
        let bytes = [0; 32];
        let part = Reader::new(&bytes).cut(8, 8).unwrap();
        let mut part = part.cut(4, 4).unwrap();
        assert_eq!(part.at(), 12);
        assert_eq!(u64::read(&mut part), Err(Truncated { at: 12, wanted: 8 }));
        assert_eq!(u32::read(&mut part), Ok(0));
        assert!(part.is_empty());
    }

    #[test]
    fn offsets_that_overflow_are_refused() {
        let reader = Reader::new(&[0; 4]);
        assert!(reader.cut(u64::MAX, 1).is_err());
        assert!(reader.cut(1, u64::MAX).is_err());
        assert!(reader.cut(4, 0).is_ok());
    }
}
