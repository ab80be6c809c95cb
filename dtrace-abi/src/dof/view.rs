//! A DOF whose structure was checked, and access to its contents.

use core::marker::PhantomData;

use super::{ActDesc, DofError, Header, Problem, Section, SectionKind};
use crate::dif::{DifType, Instr, Variable};
use crate::limits;
use crate::reader::{Field, Reader};

/// A DOF: every section that is loaded lies within it and is aligned.
#[derive(Clone, Copy, Debug)]
pub struct Dof<'a> {
    file: Reader<'a>,
    header: Header,
    sections: Reader<'a>,
}

impl<'a> Dof<'a> {
    /// Checks the header and the section headers. Ignores the bytes after the loaded part.
    ///
    /// # Errors
    ///
    /// The first error, with its offset.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DofError> {
        let header = Header::parse(bytes)?;
        let file = Reader::new(bytes).cut(0, header.load_size)?;
        let length = u64::from(header.section_count) * Section::SIZE as u64;
        let sections = file.cut(header.section_offset, length)?;
        let dof = Self { file, header, sections };
        for index in 0..header.section_count {
            dof.check(index)?;
        }
        Ok(dof)
    }

    /// Checks the DOF of a program like [`parse`](Self::parse): it must not contain providers of processes, or
    /// relocations.
    ///
    /// # Errors
    ///
    /// Those of [`parse`](Self::parse), or if the DOF contains such a section.
    pub fn parse_program(bytes: &'a [u8]) -> Result<Self, DofError> {
        let dof = Self::parse(bytes)?;
        for index in 0..dof.section_count() {
            let kind = SectionKind::from_number(dof.section(index)?.kind);
            if let Some(kind) = kind.filter(|kind| !kind.is_for_programs()) {
                let at = dof.header_of(index)?.at();
                return Err(DofError { at, problem: Problem::NotForPrograms(kind) });
            }
        }
        Ok(dof)
    }

    /// Returns the header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of sections.
    pub const fn section_count(&self) -> u32 {
        self.header.section_count
    }

    /// Returns the header of a section.
    ///
    /// # Errors
    ///
    /// If there is no section with this index.
    pub fn section(&self, index: u32) -> Result<Section, DofError> {
        let mut at = self.header_of(index)?;
        Ok(Section::read(&mut at)?)
    }

    /// Returns the sections of all enabling control blocks, in order.
    pub fn ecbs(&self) -> impl Iterator<Item = u32> + '_ {
        self.of_kind(SectionKind::EcbDesc)
    }

    /// Returns all loaded sections of one kind, in order.
    pub fn of_kind(&self, kind: SectionKind) -> impl Iterator<Item = u32> + '_ {
        (0..self.section_count()).filter(move |&index| {
            self.section(index).is_ok_and(|s| s.is_loaded() && s.kind == kind.number())
        })
    }

    /// Returns the data of a loaded section of this kind.
    ///
    /// # Errors
    ///
    /// If the section has another kind, does not have the [alignment](SectionKind::alignment) that kernels require, or
    /// does not exist.
    pub fn data(&self, index: u32, kind: SectionKind) -> Result<Reader<'a>, DofError> {
        let section = self.section(index)?;
        if section.kind != kind.number() || !section.is_loaded() {
            let at = self.header_of(index)?.at();
            return Err(DofError { at, problem: Problem::WrongSection(index, kind) });
        }
        if let Some(align) = kind.alignment().filter(|&align| align != section.align) {
            let at = self.header_of(index)?.at();
            return Err(DofError { at, problem: Problem::Alignment(align) });
        }
        Ok(self.file.cut(section.offset, section.size)?)
    }

    /// Returns the first record of a section.
    ///
    /// # Errors
    ///
    /// Those of [`data`](Self::data), or if the section is too short.
    pub fn record<T: Field>(&self, index: u32, kind: SectionKind) -> Result<T, DofError> {
        Ok(T::read(&mut self.data(index, kind)?)?)
    }

    /// Returns the entries of a section that is a table.
    ///
    /// # Errors
    ///
    /// Those of [`data`](Self::data), or if entries have the wrong size, or if the last one is incomplete.
    pub fn table<T: Field>(&self, index: u32, kind: SectionKind) -> Result<Items<'a, T>, DofError> {
        let data = self.data(index, kind)?;
        let section = self.section(index)?;
        if section.entry_size as usize != T::SIZE || section.size % T::SIZE as u64 != 0 {
            let at = self.header_of(index)?.at();
            return Err(DofError { at, problem: Problem::EntrySize(section.entry_size) });
        }
        Ok(Items { data, of: PhantomData })
    }

    /// Returns the actions of a section: at least one.
    ///
    /// # Errors
    ///
    /// Those of [`table`](Self::table), or if the section is empty.
    pub fn actions(&self, index: u32) -> Result<Items<'a, ActDesc>, DofError> {
        let actions = self.table(index, SectionKind::ActDesc)?;
        if actions.is_empty() {
            let at = self.header_of(index)?.at();
            return Err(DofError { at, problem: Problem::Size(0) });
        }
        Ok(actions)
    }

    /// Returns the string at an offset of a string section, without its terminating zero.
    ///
    /// # Errors
    ///
    /// If there is no such section, or no string that ends within it.
    pub fn string(&self, section: u32, offset: u64) -> Result<&'a [u8], DofError> {
        string(self.data(section, SectionKind::Strtab)?, offset)
    }

    /// Returns the DIFO of a section.
    ///
    /// # Errors
    ///
    /// If it is incomplete.
    pub fn difo(&self, index: u32) -> Result<Difo<'a>, DofError> {
        Difo::parse(self, index)
    }

    /// Returns the string table of a DIFO. Its alignment must be 1, and its entry size 0.
    fn strings(&self, index: u32) -> Result<Reader<'a>, DofError> {
        let data = self.data(index, SectionKind::Strtab)?;
        let Section { align, entry_size, .. } = self.section(index)?;
        let at = self.header_of(index)?.at();
        match (align, entry_size) {
            (1, 0) => Ok(data),
            (1, size) => Err(DofError { at, problem: Problem::EntrySize(size) }),
            _ => Err(DofError { at, problem: Problem::Alignment(1) }),
        }
    }

    fn header_of(&self, index: u32) -> Result<Reader<'a>, DofError> {
        if index >= self.header.section_count {
            let at = self.sections.at();
            return Err(DofError { at, problem: Problem::NoSection(index) });
        }
        Ok(self.sections.cut(u64::from(index) * Section::SIZE as u64, Section::SIZE as u64)?)
    }

    /// Checks that a kernel makes before it reads a section.
    fn check(&self, index: u32) -> Result<(), DofError> {
        let at = self.header_of(index)?.at();
        let section = self.section(index)?;
        let wrong = |problem| Err(DofError { at, problem });
        let kind = SectionKind::from_number(section.kind).filter(|kind| kind.is_loadable());
        let kind = match kind {
            Some(kind) if section.is_loaded() => kind,
            Some(kind) => return wrong(Problem::NotLoaded(kind)),
            None if section.is_loaded() => return wrong(Problem::UnknownSection(section.kind)),
            None => return Ok(()),
        };
        if !section.align.is_power_of_two() || section.offset % u64::from(section.align) != 0 {
            return wrong(Problem::Alignment(section.align));
        }
        let data = self.file.cut(section.offset, section.size)?;
        if kind == SectionKind::Strtab {
            match data.rest().last() {
                Some(0) => {}
                Some(_) => return wrong(Problem::Unterminated),
                None => return wrong(Problem::Size(0)),
            }
        }
        Ok(())
    }
}

