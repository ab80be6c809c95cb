//! The framework's server with a key, from the first byte: a consumer with the key, and an attacker on the line who changes,
//! drops, repeats and forges bytes. Until a message of the consumer is authenticated, the server sends only the handshake or the
//! refusal, and does not call the framework. It never accepts bytes that the consumer has not sent, and each of its replies
//! answers a request of the consumer.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use arbitrary::{Arbitrary, Unstructured};
use dtrace_protocol::secure::{HANDSHAKE, Key, MESSAGE, NOISE, PREAMBLE, REFUSAL, TAG, refusal};
use dtrace_protocol::{Decoder, Header, Reply, Writer};
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};
use sdt_framework::server::{
    End, Limits, Lost, MIN_FRAME, NoSites, Secure, SecureHost, Server, Stream,
};
use sdt_framework::{Dtrace, Rights};
use snow::{HandshakeState, TransportState};

use crate::handed::Handed;
use crate::server::{CONFIG, CPUS, Machine, Small, What};

const KEY: Key = Key::new([42; 32]);
const LIMITS: Limits = Limits { handshake: 300, silence: 3000 };
/// The number of bytes that each side sends in the handshake.
const GREETING: usize = PREAMBLE.len() + 2 + HANDSHAKE;

/// Runs the target.
///
/// # Panics
/// The server accepts or answers a message that it must not, or leaves a consumer open.
pub fn run(input: &[u8]) {
    let Ok(steps) = Vec::<Step>::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let memory = Handed::new(CONFIG.memory::<Machine>(CPUS, CONFIG.consumers));
    let dtrace: Box<Small> = Box::new(Dtrace::new(Machine(AtomicU64::new(1))));
    // SAFETY: only the framework uses the memory, and `memory` is dropped after it.
    dtrace.init(unsafe { memory.over() }, &CONFIG).expect("it is enough");
    let world = World::default();
    let mut steps = steps.into_iter().peekable();
    while steps.peek().is_some() {
        connection(&dtrace, &world, steps.by_ref());
        assert!(is_closed(&dtrace), "something is left open");
    }
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// The consumer starts the handshake, with this key or another.
    Hello { right: bool },
    /// The consumer sends a request, after the handshake.
    Ask { channel: u8, seq: u32, what: What },
    /// The consumer sends any bytes, after the handshake.
    Say(Vec<u8>),
    /// Bytes of the attacker.
    Noise(Vec<u8>),
    /// A bit of the bytes that the server has not read yet is changed.
    Flip { at: u16, bit: u8 },
    /// This number of bytes is lost at the end of the unread bytes.
    Lose(u8),
    /// The attacker repeats an earlier message of a consumer.
    Replay { from: u16, length: u8 },
    /// The attacker sends an earlier message of the server back.
    Reflect { from: u16, length: u8 },
    /// The line accepts this number of bytes from now on.
    Room(u8),
    /// Time goes by.
    Wait(u16),
    /// The server handles all requests, and the consumer reads the answers.
    Serve,
    /// The line is cut.
    Cut,
}

/// The state outside connections.
#[derive(Default)]
struct World {
    clock: Cell<u64>,
    random: Cell<u32>,
    /// All bytes that were ever sent, in each direction.
    up: RefCell<Vec<u8>>,
    down: RefCell<Vec<u8>>,
}

struct Host<'a>(&'a World);

impl SecureHost for Host<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        let number = self.0.random.get() + 1;
        self.0.random.set(number);
        // The random bytes never repeat.
        bytes.chunks_mut(4).for_each(|bytes| bytes.copy_from_slice(&number.to_le_bytes()));
        true
    }

    fn now(&mut self) -> u64 {
        self.0.clock.get()
    }
}

/// A connection, as the server sees it.
#[derive(Default)]
struct Line {
    arriving: VecDeque<u8>,
    /// The bytes that the server has read.
    taken: Vec<u8>,
    sent: Vec<u8>,
    room: usize,
    lost: bool,
}

struct Socket<'a>(&'a RefCell<Line>);

