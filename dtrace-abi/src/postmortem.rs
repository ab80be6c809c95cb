//! The layout of the framework's memory for post-mortem tracing: `dtrace --core` finds it in a memory dump.
//!
//! This layout is specific to this project. On illumos, `mdb` reads DTrace's structures with the kernel's type
//! information; a framework in Rust has no such information. Therefore this module defines the path from the start of
//! the memory to the buffers, as little-endian words. `sdt-framework` writes it, `dtrace --core` reads it.
//!
//! All positions are offsets from the [`Header`], in bytes. So a reader needs no page table if the memory is contiguous
//! in the dump. The fields that change while probes fire are *words* of [`Header::word`] bytes. All other fields are
//! written before the offset that refers to them.
//!
//! | from | leads to |
//! |---|---|
//! | [`Header`] | two words for each possible consumer (its number, or 0 if unused, and the position of its [`Session`]); probes, with the chains of their enablings; providers; pages with the names of probes |
//! | [`Session`] | a [`CpuNote`] for each CPU, and [`Note`]s |
//! | [`Note`] | the layout of a clause's records or of an aggregation's tuples, or the text of a format |
//! | [`CpuNote`] | buffers: the position of their words, and their fill state |

/// The first bytes of a header.
pub const MAGIC: [u8; 16] = *b"\x7fsdt post-mortem";

/// Number of this layout.
pub const VERSION: u32 = 2;

/// The alignment of a header in bytes.
pub const ALIGNMENT: usize = 8;

/// The position of a clause identifies it, in units of this number of bytes.
pub const CLAUSE_UNIT: usize = 4;

/// A page with names has 2 to this power units.
pub const BLOCK_SHIFT: u32 = 7;

/// The bytes of a unit of a page with names.
pub const BLOCK_UNIT: usize = 8;

layout! {
    /// The start of the framework's memory.
    pub struct Header {
        /// [`MAGIC`].
        magic: [u8; 16],
        /// [`VERSION`].
        version: u32,
        /// The size of a word in bytes: 4 or 8.
        word: u32,
        /// The address of the header in the kernel's address space.
        address: u64,
        /// The size of the memory in bytes, including this header.
        size: u64,
        /// The greatest number of CPUs.
        cpus: u32,
        /// The greatest number of consumers.
        consumers: u32,
        /// The greatest number of enablings of probes.
        ecbs: u32,
        /// The greatest number of probes.
        probes: u32,
        /// The greatest number of providers.
        providers: u32,
        /// The greatest number of pages with names.
        pages: u32,
        /// The size of an enabling in bytes. It begins with the position in the list of the next enabling of its probe, from
        /// 1, in 4 bytes; 0 for the last one.
        ecb_size: u32,
        /// The offset in an enabling of the position of its consumer in the list of consumers, from 0, in 4 bytes.
        ecb_consumer: u32,
        /// The offset in an enabling of its number within this consumer, in 4 bytes.
        ecb_epid: u32,
        /// The offset in an enabling of the address of its clause, a word.
        ecb_clause: u32,
        /// The size of a probe in bytes.
        probe_size: u32,
        /// The offset in a probe of the number of its provider, from 1, in those of 4 bytes that `provider_bits` has.
        probe_provider: u32,
        /// The bits that have the number of a provider.
        provider_bits: u32,
        /// The offset in a probe of the position of its first enabling, from 1, in 4 bytes; 0 if it is not enabled.
        probe_ecb: u32,
        /// The offset in a probe of its names, 4 bytes each: module, function, name. Each is the number of a page from 0,
        /// times 2 to the power of [`BLOCK_SHIFT`], plus the offset in the page in units of [`BLOCK_UNIT`] bytes.
        probe_names: u32,
        /// The offset in a name of the number of its bytes, in 1 byte.
        name_length: u32,
        /// The offset in a name of its bytes.
        name_text: u32,
        /// The size of a provider in bytes. It begins with its name, which ends with a 0.
        provider_size: u32,
        /// The position of the list of consumers.
        consumers_at: u64,
        /// The position of the list of enablings.
        ecbs_at: u64,
        /// The position of the list of probes.
        probes_at: u64,
        /// The position of the list of providers.
        providers_at: u64,
        /// The position of the list of addresses of pages, each a word.
        pages_at: u64,
        /// [`check`] of all fields above.
        check: u64,
    }
}

impl Header {
    /// Returns the header with its [`check`] set.
    pub fn sealed(self) -> Self {
        let check = self.computed();
        Self { check, ..self }
    }

    /// Returns whether the magic number and the check are correct.
    pub fn is_whole(&self) -> bool {
        self.magic == MAGIC && self.check == self.computed()
    }

    fn computed(&self) -> u64 {
        let bytes = self.to_bytes();
        check([bytes.get(..Self::SIZE - 8).unwrap_or_default()])
    }
}

/// Returns a checksum (FNV-1a) over the bytes of all parts.
pub fn check<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325, step)
}

