//! The description of the framework's memory for dumps, from which `dtrace --core` reads the last records.
//!
//! The layout is that of [`dtrace_abi::postmortem`]. With the framework's lock held, data are written before the offsets that
//! lead to them, so that the description is consistent wherever the machine stops. The framework does not read them.

use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

use dtrace_abi::postmortem::{
    ALIGNMENT, BLOCK_SHIFT, BLOCK_UNIT, BufferNote, CLAUSE_UNIT, CpuNote, Header, MAGIC, Note,
    NoteKind, RecordsState, SESSION, Session, TuplesState, VERSION, check,
};
use dtrace_abi::record::RecordDesc;

use crate::base::arena::{Arena, Bundle};
use crate::base::chain::Node;
use crate::base::names::{Entry, TEXT};
use crate::base::origin::SourceCell;
use crate::base::pages;
use crate::control::config::Config;
use crate::control::programs::{self, Programs};
use crate::registry::live::{Layout, LiveProbe};
use crate::run::buffer::RecordBuffer;
use crate::run::clause::Clause;
use crate::run::consumer;
use crate::run::fire::Enabled;
use crate::run::pair::Pair;
use crate::run::state::{Aggregated, RunState};

/// The bytes of the header.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Head([u8; Header::SIZE]);

const _: () = assert!(align_of::<Head>() == ALIGNMENT);
const _: () = assert!(pages::SHIFT == BLOCK_SHIFT && pages::UNIT == BLOCK_UNIT);

impl Head {
    /// Allocates an empty header, as the first allocation of the memory. Readers do not accept it before `begin`.
    pub(crate) fn first(arena: &mut Arena) -> Option<&'static mut Self> {
        Some(arena.alloc(Self([0; Header::SIZE]))?.leak())
    }
}

/// A consumer: its number, or 0, and the offset of its [`Session`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Consumer {
    number: AtomicUsize,
    session: AtomicUsize,
}

/// The description of the memory.
#[derive(Debug)]
pub(crate) struct Map {
    /// The address of the header.
    base: usize,
    consumers: &'static [Consumer],
}

impl Map {
    pub(crate) const fn none() -> Self {
        Self { base: 0, consumers: &[] }
    }

    /// Allocates the tables; `None` if there is no room.
    pub(crate) fn new(arena: &mut Arena, config: &Config) -> Option<Self> {
        let consumer = |_| Consumer { number: AtomicUsize::new(0), session: AtomicUsize::new(0) };
        Some(Self { base: 0, consumers: arena.slice(config.consumers, consumer)?.leak() })
    }

