//! The server: it executes requests, and counts and survives any other input.
#![cfg(feature = "server")]

mod common;
#[path = "server/rights.rs"]
mod rights;

use std::collections::VecDeque;

use common::{Small, TestProvider, Threads, create, small};
use dtrace_abi::Platform;
use dtrace_abi::option::OptionId;
use dtrace_abi::record::RecordHeader;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};
use dtrace_protocol::{
    Datum, Decoder, Header, Items, OTHERS, Probe, Reply, Request, RunOption, Site, SiteState,
    SnapshotOf, Status, VERSION, Why, Writer, packed,
};
use proptest::prelude::*;
use recording_host::cpus::CPUS;
use sdt_core::ops::{ProbeId, ProviderId};
use sdt_framework::Rights;
use sdt_framework::server::{Lost, MIN_FRAME, NoSites, Server, Sites, Stream, Tracer};

type Served<'d> = Server<'d, MIN_FRAME, 4>;

/// The two directions of a line: `arriving` is the input of the server, `sent` its output.
#[derive(Default)]
struct Line {
    arriving: VecDeque<u8>,
    sent: Vec<u8>,
    /// The largest number of bytes that the line accepts at a time; no limit if `None`.
    room: Option<usize>,
    lost: bool,
}

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let length = buffer.len().min(self.arriving.len());
        buffer.iter_mut().zip(self.arriving.drain(..length)).for_each(|(to, from)| *to = from);
        if self.lost { Err(Lost) } else { Ok(length) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let length = bytes.len().min(self.room.unwrap_or(usize::MAX));
        self.sent.extend(&bytes[..length]);
        if self.lost { Err(Lost) } else { Ok(length) }
    }
}

impl Line {
    fn ask(&mut self, channel: u8, seq: u32, request: &Request<'_>) {
        let (mut buffer, mut line) = ([0; 512], [0; 600]);
        let frame = Writer::new(&mut buffer, Header { channel, seq }, request).unwrap();
        let length = frame.seal(&mut line).unwrap();
        self.arriving.extend(&line[..length]);
    }

    /// Returns the sent answers, each as text from `show`.
    fn answers<R>(&mut self, mut show: impl FnMut(Header, Reply<'_>, Items<'_>) -> R) -> Vec<R> {
        let mut decoder = Decoder::new([0; MIN_FRAME]);
        let mut all = Vec::new();
        for byte in self.sent.drain(..) {
            let Some(frame) = decoder.push(byte) else { continue };
            let frame = frame.expect("each sent frame is complete");
            let (reply, items) = frame.message().expect("each sent frame is a reply");
            all.push(show(frame.header, reply, items));
        }
        all
    }
}

fn run(server: &mut Served<'_>, line: &mut Line) {
    while server.step(line).unwrap() {}
}

/// Sends a request on channel 1, and returns the only answer as text.
fn ask(server: &mut Served<'_>, line: &mut Line, request: Request<'_>) -> String {
    line.ask(1, 77, &request);
    run(server, line);
    let mut answers = line.answers(|header, reply, items| {
        assert_eq!(header, Header { channel: 1, seq: 77 });
        assert!(items.is_empty());
        format!("{reply:?}")
    });
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

/// Compiles a program to DOF.
fn compile(text: &str) -> Vec<u8> {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe).unwrap();
    dof::program(&program, compiler.options()).unwrap()
}

/// Sends a program in pieces on channel 1, and returns the last answer.
fn send(server: &mut Served<'_>, line: &mut Line, dof: &[u8]) -> String {
    let (mut at, size) = (0, dof.len() as u32);
    for bytes in dof.chunks(100) {
        let answer = ask(server, line, Request::Program { size, at, bytes });
        at += bytes.len() as u32;
        if at == size || answer != "Done" {
            return answer;
        }
    }
    panic!("the program is empty");
}

/// Enables a clause that records the first argument of the probes that a description matches, and returns the answer.
fn enable(server: &mut Served<'_>, line: &mut Line, spec: &str) -> String {
    send(server, line, &compile(&format!("{spec} {{ trace(arg0); }}")))
}

/// The answer to a hello.
fn hello() -> String {
    format!("Hello {{ version: {VERSION}, side: Framework }}")
}

const HELLO: Request<'_> = Request::Hello { version: VERSION };

/// A server whose channel 1 is greeted.
fn greeted(dtrace: &Small) -> (Served<'_>, Line) {
    let (mut server, mut line) = (Served::new(dtrace, &NoSites, Rights::ALL), Line::default());
    assert_eq!(ask(&mut server, &mut line, HELLO), hello());
    (server, line)
}

