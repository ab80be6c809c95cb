//! The writer of DOF (dt_dof.c), the form in which a kernel accepts a program.

use dtrace_abi::dif;
use dtrace_abi::dof::{
    ActDesc, ENCODING_LSB, EcbDesc, Header, LOAD, MAGIC, MODEL_LP64, NO_SECTION, OptDesc,
    ProbeDesc, Section, SectionKind, VERSION_1,
};

use dtrace_abi::limits::DOF_SECTIONS;

use crate::options::Options;
use crate::program::{Act, Difo, Ecb, Program};

/// The comment that libdtrace writes into each DOF.
const COMMENT: &[u8] = b"D 1.13\0";

/// The reason why a program cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The program is larger than the limit of kernels.
    #[error("Value too large to be stored in data type")]
    TooLarge,
    /// The program has more sections than a kernel accepts: up to five for each expression.
    #[error(
        "the program compiles to {0} sections, and a kernel accepts at most {DOF_SECTIONS}: split \
         it into several programs, each with its own -n or -s"
    )]
    TooManySections(usize),
}

/// The sections of a file that is being written. All offsets are relative to the beginning of the sections' data.
#[derive(Default)]
struct Writer {
    sections: Vec<Section>,
    loaded: Vec<u8>,
    strings: Vec<u8>,
    unloaded: Vec<u8>,
    statements: u64,
}

/// The section of all strings: the first one, as in libdtrace.
const STRINGS: u32 = 0;

impl Writer {
    fn new() -> Self {
        let mut writer = Self { strings: vec![0], ..Self::default() };
        writer.section(SectionKind::Strtab, 1, 0, &[]);
        writer
    }

    fn section(&mut self, kind: SectionKind, align: u32, entry_size: usize, data: &[u8]) -> u32 {
        let loaded = kind.is_loadable();
        let place = if loaded { &mut self.loaded } else { &mut self.unloaded };
        place.resize(place.len().next_multiple_of(align as usize), 0);
        self.sections.push(Section {
            kind: kind.number(),
            align,
            flags: if loaded { LOAD } else { 0 },
            entry_size: entry_size as u32,
            offset: place.len() as u64,
            size: data.len() as u64,
        });
        place.extend_from_slice(data);
        (self.sections.len() - 1) as u32
    }

    /// Adds a section with a table, and returns its index. The size of each entry is a multiple of the alignment.
    fn table<const N: usize>(
        &mut self,
        kind: SectionKind,
        align: u32,
        entries: impl Iterator<Item = [u8; N]>,
    ) -> u32 {
        let data: Vec<u8> = entries.flatten().collect();
        self.section(kind, align, N, &data)
    }

    fn string(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let offset = self.strings.len() as u32;
        self.strings.extend_from_slice(text);
        self.strings.push(0);
        offset
    }

    fn difo(&mut self, difo: &Difo) -> u32 {
        let mut links = vec![self.table(
            SectionKind::Dif,
            4,
            difo.code.iter().map(|instr| instr.0.to_le_bytes()),
        )];
        if !difo.integers.is_empty() {
            let integers = difo.integers.iter().map(|value| value.to_le_bytes());
            links.push(self.table(SectionKind::Inttab, 8, integers));
        }
        if !difo.strings.is_empty() {
            links.push(self.section(SectionKind::Strtab, 1, 0, &difo.strings));
        }
        if !difo.variables.is_empty() {
            let variables = difo.variables.iter().map(|variable| variable.to_bytes());
            links.push(self.table(SectionKind::Vartab, 4, variables));
        }
        let mut header = difo.returns.to_bytes().to_vec();
        header.extend(links.iter().flat_map(|link| link.to_le_bytes()));
        self.section(SectionKind::DifoHdr, 4, 0, &header)
    }

    fn ecb(&mut self, ecb: &Ecb) {
        let probe = ProbeDesc {
            strings: STRINGS,
            provider: self.string(ecb.probe.provider.as_bytes()),
            module: self.string(ecb.probe.module.as_bytes()),
            function: self.string(ecb.probe.function.as_bytes()),
            name: self.string(ecb.probe.name.as_bytes()),
            id: ecb.probe.id,
        };
        let probe = self.table(SectionKind::ProbeDesc, 4, std::iter::once(probe.to_bytes()));
        let predicate = ecb.predicate.as_ref().map_or(NO_SECTION, |predicate| self.difo(predicate));
        let actions = self.actions(ecb);
        let desc = EcbDesc { probe, predicate, actions, pad: 0, uarg: 0 };
        self.section(SectionKind::EcbDesc, 8, 0, &desc.to_bytes());
    }

    fn actions(&mut self, ecb: &Ecb) -> u32 {
        let mut descs = Vec::new();
        let mut rest = ecb.actions.iter();
        for statement in &ecb.statements {
            // All actions of a statement have the same number, by which a consumer finds the statement.
            self.statements += 1;
            // All actions of a statement have its format.
            let mut text = None;
            for (index, act) in rest.by_ref().take(statement.actions).enumerate() {
                let difo = act.difo.as_ref().map_or(NO_SECTION, |difo| self.difo(difo));
                if index == 0 {
                    text = statement.text.as_ref().map(|text| self.string(text));
                }
                descs.push(desc(act, difo, text, self.statements));
            }
        }
        if descs.is_empty() {
            return NO_SECTION;
        }
        self.table(SectionKind::ActDesc, 8, descs.iter().map(ActDesc::to_bytes))
    }

