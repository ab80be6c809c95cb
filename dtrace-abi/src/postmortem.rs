//! What a framework keeps in its memory for who finds that in a dump: post-mortem tracing.
//!
//! This is the project's own: DTrace has `mdb` look into the kernel's structures with the kernel's types, which a framework in
//! Rust has not. So what leads from the memory's beginning to the buffers is laid down here, as words, little endian. It is
//! written by `sdt-framework`, and read by `dtrace --core`.
//!
//! All places are offsets from the [`Header`], in bytes; so a reader needs no page table, as long as the memory is in one piece
//! in the dump. What changes while probes fire are *words*, as wide as [`Header::word`] says; all else is written before
//! what leads there.
//!
//! | from | leads to |
//! |---|---|
//! | [`Header`] | for each consumer there can be, two words: its number, 0 if there is none, and where its [`Session`] is; for each enabled probe an [`Enabled`]; names |
//! | [`Session`] | a [`CpuNote`] for each CPU, and [`Note`]s |
//! | [`Note`] | what a clause records, what an aggregation holds, a format |
//! | [`CpuNote`] | buffers: where their words are, and how far they are filled |

/// What a header begins with.
pub const MAGIC: [u8; 16] = *b"\x7fsdt post-mortem";

/// Number of this layout.
pub const VERSION: u32 = 1;

/// A header begins at a multiple of so many bytes.
pub const ALIGNMENT: usize = 8;

/// Clauses are told apart by where they are, in units of so many bytes.
pub const CLAUSE_UNIT: usize = 4;

layout! {
    /// What the framework's memory begins with.
    pub struct Header {
        /// [`MAGIC`].
        magic: [u8; 16],
        /// [`VERSION`].
        version: u32,
        /// Bytes of a word: 4 or 8.
        word: u32,
        /// Where the header is in the kernel's address space.
        address: u64,
        /// Bytes of the memory, from here on.
        size: u64,
        /// CPUs, consumers, enabled probes, probes and providers that there can be.
        cpus: u32,
        /// See `cpus`.
        consumers: u32,
        /// See `cpus`.
        ecbs: u32,
        /// See `cpus`.
        probes: u32,
        /// See `cpus`.
        providers: u32,
        /// Bytes of the names of a probe.
        names_size: u32,
        /// Where in these that of the module is; each ends with a 0.
        module: u32,
        /// Where that of the function is.
        function: u32,
        /// Where its own is.
        name: u32,
        /// Bytes of the name of a provider.
        provider_name_size: u32,
        /// Where the consumers are.
        consumers_at: u64,
        /// Where the enabled probes are.
        ecbs_at: u64,
        /// Where the names of providers are.
        provider_names_at: u64,
        /// Where the names of probes are.
        names_at: u64,
        /// [`check`] of all that.
        check: u64,
    }
}

impl Header {
    /// The header with its check.
    pub fn sealed(self) -> Self {
        let check = self.computed();
        Self { check, ..self }
    }

    /// Whether it is one of this version, and whole.
    pub fn is_whole(&self) -> bool {
        self.magic == MAGIC && self.check == self.computed()
    }

    fn computed(&self) -> u64 {
        let bytes = self.to_bytes();
        check([bytes.get(..Self::SIZE - 8).unwrap_or_default()])
    }
}

/// A sum over bytes by which those that belong together are told from others (FNV-1a).
pub fn check<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325, step)
}

layout! {
    /// An enabled probe.
    pub struct Enabled {
        /// Which consumer's: from 1, in the order of the header's; 0 if this is none.
        consumer: u32,
        /// Its number among that consumer's.
        epid: u32,
        /// The number of the probe, from 1.
        probe: u32,
        /// The number of the probe's provider, from 0.
        provider: u32,
        /// Where its clause is, in units of [`CLAUSE_UNIT`]: the `id` of the clause's [`Note`]. 0 if it is not enabled by a program.
        clause: u32,
    }
}

layout! {
    /// What a consumer has that has gone.
    pub struct Session {
        /// [`SESSION`].
        tag: u32,
        /// The consumer's number.
        number: u32,
        /// Where this is.
        here: u64,
        /// The policy of its buffers of records ([`BufPolicy`](crate::option::BufPolicy)).
        policy: u32,
        /// How many notes there are.
        notes: u32,
        /// Where they are.
        notes_at: u64,
        /// Where the notes of CPUs are, as many as the header says.
        cpus_at: u64,
        /// Where there is, as 32 bits, what it does (`DTRACE_ACTIVITY_*`).
        activity_at: u64,
        /// [`check`] of all that, and of the notes and those of CPUs behind one another.
        check: u64,
    }
}

/// What a [`Session`] begins with.
pub const SESSION: u32 = u32::from_le_bytes(*b"sess");

layout! {
    /// One thing that a consumer's programs have.
    pub struct Note {
        /// A [`NoteKind`].
        kind: u32,
        /// Of a clause, where it is, in units of [`CLAUSE_UNIT`]; the number of an aggregation or a format.
        id: u32,
        /// Where its descriptions are ([`RecordDesc`](crate::record::RecordDesc)), or the text.
        at: u64,
        /// How many descriptions there are; bytes of the text.
        count: u32,
        /// Bytes of a record, its header and all; of a tuple.
        size: u32,
        /// Of an aggregation, the number of its variable.
        variable: u32,
        /// Of an aggregation, the clause it is in.
        clause: u32,
    }
}

