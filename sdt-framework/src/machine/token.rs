//! The state of `strtok`.

/// The rest of a text that `strtok` has not divided yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(super) at: u64,
    /// The largest number of bytes from `at` to the end of the text.
    pub(super) left: u64,
}

impl Token {
    /// The text is used up.
    pub(super) const END: Self = Self { at: 0, left: 0 };

    pub(super) const fn advance(&mut self) {
        self.at = self.at.wrapping_add(1);
        self.left -= 1;
    }
}
