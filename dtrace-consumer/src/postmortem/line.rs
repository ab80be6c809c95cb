//! A transport to a dump: answers requests as a kernel does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dtrace_abi::spec::{Field, Spec};
use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::packed::pack;
use dtrace_protocol::{
    Datum, Decoder, Detail, Frame, Header, Reply, Request, Run, Side, SnapshotOf, Status, VERSION,
    Why, Writer,
};

use super::Traced;
use super::traced::Cpu;
use crate::client;
use crate::transport::{Transport, TransportError};

/// Bytes of the longest answer.
const FRAME: usize = 60 << 10;
/// Size of the pieces of long answers in bytes.
const PIECE: usize = 48 << 10;
/// Size of the longest request in bytes.
const REQUEST: usize = 2 << 10;

/// A transport that answers from the session of a consumer in a dump.
#[derive(Debug)]
pub struct Line {
    traced: Arc<Traced>,
    decoder: Decoder<Vec<u8>>,
    answers: VecDeque<u8>,
}

impl Line {
    /// Creates a transport to the session of a consumer.
    pub fn new(traced: Arc<Traced>) -> Self {
        Self { traced, decoder: Decoder::new(vec![0; REQUEST]), answers: VecDeque::new() }
    }
}

impl Transport for Line {
    fn read(&mut self, buffer: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        let count = buffer.len().min(self.answers.len());
        buffer.iter_mut().zip(self.answers.drain(..count)).for_each(|(to, byte)| *to = byte);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), TransportError> {
        for byte in bytes {
            if let Some(Ok(frame)) = self.decoder.push(*byte) {
                self.answers.extend(answer(&self.traced, &frame));
            }
        }
        Ok(())
    }
}

/// An answer to the request with this header.
struct Answer(Header);

impl Answer {
    /// Encodes a reply with items.
    fn with(self, reply: &Reply<'_>, items: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let (mut draft, mut line) = (vec![0; FRAME], vec![0; encoded_len(FRAME)]);
        let length = Writer::new(&mut draft, self.0, reply).and_then(|mut frame| {
            items(&mut frame);
            frame.seal(&mut line)
        });
        // The frame is large enough for every answer, so the length is known.
        line.truncate(length.unwrap_or(0));
        line
    }

    fn plain(self, reply: &Reply<'_>) -> Vec<u8> {
        self.with(reply, |_| {})
    }

    fn refused(self, why: Why, message: &str) -> Vec<u8> {
        self.plain(&Reply::Refused { why, message })
    }

    /// Encodes a reply with descriptions, if they fit.
    fn data(self, reply: &Reply<'_>, data: &[Datum]) -> Vec<u8> {
        if size_of_val(data) > FRAME {
            return self.refused(
                Why::NoSuch,
                "the probe has more data descriptions than an answer \
                 can hold",
            );
        }
        self.with(reply, |frame| {
            for datum in data {
                let _ = frame.push(datum);
            }
        })
    }
}

