//! The reader of DOF: it returns a correct file unchanged, and rejects a damaged one without a panic.

use dtrace_abi::dif::{DifType, Instr};
use dtrace_abi::dof::*;
use proptest::prelude::*;

/// Returns a DOF: a header and these sections, each with its data, in this order.
fn dof(sections: &[(SectionKind, u32, Vec<u8>)]) -> Vec<u8> {
    let mut offset = (Header::SIZE + sections.len() * Section::SIZE) as u64;
    let (mut headers, mut data) = (Vec::new(), Vec::new());
    for (kind, entry_size, bytes) in sections {
        let align = kind.alignment().unwrap_or(1);
        let padding = offset.next_multiple_of(align.into()) - offset;
        data.extend(vec![0; padding as usize]);
        offset += padding;
        let section = Section {
            kind: kind.number(),
            align,
            flags: if kind.is_loadable() { LOAD } else { 0 },
            entry_size: *entry_size,
            offset,
            size: bytes.len() as u64,
        };
        offset += bytes.len() as u64;
        headers.extend(section.to_bytes());
        data.extend(bytes);
    }
    let header = Header {
        magic: MAGIC,
        model: MODEL_LP64,
        encoding: ENCODING_LSB,
        version: VERSION_1,
        dif_version: 2,
        integer_registers: 8,
        tuple_registers: 8,
        ident_pad: [0; 6],
        flags: 0,
        header_size: Header::SIZE as u32,
        section_size: Section::SIZE as u32,
        section_count: sections.len() as u32,
        section_offset: Header::SIZE as u64,
        load_size: offset,
        file_size: offset,
        pad: 0,
    };
    [header.to_bytes().to_vec(), headers, data].concat()
}

fn difo() -> Vec<(SectionKind, u32, Vec<u8>)> {
    let links =
        [&DifType::integer(4).to_bytes()[..], &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]].concat();
    let code = [Instr::setx(0, 1), Instr::ret(1)].iter().flat_map(|i| i.0.to_le_bytes()).collect();
    vec![
        (SectionKind::DifoHdr, 0, links),
        (SectionKind::Dif, 4, code),
        (SectionKind::Inttab, 8, 42u64.to_le_bytes().to_vec()),
        (SectionKind::Strtab, 0, b"\0name\0".to_vec()),
    ]
}

#[test]
fn a_difo_comes_back() {
    let bytes = dof(&difo());
    let dof = Dof::parse(&bytes).unwrap();
    let difo = dof.difo(0).unwrap();
    assert_eq!(difo.returns, DifType::integer(4));
    assert!(difo.instructions().eq([Instr::setx(0, 1), Instr::ret(1)]));
    assert_eq!(difo.integers().get(0), Some(42));
    assert_eq!(difo.integers().get(1), None);
    assert_eq!(difo.string(1).unwrap(), b"name");
    assert_eq!(dof.string(3, 3).unwrap(), b"me");
    assert!(difo.variables().is_empty());
}

#[test]
fn errors_name_the_byte() {
    let whole = dof(&difo());
    let at = |index: usize| (Header::SIZE + index * Section::SIZE) as u64;
    let broken = |offset: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[offset] = value;
        bytes
    };
    let error = |bytes: &[u8]| Dof::parse(bytes).err().map(|e| (e.at, e.problem));
    assert_eq!(error(b"\x7fDOF"), Some((4, Problem::Truncated(1))));
    assert_eq!(error(&broken(0, 0)), Some((0, Problem::Magic)));
    assert_eq!(error(&broken(5, 2)), Some((5, Problem::Encoding(2))));
    assert_eq!(error(&broken(12, 1)), Some((10, Problem::Padding)));
    assert_eq!(error(&broken(at(0) as usize, 99)), Some((at(0), Problem::UnknownSection(99))));
    assert_eq!(error(&broken(at(1) as usize + 4, 3)), Some((at(1), Problem::Alignment(3))));
    let shorter = &whole[..whole.len() - 1];
    assert_eq!(error(shorter), Some((40, Problem::Size(whole.len() as u64))));

    let bytes = broken(at(1) as usize + 12, 3);
    let error = Dof::parse(&bytes).unwrap().difo(0).unwrap_err();
    assert_eq!((error.at, error.problem), (at(1), Problem::EntrySize(3)));
    let dof = Dof::parse(&whole).unwrap();
    let strings = dof.section(3).unwrap().offset;
    let error = dof.string(3, 6).unwrap_err();
    assert_eq!((error.at, error.problem), (strings + 6, Problem::String(6)));
    assert_eq!(dof.difo(9).unwrap_err().problem, Problem::NoSection(9));
    assert_eq!(dof.difo(1).unwrap_err().problem, Problem::WrongSection(1, SectionKind::DifoHdr));
}

