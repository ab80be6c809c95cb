//! Programs that a real FreeBSD dtrace(1) was given (13.0-CURRENT, amd64), and what it printed, to the
//! byte. Their records are made by [`kernel`](crate::kernel), which says which it cannot run.
//!
//! The programs are the compiler's (`dtrace-compiler/tests/data/oracle`); `tests/data/oracle` has what
//! they printed, and what they print here (`.ours`) where the real one is plainly wrong.

use std::fs;
use std::path::{Path, PathBuf};

use dtrace::render::{Buffer, Consumer, NoSymbols, Schedule, Settings, Text, World};
use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::{Compiler, Source};
use jiff::tz::TimeZone;

use crate::kernel::{Kernel, Unsupported};
use crate::machine::Machine;
use crate::printed::Printed;

/// Runs a program of this kernel's; gives what it printed and its exit status.
pub fn run(
    text: &[u8],
    arguments: &[String],
    options: Options,
) -> Result<(Printed, u32), Unsupported> {
    let mut compiler = Compiler::new(Platform::Freebsd, options);
    let source = Source { arguments, ..Source::file(text) };
    let program =
        compiler.compile(source, &Machine).map_err(|error| Unsupported(error.to_string()))?;
    let mut traced = Kernel::new(&program, compiler.options())?.run()?;
    let settings = Settings { zone: TimeZone::UTC, ..Settings::new(compiler.options().clone()) };
    let mut consumer = Consumer::new(settings);
    let types = compiler.types();
    let mut world = World { descriptions: &mut traced.tables, symbols: &NoSymbols, types };
    let mut sink = Text::new(Printed::default());
    let consume = || {
        consumer.snapshot(0, &traced.aggregations, 0, &mut world, &mut sink)?;
        let buffer = Buffer { data: traced.records, ..Buffer::default() };
        Schedule::new().in_time(&mut consumer, vec![buffer], true, &mut world, &mut sink)?;
        consumer.finish(&world, &mut sink)
    };
    if let Err(error) = consume() {
        return Err(Unsupported(format!("consume: {error}")));
    }
    let status = consumer.exit_status().unwrap_or(0);
    Ok((sink.into_output(), status))
}

/// Options and arguments of a command line; `None` if it is not one script.
fn command(line: &str) -> Option<(Options, Vec<String>)> {
    let mut options = Options::default();
    let (mut arguments, mut scripts) = (Vec::new(), 0);
    let mut words = line.split_whitespace().skip(1);
    while let Some(word) = words.next() {
        match word {
            "-s" => {
                arguments.insert(0, words.next()?.into());
                scripts += 1;
            }
            "-q" => options.set("quiet", None).ok()?,
            "-F" => options.set("flowindent", None).ok()?,
            "-w" => options.set("destructive", None).ok()?,
            "-Z" => options.no_probes = true,
            "-wq" | "-qw" => options.set("quiet", None).ok()?,
            "-x" => {
                let word = words.next()?;
                let (name, value) = match word.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (word, None),
                };
                options.set(name, value).ok()?;
            }
            "-b" => {
                words.next()?;
            }
            _ if word.starts_with('-') => return None,
            _ => arguments.push(word.into()),
        }
    }
    (scripts == 1).then_some((options, arguments))
}

#[test]
fn output_is_the_real_one() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = here.join("../dtrace-compiler/tests/data/oracle");
    let outputs = here.join("tests/data/oracle");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&outputs).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "out"));
    paths.sort();
    let (mut failed, mut count) = (Vec::new(), 0);
    for path in &paths {
        let name = path.file_stem().unwrap().to_str().unwrap();
        count += 1;
        let program = programs.join(format!("{name}.d"));
        let line = fs::read_to_string(program.with_extension("cmd")).unwrap();
        let Some((options, arguments)) = command(&line) else {
            failed.push(format!("{name}: {line}"));
            continue;
        };
        match run(&fs::read(program).unwrap(), &arguments, options) {
            Err(Unsupported(what)) => failed.push(format!("{name}: {what}")),
            Ok((printed, status)) => {
                let ours = fs::read(path.with_extension("ours"));
                let expected = ours.unwrap_or_else(|_| fs::read(path).unwrap());
                if printed.out != expected {
                    failed.push(format!(
                        "{name}:\n--- ours\n{}--- theirs\n{}",
                        String::from_utf8_lossy(&printed.out),
                        String::from_utf8_lossy(&expected)
                    ));
                }
                let expected = fs::read_to_string(path.with_extension("err")).unwrap_or_default();
                if printed.err != expected {
                    failed.push(format!("{name}: {}--- {expected}", printed.err));
                }
                let expected = fs::read_to_string(path.with_extension("rc")).unwrap_or_default();
                let expected: u32 = expected.trim().parse().unwrap_or(0);
                if status & 255 != expected {
                    failed.push(format!("{name}: status {status}, not {expected}"));
                }
            }
        }
    }
    assert!(count >= 95, "{count}");
    assert!(failed.is_empty(), "{} of {count} differ:\n{}", failed.len(), failed.join("\n"));
}