/// What a [`Note`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NoteKind {
    /// What the records of a clause's are.
    Clause = 1,
    /// What the tuples of an aggregation's are.
    Aggregation = 2,
    /// The text of a format.
    Format = 3,
}

impl NoteKind {
    /// The kind with a number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Clause),
            2 => Some(Self::Aggregation),
            3 => Some(Self::Format),
            _ => None,
        }
    }
}

layout! {
    /// A buffer: 64-bit units, and how far they are filled.
    pub struct BufferNote {
        /// Where they are.
        at: u64,
        /// How many there are.
        count: u64,
        /// Where it stands how far they are filled: a [`RecordsState`] or [`TuplesState`].
        state_at: u64,
    }
}

layout! {
    /// What a CPU has for a consumer. Of each kind there are two buffers, one of which is being filled.
    pub struct CpuNote {
        /// Those of records.
        records: BufferNote,
        /// The other one.
        records_other: BufferNote,
        /// Where the word is whose lowest bit says that it is the other one that is being filled.
        records_turn_at: u64,
        /// Those of aggregations' tuples.
        tuples: BufferNote,
        /// The other one.
        tuples_other: BufferNote,
        /// As `records_turn_at`.
        tuples_turn_at: u64,
    }
}

/// How far a buffer of records is filled, in its units. Its words are written in an order by which it is true whenever a CPU
/// stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsState {
    /// Records that found no room (64 bits).
    pub drops: u64,
    /// Programs that were given up (64 bits).
    pub errors: u64,
    /// Where the next record goes (a word; so with those that follow).
    pub head: u64,
    /// Where the oldest record begins, of a ring that has gone round; else all bits are set.
    pub oldest: u64,
    /// A ring is just going round: one more than where its last record ends. All that is behind that is being changed. Else 0.
    pub turning: u64,
}

impl RecordsState {
    /// Bytes of one with words of so many bytes.
    pub const fn size(word: usize) -> usize {
        16 + 3 * word
    }

    /// The one that these bytes are.
    ///
    /// # Errors
    /// There are fewer.
    pub fn read(bytes: &[u8], word: usize) -> Result<Self, crate::reader::Truncated> {
        let reader = &mut crate::reader::Reader::new(bytes);
        let (drops, errors) = (long(reader)?, long(reader)?);
        let (head, oldest, turning) =
            (read_word(reader, word)?, read_word(reader, word)?, read_word(reader, word)?);
        Ok(Self { drops, errors, head, oldest, turning })
    }
}

/// How far a buffer of tuples is filled, in its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuplesState {
    /// Of the drops those that have been told (64 bits).
    pub told: u64,
    /// Values that found no room (64 bits).
    pub drops: u64,
    /// Where the next tuple goes (a word; so with what follows).
    pub used: u64,
    /// A tuple whose value is several numbers is just being changed: one more than where the value begins. Else 0.
    pub changing: u64,
}

impl TuplesState {
    /// Bytes of one with words of so many bytes.
    pub const fn size(word: usize) -> usize {
        16 + 2 * word
    }

    /// The one that these bytes are.
    ///
    /// # Errors
    /// There are fewer.
    pub fn read(bytes: &[u8], word: usize) -> Result<Self, crate::reader::Truncated> {
        let reader = &mut crate::reader::Reader::new(bytes);
        let (told, drops) = (long(reader)?, long(reader)?);
        let (used, changing) = (read_word(reader, word)?, read_word(reader, word)?);
        Ok(Self { told, drops, used, changing })
    }
}

fn long(reader: &mut crate::reader::Reader<'_>) -> Result<u64, crate::reader::Truncated> {
    crate::reader::Field::read(reader)
}

/// A word of so many bytes; one of 4 bytes that has all bits set has all bits set.
fn read_word(
    reader: &mut crate::reader::Reader<'_>,
    word: usize,
) -> Result<u64, crate::reader::Truncated> {
    if word == 8 {
        return long(reader);
    }
    let short: u32 = crate::reader::Field::read(reader)?;
    Ok(if short == u32::MAX { u64::MAX } else { short.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    #[test]
    fn a_header_is_told_from_others() {
        let header = Header::read(&mut Reader::new(&[0; Header::SIZE])).unwrap();
        let header = Header { magic: MAGIC, version: VERSION, word: 8, ..header }.sealed();
        assert!(header.is_whole());
        let bytes = header.to_bytes();
        assert_eq!(Header::read(&mut Reader::new(&bytes)), Ok(header));
        for at in 0..Header::SIZE {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert!(!Header::read(&mut Reader::new(&bytes)).unwrap().is_whole(), "{at}");
        }
    }

    #[test]
    fn words_are_as_wide_as_they_are() {
        let mut bytes = [0; 40];
        bytes[16] = 3;
        bytes[20..24].fill(0xff);
        let narrow = RecordsState::read(&bytes[..RecordsState::size(4)], 4).unwrap();
        assert_eq!((narrow.head, narrow.oldest, narrow.turning), (3, u64::MAX, 0));
        let wide = RecordsState::read(&bytes, 8).unwrap();
        assert_eq!((wide.head, wide.oldest), (3 | 0xffff_ffff << 32, 0));
        assert!(RecordsState::read(&bytes[..39], 8).is_err());
    }
}
