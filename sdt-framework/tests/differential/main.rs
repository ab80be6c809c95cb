//! Compares the framework with illumos's own dtrace.c: 2 006 D programs and their records.
//!
//! `tests/data/illumos` holds the programs: expressions of all integer types, string subroutines, structs, associative arrays,
//! thread-local variables, speculations, aggregations and faults, most of them random. Each file is a list of
//!
//! ```text
//! === NAME
//! the program
//! ---
//! what was recorded
//! ```
//!
//! Programs were compiled by this project's compiler; illumos's dtrace.c (commit 31d3d510d0), built as a program on Linux, ran
//! the DOF. Memory of the kernel is `kernel.bin`, memory of the process `process.bin`; the probe `test:m:f:hit` fires once for
//! each line of `hits.txt`, which holds its arguments. [`recorded`] documents the lines of the records.

mod cases;
mod machine;
mod recorded;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cases::Case;
use machine::Machine;

#[test]
fn programs_record_what_illumos_records() {
    let cases = cases::all();
    assert_eq!(cases.len(), 2006);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                let mut machine = Machine::new();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = AssertUnwindSafe(|| recorded::run(&machine, case));
                    let Ok(lines) = catch_unwind(run) else {
                        failed.lock().unwrap().push(report(case, "a panic; see above"));
                        // The consumer is still open, and perhaps locked.
                        machine = Machine::new();
                        continue;
                    };
                    if lines != case.recorded {
                        failed.lock().unwrap().push(report(case, &difference(&lines, case)));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    assert!(failed.is_empty(), "{} programs differ:\n{}", failed.len(), failed.join("\n"));
}

fn report(case: &Case, got: &str) -> String {
    let Case { name, program, recorded } = case;
    format!("=== {name}\n{program}\n--- illumos\n{}\n--- got\n{got}\n", recorded.join("\n"))
}

/// Returns all lines. Lines that differ from those of illumos are marked.
fn difference(lines: &[String], case: &Case) -> String {
    let marked = lines.iter().enumerate().map(|(at, line)| {
        let is_same = case.recorded.get(at) == Some(line);
        format!("{}{line}", if is_same { "" } else { "> " })
    });
    marked.collect::<Vec<_>>().join("\n")
}
