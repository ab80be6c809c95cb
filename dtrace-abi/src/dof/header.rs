//! The header of the file.

use super::{DofError, Problem};
use crate::dif;
use crate::limits;
use crate::reader::Reader;

/// The first four bytes (`DOF_MAG_STRING`).
pub const MAGIC: [u8; 4] = *b"\x7fDOF";
/// Longs and pointers have 64 bits (`DOF_MODEL_LP64`).
pub const MODEL_LP64: u8 = 2;
/// Little endian (`DOF_ENCODE_LSB`).
pub const ENCODING_LSB: u8 = 1;
/// The version that D programs use (`DOF_VERSION_1`). It has no is-enabled probes.
pub const VERSION_1: u8 = 1;
/// The latest version (`DOF_VERSION`).
pub const VERSION: u8 = 2;

layout! {
    /// The header (`dof_hdr_t`), with its sixteen identification bytes as separate fields.
    pub struct Header {
        /// [`MAGIC`].
        magic: [u8; 4],
        /// [`MODEL_LP64`].
        model: u8,
        /// [`ENCODING_LSB`].
        encoding: u8,
        /// [`VERSION`] or lower.
        version: u8,
        /// [`dif::VERSION`].
        dif_version: u8,
        /// The number of integer registers that the compiler used.
        integer_registers: u8,
        /// The number of tuple registers that the compiler used.
        tuple_registers: u8,
        /// Zeroes.
        ident_pad: [u8; 6],
        /// Zero.
        flags: u32,
        /// The size of this header in bytes.
        header_size: u32,
        /// The size of a section header in bytes.
        section_size: u32,
        /// The number of sections.
        section_count: u32,
        /// The offset of the section headers.
        section_offset: u64,
        /// The size in bytes of the loaded part, from the beginning of the file.
        load_size: u64,
        /// The size of the file in bytes.
        file_size: u64,
        /// Unused.
        pad: u64,
    }
}

impl Header {
    /// Reads the header and checks its fields, like `dtrace_dof_slurp` (dtrace.c).
    ///
    /// # Errors
    ///
    /// The first error.
    pub fn parse(bytes: &[u8]) -> Result<Self, DofError> {
        let header = Self::read(&mut Reader::new(bytes))?;
        let is = |ok: bool, at: u64, problem: Problem| {
            if ok { Ok(()) } else { Err(DofError { at, problem }) }
        };
        is(header.magic == MAGIC, 0, Problem::Magic)?;
        is(header.model == MODEL_LP64, 4, Problem::Model(header.model))?;
        is(header.encoding == ENCODING_LSB, 5, Problem::Encoding(header.encoding))?;
        is((1..=VERSION).contains(&header.version), 6, Problem::Version(header.version))?;
        is(header.dif_version == dif::VERSION, 7, Problem::DifVersion(header.dif_version))?;
        is(
            header.integer_registers <= limits::INTEGER_REGISTERS,
            8,
            Problem::IntegerRegisters(header.integer_registers),
        )?;
        is(
            header.tuple_registers <= limits::TUPLE_REGISTERS,
            9,
            Problem::TupleRegisters(header.tuple_registers),
        )?;
        is(header.ident_pad == [0; 6], 10, Problem::Padding)?;
        is(header.flags == 0, 16, Problem::Flags(header.flags))?;
        is(
            header.section_size as usize == super::Section::SIZE,
            24,
            Problem::Size(header.section_size.into()),
        )?;
        is(
            header.section_count <= limits::DOF_SECTIONS,
            28,
            Problem::SectionCount(header.section_count),
        )?;
        is(header.section_offset % 8 == 0, 32, Problem::Alignment(8))?;
        is(
            (Self::SIZE as u64..limits::DOF_SIZE).contains(&header.load_size)
                && header.load_size <= bytes.len() as u64,
            40,
            Problem::Size(header.load_size),
        )?;
        is(header.load_size <= header.file_size, 48, Problem::Size(header.file_size))?;
        Ok(header)
    }
}