    /// Writes the header, by which readers find the memory.
    pub(crate) fn begin(
        &mut self,
        head: &'static mut Head,
        end: usize,
        cpus: usize,
        tables: &Layout<Enabled>,
    ) {
        let Layout { probes, sources, nodes, .. } = *tables;
        let pages = sources.names.pages();
        let enabled = |field: usize| (Node::<Enabled>::BODY + field) as u32;
        self.base = core::ptr::from_ref(head).addr();
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            word: size_of::<usize>() as u32,
            address: self.base as u64,
            size: end.saturating_sub(self.base) as u64,
            cpus: cpus as u32,
            consumers: self.consumers.len() as u32,
            ecbs: nodes.len() as u32,
            probes: probes.len() as u32,
            providers: sources.providers.len() as u32,
            pages: pages.len() as u32,
            ecb_size: size_of::<Node<Enabled>>() as u32,
            ecb_consumer: enabled(offset_of!(Enabled, consumer)),
            ecb_epid: enabled(offset_of!(Enabled, epid)),
            ecb_clause: enabled(offset_of!(Enabled, clause)),
            probe_size: size_of::<LiveProbe>() as u32,
            probe_provider: tables.state as u32,
            provider_bits: tables.provider,
            probe_ecb: tables.chain as u32,
            probe_names: tables.names as u32,
            name_length: offset_of!(Entry, length) as u32,
            name_text: TEXT as u32,
            provider_size: size_of::<SourceCell>() as u32,
            consumers_at: self.offset(self.consumers.as_ptr()),
            ecbs_at: self.offset(nodes.as_ptr()),
            probes_at: self.offset(probes.as_ptr()),
            providers_at: self.offset(sources.providers.as_ptr()),
            pages_at: self.offset(pages.as_ptr()),
            check: 0,
        };
        head.0 = header.sealed().to_bytes();
    }

    /// Returns the offset of an address in the memory.
    fn offset<T>(&self, at: *const T) -> u64 {
        at.addr().wrapping_sub(self.base) as u64
    }

    fn clause(&self, clause: *const Clause) -> u32 {
        (self.offset(clause) / CLAUSE_UNIT as u64) as u32
    }

    /// Publishes the description of a consumer.
    pub(crate) fn publish(&self, consumer: usize, number: u32, session: &'static SessionBytes) {
        let Some(place) = self.consumers.get(consumer) else { return };
        let at = core::ptr::from_ref(session).addr().wrapping_sub(self.base);
        place.session.store(at, Ordering::Relaxed);
        place.number.store(number as usize, Ordering::Release);
    }

    /// Retracts the description of a consumer, before its memory is overwritten.
    pub(crate) fn retract(&self, consumer: usize) {
        if let Some(place) = self.consumers.get(consumer) {
            place.number.store(0, Ordering::SeqCst);
        }
    }

    /// Describes a consumer's programs and buffers; `None` if there is no room.
    pub(crate) fn describe(
        &self,
        arena: &mut Arena,
        bundle: &mut Bundle,
        consumer: &consumer::Consumer,
        programs: &Programs,
        (state, cpus): (&RunState, usize),
    ) -> Option<&'static SessionBytes> {
        let notes = bundle.slice(arena, programs.notes().count(), |_| [0; Note::SIZE])?;
        for (place, about) in notes.iter_mut().zip(programs.notes()) {
            *place = self.note(arena, bundle, about)?.to_bytes();
        }
        let nothing = self.offset(core::ptr::from_ref(bundle.alloc(arena, NOTHING)?));
        let cpus = bundle.slice(arena, cpus, |cpu| {
            let note = match state.here(cpu) {
                Some(cpu) => self.cpu(cpu.records.places(), &cpu.aggregated),
                None => {
                    let empty = BufferNote { at: nothing, count: 0, state_at: nothing };
                    CpuNote {
                        records: empty,
                        records_other: empty,
                        records_turn_at: nothing,
                        tuples: empty,
                        tuples_other: empty,
                        tuples_turn_at: nothing,
                    }
                }
            };
            note.to_bytes()
        })?;
        let place: &'static mut SessionBytes = bundle.alloc(arena, [0; Session::SIZE])?;
        let session = Session {
            tag: SESSION,
            number: state.number,
            here: self.offset(&raw const *place),
            policy: state.policy as u32,
            notes: notes.len() as u32,
            notes_at: self.offset(notes.as_ptr()),
            cpus_at: self.offset(cpus.as_ptr()),
            activity_at: self.offset(consumer.activity_word()),
            check: 0,
        };
        let bytes = session.to_bytes();
        let own = bytes.get(..Session::SIZE - 8).unwrap_or_default();
        let parts = [own, notes.as_flattened(), cpus.as_flattened()];
        *place = Session { check: check(parts), ..session }.to_bytes();
        Some(place)
    }

    fn note(&self, arena: &mut Arena, bundle: &mut Bundle, about: programs::Note) -> Option<Note> {
        let mut descriptions = |all: &mut dyn Iterator<Item = &RecordDesc>, count: usize| {
            let next = |_| all.next().map_or([0; RecordDesc::SIZE], RecordDesc::to_bytes);
            bundle.slice(arena, count, next).map(|all| (self.offset(all.as_ptr()), count as u32))
        };
        let empty = Note { kind: 0, id: 0, at: 0, count: 0, size: 0, variable: 0, clause: 0 };
        Some(match about {
            programs::Note::Clause(clause) => {
                let (at, count) = descriptions(&mut clause.data(), clause.data().count())?;
                let (kind, id) = (NoteKind::Clause as u32, self.clause(clause));
                Note { kind, id, at, count, size: clause.layout.size(), ..empty }
            }
            programs::Note::Aggregation(clause, of) => {
                let all = || clause.tuple(of);
                let (at, count) = descriptions(&mut all(), all().count())?;
                let (kind, clause) = (NoteKind::Aggregation as u32, self.clause(clause));
                Note { kind, id: of.id, at, count, size: of.size(), variable: of.variable, clause }
            }
            programs::Note::Format(number, text) => {
                let (kind, id) = (NoteKind::Format as u32, number.into());
                Note { kind, id, at: self.offset(text.as_ptr()), count: text.len() as u32, ..empty }
            }
        })
    }

    fn cpu(
        &self,
        (records, records_turn): ([*const RecordBuffer; 2], *const crate::base::sync::AtomicUsize),
        aggregated: &Pair<Aggregated>,
    ) -> CpuNote {
        let (tuples, tuples_turn) = aggregated.places();
        let records = records.map(|of| {
            // SAFETY: `describe` is called before the consumer starts, so no CPU writes to the buffers.
            let words = unsafe { &*of }.words();
            let (at, count) = (self.offset(words.as_ptr()), words.len() as u64);
            BufferNote { at, count, state_at: self.offset(of) }
        });
        let tuples = tuples.map(|of| {
            // SAFETY: `describe` is called before the consumer starts, so no CPU writes to the buffers.
            let words = unsafe { &*of }.buffer.words();
            let (at, count) = (self.offset(words.as_ptr()), words.len() as u64);
            BufferNote { at, count, state_at: self.offset(of) }
        });
        let ([records, records_other], [tuples, tuples_other]) = (records, tuples);
        CpuNote {
            records,
            records_other,
            records_turn_at: self.offset(records_turn),
            tuples,
            tuples_other,
            tuples_turn_at: self.offset(tuples_turn),
        }
    }
}

/// The state of the empty buffers of a CPU that is not traced.
const NOTHING: [u64; 8] = [0; 8];
const _: () = assert!(RecordsState::size(8) <= 64 && TuplesState::size(8) <= 64);

/// The bytes of a [`Session`].
pub(crate) type SessionBytes = [u8; Session::SIZE];

/// Returns the largest number of bytes that the tables take.
pub(crate) const fn footprint(config: &Config) -> usize {
    Arena::footprint::<Head>(1).saturating_add(Arena::footprint::<Consumer>(config.consumers))
}

/// Returns the largest number of bytes that the description of a consumer takes, for this number of clauses, each of which
/// records `data` numbers.
pub(super) const fn session_footprint(cpus: usize, clauses: usize, data: usize) -> usize {
    Bundle::footprint::<[u8; Note::SIZE]>(clauses)
        .saturating_add(clauses * Bundle::footprint::<[u8; RecordDesc::SIZE]>(data))
        .saturating_add(Bundle::footprint::<[u64; 8]>(1))
        .saturating_add(Bundle::footprint::<[u8; CpuNote::SIZE]>(cpus))
        .saturating_add(Bundle::footprint::<SessionBytes>(1))
}
