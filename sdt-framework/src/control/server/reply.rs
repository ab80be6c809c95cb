//! Makes the frame of an answer.

use dtrace_protocol::{Header, Reply, Writer};

use super::refusal::Refusal;
use crate::control::error::ConsumerError;

/// Makes the frame of an answer.
pub(super) struct Answer<'b> {
    pub(super) header: Header,
    pub(super) draft: &'b mut [u8],
    pub(super) line: &'b mut [u8],
}

impl<'b> Answer<'b> {
    /// Returns room for a part of a buffer, as large as one frame can carry beside `overhead` bytes of other fields.
    pub(super) fn part(&mut self, overhead: usize) -> Part<'_, 'b> {
        Part { size: self.draft.len().saturating_sub(overhead), answer: self }
    }

    /// The answer that the request is refused.
    pub(super) fn refused(&mut self, refusal: &Refusal) -> Option<usize> {
        self.plain(&Reply::Refused { why: refusal.why(), message: &refusal.text() }).ok()
    }

    /// The answer without items. Its length on the line.
    pub(super) fn plain(&mut self, reply: &Reply<'_>) -> Result<usize, Refusal> {
        self.with_items(reply, |_| Ok(()))
    }

    /// The answer with what `fill` adds to it.
    pub(super) fn with_items(
        &mut self,
        reply: &Reply<'_>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), ConsumerError>,
    ) -> Result<usize, Refusal> {
        let mut writer = Writer::new(self.draft, self.header, reply)?;
        fill(&mut writer)?;
        Ok(writer.seal(self.line)?)
    }
}

/// A part of a buffer that an answer will carry. It lies where the frame will be encoded, so that it needs no memory of its own.
pub(super) struct Part<'a, 'b> {
    answer: &'a mut Answer<'b>,
    size: usize,
}

impl Part<'_, '_> {
    /// Returns the bytes to fill.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.answer.line.get_mut(..self.size).unwrap_or_default()
    }

    /// Makes the frame of the answer with the first `length` bytes. Returns its length.
    pub(super) fn send(
        self,
        length: usize,
        reply: impl FnOnce(&[u8]) -> Reply<'_>,
    ) -> Result<usize, Refusal> {
        let Answer { header, draft, line } = self.answer;
        let bytes = line.get(..length).unwrap_or_default();
        let writer = Writer::new(draft, *header, &reply(bytes))?;
        Ok(writer.seal(line)?)
    }
}
