//! The job of a run: its mode, its programs, its options, its files.

use std::path::PathBuf;

use dtrace_abi::option::OptionId;
use dtrace_compiler::Specifies;
use dtrace_compiler::options::{OptionError, OptionInfo, Options, SettableBy, Takes, User, size};

use crate::budget;
use crate::cpp::Preprocessor;
use crate::render::Units;
use crate::render::picture::SliceRule;
use crate::trace::Look;

/// The settings that a command line of dtrace(1) describes.
#[derive(Clone, Debug)]
pub struct Job {
    /// The processing of the programs.
    pub mode: Mode,
    /// The programs, in order.
    pub programs: Vec<Text>,
    /// The macro arguments `$1`, `$2`, ...
    pub arguments: Vec<String>,
    /// The process ID that is the value of `$target`.
    pub target: i64,
    /// Whether stability attributes and argument types are printed (`-v`).
    pub verbose: bool,
    /// Whether the list of [`Mode::List`] has the sites of each probe.
    pub sites: bool,
    /// Whether the anonymous enabling is claimed (`-a`).
    pub claim: bool,
    /// Options of the compiler, of the consumer and of the kernel.
    pub options: Options,
    /// Whether bars of distributions have a colour.
    pub color: bool,
    /// Whether the output goes to a terminal; control characters in recorded data are escaped then.
    pub terminal: bool,
    /// The maximum memory in bytes that one kernel can make dtrace use (`-x memory`).
    pub memory: u64,
    /// Folders of D libraries (`-L`).
    pub libraries: Vec<PathBuf>,
    /// The preprocessor of scripts (`-C`).
    pub preprocessor: Preprocessor,
    /// The file of the traced kernel, whose functions are probes of the provider `fbt`, and then those of its modules.
    pub kernel: Vec<PathBuf>,
    /// The file that the output is appended to, instead of standard output (`-o`).
    pub output: Option<PathBuf>,
    /// The file for a flame graph of aggregated stacks.
    pub flame_graph: Option<PathBuf>,
    /// The file for a heat map of distributions.
    pub heat_map: Option<PathBuf>,
    /// The rules for slices of the timeline.
    pub slices: Vec<SliceRule>,
    /// The URL of an OpenTelemetry collector.
    pub otlp: Option<String>,
    /// The units of aggregated values.
    pub units: Units,
    /// The file for a timeline in the format of the Perfetto UI.
    pub perfetto: Option<PathBuf>,
}

/// The processing of the programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Run them until they end or the user interrupts them.
    #[default]
    Trace,
    /// List the probes that they match (`-l`).
    List,
    /// Compile them (`-e`).
    Compile,
    /// Write them as DOF to a file, for a kernel that enables them before a consumer connects (`-A`).
    Anonymous,
}

/// The source of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Text of the command line, and the last part of its probe descriptions (`-n`, `-P`, `-m`, `-f`, `-i`).
    Line(String, Specifies),
    /// The file of a script (`-s`).
    Script(PathBuf),
}

/// Options for which dtrace(1) sets a value even if the user does not.
const PRESET: [OptionId; 3] = [OptionId::Bufsize, OptionId::Aggsize, OptionId::Temporal];

impl Default for Job {
    /// Returns a job without programs, with dtrace(1)'s defaults of options.
    fn default() -> Self {
        let defaults = Options::default();
        let mut options = defaults.clone();
        for id in PRESET {
            if let Some(value) = defaults.number(id) {
                options.put(id, value);
            }
        }
        Self {
            mode: Mode::Trace,
            programs: Vec::new(),
            arguments: Vec::new(),
            target: 0,
            verbose: false,
            sites: false,
            claim: false,
            options,
            color: false,
            terminal: false,
            memory: budget::DEFAULT,
            libraries: Vec::new(),
            preprocessor: Preprocessor::default(),
            kernel: Vec::new(),
            output: None,
            flame_graph: None,
            heat_map: None,
            slices: Vec::new(),
            otlp: None,
            units: Units::default(),
            perfetto: None,
        }
    }
}

