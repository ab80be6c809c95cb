//! How long programs of many clauses take from source to DOF.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Result;
use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};

use crate::table::Table;

/// How many clauses there are.
const COUNTS: [u32; 3] = [10, 100, 1000];
/// The fastest of so many times counts.
const TIMES: usize = 5;

/// A predicate, variables of threads, of programs and of CPUs, strings, an aggregation by two keys and a format, so many times.
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

/// Compiles them.
///
/// # Errors
/// A program is larger than kernels take.
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