fn answer(traced: &Traced, frame: &Frame<'_>) -> Vec<u8> {
    let answer = Answer(frame.header);
    let Ok((request, _)) = frame.message::<Request<'_>>() else {
        return answer.refused(Why::NotUnderstood, "this version does not know the request");
    };
    let none = "the dump contains no object of this number";
    match request {
        Request::Hello { .. } => {
            answer.plain(&Reply::Hello { version: VERSION, side: Side::Framework })
        }
        Request::Open | Request::Close | Request::Option { .. } | Request::Claim => {
            answer.plain(&Reply::Done)
        }
        Request::List { spec, after } => match Spec::parse(spec, Field::Name) {
            Ok(spec) => {
                let probes = traced.probes.values().filter(|probe| probe.id > after).map(wire);
                let mut probes = probes
                    .filter(|of| spec.matches([of.provider, of.module, of.function, of.name]));
                // The client repeats the request for those that do not fit.
                answer.with(&Reply::Probes, |frame| {
                    probes.by_ref().try_for_each(|probe| frame.push(&probe)).ok();
                })
            }
            Err(error) => answer.refused(Why::Spec, &error.to_string()),
        },
        Request::Describe { probe } => match traced.probes.get(&probe) {
            // A dump has no stabilities and privileges.
            Some(probe) => answer.plain(&Reply::Detail(Detail {
                probe: wire(probe),
                stability: [0; 3],
                args: [0; 3],
                provider: [[0; 3]; 5],
                privileges: 0,
            })),
            None => answer.refused(Why::NoProbe, none),
        },
        Request::Argument { .. } => answer.plain(&Reply::Argument(None)),
        Request::Sites { .. } => answer.plain(&Reply::Sites),
        // The clause with which dtrace records faults: accepted and ignored, because the buffers already have its
        // records.
        Request::Program { size, at, bytes } => {
            match (at as usize).saturating_add(bytes.len()) < size as usize {
                true => answer.plain(&Reply::Done),
                false => answer.plain(&Reply::Matched { probes: 0 }),
            }
        }
        Request::Eprobe { epid } => match traced.eprobes.get(&epid) {
            Some(of) => {
                let reply = Reply::Eprobe { probe: of.probe, size: of.size };
                answer.data(&reply, &of.data)
            }
            None => answer.refused(Why::NoSuch, none),
        },
        Request::Aggregation { id } => match traced.aggregations.get(&id) {
            Some(of) => {
                let (variable, epid, size) = (of.variable, of.epid, of.size);
                answer.data(&Reply::Aggregation { variable, epid, size }, &of.data)
            }
            None => answer.refused(Why::NoSuch, none),
        },
        Request::Format { number, at } => match traced.formats.get(&number.into()) {
            Some(text) => answer.plain(&Reply::Bytes { bytes: piece(text, at) }),
            None => answer.refused(Why::NoSuch, none),
        },
        Request::Go | Request::Stop => answer.plain(&Reply::On { cpu: 0 }),
        Request::Snapshot { cpu, buffer, at } => match traced.cpus.get(cpu as usize) {
            Some(of) => answer.plain(&snapshot(traced, of, buffer, at, &mut Vec::new())),
            None => answer.refused(Why::NoSuch, none),
        },
        Request::Run => answer.plain(&Reply::Run(Run { exiting: true, ..Run::default() })),
        Request::Symbol { .. } => answer.plain(&Reply::Symbol(None)),
        Request::Status => {
            let cpus = traced.cpus.len() as u32;
            answer.plain(&Reply::Status(Status { cpus, ..Status::default() }))
        }
        _ => answer.refused(Why::NotPermitted, "a dump can be read, but not traced"),
    }
}

fn piece(bytes: &[u8], at: u32) -> &[u8] {
    let rest = bytes.get(at as usize..).unwrap_or_default();
    rest.get(..PIECE).unwrap_or(rest)
}

fn snapshot<'a>(
    traced: &Traced,
    of: &Cpu,
    buffer: SnapshotOf,
    at: u32,
    packed: &'a mut Vec<u8>,
) -> Reply<'a> {
    let (bytes, drops, errors) = match buffer {
        SnapshotOf::Records => (&of.records, of.drops, of.errors),
        SnapshotOf::Aggregations => (&of.tuples, of.tuple_drops, 0),
    };
    // All buffers have the same timestamp: that of the latest record.
    let timestamp = traced.cpus.iter().map(|cpu| cpu.latest).max().unwrap_or(0);
    packed.resize(PIECE, 0);
    let (_, length) = pack(bytes.get(at as usize..).unwrap_or_default(), packed);
    let (size, bytes) = (bytes.len() as u32, &packed[..length]);
    Reply::Snapshot { size, oldest: 0, drops, errors, timestamp, bytes }
}

fn wire(probe: &client::Probe) -> dtrace_protocol::Probe<'_> {
    let client::Probe { id, provider, module, function, name } = probe;
    dtrace_protocol::Probe {
        id: *id,
        provider: provider.as_bytes(),
        module: module.as_bytes(),
        function: function.as_bytes(),
        name: name.as_bytes(),
    }
}