fn refused(server: &mut Served<'_>, line: &mut Line, request: Request<'_>) -> Why {
    line.ask(1, 7, &request);
    run(server, line);
    let answers = line.answers(|_, reply, _| match reply {
        Reply::Refused { why, message } => {
            assert!(!message.is_empty());
            why
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(answers.len(), 1);
    answers[0]
}

fn with_probes(
    dtrace: &Small,
    provider: &TestProvider,
    count: usize,
) -> (ProviderId, Vec<ProbeId>) {
    // SAFETY: the tests keep the provider longer than the framework.
    let p = unsafe { provider.register(dtrace, c"p") }.unwrap();
    let names = (0..count).map(|n| std::ffi::CString::new(format!("{n}-{}", "x".repeat(50))));
    let create = |name: &std::ffi::CStr| create(dtrace, p, [c"m", c"f", name], 0);
    (p, names.map(|name| create(&name.unwrap())).collect())
}

#[test]
fn lists_come_in_pieces() {
    let (provider, dtrace) = (TestProvider::default(), small());
    let (_, ids) = with_probes(&dtrace, &provider, 16);
    let (mut server, mut line) = greeted(&dtrace);
    let (mut listed, mut pieces) = (Vec::new(), 0);
    loop {
        let after = listed.last().copied().unwrap_or(0);
        line.ask(1, 5, &Request::List { spec: "p:::*x", after });
        run(&mut server, &mut line);
        let more = line.answers(|_, reply, items| {
            assert_eq!(reply, Reply::Probes);
            let ids = items.iter::<Probe<'_>>().map(|probe| {
                let probe = probe.unwrap();
                assert_eq!((probe.provider, probe.module), (&b"p"[..], &b"m"[..]));
                probe.id
            });
            ids.collect::<Vec<_>>()
        });
        if more[0].is_empty() {
            break;
        }
        listed.extend(&more[0]);
        pieces += 1;
    }
    assert_eq!(listed, ids.iter().map(|id| id.get()).collect::<Vec<_>>());
    assert!(pieces > 1);
}

#[test]
fn probes_are_described() {
    let (provider, dtrace) = (TestProvider::default(), small());
    let (_, ids) = with_probes(&dtrace, &provider, 1);
    let (mut server, mut line) = greeted(&dtrace);
    let probe = ids[0].get();
    let detail = ask(&mut server, &mut line, Request::Describe { probe });
    assert!(detail.contains("stability: [1, 1, 0], args: [1, 1, 4]"), "{detail}");
    line.ask(1, 1, &Request::Argument { probe, index: 1 });
    line.ask(1, 1, &Request::Argument { probe, index: 2 });
    run(&mut server, &mut line);
    let types = line.answers(|_, reply, _| match reply {
        Reply::Argument(of) => of.map(|of| [of.native.to_vec(), of.translated.to_vec()]),
        other => panic!("{other:?}"),
    });
    let second = [b"struct proc *".to_vec(), b"psinfo_t *".to_vec()];
    assert_eq!(types, [Some(second), None]);
    let none = Request::Argument { probe: 999, index: 0 };
    assert_eq!(refused(&mut server, &mut line, none), Why::NoProbe);
}

/// Ten sites, the first with a symbol that is longer than any frame.
struct Ten;

impl Sites for Ten {
    fn each(&self, _: ProbeId, skip: usize, show: &mut dyn FnMut(&Site<'_>) -> bool) {
        let long = "x".repeat(2 * MIN_FRAME);
        for n in skip as u64..10 {
            let function = Some((if n == 0 { &*long } else { "a_function_with_a_name" }, n));
            let (state, target, reach) = (SiteState::Trap, 2 * n, 1 << 20);
            if !show(&Site { address: n, function, state, target, in_reach: true, reach }) {
                break;
            }
        }
    }
}

#[test]
fn sites_come_in_pieces() {
    let dtrace = small();
    let (mut server, mut line) = (Served::new(&*dtrace, &Ten, Rights::ALL), Line::default());
    ask(&mut server, &mut line, HELLO);
    let mut all: Vec<(u64, bool)> = Vec::new();
    loop {
        line.ask(1, 5, &Request::Sites { probe: 1, skip: all.len() as u32 });
        run(&mut server, &mut line);
        let more = line.answers(|_, _, items| {
            let sites = items.iter::<Site<'_>>().map(|site| site.unwrap());
            sites.map(|site| (site.address, site.function.is_some())).collect::<Vec<_>>()
        });
        if more[0].is_empty() {
            break;
        }
        all.extend(&more[0]);
    }
    let expected: Vec<_> = (0..10).map(|n| (n, n != 0)).collect();
    assert_eq!(all, expected);
}

/// The size of a record of one argument in bytes.
const RECORD: usize = RecordHeader::SIZE.next_multiple_of(8) + 8;

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; packed::unpacked_len(packed).unwrap()];
    packed::unpack(packed, &mut bytes).unwrap();
    bytes
}

