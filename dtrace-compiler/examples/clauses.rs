//! How long a program of so many clauses takes from source to DOF: `cargo run --release --example clauses [COUNT]`.

use std::fmt::Write as _;
use std::time::Instant;

use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u32 = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let mut text = String::new();
    for at in 0..count {
        writeln!(
            text,
            "syscall::call{at}:entry /self->from{at} == 0/ {{ self->from{at} = timestamp; \
             x{at} = strlen(execname) + {at}; @[execname, arg{}] = quantize(arg1 * 3 + x{at}); \
             printf(\"%d %s\\n\", x{at}, execname); }}",
            at % 10
        )?;
    }
    let began = Instant::now();
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe)?;
    let bytes = dof::program(&program, compiler.options())?;
    println!("{count} clauses, {} bytes of DOF: {:?}", bytes.len(), began.elapsed());
    Ok(())
}
