//! The place of a number in a record or a tuple.

/// The position of a number in an array of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    word: u32,
    shift: u8,
    /// A mask of the number's bits, before the shift.
    mask: u64,
}

impl Field {
    /// The field that is the second word.
    pub(crate) const SECOND: Self = Self::new(8, 8);
    /// A field outside of all words.
    pub(crate) const NOWHERE: Self = Self { word: u32::MAX, shift: 0, mask: 0 };

    /// Creates the field of a value of 1, 2, 4 or 8 bytes at an aligned offset.
    pub(crate) const fn new(offset: u32, size: u32) -> Self {
        let mask = u64::MAX >> (64 - 8 * size);
        Self { word: offset / 8, shift: (offset % 8 * 8) as u8, mask }
    }

    /// Writes the number. A field at the beginning of a word zeroes the rest of the word, so write fields in the order
    /// of their offsets.
    #[inline(always)]
    pub(crate) fn put(self, words: &mut [u64], value: u64) {
        if let Some(word) = words.get_mut(self.word as usize) {
            let before = if self.shift == 0 { 0 } else { *word };
            *word = before | (value & self.mask) << self.shift;
        }
    }
}