impl Job {
    /// Returns the look of the output.
    pub(crate) const fn look(&self) -> Look {
        let Self { color, terminal, .. } = *self;
        Look { color, terminal }
    }

    /// Sets an option, as `-x name=value` does.
    ///
    /// # Errors
    /// No option has this name, or it does not take this value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let option = OptionInfo::find(name).ok_or(OptionError::Name)?;
        match (option.settable_by, option.user, option.takes, value) {
            (SettableBy::CommandLine, User::Unused, ..) => Ok(()),
            (SettableBy::CommandLine, _, Takes::Flag, Some(_)) => Err(OptionError::Value),
            (SettableBy::CommandLine, _, Takes::Flag, None) => self.set_own(name, ""),
            (SettableBy::CommandLine, _, _, Some(value)) if !value.is_empty() => {
                self.set_own(name, value)
            }
            (SettableBy::CommandLine, ..) => Err(OptionError::Value),
            _ => self.options.set(name, value),
        }
    }

    /// Sets an option of the command line only.
    fn set_own(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let arguments = &mut self.preprocessor.arguments;
        match (name, value) {
            ("memory", _) => {
                self.memory = size(value)?.try_into().map_err(|_| OptionError::Value)?;
            }
            ("libdir", _) => self.libraries.push(value.into()),
            ("cpppath", _) => self.preprocessor.program = Some(value.into()),
            ("cpphdrs", _) => arguments.push("-H".into()),
            ("define", _) => arguments.push(format!("-D{value}")),
            ("undef", _) => arguments.push(format!("-U{value}")),
            ("incdir", _) => arguments.push(format!("-I{value}")),
            ("stdc", "a" | "c" | "t") => {}
            ("stdc", "s") => arguments.push("-traditional-cpp".into()),
            ("stdc", _) => return Err(OptionError::Value),
            _ => return Err(OptionError::Name),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dtrace_compiler::options::{ALL, OutputFormat};

    use super::*;

    #[test]
    fn options_of_the_command_line() {
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
        assert_eq!(job.options.output_format, OutputFormat::Json);
        assert_eq!(job.preprocessor.arguments, ["-DA=1", "-I/x", "-H"]);
        assert_eq!(job.options.get(OptionId::Bufsize), 65536);
        assert_eq!(job.memory, 2 << 20);
        assert!(job.options.preprocess && job.libraries.len() == 1);
        for (name, value) in [
            ("oformat", Some("yaml")),
            ("define", None),
            ("define", Some("")),
            ("stdc", Some("x")),
            ("cpphdrs", Some("1")),
            ("memory", Some("much")),
            ("memory", None),
        ] {
            assert_eq!(job.set(name, value), Err(OptionError::Value), "{name}");
        }
        assert_eq!(job.set("nosuchopt", None), Err(OptionError::Name));
    }

    /// `set` accepts each option of the table with its default, and the default changes nothing.
    #[test]
    fn the_table_is_true_of_a_job() {
        for option in ALL {
            let mut job = Job::default();
            let value = match (option.takes, option.default) {
                (Takes::Flag, _) => None,
                (Takes::Word(words), _) => Some(words[0]),
                (Takes::Text(_), "-") => Some("Stable/Stable/Common"),
                (_, "-" | "all" | "the kernel's") => Some("1"),
                (_, default) => Some(default),
            };
            job.set(option.name, value).unwrap_or_else(|error| panic!("{}: {error}", option.name));
        }
        let mut job = Job::default();
        assert_eq!(job.memory, 1 << 30);
        job.memory = 0;
        job.set("memory", Some(OptionInfo::find("memory").unwrap().default)).unwrap();
        assert_eq!(job.memory, Job::default().memory);
        let (mut plain, mut set) = (Job::default().options, Job::default().options);
        for id in PRESET {
            set.set(id.name(), Some(OptionInfo::find(id.name()).unwrap().default)).unwrap();
            assert!(plain.is_set(id));
        }
        assert_eq!(plain, set);
        plain.put(OptionId::Bufsize, 1);
        assert_ne!(plain, set);
    }
}
