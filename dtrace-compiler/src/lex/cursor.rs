//! A place in the source.

/// The rest of a source, and the number of bytes before it.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    eaten: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the beginning of `source`.
    pub const fn new(source: &'a [u8]) -> Self {
        Self { rest: source, eaten: 0 }
    }

    /// Returns the rest.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes before the rest.
    pub const fn eaten(&self) -> usize {
        self.eaten
    }

    /// Returns the next byte.
    pub fn first(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Returns the byte after the current one.
    pub fn second(&self) -> Option<u8> {
        self.rest.get(1).copied()
    }

    /// Consumes the next byte, and returns it.
    pub fn bump(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.eaten += 1;
        Some(first)
    }

    /// Consumes `count` bytes, or all remaining bytes if there are fewer.
    pub fn bump_by(&mut self, count: usize) {
        let count = count.min(self.rest.len());
        self.rest = &self.rest[count..];
        self.eaten += count;
    }

    /// Consumes the next byte if `wanted` accepts it.
    pub fn eat_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let eat = self.first().is_some_and(wanted);
        if eat {
            self.bump();
        }
        eat
    }

    /// Consumes bytes as long as `wanted` accepts them.
    pub fn eat_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.eat_if(&wanted) {}
    }
}
