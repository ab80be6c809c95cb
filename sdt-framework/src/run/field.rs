//! The place of a number in a record or a tuple.

/// A number's place among words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    word: u32,
    shift: u8,
    /// Ones at its bits, before the shift.
    mask: u64,
}

impl Field {
    /// The field that is the second word.
    pub(crate) const SECOND: Self = Self::new(8, 8);
    /// A field outside of all words.
    pub(crate) const NOWHERE: Self = Self { word: u32::MAX, shift: 0, mask: 0 };

    /// A value of 1, 2, 4 or 8 bytes, at an aligned offset.
    pub(crate) const fn new(offset: u32, size: u32) -> Self {
        let mask = u64::MAX >> (64 - 8 * size);
        Self { word: offset / 8, shift: (offset % 8 * 8) as u8, mask }
    }

    /// Writes the number. The first one in a word makes the rest of it zero, so fields are written in order.
    #[inline(always)]
    pub(crate) fn put(self, words: &mut [u64], value: u64) {
        if let Some(word) = words.get_mut(self.word as usize) {
            let before = if self.shift == 0 { 0 } else { *word };
            *word = before | (value & self.mask) << self.shift;
        }
    }
}
