//! Places in a source.

/// A place in a source. All places are equal, so that trees are equal regardless of their places.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Place {
    /// The line that dtrace(1) names in errors: the one in which it has read enough to know that a construct is complete,
    /// often but not always the one in which the construct ends.
    pub line: u32,
    /// Offset of the construct's first byte.
    pub start: u32,
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
