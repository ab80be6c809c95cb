//! Lines that leave the machine. The peer in the tests uses another implementation of Noise.
#![cfg(feature = "noise")]

mod common;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use common::{Small, TestProvider, small};
use dtrace_protocol::secure::{HANDSHAKE, Key, MESSAGE, NOISE, PREAMBLE, REFUSAL, REKEY, TAG};
use dtrace_protocol::{Decoder, Header, Reply, Request, VERSION, Writer};
use sdt_framework::Rights;
use sdt_framework::server::{
    End, Limits, Lost, MIN_FRAME, NoSites, Secure, SecureHost, Server, Stream,
};
use snow::{HandshakeState, TransportState};

const KEY: Key = Key::new([7; 32]);
const LIMITS: Limits = Limits { handshake: 100, silence: 1000 };
/// The number of bytes that each side sends in the handshake.
const GREETING: usize = PREAMBLE.len() + 2 + HANDSHAKE;

/// The two directions of a line: `arriving` is the input of the server, `sent` its output.
#[derive(Default)]
struct Line {
    arriving: VecDeque<u8>,
    sent: Vec<u8>,
    /// The number of bytes that the line still accepts; no limit if `None`.
    room: Option<usize>,
    lost: bool,
}

#[derive(Clone, Copy)]
struct Socket<'a>(&'a RefCell<Line>);

impl Stream for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let mut line = self.0.borrow_mut();
        let length = buffer.len().min(line.arriving.len());
        buffer.iter_mut().zip(line.arriving.drain(..length)).for_each(|(to, from)| *to = from);
        if line.lost && length == 0 { Err(Lost) } else { Ok(length) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let mut line = self.0.borrow_mut();
        let length = bytes.len().min(line.room.unwrap_or(usize::MAX));
        line.room = line.room.map(|room| room - length);
        line.sent.extend(&bytes[..length]);
        if line.lost { Err(Lost) } else { Ok(length) }
    }
}

/// A clock that tests set, and bytes that are not the same twice.
struct Machine<'a>(&'a Cell<u64>, u8);

impl SecureHost for Machine<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        self.1 += 1;
        bytes.iter_mut().zip(self.1..).for_each(|(to, byte)| *to = byte);
        true
    }

    fn now(&mut self) -> u64 {
        self.0.get()
    }
}

/// A server and one connection to it.
struct Side<'a> {
    server: Server<'a, MIN_FRAME, 4>,
    secure: Secure<'a, Socket<'a>, Machine<'a>>,
    line: &'a RefCell<Line>,
}

impl<'a> Side<'a> {
    fn new(dtrace: &'a Small, line: &'a RefCell<Line>, clock: &'a Cell<u64>) -> Self {
        let secure = Secure::new(Socket(line), &KEY, Machine(clock, 0), LIMITS);
        Self { server: Server::new(dtrace, &NoSites, Rights::ALL), secure, line }
    }