layout! {
    /// The data of a consumer that has started tracing.
    pub struct Session {
        /// [`SESSION`].
        tag: u32,
        /// The consumer's number.
        number: u32,
        /// The position of this structure.
        here: u64,
        /// The policy of its buffers of records ([`BufPolicy`](crate::option::BufPolicy)).
        policy: u32,
        /// The number of notes.
        notes: u32,
        /// The position of the array of [`Note`]s.
        notes_at: u64,
        /// The position of the [`CpuNote`]s, one for each CPU of the header.
        cpus_at: u64,
        /// The position of the consumer's activity, 32 bits (`DTRACE_ACTIVITY_*`).
        activity_at: u64,
        /// [`check`] of all fields above, followed by the notes and the [`CpuNote`]s.
        check: u64,
    }
}

/// The first word of a [`Session`].
pub const SESSION: u32 = u32::from_le_bytes(*b"sess");

layout! {
    /// A description of one part of a consumer's programs: a clause, an aggregation or a format.
    pub struct Note {
        /// A [`NoteKind`].
        kind: u32,
        /// For a clause: its position, in units of [`CLAUSE_UNIT`]. For an aggregation or a format: its number.
        id: u32,
        /// The position of its descriptions ([`RecordDesc`](crate::record::RecordDesc)), or of the text of a format.
        at: u64,
        /// The number of descriptions, or the size of the text in bytes.
        count: u32,
        /// The size in bytes of a record including its header, or of a tuple.
        size: u32,
        /// For an aggregation: the number of its variable.
        variable: u32,
        /// For an aggregation: the `id` of its clause.
        clause: u32,
    }
}

/// The subject of a [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NoteKind {
    /// The layout of a clause's records.
    Clause = 1,
    /// The layout of an aggregation's tuples.
    Aggregation = 2,
    /// The text of a format.
    Format = 3,
}

impl NoteKind {
    /// Returns the kind with this number, if one exists.
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
    /// A buffer of 64-bit units, and its fill state.
    pub struct BufferNote {
        /// The position of the array of units.
        at: u64,
        /// The number of units.
        count: u64,
        /// The position of the fill state: a [`RecordsState`] or a [`TuplesState`].
        state_at: u64,
    }
}

layout! {
    /// The buffers of a consumer on a CPU: two for each kind of data. The framework fills one of the two.
    pub struct CpuNote {
        /// The first buffer of records.
        records: BufferNote,
        /// The second buffer of this kind.
        records_other: BufferNote,
        /// The position of a word; if its lowest bit is set, the framework fills the second buffer.
        records_turn_at: u64,
        /// The first buffer of aggregations' tuples.
        tuples: BufferNote,
        /// The second buffer of this kind.
        tuples_other: BufferNote,
        /// The position of a word like that of `records_turn_at`, for tuples.
        tuples_turn_at: u64,
    }
}

/// The fill state of a buffer of records, in units of the buffer. The framework writes the words in an order that keeps
/// the state valid wherever a CPU stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsState {
    /// Records that were dropped because the buffer was full (64 bits).
    pub drops: u64,
    /// Executions of clauses that were aborted by an error (64 bits).
    pub errors: u64,
    /// The position of the next record (a word, like the fields that follow).
    pub head: u64,
    /// The position of the oldest record of a ring that has wrapped around; otherwise all bits are set.
    pub oldest: u64,
    /// While a ring wraps around: the end of its last record plus 1; the units after that end are being changed.
    /// Otherwise 0.
    pub turning: u64,
}

impl RecordsState {
    /// Returns the size of a state in bytes for words of `word` bytes.
    pub const fn size(word: usize) -> usize {
        16 + 3 * word
    }

    /// Reads a state from its bytes.
    ///
    /// # Errors
    /// `bytes` is too short.
    pub fn read(bytes: &[u8], word: usize) -> Result<Self, crate::reader::Truncated> {
        let reader = &mut crate::reader::Reader::new(bytes);
        let (drops, errors) = (long(reader)?, long(reader)?);
        let (head, oldest, turning) =
            (read_word(reader, word)?, read_word(reader, word)?, read_word(reader, word)?);
        Ok(Self { drops, errors, head, oldest, turning })
    }
}

/// The fill state of a buffer of tuples, in units of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuplesState {
    /// The part of `drops` that the framework has already reported (64 bits).
    pub told: u64,
    /// Values that were dropped because the buffer was full (64 bits).
    pub drops: u64,
    /// The position of the next tuple (a word, like the field that follows).
    pub used: u64,
    /// While a tuple whose value consists of several numbers is being changed: the start of the value plus 1. Otherwise
    /// 0.
    pub changing: u64,
}

impl TuplesState {
    /// Returns the size of a state in bytes for words of `word` bytes.
    pub const fn size(word: usize) -> usize {
        16 + 2 * word
    }

    /// Reads a state from its bytes.
    ///
    /// # Errors
    /// `bytes` is too short.
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

/// Reads a word of `word` bytes. Returns all bits set for a word of 4 bytes with all bits set.
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
