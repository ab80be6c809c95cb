//! Modules that cannot be loaded: the kernel refuses each with a message that names the cause, and continues to work.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check;
use harness::session::{Session, SessionError};

use crate::bench::{EXAMPLE, boot, exec_success, log, module, on_every_architecture, tally};
use crate::broken;

/// Returns the message of the kernel and of its console when it refuses a module.
fn refused(session: &mut Session, image: Vec<u8>) -> String {
    let known = session.wire.console().count();
    let refusal = match session.kldload(EXAMPLE, image) {
        Err(SessionError::Refused(refusal)) => refusal,
        other => panic!("the module should be refused: {other:?}"),
    };
    assert_ne!(refusal.errno, 0, "{refusal:?}");
    // When this call returns, all earlier lines of the console have arrived.
    assert!(session.kldstat().unwrap().iter().all(|loaded| loaded.file != EXAMPLE));
    let console: Vec<_> = session.wire.console().skip(known).collect();
    format!("{}\n{}", refusal.message, console.join("\n"))
}

/// The good module still loads and traces.
fn goes_on(session: &mut Session, arch: Arch) {
    session.kldload(EXAMPLE, module(arch)).unwrap();
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    session.go(consumer).unwrap();
    session.exec(&log()[..20]).unwrap();
    session.stop(consumer).unwrap();
    assert_eq!(tally(session, consumer).hits(), 20);
    session.close(consumer).unwrap();
    session.kldunload(EXAMPLE).unwrap();
}

fn assert_refused(arch: Arch, image: Vec<u8>, cause: &str) {
    assert!(
        check::freebsd_module(&image, check::Against::default()).is_err(),
        "the check after linking finds it, too"
    );
    assert_refused_by_the_kernel(arch, image, cause);
}

fn assert_refused_by_the_kernel(arch: Arch, image: Vec<u8>, cause: &str) {
    let mut session = boot(arch, 2);
    let said = refused(&mut session, image);
    assert!(said.contains(cause), "{said}");
    goes_on(&mut session, arch);
}

on_every_architecture!(
    a_bad_relocation,
    an_unknown_symbol,
    a_set_of_the_wrong_size,
    a_record_of_the_wrong_size,
    truncated_files,
    the_same_file_twice,
    what_is_not_there,
);

fn a_bad_relocation(arch: Arch) {
    assert_refused(arch, broken::bad_relocation(arch), "unexpected relocation type 9");
}

fn an_unknown_symbol(arch: Arch) {
    let image = broken::unknown_symbol(arch);
    // Only the kernel can decide whether the symbol exists.
    let warnings = check::freebsd_module(&image, check::Against::default())
        .expect("there may be such a symbol")
        .warnings;
    assert!(warnings.iter().any(|of| of.to_string().contains(broken::UNKNOWN)), "{warnings:#?}");
    let cause = format!("symbol {} undefined", broken::UNKNOWN);
    assert_refused_by_the_kernel(arch, image, &cause);
}

fn a_set_of_the_wrong_size(arch: Arch) {
    assert_refused(arch, broken::ragged_sites(arch), "sdt_sites");
}

fn a_record_of_the_wrong_size(arch: Arch) {
    assert_refused(arch, broken::other_record_version(arch), "version");
}

fn truncated_files(arch: Arch) {
    let mut session = boot(arch, 2);
    let whole = broken::unsealed(module(arch));
    let needed = broken::needed(&whole);
    for length in [0, 3, 63, 64, needed / 3, needed / 2, needed - 1] {
        let said = refused(&mut session, whole[..length].to_vec());
        assert!(!said.trim().is_empty(), "{length}");
    }
    goes_on(&mut session, arch);
}

fn the_same_file_twice(arch: Arch) {
    let mut session = boot(arch, 2);
    session.kldload(EXAMPLE, module(arch)).unwrap();
    match session.kldload(EXAMPLE, module(arch)) {
        Err(SessionError::Refused(refusal)) => assert_eq!(refusal.errno, 17, "EEXIST: {refusal:?}"),
        other => panic!("a file that is loaded already: {other:?}"),
    }
    session.kldunload(EXAMPLE).unwrap();
    goes_on(&mut session, arch);
}

fn what_is_not_there(arch: Arch) {
    let mut session = boot(arch, 2);
    for result in [session.kldunload("nosuch.ko"), session.close(77), session.go(77)] {
        match result {
            Err(SessionError::Refused(refusal)) => assert!(!refusal.message.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(session.describe(4_000_000), Err(SessionError::Refused(_))));
    goes_on(&mut session, arch);
}
