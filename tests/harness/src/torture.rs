//! The D program that the kernel runs, without a consumer, while it tortures its own probes.

use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};

/// The arguments of every hit satisfy the predicate, so that the counts are too low if a hit has wrong arguments. `trace` has a
/// clause of its own, because a clause that finds no room in the buffer runs no action and would not count.
const TEXT: &str = "
standin:::masked /arg0 == ~arg1/ { @masked = count(); }
standin:::many /arg0 == ~arg1/ { @many = count(); }
standin:::tick /arg0 == ~arg1/ { @tick = count(); }
standin:::breakpoint /arg0 == ~arg1/ { @breakpoint = count(); }
standin:::masked, standin:::many, standin:::tick, standin:::breakpoint { trace(arg0); }
";

/// Returns the program as DOF.
pub fn program() -> Vec<u8> {
    dof(Platform::Freebsd, TEXT)
}

/// Compiles a program to DOF. All named probes count as existing, and have no types.
///
/// # Panics
/// The program does not compile.
pub fn dof(platform: Platform, text: &str) -> Vec<u8> {
    let mut compiler = Compiler::new(platform, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe);
    let program = program.unwrap_or_else(|error| panic!("{}", error.with_tag()));
    dof::program(&program, compiler.options()).expect("it is short")
}
