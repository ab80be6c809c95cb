//! The protocol between kernel and consumer: frames in both directions, complete, damaged and within noise.
//!
//! The results are compared with a reference: COBS and the CRC by their definitions, over the output of postcard for a
//! message.

use std::fmt::Debug;

use arbitrary::{Arbitrary, Unstructured};
use dtrace_protocol::OTHERS;
use sdt_protocol::frame::{self, Arrived, Decoder, FrameError};
use sdt_protocol::{Event, Message, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A part of the bytes that arrive on a line.
#[derive(Debug, Arbitrary)]
enum Piece {
    /// Bytes as they are.
    Noise(Vec<u8>),
    /// A frame whose content may be no message, but whose checksum is right.
    Frame(Vec<u8>),
    /// The same, with one byte replaced, inserted or removed.
    Damaged { content: Vec<u8>, at: u16, damage: Damage },
}

#[derive(Debug, Arbitrary)]
enum Damage {
    Over(u8),
    In(u8),
    Out,
}

/// Runs the target.
///
/// # Panics
/// A message arrives that was not sent, or a sent message does not arrive.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(from_kernel) = input.arbitrary::<bool>() else { return };
    let Ok(pieces) = Vec::<Piece>::arbitrary_take_rest(input) else { return };
    let line: Vec<u8> = pieces.into_iter().flat_map(bytes).collect();
    if from_kernel {
        receive(&line, &Event::Progress { done: 1, total: 0 });
    } else {
        receive(&line, &Message { seq: 7, request: Request::KldStat });
    }
}

fn bytes(piece: Piece) -> Vec<u8> {
    match piece {
        Piece::Noise(noise) => noise,
        Piece::Frame(content) => seal(&content),
        Piece::Damaged { content, at, damage } => {
            let mut bytes = seal(&content);
            let at = usize::from(at) % bytes.len();
            match damage {
                Damage::Over(byte) => bytes[at] = byte,
                Damage::In(byte) => bytes.insert(at, byte),
                Damage::Out => drop(bytes.remove(at)),
            }
            bytes
        }
    }
}

/// Receives a line byte by byte, and then `last`, which must arrive after any input.
fn receive<T>(line: &[u8], last: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut decoder = Decoder::new();
    let mut push = |&byte: &u8| decoder.push::<T>(byte);
    let arrived: Vec<_> = line.iter().filter_map(&mut push).collect();

    let whole = line.iter().rposition(|&byte| byte == 0).map_or(&[][..], |end| &line[..end]);
    let frames = whole.split(|&byte| byte == 0).filter(|frame| !frame.is_empty());
    let expected: Vec<_> = frames.map(arrive::<T>).collect();
    assert_eq!(arrived, expected);

    for arrived in arrived {
        let Arrived::Ours(Ok(message)) = arrived else { continue };
        let content = postcard::to_allocvec(&message).expect("what was read can be written");
        let frame = frame::encode(&message);
        assert_eq!(frame, seal(&content));
        assert_eq!(frame::decode::<T>(&frame[..frame.len() - 1]), Ok(message));
    }

    let end = [&[0][..], &frame::encode(last)].concat();
    let arrived = end.iter().filter_map(&mut push).last();
    assert!(matches!(&arrived, Some(Arrived::Ours(Ok(message))) if message == last), "{arrived:?}");
}

/// The kind of a frame, by its first byte, which follows COBS's distance to the first zero byte.
fn arrive<T: DeserializeOwned>(frame: &[u8]) -> Arrived<T> {
    if frame[0] != 1 && frame.get(1) == Some(&OTHERS) {
        Arrived::Ours(open(frame))
    } else {
        Arrived::Consumers([frame, &[0]].concat())
    }
}

/// The message in a frame.
fn open<T: DeserializeOwned>(frame: &[u8]) -> Result<T, FrameError> {
    let body = uncobs(frame).ok_or(FrameError::Cobs)?;
    let (content, sum) = body.split_last_chunk().ok_or(FrameError::Content)?;
    if crc32(content).to_le_bytes() != *sum {
        return Err(FrameError::Content);
    }
    let Some((&OTHERS, content)) = content.split_first() else { return Err(FrameError::Content) };
    match postcard::take_from_bytes(content) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Content),
    }
}

/// The frame of a message that postcard has made `content` of.
fn seal(content: &[u8]) -> Vec<u8> {
    let content = [&[OTHERS], content].concat();
    let body = [&content[..], &crc32(&content).to_le_bytes()].concat();
    let mut frame = cobs(&body);
    frame.push(0);
    frame
}

/// Computes the usual CRC-32 (ISO-HDLC), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 0 { 0 } else { 0xedb8_8320 }
        })
    })
}

/// Every zero byte becomes the distance to the next one; a 255 is that many bytes without one.
fn cobs(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    for run in bytes.split(|&byte| byte == 0) {
        let mut rest = run;
        while rest.len() >= 254 {
            coded.push(255);
            coded.extend(&rest[..254]);
            rest = &rest[254..];
        }
        coded.push(rest.len() as u8 + 1);
        coded.extend(rest);
    }
    coded
}

/// The reverse of [`cobs`].
fn uncobs(coded: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = coded;
    while let [code, after @ ..] = rest {
        let length = usize::from(*code) - 1;
        bytes.extend(after.get(..length)?);
        rest = &after[length..];
        if *code != 255 && !rest.is_empty() {
            bytes.push(0);
        }
    }
    Some(bytes)
}
