//! A module in the form in which it is mapped.

use alloc::vec::Vec;
use core::ffi::CStr;

/// The size of a page in bytes. A protection applies to whole pages.
pub const PAGE: usize = 4096;

/// The maximum size of a module in memory, in bytes.
pub const MAX_SIZE: usize = 64 << 20;

/// The access rights to a range of memory. A kernel may map code as writable, too: see
/// [`Memory::map`](crate::memory::Memory::map).
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

/// Returns whether the `size` bytes at `address` are in one segment with this protection, in the image at `base`.
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
    /// Creates an image of `bytes` for the address `base`, with the protections in `segments`.
    pub const fn new(base: u64, bytes: Vec<u8>, segments: Vec<Segment>) -> Self {
        Self { base, bytes, segments }
    }

    /// Returns the size of the image in bytes, a multiple of [`PAGE`].
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the address at which the image is to be mapped.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the contents of the image.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the segments of the image, in the order of their addresses and without gaps.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the `N` bytes of the module at `address`; `None` if they are outside of the image.
    pub fn read<const N: usize>(&self, address: u64) -> Option<&[u8; N]> {
        self.from(address)?.first_chunk()
    }

    /// Returns the NUL-terminated UTF-8 string of the module at `address`.
    pub fn text(&self, address: u64) -> Option<&str> {
        self.c_str(address)?.to_str().ok()
    }

    /// Returns the NUL-terminated string of the module at `address`.
    pub fn c_str(&self, address: u64) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.from(address)?).ok()
    }

    /// Returns whether the `size` bytes at `address` are in one segment of the module with this protection.
    pub fn holds(&self, address: u64, size: usize, protection: Protection) -> bool {
        holds(self.base, &self.segments, address, size, protection)
    }

    /// Returns whether `address` is in the code of the module.
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