impl Stream for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let line = &mut *self.0.borrow_mut();
        let length = buffer.len().min(line.arriving.len());
        for (to, from) in buffer.iter_mut().zip(line.arriving.drain(..length)) {
            *to = from;
            line.taken.push(from);
        }
        if line.lost { Err(Lost) } else { Ok(length) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let line = &mut *self.0.borrow_mut();
        let length = bytes.len().min(line.room);
        line.room -= length;
        line.sent.extend(&bytes[..length]);
        if line.lost { Err(Lost) } else { Ok(length) }
    }
}

/// The consumer on the other side.
#[derive(Default)]
struct Consumer {
    /// All bytes that it has sent, from the first byte on.
    said: Vec<u8>,
    /// The end of its first message after the handshake.
    first: Option<usize>,
    shaking: Option<HandshakeState>,
    noise: Option<TransportState>,
    asked: Vec<Header>,
    /// The decrypted messages of the server, and the position up to which they were decrypted.
    heard: Vec<u8>,
    at: usize,
}

impl Consumer {
    fn hello(&mut self, world: &World, right: bool) -> Vec<u8> {
        let key = if right { KEY } else { Key::new([43; 32]) };
        let mut ephemeral = [0; 32];
        Host(world).fill(&mut ephemeral);
        let mut state = snow::Builder::new(NOISE.parse().expect("a name"))
            .prologue(&PREAMBLE)
            .and_then(|builder| builder.psk(0, key.bytes()))
            .map(|builder| builder.fixed_ephemeral_key_for_testing_only(&ephemeral))
            .and_then(snow::Builder::build_initiator)
            .expect("it is complete");
        let mut message = [0; HANDSHAKE];
        state.write_message(&[], &mut message).expect("there is room");
        self.shaking = right.then_some(state);
        let length = (HANDSHAKE as u16).to_be_bytes();
        [&PREAMBLE, &length[..], &message].concat()
    }

    fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(noise) = &mut self.noise else { return Vec::new() };
        let mut all = Vec::new();
        for bytes in bytes.chunks(MESSAGE - TAG) {
            let mut message = [0; MESSAGE];
            let length = noise.write_message(bytes, &mut message).expect("there is room");
            all.extend((length as u16).to_be_bytes());
            all.extend(&message[..length]);
            self.first.get_or_insert(self.said.len() + all.len());
        }
        all
    }

    fn ask(&mut self, header: Header, what: &What) -> Vec<u8> {
        let (mut buffer, mut line) = (vec![0; 1 << 16], vec![0; 1 << 17]);
        // A longer message is no request.
        let Ok(frame) = Writer::new(&mut buffer, header, &what.request()) else {
            return Vec::new();
        };
        let length = frame.seal(&mut line).expect("the line is long enough");
        self.asked.push(header);
        self.seal(&line[..length])
    }

    /// Decrypts the bytes that the server has sent since the last call.
    fn hear(&mut self, sent: &[u8]) {
        if let Some(mut state) = self.shaking.take() {
            match sent.get(..GREETING) {
                None => self.shaking = Some(state),
                Some(answer) => {
                    let message = &answer[PREAMBLE.len() + 2..];
                    // The answer may belong to a hello of the attacker.
                    if state.read_message(message, &mut []).is_ok() {
                        self.noise = state.into_transport_mode().ok();
                        self.at = GREETING;
                    }
                }
            }
        }
        let Some(noise) = &mut self.noise else { return };
        while let Some((length, rest)) = sent[self.at..].split_first_chunk() {
            let Some(message) = rest.get(..u16::from_be_bytes(*length).into()) else { return };
            let mut open = [0; MESSAGE];
            let length = noise.read_message(message, &mut open).expect("the server has said it");
            self.heard.extend(&open[..length]);
            self.at += 2 + message.len();
        }
    }

    /// Checks the decrypted replies.
    fn check(&self) {
        let mut decoder = Decoder::new([0; MIN_FRAME]);
        for &byte in &self.heard {
            let Some(frame) = decoder.push(byte) else { continue };
            let frame = frame.expect("the server sends whole frames");
            frame.message::<Reply<'_>>().expect("the server sends replies");
        }
    }
}

