//! The functions and the lines of an address.

use gimli::{AttributeValue, Reader as _, Section as _};

use super::{DEEPEST, Debug, Result, Unit};
use crate::objects::part::Part;

/// The charge for each byte of the header of a line program: gimli reserves an entry of its table of files for it.
const FILE: u64 = size_of::<gimli::FileEntry<Part>>() as u64;
/// The longest header of a line program, in bytes.
const HEADER: usize = 1 << 18;

/// A function at an address, and its place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its symbol, as in the file.
    pub function: Option<String>,
    /// The source file and the line, as far as they are known.
    pub place: Option<(String, u32)>,
}

/// A source file, and a line.
type Place = (String, u32);

impl Debug {
    /// Returns the names of the functions at an address: the innermost inlined one first, the one that contains them last.
    pub fn functions_at(&self, address: u64) -> Vec<Option<String>> {
        let Ok(Some((unit, frames))) = self.frames(address) else { return Vec::new() };
        let names = frames.iter().rev().take(DEEPEST);
        names.map(|frame| self.name(&unit, frame.entry).ok().flatten()).collect()
    }

    /// Returns the functions at an address with their places in the source, in the order of [`functions_at`](Self::functions_at).
    pub fn lines_at(&self, address: u64) -> Vec<Line> {
        let Ok(Some((unit, frames))) = self.frames(address) else { return Vec::new() };
        let (mut place, files) = match self.place(&unit, address) {
            Ok(Some((place, files))) => (place, Some(files)),
            _ => (None, None),
        };
        let mut lines = Vec::new();
        for frame in frames.iter().rev().take(DEEPEST) {
            let function = self.name(&unit, frame.entry).ok().flatten();
            let called = frame.call.zip(files.as_ref()).and_then(|((file, line), files)| {
                Some((self.file(&unit.unit, files, file).ok()??, u32::try_from(line).ok()?))
            });
            lines.push(Line { function, place: std::mem::replace(&mut place, called) });
        }
        if lines.is_empty() && place.is_some() {
            lines.push(Line { function: None, place });
        }
        lines
    }

    /// Returns the place of an address in the source, and the unit's table of files.
    fn place(
        &self,
        unit: &Unit,
        address: u64,
    ) -> Result<Option<(Option<Place>, gimli::LineProgramHeader<Part>)>> {
        let Some(at) = unit.lines else { return Ok(None) };
        let mut header = self.dwarf.debug_line.reader().clone();
        header.skip(at.0)?;
        let (_, format) = header.read_initial_length()?;
        if header.read_u16()? >= 5 {
            header.skip(2)?;
        }
        let length = header.read_length(format)?;
        if length > HEADER || !self.meter.keep(length as u64 * FILE) {
            return Ok(None);
        }
        let unit = &unit.unit;
        let program = self.dwarf.debug_line.program(
            at,
            unit.header.address_size(),
            unit.comp_dir.clone(),
            None,
        );
        // The table is dropped with the answer for this address.
        self.meter.release(length as u64 * FILE);
        let mut rows = program?.rows();
        let mut before: Option<(u64, u64, u32)> = None;
        let mut place = None;
        while let Some((header, row)) = rows.next_row()? {
            if let Some((start, file, line)) = before
                && (start..row.address()).contains(&address)
            {
                place = self.file(unit, header, file)?.map(|file| (file, line));
                break;
            }
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
            before = match (row.end_sequence(), line) {
                (false, Some(line)) => Some((row.address(), row.file_index(), line)),
                _ => None,
            };
        }
        Ok(Some((place, rows.header().clone())))
    }

    /// Returns the path of a file of a line program.
    fn file(
        &self,
        unit: &gimli::Unit<Part>,
        files: &gimli::LineProgramHeader<Part>,
        index: u64,
    ) -> Result<Option<String>> {
        let Some(file) = files.file(index) else { return Ok(None) };
        let mut path = std::path::PathBuf::new();
        if let Some(folder) = &unit.comp_dir {
            path.push(self.text(unit, AttributeValue::String(folder.clone()))?);
        }
        if let Some(folder) = file.directory(files) {
            path.push(self.text(unit, folder)?);
        }
        path.push(self.text(unit, file.path_name())?);
        Ok(Some(path.to_string_lossy().into_owned()))
    }
}
