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

impl Place {
    /// Returns the line of the source with a mark under the place; `None` if the place is not in `source`.
    pub fn frame(self, source: &[u8]) -> Option<String> {
        let start = self.start as usize;
        let before = source.get(..start)?;
        let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let line = source.get(begin..)?.split(|&byte| byte == b'\n').next()?;
        let text = String::from_utf8_lossy(line);
        let blanks = source[begin..start].iter().map(|&b| if b == b'\t' { '\t' } else { ' ' });
        Some(format!("{text}\n{}^", blanks.collect::<String>()))
    }
}
