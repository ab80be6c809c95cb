//! A kernel that sends the answers of a test, whatever program it receives.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordHeader;
use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::packed::pack;
use dtrace_protocol::{
    Datum, Declared, Decoder, Detail, Frame, Probe, Reply, Request, Run, RunOption, Side, Site,
    SiteState, SnapshotOf, Status, Symbol, VERSION, Why, Writer,
};

/// The size of a frame in bytes, and the size of the parts of longer data.
const FRAME: usize = 60 << 10;
const PIECE: usize = 16 << 10;

/// Descriptions of data, each with its bytes.
pub type Data = Vec<(Datum, Vec<u8>)>;

/// A hostile kernel, by the answers that it sends.
#[derive(Clone, Debug)]
pub struct Evil {
    /// All names that the kernel sends, except those of the existing probe.
    pub name: Vec<u8>,
    /// The claimed descriptions of the record, and its bytes.
    pub data: Data,
    /// The text of the only format.
    pub format: Vec<u8>,
    /// The claimed size of the record, if it differs from the real one.
    pub size: Option<u32>,
    /// The claimed aggregation: the number of its variable, and its data.
    pub aggregation: Option<(u32, Data)>,
    /// Tuples of the aggregation, each with another key.
    pub tuples: u32,
    /// The options of the program that the kernel has enabled by itself.
    pub options: Vec<(u32, i64)>,
    /// The number of probes that it lists.
    pub probes: u32,
    /// The size of the declarations of each of its modules in bytes, and the number of modules.
    pub declares: (u32, u32),
    /// The claimed description of a program.
    pub refuses: Option<&'static str>,
}

impl Default for Evil {
    fn default() -> Self {
        Self {
            name: b"m".to_vec(),
            data: Vec::new(),
            format: Vec::new(),
            size: None,
            aggregation: None,
            tuples: 0,
            options: Vec::new(),
            probes: 1,
            declares: (0, 0),
            refuses: None,
        }
    }
}

/// Returns a datum of an action of the first statement, with its argument and its bytes. [`lay_out`] sets its offset.
pub fn datum(action: Action, arg: u64, format: u16, bytes: &[u8]) -> (Datum, Vec<u8>) {
    let size = bytes.len() as u32;
    let alignment = if size == 0 { 1 } else { 1 << size.trailing_zeros().min(3) };
    let datum = Datum { action: action.number(), size, offset: 0, alignment, format, arg, uarg: 1 };
    (datum, bytes.to_vec())
}

/// Lays out data one after the other, from the offset `begin` on. Returns their descriptions and their bytes.
fn lay_out(data: &[(Datum, Vec<u8>)], begin: u32) -> (Vec<Datum>, Vec<u8>) {
    let (mut descs, mut all) = (Vec::new(), Vec::new());
    for (datum, bytes) in data {
        let offset = (begin + all.len() as u32).next_multiple_of(datum.alignment.into());
        all.resize((offset - begin) as usize, 0);
        all.extend(bytes);
        descs.push(Datum { offset, ..*datum });
    }
    (descs, all)
}

impl Evil {
    /// Creates a kernel with one record that contains these data.
    pub fn records(data: Data) -> Self {
        Self { data, ..Self::default() }
    }

    /// Runs dtrace on the kernel; returns dtrace's output, its messages and its status.
    pub fn traced(self, args: &[&str]) -> (String, String, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("kernel");
        self.listen(&socket);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        command.args(["--connect", &format!("unix:{}", socket.display())]).args(args);
        let output = command.output().unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (out, err, output.status.code())
    }

