//! Lines that leave the machine: authenticated and encrypted by a key that both sides have before.
//!
//! Under the frames there is a layer then, which is [Noise](https://noiseprotocol.org/noise.html) (revision 34):
//! `Noise_NNpsk0_25519_ChaChaPoly_SHA256`, with [`PREAMBLE`] as its prologue. It is for lines that lose nothing, with a
//! connection for each consumer: TCP, vsock, sockets. The consumer is the initiator.
//!
//! | who | bytes | |
//! |---|---|---|
//! | consumer | 8 | [`PREAMBLE`] |
//! | | 2 + 48 | the first message of the handshake, its length in front of it |
//! | kernel | 8 | [`PREAMBLE`], with its own version |
//! | | 2 + 48 | the second message, likewise |
//! | both, from then on | 2 + n | transport messages with at least one byte of the stream in them: at most [`MESSAGE`] bytes |
//!
//! Lengths are big-endian, messages have no payload except those of the transport. After every [`REKEY`] messages of one
//! direction its key is made anew, as Noise says.
//!
//! Who does not have the key, or has another version, or says something else, is answered with the [`refusal`]:
//! `PREAMBLE`, a length of 0, and a frame of [`Reply::Gone`] for consumers that know nothing of this layer. Then the
//! connection is closed. What is wrong after the handshake is not answered: the connection is closed.
//!
//! # What that gives
//!
//! - Who has no key learns that there is a line of this kind and its version. Each direction has keys of its own, every message
//!   its number: what was recorded, cut off, moved or sent back is not taken.
//! - The keys of a connection come from the key and from two secrets that are drawn for it and forgotten: who records
//!   connections and gets the key later still cannot read them.
//! - A first message that was recorded is answered, as it is a right one; who sends it again cannot read the
//!   answer, nor say anything that is taken after it.
//! - Whoever has the key can play either side. So it is one key for one kernel, known to those who may trace it.
//! - How long messages are, and when they are sent, is not hidden.

use core::fmt;

use crate::{Header, Reply, TooLong, Writer};

/// Number of this layer.
pub const VERSION: u8 = 1;

/// What either side says first. The last byte is [`VERSION`]. No consumer without this layer begins with it.
pub const PREAMBLE: [u8; 8] = [b'd', b't', b'r', b'a', b'c', b'e', b'+', VERSION];

/// The protocol's name in Noise.
pub const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Bytes of either message of the handshake: an ephemeral public key and a tag.
pub const HANDSHAKE: usize = 32 + TAG;

/// Bytes of a tag, which every message ends with.
pub const TAG: usize = 16;

/// Most bytes of a transport message, its tag included and its length not.
pub const MESSAGE: usize = 1024;

/// So many messages a direction's key is used for.
pub const REKEY: u64 = 4096;

/// The channel of a consumer that has a line for itself, which the refusal speaks to.
const CHANNEL: u8 = 1;

/// Most bytes of a [`refusal`].
pub const REFUSAL: usize = 160;

/// Writes the answer to a rejected peer, the same for every peer, into `line`, and returns its length.
///
/// # Errors
/// `line` is shorter than [`REFUSAL`].
pub fn refusal(line: &mut [u8]) -> Result<usize, TooLong> {
    const INTRODUCTION: usize = PREAMBLE.len() + 2;
    let (introduction, rest) = line.split_at_mut_checked(INTRODUCTION).ok_or(TooLong)?;
    let (preamble, length) = introduction.split_at_mut(PREAMBLE.len());
    preamble.copy_from_slice(&PREAMBLE);
    // Two zero bytes: also the end of what a consumer takes for a damaged frame.
    length.fill(0);
    let mut buffer = [0; REFUSAL];
    let gone =
        Reply::Gone { reason: "the line is encrypted; give the kernel's key (dtrace --key FILE)" };
    let header = Header { channel: CHANNEL, seq: 0 };
    Ok(INTRODUCTION + Writer::new(&mut buffer, header, &gone)?.seal(rest)?)
}

/// The key that both sides have in advance: 32 random bytes.
#[derive(Clone)]
pub struct Key([u8; Self::LEN]);

impl Key {
    /// Bytes of it.
    pub const LEN: usize = 32;

    /// Letters of it as [`from_hex`](Self::from_hex) takes them.
    pub const HEX: usize = 2 * Self::LEN;

    /// The key of these bytes. They come from a source of randomness that is made for keys; a password is none.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The key as a file holds it, or `include_bytes!`: 64 hexadecimal digits, and perhaps a newline. `None` if it is
    /// something else. Zero bytes are no key either.
    pub const fn from_hex(text: &[u8]) -> Option<Self> {
        let (mut key, mut at, mut all) = ([0; Self::LEN], 0, 0);
        if text.len() < Self::HEX {
            return None;
        }
        while at < Self::HEX {
            let digit = match text[at] {
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'f' => digit - b'a' + 10,
                digit @ b'A'..=b'F' => digit - b'A' + 10,
                _ => return None,
            };
            key[at / 2] = key[at / 2] << 4 | digit;
            all |= digit;
            at += 1;
        }
        // One newline, of either kind.
        match text.split_at(Self::HEX).1 {
            b"" | b"\n" | b"\r\n" if all != 0 => Some(Self(key)),
            _ => None,
        }
    }

    /// Its bytes: for the handshake, and to write them to the file of the other side.
    pub const fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// It does not say which one.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;

    #[test]
    fn a_key_is_64_digits() {
        let text = "00fF".repeat(16);
        let key = Key::from_hex(text.as_bytes()).unwrap();
        assert!(key.bytes().iter().step_by(2).all(|&byte| byte == 0));
        assert!(key.bytes().iter().skip(1).step_by(2).all(|&byte| byte == 0xff));
        assert_eq!(format!("{key:?}"), "Key(..)");
        for end in ["\n", "\r\n"] {
            assert!(Key::from_hex(format!("{text}{end}").as_bytes()).is_some());
        }
        let bad = ["".into(), text[1..].to_owned(), format!("{text}0"), format!("{text}\n\n")];
        for bad in [&*bad[0], &*bad[1], &*bad[2], &*bad[3], &"0".repeat(64), &"0g".repeat(32)] {
            assert!(Key::from_hex(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_refusal_is_understood_without_the_layer() {
        let mut line = [0; REFUSAL];
        let length = refusal(&mut line).unwrap();
        assert!(line.starts_with(&PREAMBLE));
        let mut decoder = Decoder::new([0; 512]);
        let mut said = Vec::new();
        for &byte in &line[..length] {
            let Some(Ok(frame)) = decoder.push(byte) else { continue };
            let Ok((Reply::Gone { reason }, _)) = frame.message() else { panic!() };
            said.push((frame.header.channel, reason.to_owned()));
        }
        assert_eq!(said.len(), 1);
        assert!(said[0].0 == 1 && said[0].1.starts_with("the line is encrypted"), "{said:?}");
    }
}