    /// Calls `step` until there is nothing more to do. Returns the bytes that were sent meanwhile.
    fn run(&mut self) -> Result<Vec<u8>, End> {
        loop {
            match self.server.step(&mut self.secure) {
                Ok(true) => {}
                Ok(false) => return Ok(std::mem::take(&mut self.line.borrow_mut().sent)),
                Err(Lost) => return Err(self.secure.end().expect("it says why")),
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<Vec<u8>, End> {
        self.line.borrow_mut().arriving.extend(bytes);
        self.run()
    }

    /// Performs the handshake.
    fn greeted(&mut self) -> Consumer {
        let (state, hello) = hello(&KEY);
        let answer = self.hear(&hello).unwrap();
        assert_eq!(answer.len(), GREETING);
        let consumer = Consumer::new(state, &answer).unwrap();
        assert!(!self.secure.is_proven(), "this may be a replayed hello");
        consumer
    }
}

/// The first message of a consumer.
fn hello(key: &Key) -> (HandshakeState, Vec<u8>) {
    let builder = snow::Builder::new(NOISE.parse().unwrap()).prologue(&PREAMBLE).unwrap();
    let mut state = builder.psk(0, key.bytes()).unwrap().build_initiator().unwrap();
    let mut message = [0; HANDSHAKE];
    assert_eq!(state.write_message(&[], &mut message).unwrap(), HANDSHAKE);
    let length = (HANDSHAKE as u16).to_be_bytes();
    (state, [&PREAMBLE, &length[..], &message].concat())
}

struct Consumer(TransportState);

impl Consumer {
    fn new(mut state: HandshakeState, answer: &[u8]) -> Option<Self> {
        let message = answer.strip_prefix(&PREAMBLE)?.strip_prefix(&[0, HANDSHAKE as u8])?;
        state.read_message(message, &mut []).ok()?;
        Some(Self(state.into_transport_mode().unwrap()))
    }

    fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut message = [0; MESSAGE];
        let length = self.0.write_message(bytes, &mut message).unwrap();
        [&(length as u16).to_be_bytes(), &message[..length]].concat()
    }

    fn ask(&mut self, seq: u32, request: &Request<'_>) -> Vec<u8> {
        let (mut buffer, mut line) = ([0; 512], [0; 600]);
        let frame = Writer::new(&mut buffer, Header { channel: 1, seq }, request).unwrap();
        let length = frame.seal(&mut line).unwrap();
        self.seal(&line[..length])
    }

    /// Returns the decrypted message; `None` if it is incomplete or invalid.
    fn open(&mut self, mut sent: &[u8]) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        while let Some((length, rest)) = sent.split_first_chunk() {
            let (message, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let mut open = [0; MESSAGE];
            let length = self.0.read_message(message, &mut open).ok()?;
            all.extend(&open[..length]);
            sent = rest;
        }
        Some(all)
    }

    /// Returns the replies in the sent bytes, each with its number.
    fn replies(&mut self, sent: &[u8]) -> Vec<(u32, String)> {
        let mut decoder = Decoder::new([0; MIN_FRAME]);
        let mut all = Vec::new();
        for byte in self.open(sent).expect("it is the server's") {
            let Some(frame) = decoder.push(byte) else { continue };
            let frame = frame.unwrap();
            let (reply, _) = frame.message::<Reply<'_>>().unwrap();
            all.push((frame.header.seq, format!("{reply:?}")));
        }
        all
    }
}

const HELLO: Request<'_> = Request::Hello { version: VERSION };

/// Returns whether no consumer is open.
fn is_closed(dtrace: &Small) -> bool {
    let provider = TestProvider::default();
    // SAFETY: the provider is unregistered before it is dropped.
    let id = unsafe { provider.register(dtrace, c"p") }.unwrap();
    dtrace.unregister(id).is_ok()
}

fn refusal() -> Vec<u8> {
    let mut line = [0; REFUSAL];
    let length = dtrace_protocol::secure::refusal(&mut line).unwrap();
    line[..length].to_vec()
}

#[test]
fn who_has_the_key_is_heard() {
    let (dtrace, line, clock) = (small(), RefCell::default(), Cell::new(5));
    let mut side = Side::new(&dtrace, &line, &clock);
    let mut consumer = side.greeted();
    let hello = consumer.ask(1, &HELLO);
    let answer = side.hear(&hello).unwrap();
    assert!(side.secure.is_proven());
    let said = format!("Hello {{ version: {VERSION}, side: Framework }}");
    assert_eq!(consumer.replies(&answer), [(1, said)]);
    // Messages in pieces, and several messages in one piece.
    let requests: Vec<u8> = (2..20).flat_map(|seq| consumer.ask(seq, &Request::Status)).collect();
    let mut answers = Vec::new();
    for byte in requests {
        answers.extend(side.hear(&[byte]).unwrap());
    }
    let answers = consumer.replies(&answers);
    assert!(answers.iter().map(|(seq, _)| *seq).eq(2..20), "{answers:?}");
}

#[test]
fn keys_are_made_anew() {
    let (dtrace, line, clock) = (small(), RefCell::default(), Cell::new(5));
    let mut side = Side::new(&dtrace, &line, &clock);
    let mut consumer = side.greeted();
    let hello = consumer.ask(0, &HELLO);
    consumer.replies(&side.hear(&hello).unwrap());
    // The hello was the first message.
    for number in 2..2 * REKEY + 2 {
        let request = consumer.ask(7, &Request::Status);
        let answer = side.hear(&request).unwrap();
        assert_eq!(consumer.replies(&answer).len(), 1, "message {number}");
        if number.is_multiple_of(REKEY) {
            consumer.0.rekey_outgoing();
            consumer.0.rekey_incoming();
        }
    }
}

#[test]
fn who_has_another_key_learns_nothing() {
    let (dtrace, clock) = (small(), Cell::new(5));
    let wrong = hello(&Key::new([8; 32])).1;
    let mut other_version = hello(&KEY).1;
    other_version[PREAMBLE.len() - 1] += 1;
    // A consumer without encryption, and a peer with another protocol.
    let plain = {
        let (mut buffer, mut line) = ([0; 64], [0; 80]);
        let frame = Writer::new(&mut buffer, Header { channel: 1, seq: 1 }, &HELLO).unwrap();
        let length = frame.seal(&mut line).unwrap();
        [&[0], &line[..length]].concat()
    };
    for said in [wrong, other_version, plain, b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        assert_eq!(side.hear(&said), Err(End::Refused));
        assert_eq!(line.borrow().sent, refusal(), "it is the same for all");
        assert_eq!(side.hear(&said), Err(End::Refused), "nor is he heard later");
        assert_eq!(line.borrow().sent, refusal());
    }
}

/// A hello is refused if any one of its bits was changed on the way.
#[test]
fn a_hello_that_was_changed_is_refused() {
    let (dtrace, clock) = (small(), Cell::new(5));
    let right = hello(&KEY).1;
    for at in 0..right.len() * 8 {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        let mut changed = right.clone();
        changed[at / 8] ^= 1 << (at % 8);
        // X25519 ignores the highest bit of a point, but the hash of the handshake includes it.
        assert_eq!(side.hear(&changed), Err(End::Refused), "bit {at}");
        assert!(!side.secure.is_proven());
    }
}

/// A request ends the connection if a bit of any one of its bytes was changed on the way.
#[test]
fn a_request_that_was_changed_ends_it() {
    let (dtrace, clock) = (small(), Cell::new(5));
    for at in 0.. {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        let mut consumer = side.greeted();
        let mut changed = [consumer.ask(1, &HELLO), consumer.ask(2, &Request::Open)].concat();
        let Some(byte) = changed.get_mut(at) else { break };
        *byte ^= 1 << (at % 8);
        // If the length claims more bytes, the receiver waits for the rest.
        let filled = [&changed[..], &[0; MESSAGE]].concat();
        assert_eq!(side.hear(&filled), Err(End::Forged), "byte {at}");
        assert!(is_closed(&dtrace));
    }
}

#[test]
fn what_was_recorded_is_not_heard_again() {
    let (dtrace, line, clock) = (small(), RefCell::default(), Cell::new(5));
    let mut side = Side::new(&dtrace, &line, &clock);
    let (state, hello) = hello(&KEY);
    let answer = side.hear(&hello).unwrap();
    let mut consumer = Consumer::new(state, &answer).unwrap();
    let requests = [consumer.ask(1, &HELLO), consumer.ask(2, &Request::Open)];
    side.hear(&requests.concat()).unwrap();
    assert!(!is_closed(&dtrace));
    // Once more on the same line.
    assert_eq!(side.hear(&requests[1]), Err(End::Forged));
    assert!(is_closed(&dtrace));
    // Replays the whole conversation on another line. The host's random bytes are different then.
    let again = RefCell::default();
    let mut side = Side::new(&dtrace, &again, &clock);
    side.secure = Secure::new(Socket(&again), &KEY, Machine(&clock, 77), LIMITS);
    let other_answer = side.hear(&hello).unwrap();
    assert_ne!(other_answer, answer);
    assert_eq!(side.hear(&requests.concat()), Err(End::Forged));
    assert!(!side.secure.is_proven() && is_closed(&dtrace));
    assert!(again.borrow().sent.is_empty());
}

#[test]
fn what_was_left_out_or_moved_or_sent_back_is_not_heard() {
    type Change = fn(&[u8], &[u8], &[u8]) -> Vec<u8>;
    let changes: [Change; 4] = [
        |_, second, _| second.to_vec(),
        |first, second, _| [second, first].concat(),
        |first, _, _| [first, first].concat(),
        |first, _, answer| [first, answer].concat(),
    ];
    let (dtrace, clock) = (small(), Cell::new(5));
    for change in changes {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        let mut consumer = side.greeted();
        let hello = consumer.ask(0, &HELLO);
        let answer = side.hear(&hello).unwrap();
        let (first, second) = (consumer.ask(1, &Request::Open), consumer.ask(2, &Request::Status));
        assert_eq!(side.hear(&change(&first, &second, &answer)), Err(End::Forged));
        assert!(is_closed(&dtrace));
    }
}

#[test]
fn messages_have_the_length_that_they_may_have() {
    let (dtrace, clock) = (small(), Cell::new(5));
    for length in [0, 1, TAG, MESSAGE + 1, 0xffff] {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        let mut consumer = side.greeted();
        if length == TAG {
            let empty = consumer.seal(&[]);
            assert_eq!(side.hear(&empty), Err(End::Forged));
        } else {
            assert_eq!(side.hear(&(length as u16).to_be_bytes()), Err(End::Forged), "{length}");
        }
    }
    // The longest message, which the protocol treats as padding.
    let line = RefCell::default();
    let mut side = Side::new(&dtrace, &line, &clock);
    let mut consumer = side.greeted();
    let longest = consumer.seal(&[0; MESSAGE - TAG]);
    side.hear(&longest).unwrap();
    assert!(side.secure.is_proven());
}

/// The line is cut after each of the bytes of a conversation.
#[test]
fn a_line_can_be_cut_anywhere() {
    let (dtrace, clock) = (small(), Cell::new(5));
    for cut in 0.. {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        let (state, hello) = hello(&KEY);
        let first = &hello[..cut.min(hello.len())];
        let answer = side.hear(first).unwrap();
        if first.len() == hello.len() {
            let mut consumer = Consumer::new(state, &answer).unwrap();
            let rest = [
                consumer.ask(1, &HELLO),
                consumer.ask(2, &Request::Open),
                consumer.ask(3, &Request::Program { size: 9, at: 0, bytes: b"DOF" }),
                consumer.ask(4, &Request::Go),
                consumer.ask(5, &Request::Run),
            ];
            let rest = rest.concat();
            let cut = cut - hello.len();
            side.hear(&rest[..cut.min(rest.len())]).unwrap();
            if cut > rest.len() {
                return;
            }
        }
        line.borrow_mut().lost = true;
        assert_eq!(side.run(), Err(End::Lost), "after {cut} bytes");
        assert!(is_closed(&dtrace));
    }
}

#[test]
fn who_is_silent_is_dropped() {
    let (dtrace, clock) = (small(), Cell::new(5));
    let right = hello(&KEY).1;
    // A silent peer, a slow one, and one with a replayed hello have the same timeout.
    for said in [0, 1, 20, GREETING] {
        let line = RefCell::default();
        let mut side = Side::new(&dtrace, &line, &clock);
        side.run().unwrap();
        for &byte in &right[..said] {
            clock.set(clock.get() + 1);
            side.hear(&[byte]).unwrap();
        }
        clock.set(clock.get() + LIMITS.handshake - said as u64);
        side.run().unwrap();
        clock.set(clock.get() + 1);
        assert_eq!(side.run(), Err(End::Silent), "after {said} bytes");
    }
    let line = RefCell::default();
    let mut side = Side::new(&dtrace, &line, &clock);
    let mut consumer = side.greeted();
    let requests = consumer.ask(1, &HELLO);
    side.hear(&requests).unwrap();
    for seq in 2..5 {
        clock.set(clock.get() + LIMITS.silence);
        let request = consumer.ask(seq, &Request::Status);
        side.hear(&request).unwrap();
    }
    clock.set(clock.get() + LIMITS.silence + 1);
    assert_eq!(side.run(), Err(End::Silent));
}

#[test]
fn who_takes_nothing_is_dropped() {
    let (dtrace, line, clock) = (small(), RefCell::default(), Cell::new(5));
    let mut side = Side::new(&dtrace, &line, &clock);
    let mut consumer = side.greeted();
    line.borrow_mut().room = Some(20);
    let requests: Vec<u8> =
        [HELLO, Request::Status, Request::Status].iter().flat_map(|r| consumer.ask(1, r)).collect();
    let mut sent = side.hear(&requests).unwrap();
    assert_eq!(sent.len(), 20);
    clock.set(clock.get() + LIMITS.silence);
    assert_eq!(side.run(), Ok(vec![]));
    // The transport accepts some bytes. This restarts the timeout, and no bytes are lost.
    loop {
        line.borrow_mut().room = Some(7);
        clock.set(clock.get() + LIMITS.silence);
        let more = side.run().unwrap();
        if more.is_empty() {
            break;
        }
        sent.extend(more);
    }
    assert_eq!(consumer.replies(&sent).len(), 3);
    let more = [consumer.ask(2, &Request::Status), consumer.ask(3, &Request::Status)].concat();
    line.borrow_mut().room = Some(0);
    side.hear(&more).unwrap();
    clock.set(clock.get() + LIMITS.silence + 1);
    assert_eq!(side.run(), Err(End::Silent));
}

#[test]
fn a_refusal_waits_for_the_line_but_not_for_ever() {
    let (dtrace, line, clock) = (small(), RefCell::default(), Cell::new(5));
    let mut side = Side::new(&dtrace, &line, &clock);
    line.borrow_mut().room = Some(3);
    let mut sent = side.hear(b"x").unwrap();
    line.borrow_mut().room = Some(50);
    sent.extend(side.run().unwrap());
    assert_eq!(sent, refusal()[..53]);
    clock.set(clock.get() + LIMITS.handshake + 1);
    assert_eq!(side.run(), Err(End::Refused));
}

#[test]
fn nobody_is_let_in_without_randomness() {
    struct None(bool);
    impl SecureHost for None {
        fn fill(&mut self, bytes: &mut [u8]) -> bool {
            bytes.fill(0);
            self.0
        }
        fn now(&mut self) -> u64 {
            0
        }
    }
    let dtrace = small();
    for pretends in [false, true] {
        let line = RefCell::new(Line::default());
        line.borrow_mut().arriving.extend(hello(&KEY).1);
        let mut secure = Secure::new(Socket(&line), &KEY, None(pretends), LIMITS);
        let mut server: Server<'_, MIN_FRAME, 4> = Server::new(&*dtrace, &NoSites, Rights::ALL);
        while server.step(&mut secure).is_ok() {}
        assert_eq!(secure.end(), Some(End::NoRandomness));
        assert_eq!(line.borrow().sent, refusal());
    }
}
