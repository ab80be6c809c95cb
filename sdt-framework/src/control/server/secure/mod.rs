//! Encrypted lines, for lines that leave the machine.

mod suite;

use core::fmt;

use dtrace_protocol::secure::{
    HANDSHAKE, Key, MESSAGE, PREAMBLE, REFUSAL, REKEY, TAG, VERSION, refusal,
};
use noise_protocol::{CipherState, HandshakeState, U8Array as _, patterns};

use self::suite::{ChaChaPoly, Secret, Sha256, X25519};
use super::{Lost, Stream};

/// The functions of the kernel that a [`Secure`] line needs.
pub trait SecureHost {
    /// Fills the buffer with secret random bytes, from a seeded random number generator for keys. Returns `false` if there are
    /// none yet; then every peer is rejected. Do not use a clock, a counter or a fixed seed: an attacker who can compute these
    /// bytes can decrypt the connection with a key that becomes known later.
    fn fill(&mut self, bytes: &mut [u8]) -> bool;

    /// Returns the nanoseconds since some moment. They never decrease.
    fn now(&mut self) -> u64;
}

/// Timeouts in nanoseconds; `u64::MAX` is no timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The timeout from the first step until the peer has proved that it has the key. Some seconds.
    pub handshake: u64,
    /// The timeout after that, between messages from the peer or bytes that it accepts. `dtrace` sends a request at least
    /// every ten seconds. A minute or more, for slow lines.
    pub silence: u64,
}

/// The reason why a line has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The stream was lost.
    Lost,
    /// The peer does not have the key, has another version, or does not encrypt. It received a refusal.
    Refused,
    /// After the handshake, a message failed authentication.
    Forged,
    /// The peer timed out.
    Silent,
    /// The host has no random bytes.
    NoRandomness,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => Lost.fmt(f),
            Self::Refused => write!(
                f,
                "connection refused: the peer does not have the key, or version {VERSION} of the encryption"
            ),
            Self::Forged => f.write_str("connection closed: message authentication failed"),
            Self::Silent => f.write_str("connection closed: the peer timed out"),
            Self::NoRandomness => f.write_str(
                "connection refused: the kernel has no random bytes yet; try again \
                 later",
            ),
        }
    }
}

/// The size of the peer's first message in bytes.
const GREETING: usize = PREAMBLE.len() + LENGTH + HANDSHAKE;
/// The size of a length in bytes.
const LENGTH: usize = 2;

const _: () = assert!(GREETING <= LENGTH + MESSAGE && REFUSAL <= LENGTH + MESSAGE);

/// The keys of both directions.
struct Ciphers {
    receive: CipherState<ChaChaPoly>,
    send: CipherState<ChaChaPoly>,
}

enum State {
    /// Waiting for the peer's first message.
    Greeting,
    /// The handshake is done. The peer proves with its first message that it has the key: an attacker can get this far by
    /// replaying a handshake.
    Open(Ciphers),
    /// Ended, after the bytes in `outbox` are sent.
    Ended,
}

/// A [`Stream`] that encrypts and authenticates another one with [`dtrace_protocol::secure`]. It is for one connection over a
/// line that loses no bytes. When it is [`Lost`], the host closes the connection and creates a new `Secure` for the next one.
///
/// It allocates nothing, and contains room for two messages. The server's step also advances the handshake, which takes two
/// multiplications on a curve. So the thread of the server must not be one that has to finish quickly.
///
/// ```no_run
/// # use sdt_framework::Rights;
/// # use sdt_framework::server::{Limits, NoSites, Secure, SecureHost, Server, Stream, Tracer};
/// # use dtrace_protocol::secure::Key;
/// # struct Connection;
/// # struct Machine;
/// # impl Stream for Connection {
/// #     fn read(&mut self, _: &mut [u8]) -> Result<usize, sdt_framework::server::Lost> { Ok(0) }
/// #     fn write(&mut self, _: &[u8]) -> Result<usize, sdt_framework::server::Lost> { Ok(0) }
/// # }
/// # impl SecureHost for Machine {
/// #     fn fill(&mut self, _: &mut [u8]) -> bool { false }
/// #     fn now(&mut self) -> u64 { 0 }
/// # }
/// # fn listen(dtrace: &dyn Tracer, key: &Key, mut accept: impl FnMut() -> Connection, wait: fn()) {
/// const LIMITS: Limits = Limits { handshake: 5_000_000_000, silence: 120_000_000_000 };
///
/// let mut server: Server<'_> = Server::new(dtrace, &NoSites, Rights::ALL);
/// loop {
///     let mut line = Secure::new(accept(), key, Machine, LIMITS);
///     while let Ok(busy) = server.step(&mut line) {
///         if !busy {
///             wait(); // for bytes, or some milliseconds: a step also checks the timeouts
///         }
///     }
///     // log `line.end()`; the connection closes here
/// }
/// # }
/// ```
pub struct Secure<'k, S, H> {
    stream: S,
    key: &'k Key,
    host: H,
    limits: Limits,
    state: State,
    end: Option<End>,
    /// Whether the peer has proved that it has the key.
    proven: bool,
    /// The time of the last sign of life of the peer; before the proof, the time of the first step.
    since: Option<u64>,
    /// The message that is being received.
    inbox: [u8; LENGTH + MESSAGE],
    arrived: usize,
    /// The range of decrypted bytes in it that are not read yet.
    open: core::ops::Range<usize>,
    /// The message that is being sent.
    outbox: [u8; LENGTH + MESSAGE],
    to_send: core::ops::Range<usize>,
}

