//! Lines that leave the machine: authenticated and encrypted with a pre-shared key.
//!
//! The layer below the frames is [Noise](https://noiseprotocol.org/noise.html) (revision 34):
//! `Noise_NNpsk0_25519_ChaChaPoly_SHA256`, with [`PREAMBLE`] as its prologue. It needs reliable lines with a connection
//! for each consumer: TCP, vsock, sockets. The consumer is the initiator.
//!
//! | who | bytes | |
//! |---|---|---|
//! | consumer | 8 | [`PREAMBLE`] |
//! | | 2 + 48 | the first message of the handshake, preceded by its length |
//! | kernel | 8 | [`PREAMBLE`], with its own version |
//! | | 2 + 48 | the second message, likewise |
//! | both, from then on | 2 + n | transport messages with at least one byte of the stream in them: at most [`MESSAGE`] bytes |
//!
//! Lengths are big-endian. Only transport messages have a payload. After every [`REKEY`] messages, a direction changes
//! its key by Noise's rekey operation.
//!
//! A peer without the key, with another version, or with other data receives the [`refusal`]: `PREAMBLE`, a length of
//! 0, and a frame of [`Reply::Gone`] for consumers that do not know this layer. Then the connection is closed. After an
//! error after the handshake, the connection is closed without an answer.
//!
//! # Security properties
//!
//! - A peer without the key learns only that a line of this kind exists, and its version. Each direction has its own
//!   keys, and every message a number: replayed, truncated, reordered or reflected messages are rejected.
//! - The keys of a connection are derived from the key and two ephemeral secrets (forward secrecy): an attacker who
//!   records connections and gets the key later cannot read them.
//! - A replayed first message is answered, because it is valid, but the attacker can neither read the answer nor send a
//!   valid message after it.
//! - A holder of the key can play either side. Therefore use one key for each kernel, and give it only to users who may
//!   trace that kernel.
//! - The lengths and times of messages are not hidden.

use core::fmt;

use crate::{Header, Reply, TooLong, Writer};

/// The version of this layer.
pub const VERSION: u8 = 1;

/// The first bytes of each side. The last byte is [`VERSION`]. The first bytes of a consumer without this layer are
/// always different.
pub const PREAMBLE: [u8; 8] = [b'd', b't', b'r', b'a', b'c', b'e', b'+', VERSION];

/// The protocol's name in Noise.
pub const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// The size in bytes of each message of the handshake: an ephemeral public key and a tag.
pub const HANDSHAKE: usize = 32 + TAG;

/// The size in bytes of the tag at the end of every message.
pub const TAG: usize = 16;

/// The greatest size in bytes of a transport message, including its tag, without its length.
pub const MESSAGE: usize = 1024;

/// The number of messages after which a direction changes its key.
pub const REKEY: u64 = 4096;

/// The channel on which the refusal is sent: the one that a consumer uses if it does not share its line.
const CHANNEL: u8 = 1;

/// The greatest size in bytes of a [`refusal`].
pub const REFUSAL: usize = 160;

/// Writes the answer to a rejected peer, the same for every peer, into `line`, and returns its length.
///
/// # Errors
/// If `line` is shorter than [`REFUSAL`].
pub fn refusal(line: &mut [u8]) -> Result<usize, TooLong> {
    const INTRODUCTION: usize = PREAMBLE.len() + 2;
    let (introduction, rest) = line.split_at_mut_checked(INTRODUCTION).ok_or(TooLong)?;
    let (preamble, length) = introduction.split_at_mut(PREAMBLE.len());
    preamble.copy_from_slice(&PREAMBLE);
    // Two zero bytes, which also end a damaged frame for consumers without this layer.
    length.fill(0);
    let mut buffer = [0; REFUSAL];
    let gone = Reply::Gone {
        reason: "the line is encrypted; name the file of the kernel's key with --key \
            FILE",
    };
    let header = Header { channel: CHANNEL, seq: 0 };
    Ok(INTRODUCTION + Writer::new(&mut buffer, header, &gone)?.seal(rest)?)
}

/// The pre-shared key: 32 random bytes.
#[derive(Clone)]
pub struct Key([u8; Self::LEN]);

impl Key {
    /// Its size in bytes.
    pub const LEN: usize = 32;

    /// The number of digits for [`from_hex`](Self::from_hex).
    pub const HEX: usize = 2 * Self::LEN;

    /// Returns the key with these bytes, which must come from a cryptographic random generator. A password is not a
    /// key.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Parses the contents of a key file: 64 hexadecimal digits, and an optional newline. `None` for other text, and
    /// for a key of zero bytes.
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
        // One newline, LF or CRLF.
        match text.split_at(Self::HEX).1 {
            b"" | b"\n" | b"\r\n" if all != 0 => Some(Self(key)),
            _ => None,
        }
    }

    /// Returns the bytes, for the handshake, and for the key file of the other side.
    pub const fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// Shows no byte of the key.
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
