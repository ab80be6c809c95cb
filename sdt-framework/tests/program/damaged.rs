//! The framework does not trust any part of a program.

use proptest::prelude::*;
use sdt_framework::{ConsumerError, ProgramError, Which};

use crate::run::{Kernel, compile};

const TEXT: &str = "self long n; long seen[string]; this int y;
    BEGIN { printf(\"%s\", probename); x = alloca(16); trace(speculation()); }
    proc:::a /arg0 > 1/ { @[probename, arg0] = quantize(arg1, arg2); self->n = arg0; stack(3); }
    proc:::b { speculate(1); trace(strjoin(probename, \"x\")); seen[probefunc]++; }
    proc:::c { commit(1); } proc:::d { tracemem(arg0, 20); discard(1); exit(1); }
    END { trace(this->y); this->y = 4; } ERROR { trace(arg4); }";

/// Sends a program in pieces, and fires all probes; all memory is freed afterwards.
fn send(kernel: &Kernel, dof: &[u8]) -> bool {
    let left = kernel.dtrace.memory_left().unwrap();
    let x = kernel.consumer();
    let mut taken = None;
    for (index, piece) in dof.chunks(1000).enumerate() {
        match kernel.dtrace.program_piece(x.id, dof.len(), index * 1000, piece) {
            Ok(probes) => taken = probes,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if kernel.dtrace.go(x.id).is_ok() {
        (0..4).for_each(|probe| kernel.hit(probe, 2));
        let _ = kernel.dtrace.stop(x.id);
        for which in [Which::Records, Which::Aggregations] {
            let _ = x.try_snapshot(0, which);
        }
    }
    kernel.dtrace.close(x.id).unwrap();
    assert_eq!(kernel.dtrace.memory_left().unwrap(), left);
    taken.is_some()
}

#[test]
fn pieces_follow_each_other() {
    let kernel = Kernel::new();
    let dof = compile(TEXT);
    assert!(send(&kernel, &dof));
    let x = kernel.consumer();
    let pieces = Err(ConsumerError::Program(ProgramError::Pieces));
    let send = |at: usize, piece: &[u8]| kernel.dtrace.program_piece(x.id, dof.len(), at, piece);
    assert_eq!(send(10, &dof[10..]), pieces, "there is no first one");
    assert_eq!(send(0, &dof[..10]), Ok(None));
    assert_eq!(send(11, &dof[11..20]), pieces);
    assert_eq!(send(10, &dof[10..]), pieces, "what there was is dropped");
    assert_eq!(send(0, &dof[..10]), Ok(None));
    let long = [&dof[10..], &[0]].concat();
    assert_eq!(send(10, &long), pieces);
    assert_eq!(send(0, &dof[..10]), Ok(None));
    assert_eq!(send(0, &dof[..20]), Ok(None), "it begins anew");
    assert_eq!(send(20, &dof[20..]), Ok(Some(7)));
    let huge = kernel.dtrace.program_piece(x.id, 1 << 30, 0, &[]);
    assert!(matches!(huge, Err(ConsumerError::Program(ProgramError::Long(_)))));
    let none = kernel.dtrace.program_piece(x.id, 0, 0, &[]);
    assert!(matches!(none, Err(ConsumerError::Program(ProgramError::Dof(_)))));
}

/// A refused program does not affect earlier programs.
#[test]
fn a_refused_program_changes_nothing() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable("int n; string s; proc:::a { n++; s = \"first\"; trace(n); trace(s); @ = sum(n); }");
    let mut dof = compile("int n; string s; proc:::a { n += 10; @b = count(); trace(s); }");
    let whole = dof.clone();
    // The last instruction of the last program is no `ret` any more.
    let ret = dof.windows(4).rposition(|word| word == 0x2300_0001_u32.to_le_bytes()).unwrap();
    dof[ret..ret + 4].fill(0xff);
    let refused = kernel.dtrace.enable_program(x.id, &dof).unwrap_err();
    assert!(matches!(refused, ConsumerError::Program(ProgramError::Action(0, ..))), "{refused}");
    assert!(refused.to_string().starts_with("clause 0, action "), "{refused}");
    assert_eq!(kernel.dtrace.enable_program(x.id, &whole), Ok(1));
    x.go();
    kernel.hit(0, 0);
    let (records, _) = x.records(0);
    assert_eq!(crate::run::number(&records[0].data[0]), 1);
    assert!(records[0].data[1].starts_with(b"first\0"));
    assert!(records[1].data[0].starts_with(b"first\0"), "they share their variables");
    // Each tuple has its number, that of its variable, and a value.
    assert_eq!(x.try_snapshot(0, Which::Aggregations).unwrap().0.len(), 2 * 24);
}

thread_local! {
    /// One framework for all cases, so that a consumer would find data that an earlier one has left.
    static KERNEL: Kernel = Kernel::new();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_programs_are_survived(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut dof = compile(TEXT);
        for (at, byte) in damage {
            let at = at.index(dof.len());
            dof[at] = byte;
        }
        if let Some(cut) = cut {
            dof.truncate(cut.index(dof.len()));
        }
        KERNEL.with(|kernel| send(kernel, &dof));
    }
}
