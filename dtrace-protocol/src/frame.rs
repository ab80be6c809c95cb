//! Frames: how a message becomes bytes on a line, and how a damaged one is found.
//!
//! A frame is, COBS-encoded so that it holds no zero byte, and followed by one:
//!
//! | bytes | |
//! |---|---|
//! | 1 | the [channel](Header::channel) |
//! | 4 | the [number](Header::seq) of the request, little-endian |
//! | .. | the message, in postcard's encoding |
//! | .. | the message's items, each in postcard's encoding, up to the end |
//! | 4 | CRC-32 (ISO-HDLC) of all that, little-endian |
//!
//! A receiver that joins in the middle, or meets damage, is in step again after the next zero byte.

use core::fmt;
use core::marker::PhantomData;

use crc::{CRC_32_ISO_HDLC, Crc};
use serde::{Deserialize, Serialize};

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
/// Bytes of the checksum.
const SUM: usize = 4;
/// Bytes of channel and number.
const HEADER: usize = 5;

/// Bytes in a frame beside message and items.
pub const OVERHEAD: usize = HEADER + SUM;

/// The channel that no framework answers on: what else there is to say on a line goes there.
pub const OTHERS: u8 = 255;

/// Most bytes on the line of a frame with so many bytes in it, checksum included.
pub const fn encoded_len(len: usize) -> usize {
    len + len / 254 + 2
}

/// Most bytes in a frame that takes at most so many on the line.
pub const fn decoded_len(encoded: usize) -> usize {
    let len = encoded.saturating_sub(2);
    len - len.div_ceil(255)
}

/// What every frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Of which of the consumers that share the line.
    pub channel: u8,
    /// Number of the request, as its consumer chose it; a reply has that of its request.
    pub seq: u32,
}

/// Why bytes are no frame, or not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes between two zero bytes are not COBS.
    Cobs,
    /// The checksum is not that of the bytes.
    Sum,
    /// There are more bytes between two zero bytes than there is room for.
    TooLong,
    /// The frame is whole, and its content is not that of the expected message.
    Content,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cobs => "frame is damaged (not COBS)",
            Self::Sum => "frame is damaged (checksum)",
            Self::TooLong => "frame is longer than there is room for",
            Self::Content => "frame holds another message than expected",
        })
    }
}

impl core::error::Error for FrameError {}

/// A message or an item does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message does not fit the frame")
    }
}

impl core::error::Error for TooLong {}

/// Makes a frame in memory that the caller gives.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    len: usize,
}

impl<'b> Writer<'b> {
    /// A frame with a message and no items yet, in a buffer.
    ///
    /// # Errors
    /// The buffer is too small for it and its checksum.
    pub fn new<T: Serialize>(
        buffer: &'b mut [u8],
        header: Header,
        message: &T,
    ) -> Result<Self, TooLong> {
        let mut frame = Self { buffer, len: 0 };
        frame.append(&[header.channel])?;
        frame.append(&header.seq.to_le_bytes())?;
        frame.push(message)?;
        Ok(frame)
    }

    /// Bytes that items can still take.
    pub fn left(&self) -> usize {
        self.buffer.len().saturating_sub(self.len + SUM)
    }

    /// Adds an item.
    ///
    /// # Errors
    /// It does not fit; the frame is as it was.
    pub fn push<T: Serialize>(&mut self, item: &T) -> Result<(), TooLong> {
        let (at, left) = (self.len, self.left());
        let room = self.buffer.get_mut(at..at + left).ok_or(TooLong)?;
        let written = postcard::to_slice(item, room).map_err(|_| TooLong)?.len();
        self.len += written;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let (at, end) = (self.len, self.len + bytes.len());
        if bytes.len() > self.left() {
            return Err(TooLong);
        }
        self.buffer.get_mut(at..end).ok_or(TooLong)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Puts the frame, as it goes over the line, into `line`, and returns its length.
    /// [`encoded_len`] of the buffer's is room enough.
    ///
    /// # Errors
    /// `line` is too small.
    pub fn seal(self, line: &mut [u8]) -> Result<usize, TooLong> {
        let Self { buffer, len } = self;
        let end = len + SUM;
        let (content, sum) = buffer.get_mut(..end).ok_or(TooLong)?.split_at_mut(len);
        sum.copy_from_slice(&CRC.checksum(content).to_le_bytes());
        if line.len() < encoded_len(end) {
            return Err(TooLong);
        }
        let length =
            cobs::try_encode(buffer.get(..end).ok_or(TooLong)?, line).map_err(|_| TooLong)?;
        *line.get_mut(length).ok_or(TooLong)? = 0;
        Ok(length + 1)
    }
}

/// A frame that has arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it begins with.
    pub header: Header,
    /// Message and items.
    pub content: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes a frame apart where it lies, without its zero byte.
    ///
    /// # Errors
    /// It is damaged.
    pub fn decode(encoded: &'a mut [u8]) -> Result<Self, FrameError> {
        let length = cobs::decode_in_place(encoded).map_err(|_| FrameError::Cobs)?;
        let decoded = encoded.get(..length).ok_or(FrameError::Cobs)?;
        let (rest, sum) = decoded.split_last_chunk::<SUM>().ok_or(FrameError::Sum)?;
        if CRC.checksum(rest).to_le_bytes() != *sum {
            return Err(FrameError::Sum);
        }
        let (header, content) = rest.split_first_chunk::<HEADER>().ok_or(FrameError::Sum)?;
        let [channel, seq @ ..] = *header;
        Ok(Self { header: Header { channel, seq: u32::from_le_bytes(seq) }, content })
    }

