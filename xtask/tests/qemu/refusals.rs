//! Modules that cannot be loaded: each is refused with a message that names the cause, and the kernel
//! goes on.

use xtask::check;
use xtask::session::{Session, SessionError};

use crate::bench::{EXAMPLE, boot, exec_success, log, module, tally};
use crate::broken;

/// What the kernel and its console say when it refuses a module.
fn refused(session: &mut Session, image: Vec<u8>) -> String {
    let known = session.wire.console().count();
    let refusal = match session.kldload(EXAMPLE, image) {
        Err(SessionError::Refused(refusal)) => refusal,
        other => panic!("the module should be refused: {other:?}"),
    };
    assert_ne!(refusal.errno, 0, "{refusal:?}");
    // The call after it has come back when all that the console had to say has been said.
    assert!(session.kldstat().unwrap().iter().all(|loaded| loaded.file != EXAMPLE));
    let console: Vec<_> = session.wire.console().skip(known).collect();
    format!("{}\n{}", refusal.message, console.join("\n"))
}

/// The good module still loads and traces.
fn goes_on(session: &mut Session) {
    session.kldload(EXAMPLE, module()).unwrap();
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    session.go(consumer).unwrap();
    session.exec(&log()[..20]).unwrap();
    session.stop(consumer).unwrap();
    assert_eq!(tally(session, consumer).hits(), 20);
    session.close(consumer).unwrap();
    session.kldunload(EXAMPLE).unwrap();
}

fn assert_refused(image: Vec<u8>, cause: &str) {
    assert!(check::module(&image).is_err(), "the check after linking finds it, too");
    let mut session = boot(2);
    let said = refused(&mut session, image);
    assert!(said.contains(cause), "{said}");
    goes_on(&mut session);
}

#[test]
fn a_bad_relocation() {
    assert_refused(broken::bad_relocation(), "unexpected relocation type 9");
}

#[test]
fn an_unknown_symbol() {
    assert_refused(broken::unknown_symbol(), "symbol no_such_symbol undefined");
}

#[test]
fn a_set_of_the_wrong_size() {
    assert_refused(broken::ragged_sites(), "sdt_sites");
}

#[test]
fn a_record_of_the_wrong_size() {
    assert_refused(broken::other_record_version(), "version");
}

#[test]
fn truncated_files() {
    let mut session = boot(2);
    let whole = module();
    for length in [0, 3, 63, 64, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let said = refused(&mut session, whole[..length].to_vec());
        assert!(!said.trim().is_empty(), "{length}");
    }
    goes_on(&mut session);
}

#[test]
fn the_same_file_twice() {
    let mut session = boot(2);
    session.kldload(EXAMPLE, module()).unwrap();
    match session.kldload(EXAMPLE, module()) {
        Err(SessionError::Refused(refusal)) => assert_eq!(refusal.errno, 17, "EEXIST: {refusal:?}"),
        other => panic!("a file that is loaded already: {other:?}"),
    }
    session.kldunload(EXAMPLE).unwrap();
    goes_on(&mut session);
}

#[test]
fn what_is_not_there() {
    let mut session = boot(2);
    for result in [session.kldunload("nosuch.ko"), session.close(77), session.go(77)] {
        match result {
            Err(SessionError::Refused(refusal)) => assert!(!refusal.message.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(session.describe(4_000_000), Err(SessionError::Refused(_))));
    goes_on(&mut session);
}
