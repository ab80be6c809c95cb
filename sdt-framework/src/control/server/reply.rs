//! Encodes answers as frames.

use dtrace_protocol::{Header, Reply, Writer, packed};

use super::refusal::Refusal;
use crate::control::error::ConsumerError;

/// The largest number of bytes that are read at a time to be packed. Only the last bytes may be a part of a word.
const PIECE: usize = 4096;

/// The buffers for the frame of an answer, and its header.
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

    /// Makes the frame of an answer with packed bytes, as many as one frame can carry beside `overhead` bytes of other fields.
    ///
    /// `read` reads the bytes from an offset on, which it gets as its first argument. It returns the number of bytes
    /// read and the other fields of the answer; the answer contains the fields of the first call.
    pub(super) fn packed<T>(
        &mut self,
        overhead: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(usize, T), ConsumerError>,
        reply: impl FnOnce(T, &[u8]) -> Reply<'_>,
    ) -> Result<usize, Refusal> {
        let size = self.draft.len().saturating_sub(overhead);
        let room = self.line.get_mut(..size).unwrap_or_default();
        // The draft of the frame is empty until all bytes are packed.
        let most = self.draft.len().min(PIECE) / packed::WORD * packed::WORD;
        let piece = self.draft.get_mut(..most).unwrap_or_default();
        let (mut length, first) = read(0, piece)?;
        let (mut taken, mut written) = (0, 0);
        loop {
            let bytes = piece.get(..length).unwrap_or_default();
            let (more, packed) = packed::pack(bytes, room.get_mut(written..).unwrap_or_default());
            (taken, written) = (taken + more, written + packed);
            // Either there are no more bytes, or there is no more room.
            if more < most {
                break;
            }
            length = read(taken, piece)?.0;
        }
        let bytes = self.line.get(..written).unwrap_or_default();
        let writer = Writer::new(self.draft, self.header, &reply(first, bytes))?;
        Ok(writer.seal(self.line)?)
    }

    /// Makes the frame of a refusal. Returns its length.
    pub(super) fn refused(&mut self, refusal: &Refusal) -> Option<usize> {
        self.plain(&Reply::Refused { why: refusal.why(), message: &refusal.text() }).ok()
    }

    /// Makes the frame of an answer without items. Returns its length.
    pub(super) fn plain(&mut self, reply: &Reply<'_>) -> Result<usize, Refusal> {
        self.with_items(reply, |_| Ok(()))
    }

    /// Makes the frame of an answer with the items that `fill` adds. Returns its length.
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
