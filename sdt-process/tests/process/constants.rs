//! Programs in D read the constants of the program, and no change of its file ends the process.

use std::fs::OpenOptions;
use std::io::ErrorKind;

use crate::consumer::Subject;
use crate::program::run;

/// Runs a program in D that reads a constant of the subject, and returns how often the kernel copied memory for it.
fn copies(subject: &mut Subject) -> u64 {
    let mut copies = 0;
    let text = "subject:::said { trace(args[0]); }";
    let [shown, said] = run(subject, text, |subject| {
        let before = subject.count("copies");
        subject.ask("said constant");
        copies = subject.count("copies") - before;
    });
    assert_eq!(shown.trim(), "a text of this size", "{said}");
    copies
}

/// The kernel protects the file of a program that it has started.
#[test]
fn the_file_of_a_running_program_is_not_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("subject");
    let mut subject = Subject::copied("jump", &file, None);
    assert_eq!(copies(&mut subject), 0);
    match OpenOptions::new().write(true).truncate(true).open(&file) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ExecutableFileBusy, "{error}"),
        Ok(_) => eprintln!("not tested: Linux 6.11 and 6.12 truncate programs that run"),
    }
}

/// The kernel does not protect the file of a program that the dynamic linker has mapped, so loads do not read it.
#[test]
fn constants_that_the_dynamic_linker_has_mapped_are_copied() {
    let linker = match cfg!(target_arch = "x86_64") {
        true => "/lib64/ld-linux-x86-64.so.2",
        false => "/lib/ld-linux-aarch64.so.1",
    };
    if !std::path::Path::new(linker).exists() {
        eprintln!("not tested: {linker} does not exist");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("subject");
    let mut subject = Subject::copied("jump", &file, Some(linker));
    assert_eq!(copies(&mut subject), 1);
    assert!(OpenOptions::new().write(true).open(&file).is_ok());
    subject.end();
}
