//! Compressed sections (gABI 4.3, "Section Compression"): zlib only.

use flate2::{Decompress, FlushDecompress, Status};

/// The size of `Elf64_Chdr`, with which a compressed section begins.
pub(super) const HEADER: usize = 24;
/// The type in it (`ch_type`) for zlib.
pub(super) const ZLIB: u32 = 1;

/// Decompresses the bytes after the header. Returns `false` if they do not fill `to` exactly.
pub(super) fn inflate(from: &[u8], to: &mut [u8]) -> bool {
    let mut zlib = Decompress::new(true);
    let result = zlib.decompress(from, to, FlushDecompress::Finish);
    matches!(result, Ok(Status::StreamEnd)) && zlib.total_out() == to.len() as u64
}
