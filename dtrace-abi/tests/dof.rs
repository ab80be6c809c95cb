//! The reader of DOF: what is whole comes back, and nothing that is not makes it stumble.

use dtrace_abi::dif::{DifType, Instr};
use dtrace_abi::dof::*;
use proptest::prelude::*;

/// Sections behind a header, each with its data, in order.
fn dof(sections: &[(SectionKind, u32, Vec<u8>)]) -> Vec<u8> {
    let mut offset = (Header::SIZE + sections.len() * Section::SIZE) as u64;
    let (mut headers, mut data) = (Vec::new(), Vec::new());
    for (kind, entry_size, bytes) in sections {
        let section = Section {
            kind: kind.number(),
            align: 1,
            flags: LOAD,
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

/// Asks for everything that there is to ask for.
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