/// Reads the first arguments that all CPUs have recorded, and the number of drops.
fn read_all(server: &mut Served<'_>, line: &mut Line) -> (Vec<u64>, u64) {
    let (mut args, mut all_drops) = (Vec::new(), 0);
    for cpu in 0..CPUS as u32 {
        let mut all = Vec::new();
        loop {
            let at = all.len() as u32;
            line.ask(1, 9, &Request::Snapshot { cpu, buffer: SnapshotOf::Records, at });
            run(server, line);
            let parts = line.answers(|_, reply, _| match reply {
                Reply::Snapshot { size, drops, bytes, .. } => (size, drops, unpacked(bytes)),
                other => panic!("{other:?}"),
            });
            let [(size, drops, bytes)] = &parts[..] else { panic!("{parts:?}") };
            all_drops += if at == 0 { *drops } else { 0 };
            all.extend(bytes);
            if all.len() == *size as usize {
                break;
            }
        }
        let (records, rest) = all.as_chunks::<RECORD>();
        assert!(rest.is_empty());
        args.extend(records.iter().map(|of| u64::from_le_bytes(*of.last_chunk().unwrap())));
    }
    (args, all_drops)
}

#[test]
fn records_of_hits_are_read() {
    Threads::bind(2);
    let (provider, dtrace) = (TestProvider::default(), small());
    let (p, ids) = with_probes(&dtrace, &provider, 2);
    let (mut server, mut line) = greeted(&dtrace);
    assert_eq!(ask(&mut server, &mut line, Request::Open), "Done");
    assert_eq!(enable(&mut server, &mut line, "p:::0-*"), "Matched { probes: 1 }");
    assert_eq!(ask(&mut server, &mut line, Request::Go), "On { cpu: 2 }");
    const ROOM: u64 = (common::SMALL.buffer / RECORD) as u64;
    (0..ROOM + 3).for_each(|n| dtrace.probe(ids[0], &[n, 0, 0, 0, 0, 0]));
    dtrace.probe(ids[1], &[0; 6]);
    assert_eq!(ask(&mut server, &mut line, Request::Stop), "On { cpu: 2 }");
    dtrace.probe(ids[0], &[99, 0, 0, 0, 0, 0]);
    assert_eq!(read_all(&mut server, &mut line), ((0..ROOM).collect(), 3));
    assert!(dtrace.unregister(p).is_err(), "it is open");
    assert_eq!(ask(&mut server, &mut line, Request::Close), "Done");
    assert_eq!(refused(&mut server, &mut line, Request::Go), Why::NotGreeted);
    dtrace.unregister(p).unwrap();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dtrace = small();
    let (mut server, mut line) = (Served::new(&*dtrace, &NoSites, Rights::ALL), Line::default());
    assert_eq!(refused(&mut server, &mut line, Request::Status), Why::NotGreeted);
    // A consumer with another version receives our version, and nothing more.
    let other = ask(&mut server, &mut line, Request::Hello { version: VERSION + 1 });
    assert_eq!(other, hello());
    assert_eq!(refused(&mut server, &mut line, Request::Status), Why::NotGreeted);
    ask(&mut server, &mut line, HELLO);
    assert_eq!(refused(&mut server, &mut line, Request::Run), Why::NotOpen);
    ask(&mut server, &mut line, Request::Open);
    assert_eq!(refused(&mut server, &mut line, Request::Open), Why::Open);
    let long = "x".repeat(300);
    let list = Request::List { spec: &long, after: 0 };
    assert_eq!(refused(&mut server, &mut line, list), Why::Spec);
    let program = Request::Program { size: 4, at: 0, bytes: b"none" };
    assert_eq!(refused(&mut server, &mut line, program), Why::Program);
    assert_eq!(refused(&mut server, &mut line, Request::Describe { probe: 0 }), Why::NoProbe);
    // A complete frame that is a reply, not a request.
    let (mut buffer, mut bytes) = ([0; 64], [0; 64]);
    let header = Header { channel: 1, seq: 1 };
    let frame = Writer::new(&mut buffer, header, &200u8).unwrap();
    let length = frame.seal(&mut bytes).unwrap();
    line.arriving.extend(&bytes[..length]);
    run(&mut server, &mut line);
    let why = line.answers(|_, reply, _| match reply {
        Reply::Refused { why, .. } => why,
        other => panic!("{other:?}"),
    });
    assert_eq!(why, [Why::NotUnderstood]);
    // Frames on a channel of others are ignored.
    line.ask(OTHERS, 1, &HELLO);
    run(&mut server, &mut line);
    assert!(line.sent.is_empty());
}