fn string(table: Reader<'_>, offset: u64) -> Result<&[u8], DofError> {
    usize::try_from(offset)
        .ok()
        .and_then(|offset| table.rest().get(offset..))
        .and_then(|rest| Some(rest.split_at(rest.iter().position(|&byte| byte == 0)?).0))
        .ok_or(DofError { at: table.at().saturating_add(offset), problem: Problem::String(offset) })
}

/// The entries of a table; each is decoded when it is read. The last entry is complete.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a, T> {
    data: Reader<'a>,
    of: PhantomData<fn() -> T>,
}

impl<T: Field> Items<'_, T> {
    const fn none() -> Self {
        Self { data: Reader::new(&[]), of: PhantomData }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.data.rest().len() / T::SIZE
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry with an index, if it exists.
    pub fn get(&self, index: usize) -> Option<T> {
        let offset = u64::try_from(index).ok()?.checked_mul(T::SIZE as u64)?;
        T::read(&mut self.data.cut(offset, T::SIZE as u64).ok()?).ok()
    }
}

impl<T: Field> Iterator for Items<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        T::read(&mut self.data).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<T: Field> ExactSizeIterator for Items<'_, T> {}

/// A program in DIF in a DOF: its parts are complete and within their limits, but their contents are not checked.
#[derive(Clone, Copy, Debug)]
pub struct Difo<'a> {
    /// The type of its result.
    pub returns: DifType,
    instructions: Items<'a, u32>,
    integers: Items<'a, u64>,
    strings: Reader<'a>,
    variables: Items<'a, Variable>,
}