/// Serves one connection, until it is cut or the steps end.
fn connection(dtrace: &Small, world: &World, steps: impl Iterator<Item = Step>) {
    let line = RefCell::new(Line { room: usize::MAX, ..Line::default() });
    let mut server: Server<'_, MIN_FRAME, 3> = Server::new(dtrace, &NoSites, Rights::ALL);
    let mut secure = Secure::new(Socket(&line), &KEY, Host(world), LIMITS);
    let mut consumer = Consumer::default();
    // Whether only messages of the consumer arrive.
    let mut alone = true;
    let mut over = false;
    for step in steps.chain([Step::Serve]) {
        let serves = matches!(step, Step::Serve | Step::Cut);
        let mut forged = Vec::new();
        match step {
            Step::Hello { right } if consumer.said.is_empty() => {
                let said = consumer.hello(world, right);
                consumer.said.extend(&said);
                line.borrow_mut().arriving.extend(said);
            }
            Step::Hello { .. } => {}
            Step::Ask { channel, seq, what } => {
                let said = consumer.ask(Header { channel: channel % 5, seq }, &what);
                consumer.said.extend(&said);
                line.borrow_mut().arriving.extend(said);
            }
            Step::Say(bytes) => {
                let said = consumer.seal(&bytes);
                consumer.said.extend(&said);
                line.borrow_mut().arriving.extend(said);
            }
            Step::Noise(noise) => forged = noise,
            Step::Replay { from, length } => forged = piece(&world.up.borrow(), from, length),
            Step::Reflect { from, length } => forged = piece(&world.down.borrow(), from, length),
            Step::Flip { at, bit } => {
                if let Some(byte) = line.borrow_mut().arriving.get_mut(usize::from(at)) {
                    *byte ^= 1 << (bit % 8);
                    alone = false;
                }
            }
            Step::Lose(length) => {
                let arriving = &mut line.borrow_mut().arriving;
                let kept = arriving.len().saturating_sub(length.into());
                alone &= kept == arriving.len();
                arriving.truncate(kept);
            }
            Step::Room(room) => line.borrow_mut().room = room.into(),
            Step::Wait(time) => world.clock.set(world.clock.get() + u64::from(time)),
            Step::Serve => {}
            Step::Cut => line.borrow_mut().lost = true,
        }
        alone &= forged.is_empty();
        line.borrow_mut().arriving.extend(forged);
        while serves && !over {
            match server.step(&mut secure) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Lost) => over = true,
            }
        }
        let line = line.borrow();
        check(&line, &consumer, secure.is_proven());
        consumer.hear(&line.sent);
        if over {
            let end = secure.end().expect("it says why");
            // Without an attacker, the server accepts a consumer with the key, and reports no forgery.
            let fair = matches!(end, End::Lost | End::Silent) || consumer.shaking.is_none();
            assert!(!alone || consumer.first.is_none() || end != End::Forged, "{consumer:?}");
            assert!(!alone || fair || end != End::Refused, "{consumer:?}");
            break;
        }
    }
    server.reset();
    consumer.check();
    world.up.borrow_mut().extend(&line.borrow().taken);
    world.down.borrow_mut().extend(&line.borrow().sent);
}

/// Checks the conditions that hold after the server has handled all requests.
fn check(line: &Line, consumer: &Consumer, proven: bool) {
    if proven {
        let first = consumer.first.expect("only the consumer has the key");
        let taken = line.taken.get(..first).expect("it is proved by a whole message");
        assert_eq!(taken, &consumer.said[..first], "the bytes are the consumer's");
        return;
    }
    let mut refused = [0; REFUSAL];
    let length = refusal(&mut refused).expect("there is room");
    let answer = [&PREAMBLE, &(HANDSHAKE as u16).to_be_bytes()[..]].concat();
    let is_answer = line.sent.len() <= GREETING
        && line.sent.iter().zip(&answer).all(|(sent, answer)| sent == answer);
    assert!(is_answer || refused[..length].starts_with(&line.sent), "{:?}", line.sent);
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("asked", &self.asked).finish_non_exhaustive()
    }
}

fn piece(of: &[u8], from: u16, length: u8) -> Vec<u8> {
    of.iter().skip(from.into()).take(length.into()).copied().collect()
}

/// Returns whether no consumer has the framework open, so that a provider can be unregistered.
fn is_closed(dtrace: &Small) -> bool {
    let null = std::ptr::null_mut();
    // SAFETY: the ops do nothing.
    let provider = unsafe {
        dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &ProviderOps::INERT, null)
    };
    provider.is_ok_and(|provider| dtrace.unregister(provider).is_ok())
}
