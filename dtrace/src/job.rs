//! What a dtrace(1) is to do: options, programs, where all goes.

use std::path::PathBuf;

use dtrace_abi::option::OptionId;
use dtrace_compiler::Specifies;
use dtrace_compiler::options::{OptionError, Options, size};

use crate::budget;
use crate::cpp::Preprocessor;
use crate::render::Markup;
use crate::trace::Look;

/// All of it.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is done with the programs.
    pub mode: Mode,
    /// The programs, in order.
    pub programs: Vec<Text>,
    /// `$1`, `$2`, ...
    pub arguments: Vec<String>,
    /// `$target`: the process that this is about.
    pub target: i64,
    /// Stability attributes and argument types are told, too (`-v`).
    pub verbose: bool,
    /// With [`Mode::List`]: where each probe fires.
    pub sites: bool,
    /// What was enabled before any consumer was there is taken over (`-a`).
    pub claim: bool,
    /// Options of the compiler's, the run's and the kernel's.
    pub options: Options,
    /// Rust's names are shown as they are in the file (`-x rawnames`).
    pub raw_names: bool,
    /// Bars of distributions have a colour: for terminals.
    pub color: bool,
    /// What is printed goes to a terminal, which is not to obey recorded data.
    pub terminal: bool,
    /// Bytes of memory that one kernel may have dtrace use (`-x memory`).
    pub memory: u64,
    /// Folders of D libraries (`-L`).
    pub libraries: Vec<PathBuf>,
    /// How scripts are preprocessed, if they are.
    pub preprocessor: Preprocessor,
    /// The file that output is added to, if it is not standard output (`-o`).
    pub output: Option<PathBuf>,
    /// JSON or XML instead of text (`-x oformat`).
    pub markup: Option<Markup>,
    /// Where a flame graph of stacks goes.
    pub flame_graph: Option<PathBuf>,
    /// Where a heat map of distributions goes.
    pub heat_map: Option<PathBuf>,
    /// Where a timeline for the Perfetto UI goes.
    pub perfetto: Option<PathBuf>,
}

/// What is done with programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They run, until they end or are interrupted.
    #[default]
    Trace,
    /// The probes that they mean are listed (`-l`).
    List,
    /// They are compiled, and that is all (`-e`).
    Compile,
    /// Their DOF is written to a file, for a kernel that is to enable them before any consumer is there (`-A`).
    Anonymous,
}

/// A program's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// `-n`, `-P`, `-m`, `-f`, `-i`: itself, and what a description in it ends with.
    Line(String, Specifies),
    /// `-s`: the name of its file.
    Script(PathBuf),
}

impl Default for Job {
    /// Nothing, with the options that dtrace(1) begins with.
    fn default() -> Self {
        let mut options = Options::default();
        options.put(OptionId::Bufsize, BUFFER);
        options.put(OptionId::Aggsize, BUFFER);
        options.put(OptionId::Temporal, 1);
        Self {
            mode: Mode::Trace,
            programs: Vec::new(),
            arguments: Vec::new(),
            target: 0,
            verbose: false,
            sites: false,
            claim: false,
            options,
            raw_names: false,
            color: false,
            terminal: false,
            memory: budget::DEFAULT,
            libraries: Vec::new(),
            preprocessor: Preprocessor::default(),
            output: None,
            markup: None,
            flame_graph: None,
            heat_map: None,
            perfetto: None,
        }
    }
}

/// Bytes of a CPU's buffers of records and of aggregations.
const BUFFER: i64 = 4 << 20;

/// libdtrace's options for linking programs of C's and for symbol tables, which there are none of here.
const NO_DIFFERENCE: [&str; 7] =
    ["core", "ctypes", "dtypes", "ldpath", "objcopypath", "setenv", "syslibdir"];

impl Job {
    /// For whom it is shown.
    pub(crate) const fn look(&self) -> Look {
        let Self { raw_names, color, terminal, .. } = *self;
        Look { raw_names, color, terminal }
    }

    /// Sets an option, as `-x name=value` does.
    ///
    /// # Errors
    /// There is none of this name, or it does not take this value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let needed = || value.filter(|value| !value.is_empty()).ok_or(OptionError::Value);
        let arguments = &mut self.preprocessor.arguments;
        match name {
            "oformat" => {
                self.markup = match needed()? {
                    "json" => Some(Markup::Json),
                    "xml" => Some(Markup::Xml),
                    "text" => None,
                    _ => return Err(OptionError::Value),
                };
            }
            "rawnames" if value.is_none() => self.raw_names = true,
            "rawnames" => return Err(OptionError::Value),
            "memory" => {
                self.memory = size(needed()?)?.try_into().map_err(|_| OptionError::Value)?;
            }
            "cpppath" => self.preprocessor.program = Some(needed()?.into()),
            "cpphdrs" if value.is_none() => arguments.push("-H".into()),
            "cpphdrs" => return Err(OptionError::Value),
            "define" => arguments.push(format!("-D{}", needed()?)),
            "undef" => arguments.push(format!("-U{}", needed()?)),
            "incdir" => arguments.push(format!("-I{}", needed()?)),
            "stdc" => match needed()? {
                "a" | "c" | "t" => {}
                "s" => arguments.push("-traditional-cpp".into()),
                _ => return Err(OptionError::Value),
            },
            "libdir" => self.libraries.push(needed()?.into()),
            _ if NO_DIFFERENCE.contains(&name) => {}
            _ => self.options.set(name, value)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_consumers_own() {
        let mut job = Job::default();
        for (name, value) in [
            ("oformat", Some("json")),
            ("define", Some("A=1")),
            ("incdir", Some("/x")),
            ("cpphdrs", None),
            ("libdir", Some("/lib")),
            ("pgmax", Some("8")),
            ("bufsize", Some("64k")),
            ("cpp", None),
            ("memory", Some("2m")),
        ] {
            job.set(name, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(job.markup, Some(Markup::Json));
        assert_eq!(job.preprocessor.arguments, ["-DA=1", "-I/x", "-H"]);
        assert_eq!(job.options.get(OptionId::Bufsize), 65536);
        assert_eq!(job.memory, 2 << 20);
        assert!(job.options.preprocess && job.libraries.len() == 1);
        for (name, value) in [
            ("oformat", Some("yaml")),
            ("define", None),
            ("stdc", Some("x")),
            ("cpphdrs", Some("1")),
            ("memory", Some("much")),
            ("memory", None),
        ] {
            assert_eq!(job.set(name, value), Err(OptionError::Value), "{name}");
        }
        assert_eq!(job.set("nosuchopt", None), Err(OptionError::Name));
    }
}