impl<'a> Difo<'a> {
    fn parse(dof: &Dof<'a>, index: u32) -> Result<Self, DofError> {
        use SectionKind::{Dif, DifoHdr, Inttab, Strtab, Vartab};
        let mut header = dof.data(index, DifoHdr)?;
        let at = header.at();
        let returns = DifType::read(&mut header)?;
        let (mut dif, mut ints, mut strings, mut vars) = (None, None, None, None);
        let mut size = 0_u64;
        while !header.is_empty() {
            let at = header.at();
            let link = u32::read(&mut header)?;
            let section = dof.section(link)?;
            size = size.saturating_add(section.size);
            if size > limits::DIFO_SIZE {
                return Err(DofError { at, problem: Problem::Size(size) });
            }
            let kind = SectionKind::from_number(section.kind);
            let (slot, kind) = match kind {
                Some(Dif) => (&mut dif, Dif),
                Some(Inttab) => (&mut ints, Inttab),
                Some(Strtab) => (&mut strings, Strtab),
                Some(Vartab) => (&mut vars, Vartab),
                _ => return Err(DofError { at, problem: Problem::UnknownSection(section.kind) }),
            };
            if slot.replace(link).is_some() {
                return Err(DofError { at, problem: Problem::Duplicate(kind) });
            }
        }
        let dif = dif.ok_or(DofError { at, problem: Problem::Missing(Dif) })?;
        let instructions = dof.table(dif, Dif)?;
        if instructions.len() as u64 > limits::DIFO_INSTRUCTIONS {
            let problem = Problem::Size(instructions.len() as u64);
            return Err(DofError { at, problem });
        }
        Ok(Self {
            returns,
            instructions,
            integers: match ints {
                Some(section) => dof.table(section, Inttab)?,
                None => Items::none(),
            },
            strings: match strings {
                Some(section) => dof.strings(section)?,
                None => Reader::new(&[]),
            },
            variables: match vars {
                Some(section) => dof.table(section, Vartab)?,
                None => Items::none(),
            },
        })
    }

    /// Returns its size in bytes: instructions, tables, and the type of the result.
    pub fn size(&self) -> usize {
        self.instructions.len() * u32::SIZE
            + self.integers.len() * u64::SIZE
            + self.strings().len()
            + self.variables.len() * Variable::SIZE
            + DifType::SIZE
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = Instr> + use<'a> {
        self.instructions.map(Instr)
    }

    /// Returns the integer table.
    pub const fn integers(&self) -> Items<'a, u64> {
        self.integers
    }

    /// Returns the string table, with the terminating zeroes.
    pub const fn strings(&self) -> &'a [u8] {
        self.strings.rest()
    }

    /// Returns the string at an offset, without its terminating zero.
    ///
    /// # Errors
    ///
    /// If no string begins there and ends within the table.
    pub fn string(&self, offset: u32) -> Result<&'a [u8], DofError> {
        string(self.strings, offset.into())
    }

    /// Returns the table of variables.
    pub const fn variables(&self) -> Items<'a, Variable> {
        self.variables
    }
}
