//! A change of an answer.

use arbitrary::Arbitrary;
use dtrace_protocol::{
    Argument, Datum, Declared, Frame, Header, Probe, Reply, Run, RunOption, Site, SiteState,
    Status, Symbol, Why, Writer, packed,
};

/// Packs bytes into a vector.
fn pack<'a>(bytes: &[u8], packed: &'a mut Vec<u8>) -> &'a [u8] {
    packed.resize(2 * bytes.len() + 2 * packed::WORD, 0);
    let (_, length) = packed::pack(bytes, packed);
    &packed[..length]
}

/// A false answer.
#[derive(Debug, Arbitrary)]
pub(super) enum Lie {
    /// Some bytes of the answer are replaced.
    Bytes {
        at: u16,
        over: Vec<u8>,
    },
    /// Some bytes are removed, and other bytes inserted.
    Spliced {
        at: u16,
        out: u8,
        put: Vec<u8>,
    },
    /// A field of a description.
    Field {
        index: u8,
        field: u8,
        value: Value,
    },
    /// A description is missing, or occurs twice.
    Missing(u8),
    Twice(u8),
    /// The answer's own numbers.
    Number {
        which: u8,
        value: Value,
    },
    /// A buffer's bytes.
    Buffer {
        at: u16,
        word: Value,
    },
    Buffers(Vec<Value>),
    /// Names, texts, messages.
    Text(Vec<u8>),
    /// Another answer altogether.
    Instead(Other),
}

/// A number that is likely to reveal an error.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(super) enum Value {
    Small(u8),
    /// The greatest value less this number.
    Great(u8),
    Power(u8),
    /// An action's number.
    Action(u8),
    Any(u64),
}

impl Value {
    fn number(self) -> u64 {
        use dtrace_abi::action::Action;
        match self {
            Self::Small(value) => value.into(),
            Self::Great(less) => u64::from(u32::MAX - u32::from(less)),
            Self::Power(power) => 1 << (power % 64),
            Self::Action(index) => {
                Action::ALL[usize::from(index) % Action::ALL.len()].number().into()
            }
            Self::Any(value) => value,
        }
    }
}

/// Answers to something else.
#[derive(Debug, Arbitrary)]
pub(super) enum Other {
    Refused { why: u8, message: String },
    Gone { reason: String },
    Done,
    Matched(u32),
    On(u32),
    Status { cpus: u32 },
    Run { exiting: bool, killed: bool, drops: u64 },
    Data { count: u32, number: u32, epid: u32, size: u32, data: Vec<[u64; 7]> },
    Eprobe { probe: u32, size: u32, data: Vec<[u64; 7]> },
    Aggregation { variable: u32, epid: u32, size: u32, data: Vec<[u64; 7]> },
    Probes(Vec<(u32, Vec<u8>)>),
    Sites(Vec<(u64, String)>),
    Options(Vec<(u32, i64)>),
    Symbol { module: Vec<u8>, name: Vec<u8>, address: u64 },
    Argument { native: Vec<u8>, translated: Vec<u8> },
    Declared { module: Vec<u8>, text: Vec<u8>, next: u32, end: u32 },
    Snapshot { size: u32, oldest: u32, timestamp: u64, bytes: Vec<u8> },
    Format(Vec<u8>),
}

/// Bytes of the longest answer that is made.
const LONGEST: usize = 48 << 10;

fn datum([action, size, offset, alignment, format, arg, uarg]: [u64; 7]) -> Datum {
    Datum {
        action: action as u16,
        size: size as u32,
        offset: offset as u32,
        alignment: alignment as u16,
        format: format as u16,
        arg,
        uarg,
    }
}

/// Returns the content of an answer, followed by its items, cut to the size of a frame.
fn content(reply: &Reply<'_>, items: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let header = Header { channel: 0, seq: 0 };
    let mut draft = vec![0; LONGEST + 64];
    let mut line = vec![0; dtrace_protocol::frame::encoded_len(LONGEST + 64)];
    let Ok(mut writer) = Writer::new(&mut draft, header, reply) else { return Vec::new() };
    items(&mut writer);
    let Ok(length) = writer.seal(&mut line) else { return Vec::new() };
    // Without the byte that ends it.
    match Frame::decode(&mut line[..length - 1]) {
        Ok(frame) => frame.content.to_vec(),
        Err(_) => Vec::new(),
    }
}

fn cut<T>(all: &[T], most: usize) -> &[T] {
    &all[..all.len().min(most)]
}

