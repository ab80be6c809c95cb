//! Frames: the encoding of messages on a line, and the detection of damage.
//!
//! A frame has these parts, COBS-encoded so that it contains no zero byte, and is followed by a zero byte:
//!
//! | bytes | |
//! |---|---|
//! | 1 | the [channel](Header::channel) |
//! | 4 | the [number](Header::seq) of the request, little-endian |
//! | .. | the message, in postcard's encoding |
//! | .. | the message's items, each in postcard's encoding, up to the end |
//! | 4 | CRC-32 (ISO-HDLC) of all that, little-endian |
//!
//! A receiver that starts in the middle of a frame, or detects damage, is synchronised again after the next zero byte.

use core::fmt;
use core::marker::PhantomData;

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use serde::{Deserialize, Serialize};

use crate::cobs;

/// The number of tables of 1 KiB for checksums: with 16, the checksum of a byte takes an eighth of the time.
const TABLES: usize = if cfg!(feature = "large-tables") { 16 } else { 1 };
static CRC: Crc<u32, Table<TABLES>> = Crc::<u32, Table<TABLES>>::new(&CRC_32_ISO_HDLC);
/// The size of the checksum in bytes.
const SUM: usize = 4;
/// The size of channel and number in bytes.
const HEADER: usize = 5;

/// The size of a frame in bytes without the message and the items.
pub const OVERHEAD: usize = HEADER + SUM;

/// The channel on which no framework answers, for other data on the line.
pub const OTHERS: u8 = 255;

/// Returns the greatest size of an encoded frame with its terminating zero byte. `len` is the size of the frame before encoding,
/// including the checksum.
pub const fn encoded_len(len: usize) -> usize {
    len + len / 254 + 2
}

/// Returns the greatest size of a frame, including the checksum, whose encoded size is at most `encoded`.
pub const fn decoded_len(encoded: usize) -> usize {
    let len = encoded.saturating_sub(2);
    len - len.div_ceil(255)
}

/// The header of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The number of the channel: it identifies the consumer if several consumers share the line.
    pub channel: u8,
    /// The number of the request, which its consumer chose; a reply has the number of its request.
    pub seq: u32,
}

/// The reason why bytes are not a frame, or not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes between two zero bytes are not COBS.
    Cobs,
    /// The checksum does not match the bytes.
    Sum,
    /// There are more bytes between two zero bytes than the buffer holds.
    TooLong,
    /// The frame is intact, but its content is not the expected message.
    Content,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cobs => "frame is damaged (not COBS)",
            Self::Sum => "frame is damaged (checksum)",
            Self::TooLong => "frame exceeds the buffer of the decoder",
            Self::Content => "frame contains another message than the expected one",
        })
    }
}

impl core::error::Error for FrameError {}

/// The error if a message, an item or a frame does not fit into its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message does not fit into the frame")
    }
}

impl core::error::Error for TooLong {}

/// Writes a frame to a buffer of the caller.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    len: usize,
}

impl<'b> Writer<'b> {
    /// Begins a frame in `buffer`, and writes the header and the message.
    ///
    /// # Errors
    /// If the buffer is too small for the header, the message and the checksum.
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

    /// Returns the number of bytes left for items.
    pub fn left(&self) -> usize {
        self.buffer.len().saturating_sub(self.len + SUM)
    }

    /// Adds an item.
    ///
    /// # Errors
    /// If it does not fit; the frame is unchanged.
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

    /// Encodes the frame into `line`, and returns the encoded length. `line` never needs more bytes than [`encoded_len`] returns
    /// for the length of the buffer.
    ///
    /// # Errors
    /// If `line` is too small.
    pub fn seal(self, line: &mut [u8]) -> Result<usize, TooLong> {
        let Self { buffer, len } = self;
        let end = len + SUM;
        let (content, sum) = buffer.get_mut(..end).ok_or(TooLong)?.split_at_mut(len);
        sum.copy_from_slice(&CRC.checksum(content).to_le_bytes());
        if line.len() < encoded_len(end) {
            return Err(TooLong);
        }
        let length = cobs::encode(buffer.get(..end).ok_or(TooLong)?, line).ok_or(TooLong)?;
        *line.get_mut(length).ok_or(TooLong)? = 0;
        Ok(length + 1)
    }
}

