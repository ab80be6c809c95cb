//! Compares the compiler with a real FreeBSD dtrace(1) (13.0-CURRENT, amd64): its messages for programs that it refused, byte by
//! byte, and the DIF of the other programs, as its `-S` lists it.
//!
//! `tests/data/oracle` has each program with its command line, and the output of dtrace(1). Only the addresses of DIFOs differ
//! between runs.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::Machine;
use dtrace_abi::Platform;
use dtrace_compiler::disasm::Listing;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::Program;
use dtrace_compiler::{Compiler, Error, Source};

/// A program, its options and arguments, taken from its command line.
struct Case {
    name: String,
    path: PathBuf,
    options: Options,
    arguments: Vec<String>,
    scripts: usize,
}

fn cases() -> Vec<Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
    let mut paths: Vec<_> =
        fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "cmd"));
    paths.sort();
    paths.iter().map(|path| case(path)).collect()
}

fn case(path: &Path) -> Case {
    let command = fs::read_to_string(path).unwrap();
    let mut words = command.split_whitespace().skip(1);
    let name = path.file_stem().unwrap().to_str().unwrap().to_string();
    let mut case = Case {
        arguments: vec![format!("{name}.d")],
        name,
        path: path.with_extension("d"),
        options: Options::default(),
        scripts: 0,
    };
    // That machine had neither types of the kernel nor libraries.
    case.options.no_libraries = true;
    while let Some(word) = words.next() {
        match word {
            "-s" => {
                words.next();
                case.scripts += 1;
            }
            "-x" => {
                let (option, value) = match words.next().unwrap().split_once('=') {
                    Some((option, value)) => (option.to_string(), Some(value)),
                    None => ("".into(), None),
                };
                let _ = case.options.set(&option, value);
            }
            "-o" | "-b" => {
                words.next();
            }
            "-Z" => case.options.no_probes = true,
            _ if word.starts_with('-') => {}
            _ => case.arguments.push(word.into()),
        }
    }
    for option in command.split(" -x ").skip(1) {
        let option = option.split_whitespace().next().unwrap();
        let (option, value) = match option.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (option, None),
        };
        let _ = case.options.set(option, value);
    }
    case
}

fn compile(case: &Case) -> Result<Program, Box<Error>> {
    let text = fs::read(&case.path).unwrap();
    let mut options = case.options.clone();
    options.list_difos = true;
    let mut compiler = Compiler::new(Platform::Freebsd, options);
    let source = Source { arguments: &case.arguments, ..Source::file(&text) };
    compiler.compile(source, &Machine)
}

/// Returns the lines that differ, each with its number.
fn differences(ours: &str, theirs: &str) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let pairs = ours.lines().zip(theirs.lines()).enumerate();
    let first = pairs.into_iter().find(|(_, (ours, theirs))| ours != theirs);
    Some(match first {
        Some((line, (ours, theirs))) => {
            format!("line {}:\n  ours   {ours}\n  theirs {theirs}", line + 1)
        }
        None => format!("{} lines, not {}", ours.lines().count(), theirs.lines().count()),
    })
}

/// Returns a listing without the addresses of DIFOs.
fn without_addresses(listing: &str) -> String {
    let lines = listing.lines().map(|line| match line.strip_prefix("DIFO 0x") {
        Some(rest) => format!("DIFO _{}", rest.find(' ').map_or("", |at| &rest[at..])),
        None => line.into(),
    });
    lines.fold(String::new(), |all, line| all + &line + "\n")
}

#[test]
fn errors_are_the_real_ones() {
    let (mut failed, mut count) = (Vec::new(), 0);
    for case in cases() {
        let Ok(expected) = fs::read_to_string(case.path.with_extension("err")) else { continue };
        let prefix = format!("dtrace: failed to compile script {}.d: ", case.name);
        let Some(expected) = expected.trim_end_matches('\n').strip_prefix(&prefix) else {
            continue;
        };
        count += 1;
        let ours = match compile(&case) {
            Ok(_) => "(compiled)".to_string(),
            Err(error) => error.to_string(),
        };
        if ours != expected {
            failed.push(format!("{}\n  ours   {ours}\n  theirs {expected}", case.name));
        }
    }
    assert!(count > 110, "{count}");
    assert!(failed.is_empty(), "{} of {count} differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn listings_are_the_real_ones() {
    let (mut failed, mut count) = (Vec::new(), 0);
    for case in cases() {
        let Ok(expected) = fs::read_to_string(case.path.with_extension("S")) else { continue };
        if case.scripts != 1 {
            continue;
        }
        count += 1;
        let program = match compile(&case) {
            Ok(program) => program,
            Err(error) => {
                failed.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        // The output of `-v` precedes the listing.
        let expected = expected.find("\nDIFO").map_or("", |at| &expected[at..]);
        let listings = program
            .listed
            .iter()
            .map(|difo| Listing { difo, platform: Platform::Freebsd, name: "_" }.to_string());
        let ours: String = listings.collect();
        if let Some(difference) = differences(&ours, &without_addresses(expected)) {
            failed.push(format!("{}: {difference}", case.name));
        }
    }
    assert!(count > 140, "{count}");
    assert!(failed.is_empty(), "{} of {count} differ:\n{}", failed.len(), failed.join("\n"));
}
