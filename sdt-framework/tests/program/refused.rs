//! DOF that illumos's dtrace.c refuses (`dtrace_dof_actdesc`, `dtrace_dof_options`, `dtrace_ecb_action_add`), and parts that it
//! ignores.

use dtrace_abi::action::Action;
use dtrace_abi::dof::{
    ActDesc, Dof, EcbDesc, NO_SECTION, OptDesc, ProbeDesc, Problem, Section, SectionKind,
};
use dtrace_abi::option::{OptionId, UNSET};
use dtrace_compiler::dof::options;
use dtrace_compiler::options::Options;
use sdt_framework::{ConsumerError, Malformed, ProgramError};

use crate::run::{Kernel, compile};

/// Returns the offset of the data of the first section of a kind.
fn data_of(dof: &[u8], kind: SectionKind) -> usize {
    let parsed = Dof::parse(dof).unwrap();
    let index = parsed.of_kind(kind).next().unwrap();
    parsed.section(index).unwrap().offset as usize
}

/// A program with its actions changed.
fn with_actions(text: &str, change: impl FnOnce(&mut [ActDesc])) -> Vec<u8> {
    let mut dof = compile(text);
    let parsed = Dof::parse(&dof).unwrap();
    let index = parsed.of_kind(SectionKind::ActDesc).next().unwrap();
    let mut actions: Vec<_> = parsed.actions(index).unwrap().collect();
    change(&mut actions);
    let at = data_of(&dof, SectionKind::ActDesc);
    let bytes: Vec<u8> = actions.iter().flat_map(ActDesc::to_bytes).collect();
    dof[at..at + bytes.len()].copy_from_slice(&bytes);
    dof
}

fn refused(dof: &[u8]) -> ConsumerError {
    let kernel = Kernel::new();
    let consumer = kernel.consumer();
    consumer.set(OptionId::Destructive, 1);
    kernel.dtrace.enable_program(consumer.id, dof).unwrap_err()
}

fn malformed(at: usize, problem: Malformed) -> ConsumerError {
    ConsumerError::Program(ProgramError::Malformed(0, at, problem))
}

#[test]
fn formats() {
    let kinds = [
        ("printf(\"%d\", 1)", Action::Printf),
        ("system(\"%d\", 1)", Action::System),
        ("freopen(\"%d\", 1)", Action::Freopen),
    ];
    for (text, kind) in kinds {
        let text = format!("#pragma D option destructive\nproc:::a {{ {text}; }}");
        let none = with_actions(&text, |actions| actions[0].strings = NO_SECTION);
        let ConsumerError::Program(ProgramError::Dof(error)) = refused(&none) else {
            panic!("{kind:?} has a format")
        };
        assert_eq!(error.problem, Problem::NoSection(NO_SECTION));
        // The first string of a table is empty.
        let empty = with_actions(&text, |actions| actions[0].arg = 0);
        assert_eq!(refused(&empty), malformed(0, Malformed::EmptyFormat(kind)));
    }
    // For other actions, `arg` is an argument, even if `strings` names a section.
    let stack = with_actions("proc:::a { stack(3); }", |actions| actions[0].strings = 0);
    let kernel = Kernel::new();
    let consumer = kernel.consumer();
    assert_eq!(kernel.dtrace.enable_program(consumer.id, &stack), Ok(1));
    consumer.go();
    kernel.hit(0, 0);
    assert_eq!(consumer.records(0).0[0].data[0].len(), 3 * 8);
}

#[test]
fn aggregations_behind_speculate_and_commit() {
    for (text, before) in
        [("speculate(1); trace(1);", Action::Speculate), ("commit(1); raise(1);", Action::Commit)]
    {
        // `keys` makes the previous action the key of the aggregation.
        let text = format!("#pragma D option destructive\nproc:::a {{ {text} }}");
        let dof = with_actions(&text, |actions| {
            assert_eq!(actions[0].kind, before.number().into());
            actions[1].kind = Action::Count.number().into();
            actions[1].keys = 1;
        });
        assert_eq!(refused(&dof), malformed(1, Malformed::Speculative(Action::Count)));
    }
}

#[test]
fn options_without_a_value() {
    let mut set = Options::default();
    set.set("bufsize", Some("64k")).unwrap();
    let dof = options(&set);
    let at = data_of(&dof, SectionKind::OptDesc);
    let option = OptionId::Bufsize.number();
    for (strings, value) in [(0, 65536), (NO_SECTION, UNSET), (NO_SECTION, -1)] {
        let mut dof = dof.clone();
        let desc = OptDesc { option, strings, value: value as u64 }.to_bytes();
        dof[at..at + desc.len()].copy_from_slice(&desc);
        assert_eq!(refused(&dof), ConsumerError::BadOption { option, value });
    }
    let quiet = OptionId::Quiet.number();
    let mut dof = dof.clone();
    let desc = OptDesc { option: quiet, strings: NO_SECTION, value: -1_i64 as u64 }.to_bytes();
    dof[at..at + desc.len()].copy_from_slice(&desc);
    assert_eq!(refused(&dof), ConsumerError::BadOption { option: quiet, value: -1 });
}

#[test]
fn sections_of_processes() {
    let mut dof = compile("proc:::a { trace(1); }");
    let parsed = Dof::parse(&dof).unwrap();
    let comments = (0..parsed.section_count())
        .find(|&index| parsed.section(index).unwrap().kind == SectionKind::Comments.number());
    let at = parsed.header().section_offset as usize + comments.unwrap() as usize * Section::SIZE;
    dof[at..at + 4].copy_from_slice(&SectionKind::Provider.number().to_le_bytes());
    dof[at + 8] = 1;
    // Loadable sections are within the loaded part.
    let zero = 0_u64.to_le_bytes();
    dof[at + 16..at + 24].copy_from_slice(&zero);
    let ConsumerError::Program(ProgramError::Dof(error)) = refused(&dof) else {
        panic!("no program has a provider")
    };
    assert_eq!(error.problem, Problem::NotForPrograms(SectionKind::Provider));
}

/// As in DTrace, a description matches probes by their names.
#[test]
fn the_number_of_a_description_is_ignored() {
    let mut dof = compile("proc:::a { trace(1); }");
    let parsed = Dof::parse(&dof).unwrap();
    let ecb: EcbDesc = parsed.record(parsed.ecbs().next().unwrap(), SectionKind::EcbDesc).unwrap();
    let probe: ProbeDesc = parsed.record(ecb.probe, SectionKind::ProbeDesc).unwrap();
    let at = data_of(&dof, SectionKind::ProbeDesc);
    let kernel = Kernel::new();
    let desc = ProbeDesc { id: kernel.probes[1].get(), ..probe }.to_bytes();
    dof[at..at + desc.len()].copy_from_slice(&desc);
    let consumer = kernel.consumer();
    assert_eq!(kernel.dtrace.enable_program(consumer.id, &dof), Ok(1));
    consumer.go();
    (0..2).for_each(|probe| kernel.hit(probe, 0));
    assert_eq!(consumer.numbers(), [[1]]);
}
