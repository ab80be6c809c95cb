//! All programs of a run, compiled.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use dtrace_abi::Platform;
use dtrace_compiler::disasm::Listing;
use dtrace_compiler::libraries::Library;
use dtrace_compiler::program::Program;
use dtrace_compiler::{Error, Source, Specifies};

use super::{DtraceError, absent};
use crate::cpp::reason;
use crate::job::{Job, Text};
use crate::render::Output;
use crate::trace::{Trace, TraceError};

/// Most bytes of a script or a library.
const LONGEST: u64 = 16 << 20;

/// What dtrace calls itself where a program has no name of its own.
const NAME: &str = "dtrace";

/// A program, and what dtrace calls it.
pub(super) struct Compiled {
    /// `script` or `description`.
    pub kind: &'static str,
    pub name: String,
    pub program: Program,
}

/// Why a program was refused.
#[derive(Debug)]
pub struct CompileError {
    /// What was to be compiled: `failed to compile script X`, `invalid probe specifier X`.
    pub what: String,
    /// What is wrong.
    pub error: Box<Error>,
    /// Whether its tag is told (`-x errtags`).
    pub tagged: bool,
    frame: Option<String>,
}

impl CompileError {
    /// The line it is in, with a mark under the place, and what may have been meant: for people.
    pub fn frame(&self) -> Option<&str> {
        self.frame.as_deref()
    }
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tagged {
            true => write!(f, "{}: {}", self.what, self.error.with_tag()),
            false => write!(f, "{}: {}", self.what, self.error),
        }
    }
}

impl std::error::Error for CompileError {}

/// Scripts that have been read, by their place among the programs: a pipe can be read once, for however many kernels.
pub(super) type Scripts = BTreeMap<usize, Vec<u8>>;

/// Compiles them in their order, after the libraries.
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

/// One of them; if it is a script, that is in its file.
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
            // As dtrace(1) says it: up to where D begins.
            let name = text.split(['{', '/', ';']).next().unwrap_or_default().to_owned();
            Ok(Compiled { kind: "description", name, program })
        }
        Text::Script(file) => {
            let name = file.display().to_string();
            let arguments = arguments(&name);
            let processed = if trace.options().preprocess {
                Some(job.preprocessor.run(script).map_err(|error| {
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

fn failed(
    trace: &Trace,
    error: TraceError,
    what: impl FnOnce() -> String,
    text: &[u8],
) -> DtraceError {
    let TraceError::Program(error) = error else { return error.into() };
    let meant = error.hint.as_ref().map(|name| format!("did you mean {name}?"));
    let lines: Vec<String> =
        error.frame(text).into_iter().chain(meant).chain(absent::hint(&error.message)).collect();
    let frame = (!lines.is_empty()).then(|| lines.join("\n"));
    let tagged = trace.options().error_tags;
    Box::new(CompileError { what: what(), error, tagged, frame }).into()
}

fn read(file: &Path) -> Result<Vec<u8>, DtraceError> {
    let failed = |why: &str| DtraceError::Read(format!("failed to open {}: {why}", file.display()));
    let mut text = Vec::new();
    File::open(file)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text))
        .map_err(|error| failed(&reason(&error)))?;
    match text.len() as u64 > LONGEST {
        true => Err(failed(&format!("it has more than {LONGEST} bytes, as no program in D has"))),
        false => Ok(text),
    }
}

/// Reads all `.d` files of the folders, each in the order of names.
fn libraries(trace: &mut Trace, job: &Job) -> Result<(), DtraceError> {
    let mut files = Vec::new();
    for folder in &job.libraries {
        // As in libdtrace a folder that is not there has no libraries.
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
        // Those that the kernel has nothing for are left out without a word.
        Ok(_) => Ok(()),
        Err(error) => {
            let what = || "failed to initialize dtrace".to_owned();
            Err(failed(trace, error, what, b""))
        }
    }
}

/// What a description ends with, by the option that it comes with.
pub(crate) const fn specifies(option: char) -> Specifies {
    match option {
        'P' => Specifies::Provider,
        'm' => Specifies::Module,
        'f' => Specifies::Function,
        _ => Specifies::Name,
    }
}