    /// The message, and what follows it.
    ///
    /// # Errors
    /// [`FrameError::Content`].
    pub fn message<T: Deserialize<'a>>(&self) -> Result<(T, Items<'a>), FrameError> {
        let (message, rest) =
            postcard::take_from_bytes(self.content).map_err(|_| FrameError::Content)?;
        Ok((message, Items(rest)))
    }

    /// The same frame with another header, as it goes over the line, put into `line`. Returns its length. For
    /// code that passes frames on. `buffer` has room for the content: [`OVERHEAD`] more than the content.
    ///
    /// # Errors
    /// `buffer` or `line` is too small.
    pub fn pass_on(
        &self,
        header: Header,
        buffer: &mut [u8],
        line: &mut [u8],
    ) -> Result<usize, TooLong> {
        let mut frame = Writer { buffer, len: 0 };
        frame.append(&[header.channel])?;
        frame.append(&header.seq.to_le_bytes())?;
        frame.append(self.content)?;
        frame.seal(line)
    }
}

/// What follows a message in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The items, one after the other. Bytes that are none end it with an error.
    pub fn iter<T: Deserialize<'a>>(
        &self,
    ) -> impl Iterator<Item = Result<T, FrameError>> + use<'a, T> {
        Iter { rest: self.0, of: PhantomData }
    }
}

struct Iter<'a, T> {
    rest: &'a [u8],
    of: PhantomData<T>,
}

impl<'a, T: Deserialize<'a>> Iterator for Iter<'a, T> {
    type Item = Result<T, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = core::mem::take(&mut self.rest);
        match postcard::take_from_bytes(rest) {
            // What takes no bytes would never end.
            Ok((_, after)) if after.len() == rest.len() => Some(Err(FrameError::Content)),
            Ok((item, after)) => {
                self.rest = after;
                Some(Ok(item))
            }
            Err(_) => Some(Err(FrameError::Content)),
        }
    }
}

/// The channel of an encoded frame, as far as its first bytes tell: the frame need not be whole, and may be damaged.
pub fn channel_of(encoded: &[u8]) -> Option<u8> {
    match encoded {
        // COBS: a distance to the first zero byte of 1 says that it is the first one.
        [1, ..] => Some(0),
        [_, channel, ..] => Some(*channel),
        _ => None,
    }
}

/// Puts frames together from bytes as they arrive, in memory that the caller gives: an array, a slice, a vector of
/// the greatest length.
#[derive(Debug)]
pub struct Decoder<B> {
    buffer: B,
    len: usize,
    overlong: bool,
    /// The buffer holds a frame that has been handed out.
    ended: bool,
}

impl<B: AsMut<[u8]>> Decoder<B> {
    /// A decoder at the start of a frame; the longest one that it takes is as long, encoded, as the buffer.
    pub const fn new(buffer: B) -> Self {
        Self { buffer, len: 0, overlong: false, ended: false }
    }

    /// Takes one byte. Returns the frame that it ends, or the reason why that frame is rejected. Empty frames (two zero bytes in
    /// a row) are padding and say nothing.
    pub fn push(&mut self, byte: u8) -> Option<Result<Frame<'_>, FrameError>> {
        if core::mem::take(&mut self.ended) {
            self.len = 0;
        }
        if byte != 0 {
            match self.buffer.as_mut().get_mut(self.len) {
                Some(place) => {
                    *place = byte;
                    self.len += 1;
                }
                None => self.overlong = true,
            }
            return None;
        }
        self.ended = true;
        if core::mem::take(&mut self.overlong) {
            return Some(Err(FrameError::TooLong));
        }
        let encoded = self.buffer.as_mut().get_mut(..self.len)?;
        if encoded.is_empty() { None } else { Some(Frame::decode(encoded)) }
    }
}
