//! Sessions of consumers in a dump: descriptions and the content of buffers.

use std::collections::BTreeMap;

use dtrace_abi::option::BufPolicy;
use dtrace_abi::postmortem::{
    BufferNote, CpuNote, Note, NoteKind, RecordsState, SESSION, Session, TuplesState, check,
};
use dtrace_abi::record::{RecordDesc, RecordHeader};
use dtrace_protocol::Datum;

use super::enabled::{Enabled, enabled};
use super::find::Memory;
use crate::client::{Aggregation, Eprobe, Probe};

/// The session of a consumer at the time of the dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// The consumer's number.
    pub consumer: u32,
    /// The policy of its record buffers; `None` if the number is unknown.
    pub policy: Option<BufPolicy>,
    /// Its activity (`DTRACE_ACTIVITY_*`).
    pub activity: u32,
    /// The probes that it has enabled.
    pub probes: BTreeMap<u32, Probe>,
    /// Its enabled probes, by their numbers.
    pub eprobes: BTreeMap<u32, Eprobe>,
    /// Its aggregations, by their numbers.
    pub aggregations: BTreeMap<u32, Aggregation>,
    /// Its formats, by their numbers.
    pub formats: BTreeMap<u32, Vec<u8>>,
    /// Each CPU's buffers.
    pub cpus: Vec<Cpu>,
    /// Messages about parts that are left out, a line each.
    pub complaints: Vec<String>,
}

/// A CPU's buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Its records, the oldest first.
    pub records: Vec<u8>,
    /// Records that were dropped because the buffer was full.
    pub drops: u64,
    /// The number of times that a fault has aborted a clause.
    pub errors: u64,
    /// The time of its last record.
    pub latest: u64,
    /// Its aggregations' tuples.
    pub tuples: Vec<u8>,
    /// Values that were dropped because the buffer was full.
    pub tuple_drops: u64,
}

/// The maximum number of messages about missing consumers of a framework.
const MISSING: usize = 64;

/// Reads the sessions of all consumers that were tracing; adds messages about those that cannot be read.
pub(super) fn all(memory: &Memory<'_>, complaints: &mut Vec<String>) -> Vec<Traced> {
    let mut all = Vec::new();
    let cut = if memory.is_cut() { " (the file is truncated)" } else { "" };
    let said = complaints.len();
    let mut missing = |what: &str| {
        complaints.push(format!("{what}{cut}"));
        complaints.len() - said < MISSING
    };
    let header = &memory.header;
    let Some(enabled) = enabled(memory) else {
        missing("the enabled probes of the framework are not in the dump");
        return all;
    };
    let enabled = by(enabled, |of| of.consumer);
    for index in 0..header.consumers {
        let place = 2 * u64::from(index) * memory.word() as u64;
        let at = header.consumers_at.saturating_add(place);
        let words =
            memory.get_word(at).zip(memory.get_word(at.saturating_add(memory.word() as u64)));
        let Some((number, session)) = words else {
            missing("the consumers of the framework are not in the dump");
            break;
        };
        if number == 0 {
            continue;
        }
        match session_at(memory, session).filter(|of| u64::from(of.0.number) == number) {
            Some(session) => {
                let own = enabled.get(&index);
                all.push(one(memory, session, own.map_or(&[], Vec::as_slice)));
            }
            None => {
                if !missing(&format!(
                    "the session of consumer {number} is not at its recorded address"
                )) {
                    break;
                }
            }
        }
    }
    all
}

/// Returns enablings, grouped by one of their numbers.
fn by(all: Vec<Enabled>, number: impl Fn(&Enabled) -> u32) -> BTreeMap<u32, Vec<Enabled>> {
    let mut by: BTreeMap<u32, Vec<Enabled>> = BTreeMap::new();
    for of in all {
        by.entry(number(&of)).or_default().push(of);
    }
    by
}

/// A consumer's enablings, by their clauses.
type Clauses = BTreeMap<u32, Vec<Enabled>>;

/// The addresses of the parts of a session, as recorded when the consumer started tracing.
type Described = (Session, Vec<Note>, Vec<CpuNote>);

fn session_at(memory: &Memory<'_>, at: u64) -> Option<Described> {
    let session: Session = memory.get(at)?;
    if session.tag != SESSION || session.here != at {
        return None;
    }
    let [notes, cpus] = [
        memory.bytes(session.notes_at, u64::from(session.notes) * Note::SIZE as u64)?,
        memory.bytes(session.cpus_at, u64::from(memory.header.cpus) * CpuNote::SIZE as u64)?,
    ];
    let bytes = session.to_bytes();
    if session.check != check([&bytes[..Session::SIZE - 8], &notes, &cpus]) {
        return None;
    }
    let notes = memory.list(session.notes_at, session.notes.into())?;
    Some((session, notes, memory.list(session.cpus_at, memory.header.cpus.into())?))
}