#[test]
fn there_are_so_many_and_no_more() {
    let dtrace = small();
    let (mut server, mut line) = (Served::new(&*dtrace, &NoSites, Rights::ALL), Line::default());
    (10..15).for_each(|channel| line.ask(channel, 1, &HELLO));
    (10..14).for_each(|channel| line.ask(channel, 2, &Request::Open));
    run(&mut server, &mut line);
    let refused = line.answers(|header, reply, _| match reply {
        Reply::Refused { why, .. } => Some((header.channel, why)),
        _ => None,
    });
    // The framework of the tests has room for three consumers, the server for four.
    let refused: Vec<_> = refused.into_iter().flatten().collect();
    assert_eq!(refused, [(14, Why::TooMany), (13, Why::TooMany)]);
    // One consumer disconnects, another one connects.
    line.ask(10, 3, &Request::Close);
    line.ask(14, 3, &HELLO);
    line.ask(14, 4, &Request::Open);
    run(&mut server, &mut line);
    assert_eq!(line.answers(|_, reply, _| matches!(reply, Reply::Refused { .. })), [false; 3]);
}

#[test]
fn a_new_consumer_takes_the_place_of_the_old() {
    let (provider, dtrace) = (TestProvider::default(), small());
    let (p, _) = with_probes(&dtrace, &provider, 1);
    let (mut server, mut line) = greeted(&dtrace);
    ask(&mut server, &mut line, Request::Open);
    assert!(dtrace.unregister(p).is_err());
    ask(&mut server, &mut line, HELLO);
    dtrace.unregister(p).unwrap();
}

#[test]
fn a_lost_line_closes_all_consumers() {
    let (provider, dtrace) = (TestProvider::default(), small());
    let (p, _) = with_probes(&dtrace, &provider, 1);
    let (mut server, mut line) = greeted(&dtrace);
    ask(&mut server, &mut line, Request::Open);
    assert_eq!(enable(&mut server, &mut line, ":::"), "Matched { probes: 1 }");
    line.lost = true;
    assert_eq!(server.step(&mut line), Err(Lost));
    dtrace.unregister(p).unwrap();
    // The next line begins anew.
    let mut line = Line::default();
    assert_eq!(refused(&mut server, &mut line, Request::Go), Why::NotGreeted);
    ask(&mut server, &mut line, HELLO);
}

#[test]
fn who_does_not_read_gets_no_more_answers() {
    let dtrace = small();
    let (mut server, mut line) = greeted(&dtrace);
    line.room = Some(0);
    (0..100).for_each(|seq| line.ask(1, seq, &Request::Status));
    let waiting = line.arriving.len();
    run(&mut server, &mut line);
    assert!(line.arriving.len() + 200 > waiting, "nothing is answered meanwhile");
    assert!(line.sent.is_empty());
    // If the line accepts one byte at a time, the answers are the same.
    line.room = Some(1);
    run(&mut server, &mut line);
    assert_eq!(line.answers(|header, _, _| header.seq), (0..100).collect::<Vec<_>>());
}

#[test]
fn damage_is_counted() {
    let dtrace = small();
    let (mut server, mut line) = greeted(&dtrace);
    line.arriving.extend(b"login: \0");
    line.arriving.extend(&[7; 3 * MIN_FRAME]);
    line.arriving.extend(&[0]);
    line.ask(1, 3, &Request::Status);
    run(&mut server, &mut line);
    let status: Vec<Status> = line.answers(|_, reply, _| match reply {
        Reply::Status(status) => status,
        other => panic!("{other:?}"),
    });
    let Status { damaged, overlong, frames, channels, cpus, .. } = status[0];
    assert_eq!((damaged, overlong, frames, channels, cpus), (1, 1, 2, 1, 4));
    assert_eq!(Tracer::cpus(&*dtrace), 4);
}