/// A complete received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// Message and items.
    pub content: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes a frame, without its zero byte, in place.
    ///
    /// # Errors
    /// If the frame is damaged.
    pub fn decode(encoded: &'a mut [u8]) -> Result<Self, FrameError> {
        let length = cobs::decode_in_place(encoded).ok_or(FrameError::Cobs)?;
        let decoded = encoded.get(..length).ok_or(FrameError::Cobs)?;
        let (rest, sum) = decoded.split_last_chunk::<SUM>().ok_or(FrameError::Sum)?;
        if CRC.checksum(rest).to_le_bytes() != *sum {
            return Err(FrameError::Sum);
        }
        let (header, content) = rest.split_first_chunk::<HEADER>().ok_or(FrameError::Sum)?;
        let [channel, seq @ ..] = *header;
        Ok(Self { header: Header { channel, seq: u32::from_le_bytes(seq) }, content })
    }

    /// Returns the message, and the items after it.
    ///
    /// # Errors
    /// [`FrameError::Content`].
    pub fn message<T: Deserialize<'a>>(&self) -> Result<(T, Items<'a>), FrameError> {
        let (message, rest) =
            postcard::take_from_bytes(self.content).map_err(|_| FrameError::Content)?;
        Ok((message, Items(rest)))
    }

    /// Encodes the frame with another header into `line`, and returns its length. For code that forwards frames.
    /// `buffer` must have the size of the content and [`OVERHEAD`].
    ///
    /// # Errors
    /// If `buffer` or `line` is too small.
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

/// The items after a message in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    /// Returns whether there are no items.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the items in order. Invalid bytes end the iteration with an error.
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
            // An item of no bytes would never end the iteration.
            Ok((_, after)) if after.len() == rest.len() => Some(Err(FrameError::Content)),
            Ok((item, after)) => {
                self.rest = after;
                Some(Ok(item))
            }
            Err(_) => Some(Err(FrameError::Content)),
        }
    }
}

/// Returns the channel of an encoded frame from its first bytes. The frame may be incomplete or damaged.
pub fn channel_of(encoded: &[u8]) -> Option<u8> {
    match encoded {
        // COBS: a distance of 1 means that the first byte is zero.
        [1, ..] => Some(0),
        [_, channel, ..] => Some(*channel),
        _ => None,
    }
}

/// Assembles frames from received bytes in a buffer of the caller: an array, a slice, or a vector of the greatest
/// length.
#[derive(Debug)]
pub struct Decoder<B> {
    buffer: B,
    len: usize,
    overlong: bool,
    /// Whether the buffer contains a frame that was returned.
    ended: bool,
}

impl<B: AsMut<[u8]>> Decoder<B> {
    /// Returns a decoder. The longest accepted frame has the encoded length of the buffer.
    pub const fn new(buffer: B) -> Self {
        Self { buffer, len: 0, overlong: false, ended: false }
    }

    /// Adds one byte. Returns the frame that it completes, or the reason why that frame is rejected. Empty frames (two
    /// zero bytes in a row) are padding.
    pub fn push(&mut self, byte: u8) -> Option<Result<Frame<'_>, FrameError>> {
        self.take(&mut &[byte][..])
    }

    /// Removes bytes from the beginning of `bytes` up to the end of a frame, or all, and adds them. Returns the frame that they
    /// complete, or the reason why that frame is rejected; `None` if the bytes complete no frame, and after padding.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Option<Result<Frame<'_>, FrameError>> {
        if core::mem::take(&mut self.ended) {
            self.len = 0;
        }
        let end = cobs::first_zero(bytes);
        let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        let places = self.buffer.as_mut().get_mut(self.len..).unwrap_or_default();
        match places.get_mut(..part.len()) {
            Some(places) => {
                places.copy_from_slice(part);
                self.len += part.len();
            }
            None => self.overlong = true,
        }
        // Without the zero byte.
        *bytes = rest.get(1..).unwrap_or_default();
        end?;
        self.ended = true;
        if core::mem::take(&mut self.overlong) {
            return Some(Err(FrameError::TooLong));
        }
        let encoded = self.buffer.as_mut().get_mut(..self.len)?;
        if encoded.is_empty() { None } else { Some(Frame::decode(encoded)) }
    }
}
