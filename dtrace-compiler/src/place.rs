//! Places in a source.

/// A place in a source. All places are equal, so that trees are equal regardless of their places.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Place {
    /// The line that dtrace(1) names in errors: the line of the token that completes a construct, often but not always
    /// the line in which the construct ends.
    pub line: u32,
    /// Offset of the construct's first byte.
    pub start: u32,
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
