//! Frames: the encoding of messages on a serial line, which detects damage.
//!
//! A frame is the byte [`OTHERS`], postcard's encoding of the message and the CRC-32 (ISO-HDLC, little-endian) of both,
//! COBS-encoded so that it contains no zero byte, and one zero byte. A receiver that starts in the middle, or meets damage, is
//! synchronised again after the next zero byte. Frames with another first byte belong to consumers, and are passed on unchanged.

use alloc::vec::Vec;
use core::fmt;

use crc::{CRC_32_ISO_HDLC, Crc};
use dtrace_protocol::OTHERS;
use dtrace_protocol::frame::channel_of;
use serde::Serialize;
use serde::de::DeserializeOwned;

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Longest frame a [`Decoder`] takes, in encoded bytes. A module image fits with room to spare.
pub const MAX_FRAME: usize = 16 << 20;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes between two zero bytes are not COBS.
    Cobs,
    /// The checksum is not that of the bytes, or bytes are missing or left over, or they are not
    /// the encoding of the expected message.
    Content,
    /// [`MAX_FRAME`] bytes contain no zero byte.
    TooLong,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cobs => "frame is damaged (not COBS)",
            Self::Content => "frame is damaged (checksum or content)",
            Self::TooLong => "frame is longer than the protocol allows",
        })
    }
}

impl core::error::Error for FrameError {}

/// Encodes a message as a frame.
///
/// # Panics
/// Never: serialising to a growing vector cannot fail for the messages of this crate.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let body = postcard::to_allocvec_crc32(&(OTHERS, message), CRC.digest())
        .expect("messages serialise into a growing vector");
    let mut frame = cobs::encode_vec(&body);
    frame.push(0);
    frame
}

/// Decodes the message of one frame, without its zero byte.
///
/// # Errors
/// [`FrameError::Cobs`] or [`FrameError::Content`].
pub fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, FrameError> {
    let body = cobs::decode_vec(frame).map_err(|_| FrameError::Cobs)?;
    // Postcard checks the sum of the bytes that it has read. A frame with more bytes is refused, too.
    match postcard::take_from_bytes_crc32(&body, CRC.digest()) {
        Ok(((OTHERS, message), [])) => Ok(message),
        _ => Err(FrameError::Content),
    }
}

/// A frame that has arrived.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrived<T> {
    /// A frame of the bench: its message, or the error in it.
    Ours(Result<T, FrameError>),
    /// A frame from or for a consumer, with its zero byte. It may be damaged.
    Consumers(Vec<u8>),
}

/// Assembles frames from received bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    overlong: bool,
}

impl Decoder {
    /// A decoder at the start of a frame.
    pub const fn new() -> Self {
        Self { pending: Vec::new(), overlong: false }
    }

    /// Adds one byte. Returns the frame that the byte completes. Empty frames (two zero bytes in a row) are padding, and are
    /// ignored.
    pub fn push<T: DeserializeOwned>(&mut self, byte: u8) -> Option<Arrived<T>> {
        if byte != 0 {
            if self.pending.len() == MAX_FRAME {
                self.overlong = true;
            } else {
                self.pending.push(byte);
            }
            return None;
        }
        let overlong = core::mem::take(&mut self.overlong);
        let mut frame = core::mem::take(&mut self.pending);
        if overlong {
            return Some(Arrived::Ours(Err(FrameError::TooLong)));
        }
        match channel_of(&frame) {
            _ if frame.is_empty() => None,
            Some(OTHERS) => Some(Arrived::Ours(decode(&frame))),
            _ => {
                frame.push(0);
                Some(Arrived::Consumers(frame))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Exec, Message, Request};
    use proptest::prelude::*;

    fn sample() -> Message {
        let execs = vec![Exec { pid: 7, path: "/bin/sh".into() }; 3];
        Message { seq: 9, request: Request::Exec { execs } }
    }

    fn feed<T: DeserializeOwned>(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Arrived<T>> {
        bytes.iter().filter_map(|&byte| decoder.push(byte)).collect()
    }

    #[test]
    fn a_frame_comes_back() {
        let frames = [encode(&sample()), encode(&sample())].concat();
        let got = feed::<Message>(&mut Decoder::new(), &frames);
        assert_eq!(got, [Arrived::Ours(Ok(sample())), Arrived::Ours(Ok(sample()))]);
    }

    #[test]
    fn joining_in_the_middle_loses_one_frame_only() {
        let frames = [encode(&sample()), encode(&sample())].concat();
        let got = feed::<Message>(&mut Decoder::new(), &frames[5..]);
        assert_eq!(got.len(), 2);
        assert!(!matches!(got[0], Arrived::Ours(Ok(_))));
        assert_eq!(got[1], Arrived::Ours(Ok(sample())));
    }

    #[test]
    fn bytes_left_over_are_refused() {
        let mut body = postcard::to_allocvec_crc32(&(OTHERS, sample()), CRC.digest()).unwrap();
        body.push(1);
        assert_eq!(decode::<Message>(&cobs::encode_vec(&body)), Err(FrameError::Content));
    }

    #[test]
    fn an_endless_frame_is_refused_and_the_next_one_read() {
        let mut decoder = Decoder::new();
        let long = vec![1u8; MAX_FRAME + 1];
        assert!(feed::<Message>(&mut decoder, &long).is_empty());
        let too_long = Arrived::Ours(Err(FrameError::TooLong));
        assert_eq!(feed::<Message>(&mut decoder, &[0]), [too_long]);
        assert_eq!(feed(&mut decoder, &encode(&sample())), [Arrived::Ours(Ok(sample()))]);
    }

    #[test]
    fn frames_of_consumers_are_handed_out_as_they_are() {
        let (mut buffer, mut line) = ([0; 64], [0; 64]);
        let header = dtrace_protocol::Header { channel: 1, seq: 2 };
        let frame =
            dtrace_protocol::Writer::new(&mut buffer, header, &dtrace_protocol::Request::Go);
        let length = frame.unwrap().seal(&mut line).unwrap();
        let both = [&line[..length], &encode(&sample())].concat();
        let got = feed::<Message>(&mut Decoder::new(), &both);
        let theirs = Arrived::Consumers(line[..length].to_vec());
        assert_eq!(got, [theirs, Arrived::Ours(Ok(sample()))]);
    }

    proptest! {
        #[test]
        fn no_flipped_bit_passes(bit in 0usize..8, at in any::<prop::sample::Index>()) {
            let mut frame = encode(&sample());
            frame.pop();
            let at = at.index(frame.len());
            frame[at] ^= 1 << bit;
            // A flip may create a zero byte, and so two frames. Neither of them may decode as the message.
            for part in frame.split(|&byte| byte == 0).filter(|part| !part.is_empty()) {
                prop_assert!(decode::<Message>(part).is_err());
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::new();
            for byte in bytes {
                let _ = decoder.push::<Event>(byte);
            }
        }
    }
}