fn one(memory: &Memory<'_>, (session, notes, cpus): Described, enabled: &[Enabled]) -> Traced {
    let mut traced = Traced {
        consumer: session.number,
        policy: BufPolicy::from_number(session.policy),
        activity: memory.get(session.activity_at).unwrap_or(0),
        ..Traced::default()
    };
    let clauses = by(enabled.to_vec(), |of| of.clause);
    for note in &notes {
        let read = match NoteKind::from_number(note.kind) {
            Some(NoteKind::Clause) => traced.clause(memory, note, &clauses),
            Some(NoteKind::Aggregation) => traced.aggregation(memory, note, &clauses),
            Some(NoteKind::Format) => {
                let text = memory.bytes(note.at, note.count.into());
                text.map(|text| drop(traced.formats.insert(note.id, text)))
            }
            None => None,
        };
        if read.is_none() {
            let (kind, id) = (note.kind, note.id);
            traced.complaints.push(format!(
                "the description of the programs of consumer {} (note {kind}, {id}) is not in the \
                 dump",
                session.number
            ));
        }
        if memory.is_spent() {
            break;
        }
    }
    for enabled in enabled {
        if traced.probes.contains_key(&enabled.probe) {
            continue;
        }
        if let Some(probe) = enabled.probe(memory) {
            traced.probes.insert(enabled.probe, probe);
        }
    }
    for (number, cpu) in cpus.iter().enumerate() {
        let mut found = Cpu::default();
        let read = traced.records(memory, cpu, &mut found);
        traced.complain(number, "records", read);
        let read = traced.tuples(memory, cpu, &mut found);
        traced.complain(number, "aggregations", read);
        traced.cpus.push(found);
    }
    if memory.is_spent() {
        traced.complaints.push(
            "the structures in the dump refer to the same memory repeatedly: dtrace skips the rest"
                .to_owned(),
        );
    }
    traced
}

fn data(memory: &Memory<'_>, note: &Note) -> Option<Vec<Datum>> {
    let all = memory.list::<RecordDesc>(note.at, note.count.into())?;
    let datum = |of: RecordDesc| {
        let RecordDesc { action, size, offset, alignment, format, arg, uarg, .. } = of;
        let end = offset.checked_add(size)?;
        (end <= note.size).then_some(Datum { action, size, offset, alignment, format, arg, uarg })
    };
    all.into_iter().map(datum).collect()
}

/// The result of reading a buffer, with the reason why a part is left out.
type Read = Result<(), String>;

impl Traced {
    fn complain(&mut self, cpu: usize, what: &str, read: Read) {
        if let Err(why) = read {
            self.complaints.push(format!("{what} of CPU {cpu}: {why}"));
        }
    }

    fn clause(&mut self, memory: &Memory<'_>, note: &Note, clauses: &Clauses) -> Option<()> {
        let data = data(memory, note)?;
        for of in clauses.get(&note.id).into_iter().flatten() {
            memory.spend((size_of::<Enabled>() + data.len() * RecordDesc::SIZE) as u64)?;
            let eprobe = Eprobe { probe: of.probe, size: note.size, data: data.clone() };
            self.eprobes.insert(of.epid, eprobe);
        }
        Some(())
    }

    fn aggregation(&mut self, memory: &Memory<'_>, note: &Note, clauses: &Clauses) -> Option<()> {
        let epid = clauses.get(&note.clause).and_then(|all| all.first()).map_or(0, |of| of.epid);
        let data = data(memory, note)?;
        let aggregation = Aggregation { variable: note.variable, epid, size: note.size, data };
        self.aggregations.insert(note.id, aggregation);
        Some(())
    }

