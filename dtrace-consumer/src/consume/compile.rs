//! Compiles the programs of a run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use dtrace_abi::Platform;
use dtrace_compiler::disasm::Listing;
use dtrace_compiler::libraries::Library;
use dtrace_compiler::program::Program;
use dtrace_compiler::{Source, Specifies};

use super::error::{CompileError, DtraceError};
use super::hint;
use crate::job::{Job, Text};
use crate::render::Output;
use crate::system::reason;
use crate::trace::{Trace, TraceError};

/// Largest size of a script or a library in bytes.
const LONGEST: u64 = 16 << 20;

/// The name of programs on the command line.
const NAME: &str = "dtrace";

/// A compiled program.
pub(super) struct Compiled {
    /// `script` or `description`.
    pub kind: &'static str,
    /// The program's name in messages.
    pub name: String,
    pub program: Program,
}

/// The text of scripts by their index among the programs. A script from a pipe can be read only once, also for several kernels.
pub(super) type Scripts = BTreeMap<usize, Vec<u8>>;

/// Compiles the programs in their order, after the libraries.
pub(super) fn all(
    trace: &mut Trace,
    job: &Job,
    scripts: &mut Scripts,
    output: &mut dyn Output,
) -> Result<Vec<Compiled>, DtraceError> {
    if !job.options.no_libraries {
        libraries(trace, job)?;
    }
    let mut all = Vec::with_capacity(job.programs.len());
    for (index, text) in job.programs.iter().enumerate() {
        if let (Text::Script(file), Entry::Vacant(script)) = (text, scripts.entry(index)) {
            script.insert(read(file)?);
        }
        let compiled = one(trace, job, text, scripts.get(&index).map_or(&[], Vec::as_slice))?;
        for (number, difo) in compiled.program.listed.iter().enumerate() {
            let name = format!("{:#x}", number + 1);
            let listing = Listing { difo, platform: Platform::Freebsd, name: &name };
            output.listing(&listing.to_string())?;
        }
        all.push(compiled);
    }
    Ok(all)
}

/// Compiles a program; `script` is the content of its file, if it is a script.
fn one(trace: &mut Trace, job: &Job, text: &Text, script: &[u8]) -> Result<Compiled, DtraceError> {
    let arguments = |name: &str| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(job.arguments.iter().cloned()).collect()
    };
    match text {
        Text::Line(text, specifies) => {
            let arguments = arguments(NAME);
            let source = Source {
                specifies: *specifies,
                arguments: &arguments,
                ..Source::line(text.as_bytes())
            };
            let program = trace.compile(source);
            let what = || format!("invalid probe specifier {text}");
            let program = program.map_err(|error| failed(trace, error, what, text.as_bytes()))?;
            // dtrace(1) prints the description only.
            let name = text.split(['{', '/', ';']).next().unwrap_or_default().to_owned();
            Ok(Compiled { kind: "description", name, program })
        }
        Text::Script(file) => {
            let name = file.display().to_string();
            let arguments = arguments(&name);
            let processed = if trace.options().preprocess {
                Some(job.preprocessor.run(&name, script).map_err(|error| {
                    DtraceError::Read(format!("failed to compile script {name}: {error}"))
                })?)
            } else {
                None
            };
            let text = processed.as_deref().unwrap_or(script);
            let program = trace.compile(Source { arguments: &arguments, ..Source::file(text) });
            let what = || format!("failed to compile script {name}");
            let program = program.map_err(|error| failed(trace, error, what, text))?;
            Ok(Compiled { kind: "script", name, program })
        }
    }
}

/// Returns the error of a program with its source line and hints.
fn failed(
    trace: &Trace,
    error: TraceError,
    what: impl FnOnce() -> String,
    text: &[u8],
) -> DtraceError {
    let TraceError::Program(error) = error else { return error.into() };
    let unmatched = hint::description(&error.message);
    // Messages about functions that the description matches and that cannot be traced.
    let complaints = trace.kernel().function_complaints();
    let unmatched = unmatched.filter(|_| complaints.is_empty());
    let unmatched = unmatched.and_then(|description| hint::of(description, trace.kernel()));
    let hints = error.hint.clone().into_iter().chain(unmatched).chain(complaints).collect();
    let (frame, tagged) = (error.frame(text), trace.options().error_tags);
    Box::new(CompileError { what: what(), error, tagged, hints, frame }).into()
}

/// Reads a script or a library.
fn read(file: &Path) -> Result<Vec<u8>, DtraceError> {
    let failed = |why: &str| DtraceError::Read(format!("failed to open {}: {why}", file.display()));
    let mut text = Vec::new();
    File::open(file)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text))
        .map_err(|error| failed(&reason(&error)))?;
    match text.len() as u64 > LONGEST {
        true => Err(failed(&format!("the file has more than {LONGEST} bytes"))),
        false => Ok(text),
    }
}

/// Reads all `.d` files of the folders, folder by folder, in the order of their names.
fn libraries(trace: &mut Trace, job: &Job) -> Result<(), DtraceError> {
    let mut files = Vec::new();
    for folder in &job.libraries {
        // libdtrace ignores folders that do not exist.
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "d"));
        paths.sort();
        for path in paths {
            files.push((path.display().to_string(), read(&path)?));
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    let all: Vec<_> = files.iter().map(|(name, text)| Library { name, text }).collect();
    match trace.libraries(&all) {
        // Libraries whose providers, modules or libraries are missing are skipped.
        Ok(_) => Ok(()),
        Err(error) => {
            let what = || "failed to initialize dtrace".to_owned();
            Err(failed(trace, error, what, b""))
        }
    }
}

/// Returns the last part of the descriptions that a command line option takes.
pub(crate) const fn specifies(option: char) -> Specifies {
    match option {
        'P' => Specifies::Provider,
        'm' => Specifies::Module,
        'f' => Specifies::Function,
        _ => Specifies::Name,
    }
}