impl<S, H> fmt::Debug for Secure<'_, S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure")
            .field("proven", &self.proven)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl<'k, S: Stream, H: SecureHost> Secure<'k, S, H> {
    /// Creates the encryption of a new connection.
    pub const fn new(stream: S, key: &'k Key, host: H, limits: Limits) -> Self {
        Self {
            stream,
            key,
            host,
            limits,
            state: State::Greeting,
            end: None,
            proven: false,
            since: None,
            inbox: [0; LENGTH + MESSAGE],
            arrived: 0,
            open: 0..0,
            outbox: [0; LENGTH + MESSAGE],
            to_send: 0..0,
        }
    }

    /// Returns whether the peer has proved that it has the key.
    pub const fn is_proven(&self) -> bool {
        self.proven
    }

    /// Returns the reason why the line has ended, or `None` if it has not.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns the stream.
    pub fn into_stream(self) -> S {
        self.stream
    }

    fn over(&mut self, why: End) -> Lost {
        self.end.get_or_insert(why);
        self.state = State::Ended;
        self.to_send = 0..0;
        Lost
    }

    /// Sends bytes of `outbox`. Returns whether all are sent.
    fn flush(&mut self) -> Result<bool, Lost> {
        while !self.to_send.is_empty() {
            let left = self.outbox.get(self.to_send.clone()).unwrap_or_default();
            let sent = self.stream.write(left).map_err(|_| self.over(End::Lost))?;
            if sent == 0 {
                return Ok(false);
            }
            self.to_send.start = self.to_send.end.min(self.to_send.start + sent);
            self.note_life();
        }
        Ok(true)
    }

    /// Restarts the timeout after a sign of life, except before the proof.
    fn note_life(&mut self) {
        if self.proven {
            self.since = Some(self.host.now());
        }
    }

    /// Checks the timeout.
    fn watch(&mut self) -> Result<(), Lost> {
        let now = self.host.now();
        let since = *self.since.get_or_insert(now);
        let limit = if self.proven { self.limits.silence } else { self.limits.handshake };
        if now.saturating_sub(since) > limit { Err(self.over(End::Silent)) } else { Ok(()) }
    }

    /// Sends and receives until there are decrypted bytes, or nothing more can be done now.
    fn advance(&mut self) -> Result<(), Lost> {
        let flushed = self.flush()?;
        self.watch()?;
        while self.open.is_empty() {
            let needed = match self.state {
                State::Ended if flushed && self.to_send.is_empty() => {
                    // TCP discards undelivered bytes if it is closed with unread ones.
                    let _ = self.stream.read(&mut self.inbox);
                    return Err(Lost);
                }
                State::Ended => return Ok(()),
                State::Greeting => GREETING,
                State::Open(_) if self.arrived < LENGTH => LENGTH,
                State::Open(_) => {
                    let [high, low, ..] = self.inbox;
                    let length = usize::from(u16::from_be_bytes([high, low]));
                    if !(TAG + 1..=MESSAGE).contains(&length) {
                        return Err(self.over(End::Forged));
                    }
                    LENGTH + length
                }
            };
            if let Some(room) = self.inbox.get_mut(self.arrived..needed)
                && !room.is_empty()
            {
                let length = room.len();
                let arrived = self.stream.read(room).map_err(|_| self.over(End::Lost))?;
                if arrived == 0 {
                    return Ok(());
                }
                self.arrived += arrived.min(length);
            }
            match self.state {
                State::Greeting => self.greet()?,
                State::Open(_) if self.arrived == needed && needed > LENGTH => {
                    self.unseal(needed)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the received part of the first message, and answers it when it is complete.
    fn greet(&mut self) -> Result<(), Lost> {
        let mut expected = [0; PREAMBLE.len() + LENGTH];
        let (preamble, length) = expected.split_at_mut(PREAMBLE.len());
        preamble.copy_from_slice(&PREAMBLE);
        length.copy_from_slice(&(HANDSHAKE as u16).to_be_bytes());
        let arrived = self.inbox.get(..self.arrived).unwrap_or_default();
        // A peer that sends something else is answered at once, because it may not send more.
        let ours = arrived.iter().zip(&expected).all(|(byte, expected)| byte == expected);
        let done = match arrived.get(expected.len()..GREETING) {
            _ if !ours => Err(End::Refused),
            None => return Ok(()),
            Some(message) => shake(self.key, &mut self.host, message),
        };
        match done {
            Ok((ciphers, answer)) => {
                let (first, rest) = self.outbox.split_at_mut(expected.len());
                first.copy_from_slice(&expected);
                rest.iter_mut().zip(answer).for_each(|(to, from)| *to = from);
                self.to_send = 0..GREETING;
                self.state = State::Open(ciphers);
            }
            Err(why) => {
                self.end = Some(why);
                self.state = State::Ended;
                self.to_send = 0..refusal(&mut self.outbox).unwrap_or(0);
            }
        }
        self.arrived = 0;
        self.flush()?;
        Ok(())
    }

    /// Decrypts the received message, which ends at this byte of `inbox`.
    fn unseal(&mut self, end: usize) -> Result<(), Lost> {
        self.arrived = 0;
        let State::Open(ciphers) = &mut self.state else { return Ok(()) };
        let sealed = self.inbox.get_mut(LENGTH..end).unwrap_or_default();
        let length = sealed.len();
        let Ok(length) = ciphers.receive.decrypt_ad_in_place(&[], sealed, length) else {
            return Err(self.over(End::Forged));
        };
        rekey(&mut ciphers.receive);
        self.open = LENGTH..LENGTH + length;
        self.proven = true;
        self.note_life();
        Ok(())
    }
}

/// Answers the first message of a handshake.
fn shake(
    key: &Key,
    host: &mut impl SecureHost,
    message: &[u8],
) -> Result<(Ciphers, [u8; HANDSHAKE]), End> {
    let mut ephemeral = Secret::new();
    if !host.fill(ephemeral.as_mut()) || ephemeral.as_slice().iter().all(|&byte| byte == 0) {
        return Err(End::NoRandomness);
    }
    let mut state: HandshakeState<X25519, ChaChaPoly, Sha256> = HandshakeState::new(
        patterns::noise_nn_psk0(),
        false,
        PREAMBLE,
        None,
        Some(ephemeral),
        None,
        None,
    );
    state.push_psk(key.bytes());
    let mut answer = [0; HANDSHAKE];
    state.read_message(message, &mut []).map_err(|_| End::Refused)?;
    state.write_message(&[], &mut answer).map_err(|_| End::Refused)?;
    let (receive, send) = state.get_ciphers();
    Ok((Ciphers { receive, send }, answer))
}

/// Changes the key after a number of messages.
fn rekey(cipher: &mut CipherState<ChaChaPoly>) {
    if cipher.get_next_n().is_multiple_of(REKEY) {
        cipher.rekey();
    }
}

impl<S: Stream, H: SecureHost> Stream for Secure<'_, S, H> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        self.advance()?;
        let open = self.inbox.get(self.open.clone()).unwrap_or_default();
        let length = open.len().min(buffer.len());
        buffer.iter_mut().zip(open).for_each(|(to, from)| *to = *from);
        self.open.start += length;
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let flushed = self.flush()?;
        self.watch()?;
        let ciphers = match &mut self.state {
            State::Open(ciphers) => ciphers,
            State::Greeting => return Ok(0),
            State::Ended => return Err(Lost),
        };
        // Nothing is sent before the proof.
        if !flushed || !self.proven || bytes.is_empty() {
            return Ok(0);
        }
        let bytes = bytes.get(..MESSAGE - TAG).unwrap_or(bytes);
        let sealed = bytes.len() + TAG;
        let (length, message) = self.outbox.split_at_mut(LENGTH);
        length.copy_from_slice(&(sealed as u16).to_be_bytes());
        message.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        ciphers.send.encrypt_ad_in_place(&[], message, bytes.len());
        rekey(&mut ciphers.send);
        self.to_send = 0..LENGTH + sealed;
        self.flush()?;
        Ok(bytes.len())
    }
}
