//! A module in the form in which it is mapped.

use alloc::vec::Vec;
use core::ffi::CStr;

/// Bytes in a page: what a protection applies to.
pub const PAGE: usize = 4096;

/// Most memory that one module may take.
pub const MAX_SIZE: usize = 64 << 20;

/// Rights to a range of memory. No memory is both writable and executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Code.
    Execute,
    /// Constants.
    Read,
    /// Data.
    Write,
}

/// Pages with one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the image; a multiple of [`PAGE`].
    pub offset: usize,
    /// Bytes; a multiple of [`PAGE`].
    pub size: usize,
    /// Rights to them.
    pub protection: Protection,
}

/// Returns whether all of these bytes are memory with this protection, in the image at `base`.
pub fn holds(
    base: u64,
    segments: &[Segment],
    address: u64,
    size: usize,
    protection: Protection,
) -> bool {
    let at = address.checked_sub(base).and_then(|at| usize::try_from(at).ok());
    at.is_some_and(|at| {
        segments.iter().any(|segment| {
            let left = segment.size.checked_sub(at.wrapping_sub(segment.offset));
            segment.protection == protection
                && at >= segment.offset
                && left.is_some_and(|left| left >= size)
        })
    })
}

/// A module in the form in which it is mapped.
#[derive(Clone, Debug)]
pub struct Image {
    base: u64,
    bytes: Vec<u8>,
    segments: Vec<Segment>,
}

impl Image {
    /// Bytes for the address `base`, and the protections that they are to have.
    pub const fn new(base: u64, bytes: Vec<u8>, segments: Vec<Segment>) -> Self {
        Self { base, bytes, segments }
    }

    /// Bytes that the image takes, a multiple of [`PAGE`].
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the address at which the image is to be mapped.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Everything the image holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its protections, in order, without gaps.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Memory of the module, by address.
    pub fn read<const N: usize>(&self, address: u64) -> Option<&[u8; N]> {
        self.from(address)?.first_chunk()
    }

    /// Text of the module that ends with a NUL, by address.
    pub fn text(&self, address: u64) -> Option<&str> {
        self.c_str(address)?.to_str().ok()
    }

    /// Bytes of the module that end with a NUL, by address.
    pub fn c_str(&self, address: u64) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.from(address)?).ok()
    }

    /// Returns whether all of these bytes are memory of the module with this protection.
    pub fn holds(&self, address: u64, size: usize, protection: Protection) -> bool {
        holds(self.base, &self.segments, address, size, protection)
    }

    /// Returns whether an address is that of code of the module.
    pub fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let start = self.base + segment.offset as u64;
            segment.protection == Protection::Execute
                && (start..start + segment.size as u64).contains(&address)
        })
    }

    fn from(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get(offset..)
    }
}
