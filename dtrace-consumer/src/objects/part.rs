//! A section of debug information, as gimli reads it: each read is counted.

use std::borrow::Cow;
use std::ffi::CStr;
use std::rc::Rc;

use gimli::{Error, ReaderOffsetId, RunTimeEndian};

use super::image::{Image, Range};
use super::meter::Meter;

/// The longest text that is read, in bytes.
pub(super) const LONGEST: usize = 16 << 10;

/// A file and the limits of reading it.
#[derive(Debug)]
pub(super) struct Metered {
    pub image: Image,
    pub meter: Rc<Meter>,
}

/// A part of a section.
#[derive(Clone)]
pub(super) struct Part {
    file: Rc<Metered>,
    start: usize,
    end: usize,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.start..self.end)
    }
}

impl Part {
    pub fn new(file: &Rc<Metered>, range: Range) -> Self {
        Self { file: file.clone(), start: range.start, end: range.end }
    }

    fn bytes(&self) -> &[u8] {
        self.file.image.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn ended(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    fn count(&self, bytes: usize) -> gimli::Result<()> {
        let permitted = self.file.meter.step(1 + bytes as u64 / 16);
        if permitted { Ok(()) } else { Err(self.ended()) }
    }

    /// Returns the offset after the next `length` bytes.
    fn after(&self, length: usize) -> gimli::Result<usize> {
        let end = self.start.checked_add(length).filter(|end| *end <= self.end);
        end.ok_or_else(|| self.ended())
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.start as u64)
    }
}

impl gimli::Reader for Part {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        match self.file.image.is_little {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn empty(&mut self) {
        self.start = self.end;
    }

    fn truncate(&mut self, length: usize) -> gimli::Result<()> {
        self.end = self.after(length)?;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.start.saturating_sub(base.start)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let at = usize::try_from(id.0).ok()?;
        (self.start..=self.end).contains(&at).then(|| at - self.start)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let bytes = self.bytes();
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        let found = match byte {
            0 => CStr::from_bytes_until_nul(bytes).ok().map(CStr::count_bytes),
            byte => bytes.iter().position(|of| *of == byte),
        };
        self.count(found.unwrap_or(bytes.len()))?;
        found.ok_or_else(|| self.ended())
    }

    fn skip(&mut self, length: usize) -> gimli::Result<()> {
        self.count(0)?;
        self.start = self.after(length)?;
        Ok(())
    }

    fn split(&mut self, length: usize) -> gimli::Result<Self> {
        self.count(0)?;
        let middle = self.after(length)?;
        let first = Self { end: middle, ..self.clone() };
        self.start = middle;
        Ok(first)
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        self.count(self.len())?;
        Ok(self.bytes().into())
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        self.count(self.len())?;
        str::from_utf8(self.bytes()).map(Cow::from).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        self.count(self.len())?;
        Ok(String::from_utf8_lossy(self.bytes()))
    }

    fn read_slice(&mut self, to: &mut [u8]) -> gimli::Result<()> {
        self.count(to.len())?;
        let end = self.after(to.len())?;
        to.copy_from_slice(self.file.image.bytes.get(self.start..end).ok_or_else(|| self.ended())?);
        self.start = end;
        Ok(())
    }
}
