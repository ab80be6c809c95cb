//! The reader of DOF returns the contents that the writer has written.

mod common;

use common::Machine;
use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_abi::dof::{ActDesc, Dof, EcbDesc, NO_SECTION, OptDesc, ProbeDesc, SectionKind};
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Difo, Program};
use dtrace_compiler::{Compiler, Source, dof};

fn compile(text: &str) -> Program {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    compiler.compile(Source::file(text.as_bytes()), &Machine).unwrap()
}

fn assert_same(read: dtrace_abi::dof::Difo<'_>, written: &Difo) {
    assert_eq!(read.returns, written.returns);
    assert!(read.instructions().eq(written.code.iter().copied()));
    assert!(read.integers().eq(written.integers.iter().copied()));
    assert_eq!(read.strings(), written.strings);
    assert!(read.variables().eq(written.variables.iter().copied()));
}

#[test]
fn programs_come_back() {
    let program = compile(
        "self int x;
         BEGIN, tick-1s / self->x > 1 / { printf(\"%s %d\", probename, self->x); @a[pid, stack(3)] = quantize(self->x); }
         END { self->x = 0; exit(0); }
         1 { s[\"k\", 1] = \"v\"; trunc(@a, 5); }",
    );
    let bytes = dof::program(&program, &Options::default()).unwrap();
    let dof = Dof::parse(&bytes).unwrap();
    let ecbs: Vec<_> = dof.ecbs().collect();
    assert_eq!(ecbs.len(), program.ecbs.len());
    for (section, ecb) in ecbs.into_iter().zip(&program.ecbs) {
        let desc: EcbDesc = dof.record(section, SectionKind::EcbDesc).unwrap();
        let probe: ProbeDesc = dof.record(desc.probe, SectionKind::ProbeDesc).unwrap();
        let text = |offset: u32| dof.string(probe.strings, offset.into()).unwrap();
        assert_eq!(text(probe.provider), ecb.probe.provider.as_bytes());
        assert_eq!(text(probe.name), ecb.probe.name.as_bytes());
        assert_eq!(probe.id, ecb.probe.id);
        match &ecb.predicate {
            Some(predicate) => assert_same(dof.difo(desc.predicate).unwrap(), predicate),
            None => assert_eq!(desc.predicate, NO_SECTION),
        }
        let actions = dof.table::<ActDesc>(desc.actions, SectionKind::ActDesc).unwrap();
        assert_eq!(actions.len(), ecb.actions.len());
        for (read, written) in actions.zip(&ecb.actions) {
            assert_eq!(read.kind, u32::from(written.kind.number()));
            assert_eq!(read.keys, written.keys);
            match &written.difo {
                Some(difo) => assert_same(dof.difo(read.difo).unwrap(), difo),
                None => assert_eq!(read.difo, NO_SECTION),
            }
            if written.kind == Action::Printf {
                assert_eq!(dof.string(read.strings, read.arg).unwrap(), b"%s %i");
            } else {
                assert_eq!((read.strings, read.arg), (NO_SECTION, written.arg));
            }
        }
    }
}

#[test]
fn a_clause_without_actions_has_no_section_of_them() {
    let program = compile("BEGIN { }");
    let bytes = dof::program(&program, &Options::default()).unwrap();
    let dof = Dof::parse(&bytes).unwrap();
    let section = dof.ecbs().next().unwrap();
    let desc: EcbDesc = dof.record(section, SectionKind::EcbDesc).unwrap();
    assert_eq!((desc.predicate, desc.actions), (NO_SECTION, NO_SECTION));
}

#[test]
fn what_is_stripped_has_no_comment() {
    let program = compile("BEGIN { exit(0); }");
    let mut options = Options::default();
    let whole = dof::program(&program, &options).unwrap();
    options.strip = true;
    let stripped = dof::program(&program, &options).unwrap();
    assert!(stripped.len() < whole.len());
    let header = *Dof::parse(&stripped).unwrap().header();
    assert_eq!(header.load_size, header.file_size);
    assert_eq!(Dof::parse(&whole).unwrap().section_count(), header.section_count + 1);
}

#[test]
fn options_come_back() {
    let mut options = Options::default();
    options.set("bufsize", Some("64k")).unwrap();
    options.set("quiet", None).unwrap();
    let bytes = dof::options(&options);
    let dof = Dof::parse(&bytes).unwrap();
    let read = dof.table::<OptDesc>(0, SectionKind::OptDesc).unwrap();
    let read: Vec<_> = read.map(|option| (option.option, option.value)).collect();
    assert_eq!(read, [(0, 65536), (12, 0)]);
}