/// Returns the answer to a request for a module's declarations, with the text from an offset on. The module is that of `BEGIN`,
/// which has no name.
pub(super) fn declared(text: &[u8], at: u32) -> Vec<u8> {
    let rest = text.get(at as usize..).unwrap_or_default();
    let piece = cut(rest, LONGEST / 8);
    let (next, end) = (at + piece.len() as u32, text.len() as u32);
    content(&Reply::Declared(Some(Declared { module: b"", text: piece, next, end })), |_| {})
}

impl Lie {
    /// Returns the answer that replaces the true one.
    pub(super) fn instead_of(&self, truth: Vec<u8>) -> Vec<u8> {
        let header = Header { channel: 0, seq: 0 };
        match self {
            Self::Bytes { at, over } => {
                let mut bytes = truth;
                let at = usize::from(*at) % bytes.len().max(1);
                bytes.iter_mut().skip(at).zip(over).for_each(|(to, from)| *to = *from);
                bytes
            }
            Self::Spliced { at, out, put } => {
                let mut bytes = truth;
                let at = usize::from(*at).min(bytes.len());
                let end = (at + usize::from(*out)).min(bytes.len());
                bytes.splice(at..end, cut(put, LONGEST).iter().copied());
                bytes
            }
            Self::Instead(other) => other.content(),
            typed => {
                let mut held = Vec::new();
                let frame = Frame { header, content: &truth };
                match frame.message::<Reply<'_>>() {
                    Ok((reply, items)) => {
                        let data: Option<Vec<Datum>> = items.iter().collect::<Result<_, _>>().ok();
                        typed
                            .changed(reply, data.unwrap_or_default(), &mut held)
                            .unwrap_or_else(|| truth.clone())
                    }
                    Err(_) => truth,
                }
            }
        }
    }

    /// Returns the answer with this change; `None` if the answer has nothing of this kind.
    fn changed<'a>(
        &'a self,
        mut reply: Reply<'a>,
        mut data: Vec<Datum>,
        held: &'a mut Vec<u8>,
    ) -> Option<Vec<u8>> {
        match self {
            Self::Field { index, field, value } => {
                let count = data.len();
                let of = data.get_mut(usize::from(*index) % count.max(1))?;
                let value = value.number();
                match field % 7 {
                    0 => of.action = value as u16,
                    1 => of.size = value as u32,
                    2 => of.offset = value as u32,
                    3 => of.alignment = value as u16,
                    4 => of.format = value as u16,
                    5 => of.arg = value,
                    _ => of.uarg = value,
                }
            }
            Self::Missing(index) if !data.is_empty() => {
                data.remove(usize::from(*index) % data.len());
            }
            Self::Twice(index) if !data.is_empty() => {
                let of = data[usize::from(*index) % data.len()];
                data.push(of);
            }
            Self::Number { which, value } => {
                let (which, value) = (which % 4, value.number());
                match &mut reply {
                    Reply::Eprobe { probe, size } => {
                        *(if which % 2 == 0 { size } else { probe }) = value as u32;
                    }
                    Reply::Aggregation { variable, epid, size } => match which {
                        0 => *size = value as u32,
                        1 => *variable = value as u32,
                        _ => *epid = value as u32,
                    },
                    Reply::Snapshot { size, oldest, drops, timestamp, .. } => match which {
                        0 => *size = value as u32,
                        1 => *oldest = value as u32,
                        2 => *drops = value,
                        _ => *timestamp = value,
                    },
                    Reply::On { cpu } => *cpu = value as u32,
                    Reply::Matched { probes } => *probes = value as u32,
                    Reply::Status(status) => status.cpus = (value % 70_000) as u32 % 40,
                    Reply::Declared(Some(of)) => {
                        *(if which % 2 == 0 { &mut of.next } else { &mut of.end }) = value as u32;
                    }
                    _ => return None,
                }
            }
            Self::Buffer { at, word } => {
                let Reply::Snapshot { bytes, .. } = &mut reply else { return None };
                let mut words = vec![0; packed::unpacked_len(bytes).ok()?];
                packed::unpack(bytes, &mut words).ok()?;
                let at = usize::from(*at) % (words.len() / 4).max(1) * 4;
                let word = word.number().to_le_bytes();
                words.iter_mut().skip(at).zip(word).for_each(|(to, from)| *to = from);
                *bytes = pack(&words, held);
            }
            Self::Buffers(words) => {
                let Reply::Snapshot { bytes, size, .. } = &mut reply else { return None };
                let words = cut(words, LONGEST / 8).iter();
                let words: Vec<_> = words.flat_map(|word| word.number().to_le_bytes()).collect();
                *size = words.len() as u32;
                *bytes = pack(&words, held);
            }
            Self::Text(text) => {
                let text = cut(text, LONGEST / 4);
                match &mut reply {
                    Reply::Bytes { bytes } => *bytes = text,
                    Reply::Symbol(Some(of)) => (of.module, of.name) = (text, text),
                    Reply::Argument(Some(of)) => (of.native, of.translated) = (text, text),
                    Reply::Detail(of) => {
                        let Probe { provider, module, function, name, .. } = &mut of.probe;
                        (*provider, *module, *function, *name) = (text, text, text, text);
                    }
                    Reply::Declared(Some(of)) => {
                        (of.text, of.next, of.end) = (text, text.len() as u32, text.len() as u32);
                    }
                    Reply::Probes => {
                        let probe = Probe {
                            id: 1,
                            provider: text,
                            module: text,
                            function: text,
                            name: text,
                        };
                        return Some(content(&reply, |writer| {
                            writer.push(&probe).ok();
                        }));
                    }
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(content(&reply, |writer| {
            data.iter().try_for_each(|datum| writer.push(datum)).ok();
        }))
    }
}

impl Other {
    fn content(&self) -> Vec<u8> {
        let plain = |reply: Reply<'_>| content(&reply, |_| {});
        let with = |reply: Reply<'_>, data: &[[u64; 7]]| {
            content(&reply, |writer| {
                data.iter().try_for_each(|of| writer.push(&datum(*of))).ok();
            })
        };
        let text = |bytes: &'_ [u8]| cut(bytes, LONGEST / 8).to_vec();
        match self {
            Self::Refused { why: number, message } => {
                let why = [
                    Why::Other,
                    Why::NoSuch,
                    Why::NoProbe,
                    Why::NotPermitted,
                    Why::NotUnderstood,
                    Why::TooLong,
                ];
                plain(Reply::Refused { why: why[usize::from(*number) % why.len()], message })
            }
            Self::Gone { reason } => plain(Reply::Gone { reason }),
            Self::Done => plain(Reply::Done),
            Self::Matched(probes) => plain(Reply::Matched { probes: *probes }),
            Self::On(cpu) => plain(Reply::On { cpu: *cpu }),
            // The consumer reads the buffers of each CPU, so the number of CPUs is limited to save time.
            Self::Status { cpus } => {
                plain(Reply::Status(Status { cpus: cpus % 40, ..Status::default() }))
            }
            Self::Run { exiting, killed, drops } => plain(Reply::Run(Run {
                exiting: *exiting,
                killed: *killed,
                dynamic_drops: *drops,
                ..Run::default()
            })),
            Self::Data { count, number, epid, size, data } => {
                with(Reply::Data { count: *count, number: *number, epid: *epid, size: *size }, data)
            }
            Self::Eprobe { probe, size, data } => {
                with(Reply::Eprobe { probe: *probe, size: *size }, data)
            }
            Self::Aggregation { variable, epid, size, data } => {
                with(Reply::Aggregation { variable: *variable, epid: *epid, size: *size }, data)
            }
            Self::Probes(all) => content(&Reply::Probes, |writer| {
                for (id, name) in all {
                    let name = &text(name)[..];
                    let probe =
                        Probe { id: *id, provider: name, module: name, function: name, name };
                    if writer.push(&probe).is_err() {
                        break;
                    }
                }
            }),
            Self::Sites(all) => content(&Reply::Sites, |writer| {
                for (address, symbol) in all {
                    let function = Some((&**symbol, 1));
                    let site = Site {
                        address: *address,
                        function,
                        state: SiteState::Trap,
                        target: 0,
                        in_reach: false,
                        reach: 1,
                    };
                    if writer.push(&site).is_err() {
                        break;
                    }
                }
            }),
            Self::Options(all) => content(&Reply::Options, |writer| {
                for (option, value) in all {
                    if writer.push(&RunOption { option: *option, value: *value }).is_err() {
                        break;
                    }
                }
            }),
            Self::Symbol { module, name, address } => plain(Reply::Symbol(Some(Symbol {
                module: &text(module),
                name: &text(name),
                address: *address,
                size: 1,
            }))),
            Self::Argument { native, translated } => plain(Reply::Argument(Some(Argument {
                native: &text(native),
                translated: &text(translated),
            }))),
            Self::Declared { module, text: declared, next, end } => {
                plain(Reply::Declared(Some(Declared {
                    module: &text(module),
                    text: &text(declared),
                    next: *next,
                    end: *end,
                })))
            }
            Self::Snapshot { size, oldest, timestamp, bytes } => plain(Reply::Snapshot {
                size: *size,
                oldest: *oldest,
                drops: 0,
                errors: 0,
                timestamp: *timestamp,
                bytes: &text(bytes),
            }),
            Self::Format(bytes) => plain(Reply::Bytes { bytes: &text(bytes) }),
        }
    }
}
