//! Compares our dtrace(1) with FreeBSD's (13.0-CURRENT, amd64), byte by byte: the same command lines must print the same
//! output and exit with the same status. Each case runs from the options through the compiler, the line and the framework
//! to the last line of output.
//!
//! `tests/data/oracle` contains the output of FreeBSD's dtrace(1). The programs, the command lines and the errors of the
//! compiler are in `dtrace-compiler/tests/data/oracle`. A file `.ours` or `.ours-err` contains our output for a case in
//! which FreeBSD's output is clearly wrong, or in which dtrace prints a hint. [`LEFT_OUT`] lists the cases that cannot be
//! compared, with the reasons.

mod case;
mod host;
#[path = "../render/printed.rs"]
mod printed;

use case::Case;
use host::{Run, run};

/// The cases that are not compared, with the reasons.
const LEFT_OUT: &[(&str, &str)] = &[
    ("drops_agg", "how many elements a buffer has room for: here one more"),
    ("drops_buf", "a buffer that holds no record is refused here; there nothing is ever recorded"),
    ("err_uregs", "registers of a thread that is interrupted, which this host does not have"),
    ("opt_h", "-h is for programs in C"),
    ("opt_usage", "the usage is this dtrace's own"),
];

#[test]
fn output_is_the_real_one() {
    // Runs in the folder of the scripts; this program has no other test that the change of folder could affect.
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
        let Run { out, err, status, .. } = run(case);
        let mut wrong = Vec::new();
        for (what, ours, theirs) in [("output", &out, &case.out), ("errors", &err, &case.err)] {
            if without_addresses(ours) != without_addresses(theirs) {
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

/// Removes the addresses in kernels, and the CPUs and ids of `tick` probes, from a text.
fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 2 + digits;
        out.push_str(if digits > 8 { &rest[..at + 2] } else { &rest[..end] });
        rest = &rest[end..];
    }
    out.push_str(rest);
    let lines = out.split_inclusive('\n').map(|line| match line.find(":tick-") {
        // CPU, ID, and the blanks before the name.
        Some(at) if line.starts_with("  ") => format!("  0 ID {}", &line[at..]),
        _ => line.to_owned(),
    });
    lines.collect()
}