    fn listen(self, socket: &Path) {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            let (line, _) = listener.accept().unwrap();
            // A refused client closes the connection.
            let _ = self.serve(line);
        });
    }

    fn serve(&self, mut line: UnixStream) -> std::io::Result<()> {
        let mut decoder = Decoder::new(vec![0; 4 << 10]);
        let mut bytes = [0; 4 << 10];
        let mut taken = [false; 2];
        loop {
            let length = line.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            for byte in &bytes[..length] {
                if let Some(Ok(frame)) = decoder.push(*byte) {
                    let answer = self.answer(&frame, &mut taken);
                    line.write_all(&answer)?;
                }
            }
        }
    }

    fn answer(&self, frame: &Frame<'_>, taken: &mut [bool; 2]) -> Vec<u8> {
        let (request, _) = frame.message::<Request<'_>>().unwrap();
        let (mut draft, mut sealed) = (vec![0; FRAME], vec![0; encoded_len(FRAME)]);
        let mut reply = |reply: &Reply<'_>, items: &dyn Fn(&mut Writer<'_>)| {
            let mut writer = Writer::new(&mut draft, frame.header, reply).unwrap();
            items(&mut writer);
            let length = writer.seal(&mut sealed).unwrap();
            sealed[..length].to_vec()
        };
        let name = &self.name[..];
        let text = String::from_utf8_lossy(name);
        let probe = |id| match id {
            1 => Probe { id, provider: b"dtrace", module: b"", function: b"", name: b"BEGIN" },
            _ => Probe { id, provider: name, module: name, function: name, name },
        };
        let (descs, record) = lay_out(&self.data, RecordHeader::SIZE as u32);
        let whole = (RecordHeader::SIZE + record.len()).next_multiple_of(4);
        let none: &dyn Fn(&mut Writer<'_>) = &|_| {};
        match request {
            Request::Hello { .. } => {
                reply(&Reply::Hello { version: VERSION, side: Side::Framework }, none)
            }
            Request::List { after, spec } => reply(&Reply::Probes, &|writer| {
                let last = if spec.ends_with("BEGIN") { 1 } else { self.probes };
                let mut left = after + 1..=last;
                left.try_for_each(|id| writer.push(&probe(id))).ok();
            }),
            Request::Describe { probe: id } => {
                let detail = Detail {
                    probe: probe(id),
                    stability: [6, 6, 5],
                    args: [6, 6, 5],
                    provider: [[6, 6, 5]; 5],
                    privileges: 0,
                };
                reply(&Reply::Detail(detail), none)
            }
            Request::Argument { index: 0, .. } => {
                let argument = dtrace_protocol::Argument { native: name, translated: name };
                reply(&Reply::Argument(Some(argument)), none)
            }
            Request::Argument { .. } => reply(&Reply::Argument(None), none),
            Request::Sites { skip: 0, .. } => reply(&Reply::Sites, &|writer| {
                let function = Some((&*text, 1));
                let site = Site {
                    address: 16,
                    function,
                    state: SiteState::Nop,
                    target: 1,
                    in_reach: true,
                    reach: 1,
                };
                writer.push(&site).unwrap();
            }),
            Request::Sites { .. } => reply(&Reply::Sites, none),
            Request::Program { size, at, bytes } => match self.refuses {
                Some(message) => reply(&Reply::Refused { why: Why::Other, message }, none),
                None if at as usize + bytes.len() < size as usize => reply(&Reply::Done, none),
                None => reply(&Reply::Matched { probes: 1 }, none),
            },
            Request::Go | Request::Stop => reply(&Reply::On { cpu: 0 }, none),
            Request::Run => reply(&Reply::Run(Run { exiting: true, ..Run::default() }), none),
            Request::Status => reply(&Reply::Status(Status { cpus: 1, ..Status::default() }), none),
            Request::Eprobe { .. } => {
                reply(&Reply::Eprobe { probe: 1, size: whole as u32 }, &|writer| {
                    descs.iter().for_each(|datum| writer.push(datum).unwrap());
                })
            }
            Request::Aggregation { id: 1 } if let Some((variable, data)) = &self.aggregation => {
                let (descs, tuple) = lay_out(data, 4);
                let size = (4 + tuple.len()) as u32;
                let reply_with = Reply::Aggregation { variable: *variable, epid: 1, size };
                reply(&reply_with, &|writer| {
                    descs.iter().for_each(|datum| writer.push(datum).unwrap());
                })
            }
            Request::Aggregation { .. } => {
                reply(&Reply::Refused { why: Why::NoSuch, message: "none" }, none)
            }
            Request::Format { at, .. } => {
                let rest = self.format.get(at as usize..).unwrap_or_default();
                reply(&Reply::Bytes { bytes: &rest[..rest.len().min(PIECE)] }, none)
            }
            Request::Snapshot { buffer, at, .. } => {
                let which = usize::from(buffer == SnapshotOf::Aggregations);
                let buffer = match buffer {
                    _ if at == 0 && std::mem::replace(&mut taken[which], true) => Vec::new(),
                    // A clause that only aggregates writes no records.
                    SnapshotOf::Records if self.aggregation.is_some() => Vec::new(),
                    SnapshotOf::Records => {
                        let header = RecordHeader { epid: 1, time_high: 0, time_low: 5 };
                        let mut all = [&header.to_bytes()[..], &record].concat();
                        all.resize(whole, 0);
                        all
                    }
                    SnapshotOf::Aggregations => self.tuples(),
                };
                let size = buffer.len() as u32;
                let rest = buffer.get(at as usize..).unwrap_or_default();
                let said = if which == 0 { self.size.unwrap_or(size) } else { size };
                let mut packed = vec![0; PIECE];
                let (_, length) = pack(rest, &mut packed);
                let bytes = &packed[..length];
                let (drops, errors) = (0, 0);
                let size = said;
                reply(
                    &Reply::Snapshot { size, oldest: 0, drops, errors, timestamp: 9, bytes },
                    none,
                )
            }
            Request::Options { from } => reply(&Reply::Options, &|writer| {
                for &(option, value) in self.options.iter().filter(|(option, _)| *option >= from) {
                    writer.push(&RunOption { option, value }).unwrap();
                }
            }),
            Request::Declared { index, at } if index < self.declares.1 => {
                let end = self.declares.0;
                let next = (at + PIECE as u32).min(end);
                let bytes = vec![b'\n'; (next - at) as usize];
                reply(
                    &Reply::Declared(Some(Declared { module: name, text: &bytes, next, end })),
                    none,
                )
            }
            Request::Declared { .. } => reply(&Reply::Declared(None), none),
            Request::Symbol { address } => {
                reply(&Reply::Symbol(Some(Symbol { module: name, name, address, size: 1 })), none)
            }
            _ => reply(&Reply::Done, none),
        }
    }

    fn tuples(&self) -> Vec<u8> {
        let Some((_, data)) = &self.aggregation else { return Vec::new() };
        let mut all = Vec::new();
        for number in 0..self.tuples {
            let (descs, mut tuple) = lay_out(data, 4);
            // Behind the number of the variable.
            if let [_, key, _] = &descs[..] {
                let begin = key.offset as usize - 4;
                tuple[begin..begin + 4].copy_from_slice(&number.to_le_bytes());
            }
            all.extend(1_u32.to_le_bytes());
            all.extend(tuple);
        }
        all
    }
}