    /// Reads the records of the buffer that the framework was filling.
    fn records(&self, memory: &Memory<'_>, cpu: &CpuNote, into: &mut Cpu) -> Read {
        let (note, state, words) = buffer(
            memory,
            (cpu.records_turn_at, [cpu.records, cpu.records_other]),
            RecordsState::size(memory.word()),
        )?;
        let state = RecordsState::read(&state, memory.word()).map_err(|error| error.to_string())?;
        (into.drops, into.errors) = (state.drops, state.errors);
        let RecordsState { head, oldest, turning, .. } = state;
        let (older, newer) = match (turning.checked_sub(1), oldest) {
            // While the ring wraps around, only the records from its beginning to the end of the last record are whole.
            (Some(end), _) => (0..0, 0..end),
            (None, u64::MAX) => (0..0, 0..head),
            (None, oldest) if oldest < head => {
                return Err(format!(
                    "the oldest record begins at {oldest}, before the end of the \
                     newest one at {head}"
                ));
            }
            (None, oldest) => (oldest..note.count, 0..head),
        };
        for part in [older, newer] {
            let range = part.start.saturating_mul(8) as usize..part.end.saturating_mul(8) as usize;
            let Some(inside) = words.get(range) else {
                return Err(format!(
                    "the fill level is {} words, but the size is {}",
                    part.end, note.count
                ));
            };
            self.whole_records(inside, into)?;
        }
        Ok(())
    }

    /// Copies records up to the first invalid one.
    fn whole_records(&self, bytes: &[u8], into: &mut Cpu) -> Read {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let torn = |why: String| {
                let left = rest.len();
                Err(format!("{why}: dtrace skips the {left} bytes from there on"))
            };
            let mut reader = dtrace_abi::reader::Reader::new(rest);
            if rest.get(..8).is_some_and(|word| word == [0; 8]) {
                at += 8;
                continue;
            }
            let Ok(header) = RecordHeader::read(&mut reader) else {
                return torn("the rest is shorter than a record".to_owned());
            };
            let Some(eprobe) = self.eprobes.get(&header.epid) else {
                return torn(format!(
                    "a record is incomplete, or its probe is no longer enabled (number {})",
                    header.epid
                ));
            };
            let size = eprobe.size as usize;
            let words = size.div_ceil(8) * 8;
            let Some(record) = rest.get(..words).filter(|_| size >= RecordHeader::SIZE) else {
                return torn(format!("a record of enabled probe {} is incomplete", header.epid));
            };
            into.records.extend(record);
            into.latest = into.latest.max(header.time());
            at += words;
        }
        Ok(())
    }

    /// Reads the tuples that were written after the consumer's last snapshot.
    fn tuples(&self, memory: &Memory<'_>, cpu: &CpuNote, into: &mut Cpu) -> Read {
        let (note, state, words) = buffer(
            memory,
            (cpu.tuples_turn_at, [cpu.tuples, cpu.tuples_other]),
            TuplesState::size(memory.word()),
        )?;
        let state = TuplesState::read(&state, memory.word()).map_err(|error| error.to_string())?;
        into.tuple_drops = state.drops.wrapping_sub(state.told);
        let filled = usize::try_from(state.used.saturating_mul(8)).ok();
        let Some(bytes) = filled.and_then(|filled| words.get(..filled)) else {
            return Err(format!(
                "the fill level is {} words, but the size is {}",
                state.used, note.count
            ));
        };
        let changing = state.changing.checked_sub(1).map(|at| at.saturating_mul(8));
        let (mut at, mut result) = (0, Ok(()));
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let id = rest.get(..4).map_or(0, |id| u32::from_le_bytes([id[0], id[1], id[2], id[3]]));
            let size = self.aggregations.get(&id).map_or(0, |of| of.size as usize);
            let Some(tuple) = rest.get(..size).filter(|_| size >= 8) else {
                let left = rest.len();
                return Err(format!(
                    "a tuple of aggregation {id} is incomplete: dtrace skips the {left} bytes from \
                     there on"
                ));
            };
            let range = at as u64..(at + size) as u64;
            if changing.is_some_and(|changing| range.contains(&changing)) {
                result = Err(format!(
                    "the kernel was changing a value of aggregation {id}: dtrace skips it"
                ));
            } else {
                into.tuples.extend(tuple);
            }
            at += size;
        }
        result
    }
}

/// Returns the buffer of the two that the framework was filling: its note, the bytes of its fill state, and its
/// content.
fn buffer(
    memory: &Memory<'_>,
    (turn_at, [one, other]): (u64, [BufferNote; 2]),
    state: usize,
) -> Result<(BufferNote, Vec<u8>, Vec<u8>), String> {
    let missing = || "not in the dump".to_owned();
    let turn = memory.get_word(turn_at).ok_or_else(missing)?;
    let note = if turn.is_multiple_of(2) { one } else { other };
    let state = memory.bytes(note.state_at, state as u64).ok_or_else(missing)?;
    let words = note.count.checked_mul(8).and_then(|bytes| memory.bytes(note.at, bytes));
    Ok((note, state, words.ok_or_else(missing)?))
}
