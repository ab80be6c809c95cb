//! A DOF whose outer form has been checked, and what it holds.

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
    /// Checks header and section headers. What is behind the loaded part is not looked at.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, and where.
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

    /// As [`parse`](Self::parse), of a program: providers of processes and relocations are not part of one.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), or such a section.
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

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// How many sections there are.
    pub const fn section_count(&self) -> u32 {
        self.header.section_count
    }

    /// The header of a section.
    ///
    /// # Errors
    ///
    /// There is none with this index.
    pub fn section(&self, index: u32) -> Result<Section, DofError> {
        let mut at = self.header_of(index)?;
        Ok(Section::read(&mut at)?)
    }

    /// All enabling control blocks' sections, in order.
    pub fn ecbs(&self) -> impl Iterator<Item = u32> + '_ {
        self.of_kind(SectionKind::EcbDesc)
    }

    /// All loaded sections of one kind, in order.
    pub fn of_kind(&self, kind: SectionKind) -> impl Iterator<Item = u32> + '_ {
        (0..self.section_count()).filter(move |&index| {
            self.section(index).is_ok_and(|s| s.is_loaded() && s.kind == kind.number())
        })
    }

    /// The data of a loaded section, which has to be of this kind.
    ///
    /// # Errors
    ///
    /// It is not, it is not [aligned](SectionKind::alignment) as kernels require it, or there is none.
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

    /// The first record of a section, for those that hold one.
    ///
    /// # Errors
    ///
    /// As [`data`](Self::data), or it is too short.
    pub fn record<T: Field>(&self, index: u32, kind: SectionKind) -> Result<T, DofError> {
        Ok(T::read(&mut self.data(index, kind)?)?)
    }

    /// The entries of a section that is a table.
    ///
    /// # Errors
    ///
    /// As [`data`](Self::data); entries are not of the size they have to be, or of the last one there
    /// is only a part.
    pub fn table<T: Field>(&self, index: u32, kind: SectionKind) -> Result<Items<'a, T>, DofError> {
        let data = self.data(index, kind)?;
        let section = self.section(index)?;
        if section.entry_size as usize != T::SIZE || section.size % T::SIZE as u64 != 0 {
            let at = self.header_of(index)?.at();
            return Err(DofError { at, problem: Problem::EntrySize(section.entry_size) });
        }
        Ok(Items { data, of: PhantomData })
    }

    /// The actions of a section: at least one.
    ///
    /// # Errors
    ///
    /// As [`table`](Self::table), or it is empty.
    pub fn actions(&self, index: u32) -> Result<Items<'a, ActDesc>, DofError> {
        let actions = self.table(index, SectionKind::ActDesc)?;
        if actions.is_empty() {
            let at = self.header_of(index)?.at();
            return Err(DofError { at, problem: Problem::Size(0) });
        }
        Ok(actions)
    }

    /// The string at an offset of a section of strings, without its terminating zero.
    ///
    /// # Errors
    ///
    /// There is no such section, or no string that ends within it.
    pub fn string(&self, section: u32, offset: u64) -> Result<&'a [u8], DofError> {
        string(self.data(section, SectionKind::Strtab)?, offset)
    }

    /// The DIFO of a section.
    ///
    /// # Errors
    ///
    /// It is not whole.
    pub fn difo(&self, index: u32) -> Result<Difo<'a>, DofError> {
        Difo::parse(self, index)
    }

    /// The table of strings of a DIFO, whose bytes are its entries.
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

    /// What a kernel asks of a section before it looks at what it holds.
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

/// The entries of a table; each is read anew. It is known that the table ends with a whole one.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a, T> {
    data: Reader<'a>,
    of: PhantomData<fn() -> T>,
}

impl<T: Field> Items<'_, T> {
    const fn none() -> Self {
        Self { data: Reader::new(&[]), of: PhantomData }
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.data.rest().len() / T::SIZE
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry with an index, if there is one.
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

/// A program in DIF as it stands in a DOF: its parts are there and within their limits, and what they
/// say has not been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Difo<'a> {
    /// What it returns.
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

    /// Bytes that say it: of its instructions, its tables, and what it returns.
    pub fn size(&self) -> usize {
        self.instructions.len() * u32::SIZE
            + self.integers.len() * u64::SIZE
            + self.strings().len()
            + self.variables.len() * Variable::SIZE
            + DifType::SIZE
    }

    /// The instructions.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = Instr> + use<'a> {
        self.instructions.map(Instr)
    }

    /// The table of integers.
    pub const fn integers(&self) -> Items<'a, u64> {
        self.integers
    }

    /// The table of strings, with the zeroes that end them.
    pub const fn strings(&self) -> &'a [u8] {
        self.strings.rest()
    }

    /// The string at an offset, without its terminating zero.
    ///
    /// # Errors
    ///
    /// None begins there and ends within the table.
    pub fn string(&self, offset: u32) -> Result<&'a [u8], DofError> {
        string(self.strings, offset.into())
    }

    /// The table of variables.
    pub const fn variables(&self) -> Items<'a, Variable> {
        self.variables
    }
}
