//! The consumer's side of a connection that is authenticated and encrypted with a key ([`dtrace_protocol::secure`]).

use std::time::{Duration, Instant};

use dtrace_protocol::secure::{HANDSHAKE, Key, MESSAGE, NOISE, PREAMBLE, REKEY, TAG, VERSION};
use snow::TransportState;

use super::{Transport, TransportError};

/// Size of a length field in bytes.
const LENGTH: usize = 2;

/// Why an encrypted connection cannot be established.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The underlying transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer does not speak the encrypted protocol.
    #[error("the peer does not encrypt: connect without a key, or check the address")]
    Plain,
    /// The peer speaks another version of the encryption.
    #[error(
        "the kernel uses version {0} of the encryption, and this dtrace version {VERSION}; build \
         both from the same release"
    )]
    Version(u8),
    /// The peer rejects the key.
    #[error("the kernel rejects the key; use the file that --make-key created for it")]
    Refused,
    /// The peer does not have the key.
    #[error(
        "the peer does not have the key, so it is not the kernel; check the address and the key"
    )]
    Impostor,
    /// The peer does not answer.
    #[error("no answer to the handshake within {} s; check that the kernel's line uses a key, too", .0.as_secs())]
    NoAnswer(Duration),
    /// The cryptography failed, for example for want of random bytes.
    #[error("the handshake cannot start: {0}")]
    Noise(#[from] snow::Error),
}

/// An encrypted stream over another one.
pub struct Secure<T> {
    inner: T,
    noise: TransportState,
    /// The number of sent messages; the next field is the number of received messages.
    sent: u64,
    received: u64,
    /// Bytes that have arrived and are not decrypted yet.
    inbox: Vec<u8>,
    /// Decrypted bytes that are not read yet.
    open: Vec<u8>,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Secure<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secure").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<T: Transport> Secure<T> {
    /// Performs the handshake over a stream, within the limit.
    ///
    /// # Errors
    /// See [`SecureError`].
    pub fn connect(mut inner: T, key: &Key, limit: Duration) -> Result<Self, SecureError> {
        let deadline = Instant::now() + limit;
        let mut noise = snow::Builder::new(NOISE.parse()?)
            .prologue(&PREAMBLE)?
            .psk(0, key.bytes())?
            .build_initiator()?;
        let mut hello = [PREAMBLE.as_slice(), &[0; LENGTH + HANDSHAKE]].concat();
        let (length, message) = hello[PREAMBLE.len()..].split_at_mut(LENGTH);
        length.copy_from_slice(&(HANDSHAKE as u16).to_be_bytes());
        noise.write_message(&[], message)?;
        inner.write(&hello, limit)?;

        let mut take = |into: &mut [u8]| {
            let mut at = 0;
            while at < into.len() {
                let left = deadline.saturating_duration_since(Instant::now());
                match inner.read(&mut into[at..], left)? {
                    0 if left.is_zero() => return Err(SecureError::NoAnswer(limit)),
                    length => at += length,
                }
            }
            Ok(())
        };
        let mut preamble = PREAMBLE;
        take(&mut preamble)?;
        let ([name @ .., version], [expected @ .., _]) = (&preamble, &PREAMBLE);
        if name != expected {
            return Err(SecureError::Plain);
        }
        if *version != VERSION {
            return Err(SecureError::Version(*version));
        }
        let mut length = [0; LENGTH];
        take(&mut length)?;
        match usize::from(u16::from_be_bytes(length)) {
            0 => return Err(SecureError::Refused),
            HANDSHAKE => {}
            _ => return Err(SecureError::Impostor),
        }
        let mut answer = [0; HANDSHAKE];
        take(&mut answer)?;
        noise.read_message(&answer, &mut []).map_err(|_| SecureError::Impostor)?;
        let noise = noise.into_transport_mode()?;
        Ok(Self { inner, noise, sent: 0, received: 0, inbox: Vec::new(), open: Vec::new() })
    }

    /// Decrypts the next message of `inbox`. Returns `false` if the message is incomplete.
    fn unseal(&mut self) -> Result<bool, TransportError> {
        let Some((length, rest)) = self.inbox.split_first_chunk::<LENGTH>() else {
            return Ok(false);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if !(TAG + 1..=MESSAGE).contains(&length) {
            return Err(TransportError::Forged);
        }
        let Some(message) = rest.get(..length) else { return Ok(false) };
        let mut open = vec![0; length];
        let opened = self.noise.read_message(message, &mut open);
        open.truncate(opened.map_err(|_| TransportError::Forged)?);
        self.open = open;
        self.inbox.drain(..LENGTH + length);
        self.received += 1;
        if self.received.is_multiple_of(REKEY) {
            self.noise.rekey_incoming();
        }
        Ok(true)
    }
}

impl<T: Transport> Transport for Secure<T> {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError> {
        let deadline = Instant::now() + wait;
        while self.open.is_empty() && !self.unseal()? {
            let mut bytes = [0; 4096];
            let left = deadline.saturating_duration_since(Instant::now());
            let length = self.inner.read(&mut bytes, left)?;
            if length == 0 {
                return Ok(0);
            }
            self.inbox.extend(&bytes[..length]);
        }
        let length = self.open.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.open[..length]);
        self.open.drain(..length);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        for bytes in bytes.chunks(MESSAGE - TAG) {
            let mut message = [0; LENGTH + MESSAGE];
            let (length, sealed) = message.split_at_mut(LENGTH);
            let size = self.noise.write_message(bytes, sealed).map_err(std::io::Error::other)?;
            length.copy_from_slice(&(size as u16).to_be_bytes());
            self.inner.write(&message[..LENGTH + size], limit)?;
            self.sent += 1;
            if self.sent.is_multiple_of(REKEY) {
                self.noise.rekey_outgoing();
            }
        }
        Ok(())
    }
}