proptest! {
    #[test]
    fn whatever_arrives_is_survived(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        asked in prop::collection::vec((0u8..6, 0u8..15, any::<u32>(), ".{0,20}"), 0..40),
        room in prop::option::of(1usize..9),
    ) {
        Threads::bind(1);
        let (provider, dtrace) = (TestProvider::default(), small());
        let (p, ids) = with_probes(&dtrace, &provider, 3);
        let (mut server, mut line) = (Served::new(&*dtrace, &Ten, Rights::ALL), Line { room, ..Line::default() });
        let dof = compile("p::: { trace(arg0); }");
        let size = dof.len() as u32;
        for (channel, which, number, text) in &asked {
            let (probe, spec) = (number % 5, if number % 2 == 0 { ":::" } else { &**text });
            line.ask(*channel, *number, &match which {
                0 | 1 => Request::Hello { version: VERSION + number % 9 / 8 },
                2 | 3 => Request::Open,
                4 => Request::Close,
                5 => Request::List { spec, after: probe },
                6 => Request::Argument { probe, index: 0 },
                7 => Request::Sites { probe, skip: *number },
                8 => Request::Program { size, at: 0, bytes: &dof[..dof.len() / 2] },
                9 => Request::Program { size, at: size / 2, bytes: &dof[dof.len() / 2..] },
                10 => Request::Go,
                11 => Request::Snapshot { cpu: number % 5, buffer: SnapshotOf::Records, at: number / 5 % 40 },
                12 => Request::Run,
                13 => Request::Eprobe { epid: probe },
                _ => Request::Stop,
            });
            if which % 3 == 0 {
                dtrace.probe(ids[0], &[1; 6]);
                run(&mut server, &mut line);
            }
        }
        line.arriving.extend(&noise);
        line.arriving.push_back(0);
        line.ask(1, 4242, &HELLO);
        run(&mut server, &mut line);
        let answered = line.answers(|header, reply, _| {
            // The limit of consumers may be reached.
            let hello = matches!(reply, Reply::Hello { version: VERSION, .. })
                || matches!(reply, Reply::Refused { why: Why::TooMany, .. });
            header == Header { channel: 1, seq: 4242 } && hello
        });
        prop_assert_eq!(answered.last(), Some(&true));
        server.reset();
        dtrace.unregister(p).unwrap();
    }
}