#[test]
fn a_difo_has_each_part_once() {
    let mut sections = difo();
    sections[0].2.extend(1u32.to_le_bytes());
    let bytes = dof(&sections);
    let error = Dof::parse(&bytes).unwrap().difo(0).unwrap_err();
    assert_eq!(error.problem, Problem::Duplicate(SectionKind::Dif));
    sections[0].2.truncate(DifType::SIZE);
    let bytes = dof(&sections);
    let error = Dof::parse(&bytes).unwrap().difo(0).unwrap_err();
    assert_eq!(error.problem, Problem::Missing(SectionKind::Dif));
}

/// The defects that illumos's dtrace_dof_slurp and dtrace_dof_difo reject in an otherwise valid DOF.
#[test]
fn what_illumos_refuses_is_refused() {
    let sections = [
        difo(),
        vec![
            (SectionKind::ActDesc, 32, vec![0; 32]),
            (SectionKind::EcbDesc, 0, vec![0; 24]),
            (SectionKind::ProbeDesc, 0, vec![0; 24]),
            (SectionKind::OptDesc, 16, vec![0; 16]),
            (SectionKind::Comments, 0, vec![0; 4]),
        ],
    ]
    .concat();
    let whole = dof(&sections);
    let at = |index: usize| (Header::SIZE + index * Section::SIZE) as u64;
    // A section's header holds kind, align, flags, entry size, offset, size.
    let edited = |index: usize, field: usize, value: u32| {
        let mut bytes = whole.clone();
        bytes[at(index) as usize + 4 * field..][..4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let (align, flags, entry_size) = (1, 2, 3);
    assert_eq!(Dof::parse_program(&whole).err(), None);
    let refused = |bytes: &[u8]| Dof::parse_program(bytes).unwrap_err().problem;

    for (index, &(kind, ..)) in sections.iter().enumerate().take(8) {
        assert_eq!(refused(&edited(index, flags, 0)), Problem::NotLoaded(kind));
    }
    let comments = Problem::UnknownSection(SectionKind::Comments.number());
    assert_eq!(refused(&edited(8, flags, LOAD)), comments);
    let mut unterminated = whole.clone();
    let strings = Dof::parse(&whole).unwrap().section(3).unwrap();
    unterminated[(strings.offset + strings.size) as usize - 1] = b'x';
    assert_eq!(refused(&unterminated), Problem::Unterminated);
    for version in [1, 3] {
        let mut bytes = whole.clone();
        bytes[7] = version;
        assert_eq!(refused(&bytes), Problem::DifVersion(version));
    }
    for kind in [
        SectionKind::Provider,
        SectionKind::Probes,
        SectionKind::Prargs,
        SectionKind::Proffs,
        SectionKind::Prenoffs,
        SectionKind::Urelhdr,
    ] {
        let bytes = edited(7, 0, kind.number());
        assert_eq!(refused(&bytes), Problem::NotForPrograms(kind));
        assert!(Dof::parse(&bytes).is_ok(), "a process may bring it along");
    }

    // Each section that is read has one alignment.
    type Read = fn(&Dof<'_>) -> Option<DofError>;
    let reads: [(usize, u32, Read); 8] = [
        (0, 4, |dof| dof.difo(0).err()),
        (1, 4, |dof| dof.difo(0).err()),
        (2, 8, |dof| dof.difo(0).err()),
        (3, 1, |dof| dof.difo(0).err()),
        (4, 8, |dof| dof.actions(4).err()),
        (5, 8, |dof| dof.record::<EcbDesc>(5, SectionKind::EcbDesc).err()),
        (6, 4, |dof| dof.record::<ProbeDesc>(6, SectionKind::ProbeDesc).err()),
        (7, 8, |dof| dof.table::<OptDesc>(7, SectionKind::OptDesc).err()),
    ];
    for (index, right, read) in reads {
        assert_eq!(read(&Dof::parse(&whole).unwrap()), None);
        let other = if right == 1 { 2 } else { right / 2 };
        let mut bytes = edited(index, align, other);
        if right == 1 {
            // The table begins later, so its size decreases by the same number of bytes.
            let field = at(index) as usize + 16;
            let offset = strings.offset.next_multiple_of(2);
            bytes[field..field + 8].copy_from_slice(&offset.to_le_bytes());
            let size = strings.size - (offset - strings.offset);
            bytes[field + 8..field + 16].copy_from_slice(&size.to_le_bytes());
        }
        let error = read(&Dof::parse(&bytes).unwrap()).unwrap();
        assert_eq!((error.at, error.problem), (at(index), Problem::Alignment(right)));
    }
    // The entry size must be the size of an entry, and 0 for a table of strings.
    for (index, size) in [(1, 8), (2, 4), (3, 1), (4, 24), (7, 8)] {
        let bytes = edited(index, entry_size, size);
        let (_, _, read) = reads[index];
        let error = read(&Dof::parse(&bytes).unwrap()).unwrap();
        assert_eq!((error.at, error.problem), (at(index), Problem::EntrySize(size)));
    }
    // An empty table of actions.
    let mut bytes = whole.clone();
    bytes[at(4) as usize + 24..at(4) as usize + 32].fill(0);
    assert_eq!(Dof::parse(&bytes).unwrap().actions(4).unwrap_err().problem, Problem::Size(0));
}

/// A DIFO refers only to sections of the kinds that a DIFO can have. Together they have at most 256 KiB.
#[test]
fn a_difo_is_bounded() {
    let mut sections = difo();
    sections.push((SectionKind::Comments, 0, vec![0; 4]));
    sections[0].2.extend(4u32.to_le_bytes());
    let bytes = dof(&sections);
    let error = Dof::parse(&bytes).unwrap().difo(0).unwrap_err();
    assert_eq!(error.problem, Problem::UnknownSection(SectionKind::Comments.number()));

    let mut sections = difo();
    let others: usize = sections[1..3].iter().map(|(.., data)| data.len()).sum();
    for (length, fits) in [(256 * 1024 - others, true), (256 * 1024 - others + 1, false)] {
        sections[3].2 = vec![0; length];
        let bytes = dof(&sections);
        let difo = Dof::parse(&bytes).unwrap().difo(0).map(drop).map_err(|error| error.problem);
        let long = Problem::Size(256 * 1024 + 1);
        assert_eq!(difo, if fits { Ok(()) } else { Err(long) });
    }
}

/// Reads all parts of a DOF.
fn read_all(bytes: &[u8]) {
    let Ok(dof) = Dof::parse(bytes) else { return };
    for index in 0..=dof.section_count() {
        let _ = dof.string(index, 0);
        let _ = dof.record::<EcbDesc>(index, SectionKind::EcbDesc);
        let _ = dof.table::<ActDesc>(index, SectionKind::ActDesc).map(Iterator::count);
        if let Ok(difo) = dof.difo(index) {
            let _ = difo.instructions().count() + difo.integers().count();
            for variable in difo.variables() {
                let _ = difo.string(variable.name);
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_stumble(edits in proptest::collection::vec((0..300usize, any::<u8>()), 0..8)) {
        let mut bytes = dof(&difo());
        for (at, value) in edits {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        read_all(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_header(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = dof(&difo());
        bytes.truncate(Header::SIZE);
        bytes.extend(tail);
        read_all(&bytes);
    }
}
