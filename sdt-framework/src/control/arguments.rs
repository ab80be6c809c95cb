//! The clause that records a probe's arguments, for consumers in the kernel that have no compiler: what
//! `{ trace(arg0); ... trace(arg9); }` compiles to.

use dtrace_abi::dif::{Builtin, DifType, Instr, Opcode};
use dtrace_abi::reader::Reader;
use dtrace_abi::record::RecordHeader;
use sdt_core::ops::ARGS;

use crate::machine::Difo;

/// Returns the program that loads one argument.
pub(super) const fn code(index: u8) -> [Instr; 2] {
    let (argument, register) = (Builtin::Arg0.number() + index as u16, 1);
    [Instr::var(Opcode::Ldgs, argument, register), Instr::ret(register)]
}

/// Creates a DIFO whose result is a number.
pub(super) const fn difo(code: &[Instr]) -> Difo<'_> {
    let returns = DifType::integer(8);
    Difo { code, integers: &[], strings: &[], variables: &[], returns }
}

/// The record of a hit of a probe that was enabled by [`Dtrace::enable`](crate::Dtrace::enable).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the enabled probe, which [`Dtrace::eprobe`](crate::Dtrace::eprobe) describes.
    pub epid: u32,
    /// The time of the hit in nanoseconds since boot.
    pub timestamp: u64,
    /// The arguments. If the probe does not have an argument, its value is 0 or the result of the provider's
    /// `getargval`.
    pub args: [u64; ARGS],
}

impl Record {
    /// Bytes of a record in a buffer.
    pub const SIZE: usize = RecordHeader::SIZE.next_multiple_of(8) + 8 * ARGS;

    fn read(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let header = RecordHeader::read(&mut reader).ok()?;
        let arguments = bytes.as_chunks().0.iter().skip(Self::SIZE / 8 - ARGS);
        let mut args = [0; ARGS];
        args.iter_mut().zip(arguments).for_each(|(arg, bytes)| *arg = u64::from_le_bytes(*bytes));
        Some(Self { epid: header.epid, timestamp: header.time(), args })
    }
}

/// Returns the records in the bytes of a [snapshot](crate::Dtrace::snapshot), for a consumer that has enabled probes
/// only with [`Dtrace::enable`](crate::Dtrace::enable). Skips incomplete records.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    bytes.as_chunks().0.iter().filter_map(Record::read)
}