/// A program is sent over the line in pieces, and its records are returned in pieces.
#[test]
fn programs_run() {
    Threads::bind(1);
    let (provider, dtrace) = (TestProvider::default(), Box::new(Small::new(Threads::new())));
    dtrace.init(common::memory(1 << 20), &common::SMALL).unwrap();
    dtrace.register_own().unwrap();
    let (_, ids) = with_probes(&dtrace, &provider, 1);
    let (mut server, mut line) = greeted(&dtrace);
    assert_eq!(ask(&mut server, &mut line, Request::Open), "Done");
    let options = [
        (OptionId::Strsize, 64),
        (OptionId::Bufsize, 4096),
        (OptionId::Aggsize, 4096),
        (OptionId::Dynvarsize, 4096),
    ];
    for (option, value) in options {
        let request = Request::Option { option: option.number(), value };
        assert_eq!(ask(&mut server, &mut line, request), "Done");
    }
    let mut set = options.map(|(option, value)| (option.number(), value));
    set.sort();
    let mut set_from = |from| {
        line.ask(1, 1, &Request::Options { from });
        run(&mut server, &mut line);
        let told = line.answers(|_, reply, items| {
            assert_eq!(reply, Reply::Options);
            let all = items.iter().map(|of| of.map(|of: RunOption| (of.option, of.value)));
            all.collect::<Result<Vec<_>, _>>().unwrap()
        });
        told.concat()
    };
    assert_eq!(set_from(0), set);
    assert_eq!(set_from(set[1].0), set[1..]);
    assert_eq!((set_from(set[3].0 + 1), set_from(u32::MAX)), (vec![], vec![]));
    let text = "BEGIN { printf(\"%s is %d\\n\", \"x\", 5); }
                p::: /arg0 > 1/ { @[arg0] = count(); self->n++; trace(self->n); }
                p::: /arg0 == 3/ { exit(4); }
                END { trace(9); }";
    let dof = compile(text);
    assert_eq!(send(&mut server, &mut line, &dof), "Matched { probes: 4 }");
    assert_eq!(ask(&mut server, &mut line, Request::Go), "On { cpu: 1 }");
    (0..5).for_each(|n| dtrace.probe(ids[0], &[n, 0, 0, 0, 0, 0]));
    let how = ask(&mut server, &mut line, Request::Run);
    assert!(how.contains("errors: 0") && how.contains("exiting: true"), "{how}");
    assert_eq!(ask(&mut server, &mut line, Request::Stop), "On { cpu: 1 }");

    line.ask(1, 1, &Request::Eprobe { epid: 2 });
    run(&mut server, &mut line);
    let data = line.answers(|_, reply, items| {
        assert_eq!(reply, Reply::Eprobe { probe: ids[0].get(), size: 24 });
        items.iter::<Datum>().map(Result::unwrap).collect::<Vec<_>>()
    });
    // The data include the statement that records nothing.
    let places: Vec<_> = data[0].iter().map(|it| (it.size, it.offset, it.alignment)).collect();
    assert_eq!(places, [(0, 12, 1), (8, 16, 8)]);
    line.ask(1, 1, &Request::Aggregation { id: 1 });
    run(&mut server, &mut line);
    let keys = line.answers(|_, reply, items| {
        assert!(matches!(reply, Reply::Aggregation { epid: 2, size: 32, .. }), "{reply:?}");
        items.iter::<Datum>().map(|datum| datum.unwrap().offset).collect::<Vec<_>>()
    });
    assert_eq!(keys, [[8, 16, 24]]);
    let format = ask(&mut server, &mut line, Request::Format { number: 1, at: 0 });
    assert!(format.starts_with("Bytes { bytes: [37, 115, 32, 105, 115"), "{format}");

    let mut snapshot = |buffer: SnapshotOf| {
        let mut all = Vec::new();
        loop {
            line.ask(1, 1, &Request::Snapshot { cpu: 1, buffer, at: all.len() as u32 });
            run(&mut server, &mut line);
            let parts = line.answers(|_, reply, _| match reply {
                Reply::Snapshot { size, oldest: 0, drops: 0, errors: 0, bytes, .. } => {
                    (size, unpacked(bytes))
                }
                other => panic!("{other:?}"),
            });
            all.extend(&parts[0].1);
            if all.len() == parts[0].0 as usize {
                return all;
            }
        }
    };
    let records = snapshot(SnapshotOf::Records);
    let mut epids = Vec::new();
    let mut rest = &records[..];
    // A header of 12 bytes and the data, rounded up to 8: a string and a number, numbers of 8 and of 4 bytes.
    for (size, data) in [(280, 16), (24, 16), (24, 16), (16, 12), (16, 12)] {
        epids.push((rest[0], rest[data]));
        rest = &rest[size..];
    }
    assert_eq!(epids, [(1, b'x'), (2, 1), (2, 2), (3, 4), (4, 9)]);
    assert!(rest.is_empty());
    assert_eq!(snapshot(SnapshotOf::Aggregations).len(), 2 * 32);
    for (request, why) in [
        (Request::Eprobe { epid: 9 }, Why::NoSuch),
        (Request::Aggregation { id: 2 }, Why::NoSuch),
        (Request::Format { number: 2, at: 0 }, Why::NoSuch),
        (Request::Snapshot { cpu: 7, buffer: SnapshotOf::Records, at: 0 }, Why::NoSuch),
        (Request::Option { option: 99, value: 0 }, Why::Other),
        (Request::Claim, Why::NoSuch),
    ] {
        assert_eq!(refused(&mut server, &mut line, request), why, "{request:?}");
    }
    dtrace.enable_anonymously(&dof).unwrap();
    assert_eq!(ask(&mut server, &mut line, Request::Claim), "Done");
    dtrace.probe(ids[0], &[7, 0, 0, 0, 0, 0]);
    line.ask(1, 1, &Request::Snapshot { cpu: 1, buffer: SnapshotOf::Aggregations, at: 0 });
    run(&mut server, &mut line);
    let sizes = line.answers(|_, reply, _| matches!(reply, Reply::Snapshot { size: 32, .. }));
    assert_eq!(sizes, [true]);
    assert_eq!(ask(&mut server, &mut line, Request::Close), "Done");
    let counters = dtrace.counters();
    dtrace.probe(ids[0], &[7, 0, 0, 0, 0, 0]);
    assert_eq!(dtrace.counters().unclaimed, counters.unclaimed + 1, "all is closed");
}
