//! Several consumers at once: each has its own enablings and its own records.

use cargo_sdt::internal::arch::Arch;

use crate::bench::{
    EXAMPLE, boot_with_module, exec_success, log, name, on_one_architecture, tally,
};

on_one_architecture!(
    two_consumers_see_every_hit_each,
    a_consumer_that_has_not_started_gets_nothing,
    closing_a_consumer_restores_the_text,
);

fn two_consumers_see_every_hit_each(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
    let (first, second) = (session.open().unwrap(), session.open().unwrap());
    assert_ne!(first, second);
    for consumer in [first, second] {
        assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
        session.go(consumer).unwrap();
    }
    let log = log();
    session.exec(&log[..60]).unwrap();
    // The first consumer closes. The second one continues, and its probe stays patched.
    session.stop(first).unwrap();
    session.close(first).unwrap();
    session.exec(&log[..40]).unwrap();
    session.stop(second).unwrap();
    let (first, second_tally) = (tally(&mut session, first), tally(&mut session, second));
    assert_eq!((first.hits(), first.drops), (60, 0));
    assert_eq!((second_tally.hits(), second_tally.drops), (100, 0));

    session.close(second).unwrap();
    session.kldunload(EXAMPLE).unwrap();
}

fn a_consumer_that_has_not_started_gets_nothing(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
    let (recording, waiting) = (session.open().unwrap(), session.open().unwrap());
    for consumer in [recording, waiting] {
        session.enable(consumer, exec_success()).unwrap();
    }
    session.go(recording).unwrap();
    session.exec(&log()[..30]).unwrap();
    session.stop(recording).unwrap();
    assert_eq!(tally(&mut session, recording).hits(), 30);
    assert_eq!(tally(&mut session, waiting).hits(), 0);
}

fn closing_a_consumer_restores_the_text(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
    // The kernel leaves a site that was enabled with other nops than it had.
    let consumer = session.open().unwrap();
    session.enable(consumer, exec_success()).unwrap();
    session.close(consumer).unwrap();
    let original = session.read_text(EXAMPLE).unwrap();
    let (first, second) = (session.open().unwrap(), session.open().unwrap());
    session.enable(first, exec_success()).unwrap();
    session.enable(second, name("proc:::")).unwrap();
    let enabled = session.read_text(EXAMPLE).unwrap();
    assert!(enabled != original);
    session.close(first).unwrap();
    assert!(session.read_text(EXAMPLE).unwrap() == enabled, "one holder is left");
    session.close(second).unwrap();
    assert!(session.read_text(EXAMPLE).unwrap() == original);
}