    fn finish(mut self) -> Result<Vec<u8>, WriteError> {
        if self.sections.len() > DOF_SECTIONS as usize {
            return Err(WriteError::TooManySections(self.sections.len()));
        }
        let head = Header::SIZE + self.sections.len() * Section::SIZE;
        let load_size = head + self.loaded.len() + self.strings.len();
        let (unloaded_at, file_size) = if self.unloaded.is_empty() {
            (load_size, load_size)
        } else {
            let at = load_size.next_multiple_of(8);
            (at, at + self.unloaded.len())
        };
        if file_size as u64 >= dtrace_abi::limits::DOF_SIZE {
            return Err(WriteError::TooLarge);
        }
        for (index, section) in self.sections.iter_mut().enumerate() {
            if index == STRINGS as usize {
                section.offset = (head + self.loaded.len()) as u64;
                section.size = self.strings.len() as u64;
            } else if section.is_loaded() {
                section.offset += head as u64;
            } else {
                section.offset += unloaded_at as u64;
            }
        }
        let header = header(self.sections.len(), load_size, file_size);
        let mut file = header.to_bytes().to_vec();
        file.extend(self.sections.iter().flat_map(Section::to_bytes));
        file.extend(self.loaded);
        file.extend(self.strings);
        file.resize(unloaded_at, 0);
        file.extend(self.unloaded);
        Ok(file)
    }
}

fn desc(act: &Act, difo: u32, text: Option<u32>, statement: u64) -> ActDesc {
    // An empty format would have offset 0, which means no format.
    let text = text.filter(|&offset| offset != 0);
    ActDesc {
        difo,
        strings: if text.is_some() { STRINGS } else { NO_SECTION },
        kind: act.kind.number().into(),
        keys: act.keys,
        arg: text.map_or(act.arg, u64::from),
        uarg: statement,
    }
}

fn header(sections: usize, load_size: usize, file_size: usize) -> Header {
    Header {
        magic: MAGIC,
        model: MODEL_LP64,
        encoding: ENCODING_LSB,
        version: VERSION_1,
        dif_version: dif::VERSION,
        integer_registers: dtrace_abi::limits::INTEGER_REGISTERS,
        tuple_registers: dtrace_abi::limits::TUPLE_REGISTERS,
        ident_pad: [0; 6],
        flags: 0,
        header_size: Header::SIZE as u32,
        section_size: Section::SIZE as u32,
        section_count: sections as u32,
        section_offset: Header::SIZE as u64,
        load_size: load_size as u64,
        file_size: file_size as u64,
        pad: 0,
    }
}

/// Returns the DOF of a program (`dtrace_dof_create`).
///
/// # Errors
/// See [`WriteError`].
pub fn program(program: &Program, options: &Options) -> Result<Vec<u8>, WriteError> {
    numbered(program, options, 0)
}

/// Returns the DOF of a program whose statements are numbered from `before + 1` on. A consumer with several programs finds the
/// statement of a record by this number.
///
/// # Errors
/// See [`WriteError`].
pub fn numbered(program: &Program, options: &Options, before: u64) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer { statements: before, ..Writer::new() };
    for ecb in &program.ecbs {
        writer.ecb(ecb);
    }
    if !options.strip {
        writer.section(SectionKind::Comments, 1, 0, COMMENT);
    }
    writer.finish()
}

/// Returns one DOF of several programs and of the options that were set, for a kernel that enables them without a
/// consumer. If there is a `last` program, its statements are numbered separately from the others, as by [`numbered`].
///
/// # Errors
/// See [`WriteError`].
pub fn anonymous<'p>(
    programs: impl Iterator<Item = &'p Program>,
    last: Option<(&Program, u64)>,
    options: &Options,
) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer::new();
    for ecb in programs.flat_map(|program| &program.ecbs) {
        writer.ecb(ecb);
    }
    if let Some((program, before)) = last {
        writer.statements = before;
        program.ecbs.iter().for_each(|ecb| writer.ecb(ecb));
    }
    writer.section(SectionKind::OptDesc, 8, OptDesc::SIZE, &descs(options));
    writer.finish()
}

fn descs(options: &Options) -> Vec<u8> {
    let descs = options.values().flat_map(|(id, value)| {
        let value = value as u64;
        OptDesc { option: id.number(), strings: NO_SECTION, value }.to_bytes()
    });
    descs.collect()
}

/// Returns the DOF of the options that were set (`dtrace_getopt_dof`).
pub fn options(options: &Options) -> Vec<u8> {
    let set = descs(options);
    let section = Section {
        kind: SectionKind::OptDesc.number(),
        align: 8,
        flags: LOAD,
        entry_size: OptDesc::SIZE as u32,
        offset: (Header::SIZE + Section::SIZE) as u64,
        size: set.len() as u64,
    };
    let size = Header::SIZE + Section::SIZE + set.len();
    let header = header(1, size, size);
    [&header.to_bytes()[..], &section.to_bytes(), &set].concat()
}
