//! What a real FreeBSD dtrace(1) was given (13.0-CURRENT, amd64), and what it printed, to the byte, and how it ended: the
//! same command lines, the whole way, from options to the last line: compiler, line, framework, and back.
//!
//! `tests/data/oracle` has what was printed; programs and command lines, and errors of the compiler, are the compiler's
//! (`dtrace-compiler/tests/data/oracle`). Beside them, as `.ours`, is what is printed here where the real one is plainly
//! wrong. [`LEFT_OUT`] says what cannot be compared, and why.

mod case;
mod host;
#[path = "../render/printed.rs"]
mod printed;

use case::Case;
use host::{Run, run};

/// What is not compared, and why not.
const LEFT_OUT: &[(&str, &str)] = &[];

#[test]
fn output_is_the_real_one() {
    // Where the scripts are; there is no other test in this program.
    std::env::set_current_dir(case::folders()[1].as_path()).unwrap();
    let cases = Case::all();
    assert!(cases.len() >= 290, "{}", cases.len());
    let only = std::env::var("ORACLE").ok();
    let (mut failed, mut count) = (Vec::new(), 0);
    for case in &cases {
        let left_out = LEFT_OUT.iter().any(|(name, _)| *name == case.name);
        if left_out || only.as_ref().is_some_and(|only| !case.name.contains(only)) {
            continue;
        }
        count += 1;
        let Run { out, err, status } = run(case);
        let mut wrong = Vec::new();
        for (what, ours, theirs) in [("output", &out, &case.out), ("errors", &err, &case.err)] {
            if ours != theirs {
                wrong.push(format!("{what}:\n--- ours\n{ours}--- theirs\n{theirs}"));
            }
        }
        if status != case.status {
            wrong.push(format!("status {status}, not {}", case.status));
        }
        if !wrong.is_empty() {
            failed.push(format!("{}: {}\n{}", case.name, case.line, wrong.join("\n")));
        }
    }
    assert!(failed.is_empty(), "{} of {count} differ:\n{}", failed.len(), failed.join("\n\n"));
}
