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

impl Answer<'_> {
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
