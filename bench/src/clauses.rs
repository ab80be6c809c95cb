//! Measures the compilation of programs with many clauses, from source to DOF.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Result;
use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};

use crate::table::Table;

/// The number of clauses.
const COUNTS: [u32; 3] = [10, 100, 1000];
/// The number of repetitions, of which the fastest counts.
const TIMES: usize = 5;

/// Returns a program with this number of clauses: predicates, thread-local, global and clause-local variables, strings,
/// an aggregation by two keys and a format.
fn source(count: u32) -> String {
    let mut text = String::new();
    for at in 0..count {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "syscall::call{at}:entry /self->from{at} == 0/ {{ self->from{at} = timestamp; \
             x{at} = strlen(execname) + {at}; @[execname, arg{}] = quantize(arg1 * 3 + x{at}); \
             printf(\"%d %s\\n\", x{at}, execname); }}",
            at % 10
        );
    }
    text
}

/// Measures the compilation of the programs, and returns the table.
///
/// # Errors
/// If a program is larger than the limit of kernels.
pub fn table() -> Result<String> {
    let mut table = Table::new(&["CLAUSES", "ms", "bytes of DOF"]);
    for count in COUNTS {
        let text = source(count);
        let (mut fastest, mut bytes) = (f64::INFINITY, 0);
        for _ in 0..TIMES {
            let began = Instant::now();
            let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
            let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe)?;
            bytes = dof::program(&program, compiler.options())?.len();
            fastest = fastest.min(began.elapsed().as_secs_f64() * 1e3);
        }
        table.row(vec![count.to_string(), format!("{fastest:.2}"), bytes.to_string()]);
    }
    Ok(table.to_string())
}
