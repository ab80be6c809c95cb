//! Programs in D read stacks of all kinds, and a read of an address next to a stack does not end the process.

use crate::consumer::Subject;
use crate::program::run;

/// Counts the reads of `arg0` that give the expected value, and those that give another one. dtrace prints a message for each
/// invalid address.
const TEXT: &str = "subject:::filled { @[*(uint64_t *)arg0 == 0x535441434b21 ? \"right\" : \"wrong\"] = count(); }";

/// Runs a command of the subject, and returns its answer, the number of right values, and the number of bad addresses.
fn read_during(command: &str) -> (String, u64, usize) {
    let mut subject = Subject::new("jump");
    let mut answer = String::new();
    let [shown, said] = run(&mut subject, TEXT, |subject| answer = subject.ask(command));
    assert!(!shown.contains("wrong"), "{command}: {shown}");
    let right = shown.split_whitespace().nth(1).map_or(0, |count| count.parse().unwrap());
    subject.end();
    (answer, right, said.matches("invalid address").count())
}

/// The stack of a coroutine, in the same mapping as that of the thread, is not taken for the thread's.
#[test]
fn a_coroutine_beside_the_stack_of_its_thread_is_told_from_it() {
    assert_eq!(read_during("coroutine unmapped"), ("done".to_owned(), 4, 2));
    let (answer, right, bad) = read_during("coroutine guarded");
    match &*answer {
        "done" => assert_eq!((right, bad), (4, 2)),
        _ => eprintln!("MADV_GUARD_INSTALL needs Linux 6.13: not tried"),
    }
}

/// The kernel copies a stack in a file, which can end or have no place for a page.
#[test]
fn a_stack_in_a_file_is_copied() {
    let mut subject = Subject::new("jump");
    let mut copies = 0;
    let [shown, said] = run(&mut subject, TEXT, |subject| {
        let before = subject.count("copies");
        subject.ask("file");
        copies = subject.count("copies") - before;
    });
    assert_eq!((copies, shown.contains("right"), &*said), (1, true, ""), "{shown}");
    subject.end();
}

#[test]
fn an_alternate_stack_within_a_stack_ends_at_its_guard() {
    assert_eq!(read_during("guard"), ("done".to_owned(), 2, 1));
}

#[test]
fn stacks_grow_and_are_reused() {
    assert_eq!(read_during("growing"), ("211".to_owned(), 211, 0));
}
