//! dtrace(1)'s command line, without the options that name the kernel.

use std::io::IsTerminal;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::builder::{ValueHint, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use dtrace_abi::option::OptionId;
use dtrace_compiler::did_you_mean;
use dtrace_compiler::options::OptionError;

use crate::consume::{CompileError, DtraceError, Interrupt, specifies};
use crate::help;
use crate::job::{Job, Mode, Text};
use crate::output::{self, CLOSED_STATUS, OutputError};
use crate::render::Units;
use crate::render::picture::SliceRule;
use crate::system;

/// Exit status for a command line that is wrong.
const USAGE_STATUS: u8 = 2;
/// Exit status after a second interrupt: 128 and the number of SIGINT.
const INTERRUPTED_STATUS: i32 = 130;
/// The version of D that `-V` prints (`dtrace_vers_tag`, dt_open.c).
const LANGUAGE: &str = "Sun D 1.13";

/// The usage of dtrace(1)'s own options; a command that embeds them prints its own usage before.
pub const USAGE: &str = "\
\t[-aACeFHlqSvVwZ] [-b bufsz] [-D name[=def]] [-I path] [-L path] [-o output]
\t[-s script] [-U name] [-x opt[=val]] [-x help] [-X a|c|s|t] [--sites]
\t[--color auto|always|never] [--flamegraph file.svg] [--heatmap file.svg]
\t[--unit [aggregation=]unit] [--perfetto file.json]
\t[--slice start,done[,key]] [--otlp url] [--kernel file]

\t[-P provider [[ predicate ] action ]]
\t[-m [ provider: ] module [[ predicate ] action ]]
\t[-f [[ provider: ] module: ] func [[ predicate ] action ]]
\t[-n [[[ provider: ] module: ] func: ] name [[ predicate ] action ]]
\t[-i probe-id [[ predicate ] action ]] [ args ... ]

\tpredicate -> '/' D-expression '/'
\t   action -> '{' D-statements '}'
";

/// dtrace(1)'s own options.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct DtraceArgs {
    /// Claim the anonymous enabling
    #[arg(short = 'a')]
    claim: bool,
    /// Write the programs as DOF to a file, for a kernel that enables them before a consumer connects
    #[arg(short = 'A')]
    anonymous: bool,
    /// Set the size of the record buffer of each CPU
    #[arg(short, value_name = "BUFSZ")]
    buffer: Option<String>,
    /// Run cpp(1) on scripts
    #[arg(short = 'C')]
    preprocess: bool,
    /// Define a macro for cpp(1)
    #[arg(short = 'D', value_name = "NAME[=DEF]")]
    define: Vec<String>,
    /// Exit after compiling the programs
    #[arg(short)]
    end: bool,
    /// Indent the output at entry and return probes
    #[arg(short = 'F')]
    flow: bool,
    /// Generate an ELF file for a program in C (not supported)
    #[arg(short = 'G')]
    generate: bool,
    /// Generate a header file for a program in C (not supported)
    #[arg(short = 'h')]
    header: bool,
    /// Print the names of files that cpp(1) includes
    #[arg(short = 'H')]
    included: bool,
    /// Add a folder in which cpp(1) finds included files
    #[arg(short = 'I', value_name = "PATH")]
    include: Vec<String>,
    /// List probes instead of enabling them
    #[arg(short)]
    list: bool,
    /// Add a folder of D libraries
    #[arg(short = 'L', value_name = "PATH")]
    library: Vec<String>,
    /// Append the output to a file
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Set $target to a process; without --connect, trace this process
    ///
    /// Several -p are one trace of several processes; $target is the first one.
    #[arg(short, value_name = "PID", value_parser = process_id)]
    pub pid: Vec<u32>,
    /// Print only what the programs print
    #[arg(short)]
    quiet: bool,
    /// Print the compiled instructions
    #[arg(short = 'S')]
    disassemble: bool,
    /// Undefine a macro for cpp(1)
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,
    /// Print the stability of the programs; with -l, of each probe and its arguments
    #[arg(short)]
    verbose: bool,
    /// Print the version of D
    #[arg(short = 'V')]
    language: bool,
    /// Print the version of D and of this program
    #[arg(long)]
    version: bool,
    /// Permit destructive actions
    #[arg(short = 'w')]
    destructive: bool,
    /// Set an option; -x help lists all
    #[arg(short = 'x', value_name = "OPT[=VAL]")]
    option: Vec<String>,
    /// Set the dialect of C for cpp(1)
    #[arg(short = 'X', value_name = "a|c|s|t")]
    conformance: Option<String>,
    /// Permit probe descriptions that match no probes
    #[arg(short = 'Z')]
    zero: bool,
    /// With -l, print the sites of each probe: address, state, and distance of a jump
    #[arg(long, requires = "list")]
    sites: bool,
    /// Trace the functions of a kernel, as probes of the provider fbt: the ELF file of the kernel, with symbols; once more for each
    /// loaded module
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kernel: Vec<PathBuf>,
    /// When to colour distributions; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
    /// Draw aggregated stacks as a flame graph
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    flamegraph: Option<PathBuf>,
    /// Draw distributions over time as a heat map
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    heatmap: Option<PathBuf>,
    /// Set the unit of aggregated values: ns, us, ms, s, B or any other word; of one aggregation with NAME=
    #[arg(long, value_name = "[NAME=]UNIT")]
    unit: Vec<String>,
    /// Write records as a timeline for the Perfetto UI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    perfetto: Option<PathBuf>,
    /// Draw slices between two probes in the timeline, matched by an argument or by tid
    #[arg(long, value_name = "START,DONE[,KEY]", requires = "perfetto")]
    slice: Vec<SliceRule>,
    /// Export aggregations and records to an OpenTelemetry collector, by OTLP over HTTP
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    otlp: Option<String>,
    #[command(flatten)]
    programs: Programs,
    /// Macro arguments of the programs: $1, $2, ...
    #[arg(value_name = "ARG")]
    arguments: Vec<String>,
}

fn process_id(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "not a process ID")
}

/// When distributions have a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Returns whether distributions on standard output have a colour now.
    fn now(self) -> bool {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        match self {
            Self::Auto => wanted && std::io::stdout().is_terminal(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The values of `-P`, `-m`, `-f`, `-n`, `-i` and `-s`, in the order of the command line.
#[derive(Debug, Default)]
struct Programs(Vec<(char, String)>);

const PROGRAMS: [(&str, char, &str, &str); 6] = [
    ("provider", 'P', "PROVIDER", "Enable or list probes of a provider"),
    ("module-name", 'm', "MODULE", "Enable or list probes in a module"),
    ("function", 'f', "FUNC", "Enable or list probes in a function"),
    ("name", 'n', "NAME", "Enable or list probes of a name"),
    ("probe-id", 'i', "ID", "Enable or list the probe with an id"),
    ("script", 's', "SCRIPT", "Enable or list according to a D script"),
];

impl clap::Args for Programs {
    fn augment_args(mut command: Command) -> Command {
        for (id, short, value, help) in PROGRAMS {
            let arg = Arg::new(id).short(short).value_name(value).help(help);
            let arg = arg.action(ArgAction::Append).value_parser(ValueParser::string());
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Programs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for (id, option, _, _) in PROGRAMS {
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<String>(id).into_iter().flatten();
            found.extend(places.zip(values).map(|(place, value)| (place, option, value.clone())));
        }
        found.sort_by_key(|&(place, ..)| place);
        Ok(Self(found.into_iter().map(|(_, option, value)| (option, value)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl DtraceArgs {
    /// Returns the job that the options describe. `None` if they asked for a version or for help, which is printed.
    ///
    /// # Errors
    /// An option or its value is wrong. The command prints it as `dtrace: ERROR` and ends with status 1.
    pub fn job(&self) -> anyhow::Result<Option<Job>> {
        if self.version {
            let own = env!("CARGO_PKG_VERSION");
            output::print(format_args!("dtrace: {LANGUAGE}, sdt {own}\n"))?;
            return Ok(None);
        }
        if self.language {
            output::print(format_args!("dtrace: {LANGUAGE}\n"))?;
            return Ok(None);
        }
        if self.option.iter().any(|option| option == "help") {
            output::print(help::options())?;
            return Ok(None);
        }
        let for_c = "is for programs in C; in Rust, sdt_provider! declares probes, and sdt-process registers them";
        if self.generate {
            anyhow::bail!("-G {for_c}");
        }
        if self.header {
            anyhow::bail!("-h {for_c}; --help prints help");
        }
        let mode = match self {
            Self { list: true, .. } => Mode::List,
            Self { anonymous: true, .. } => Mode::Anonymous,
            Self { end: true, .. } => Mode::Compile,
            _ => Mode::Trace,
        };
        let mut job = Job {
            mode,
            verbose: self.verbose,
            sites: self.sites,
            arguments: self.arguments.clone(),
            target: self.pid.first().map_or(0, |&pid| pid.into()),
            output: self.output.clone(),
            kernel: self.kernel.clone(),
            color: self.output.is_none() && self.color.now(),
            terminal: match &self.output {
                Some(path) => is_device(path),
                None => std::io::stdout().is_terminal(),
            },
            flame_graph: self.flamegraph.clone(),
            heat_map: self.heatmap.clone(),
            units: units(&self.unit),
            slices: self.slice.clone(),
            otlp: self.otlp.clone(),
            perfetto: self.perfetto.clone(),
            ..Job::default()
        };
        let flags = [
            (self.claim, "grabanon"),
            (self.preprocess, "cpp"),
            (self.flow, "flowindent"),
            (self.included, "cpphdrs"),
            (self.quiet, "quiet"),
            (self.disassemble, "verbose"),
            (self.destructive, "destructive"),
            (self.zero, "zdefs"),
        ];
        for (_, name) in flags.into_iter().filter(|&(given, _)| given) {
            set(&mut job, name, None, &format!("-x {name}"))?;
        }
        let values = [('b', "bufsize", &self.buffer), ('X', "stdc", &self.conformance)];
        for (letter, name, value) in values {
            if let Some(value) = value {
                set(&mut job, name, Some(value), &format!("-{letter} {value}"))?;
            }
        }
        let lists = [
            ("define", &self.define),
            ("undef", &self.undefine),
            ("incdir", &self.include),
            ("libdir", &self.library),
        ];
        for (name, values) in lists {
            for value in values {
                set(&mut job, name, Some(value), &format!("-x {name}"))?;
            }
        }
        // Like dtrace(1), sets all options before it compiles the programs, in any order of the command line.
        for option in &self.option {
            let (name, value) = option
                .split_once('=')
                .map_or((&**option, None), |(name, value)| (name, Some(value)));
            set(&mut job, name, value, &format!("-x {name}"))?;
        }
        job.claim = job.options.is_set(OptionId::Grabanon);
        for (option, text) in &self.programs.0 {
            job.programs.push(match option {
                's' => Text::Script(text.into()),
                option => Text::Line(text.clone(), specifies(*option)),
            });
        }
        Ok(Some(job))
    }
}

/// Returns the units that `--unit` sets.
fn units(texts: &[String]) -> Units {
    let mut units = Units::default();
    texts.iter().for_each(|text| units.add(text));
    units
}

/// Returns whether a path is a character device, such as a terminal.
fn is_device(path: impl AsRef<Path>) -> bool {
    std::fs::metadata(path).is_ok_and(|of| of.file_type().is_char_device())
}

/// An option of the command line that is not set, in dtrace(1)'s words.
#[derive(Debug, thiserror::Error)]
#[error("failed to set {written}: {error}")]
struct SetError {
    written: String,
    error: OptionError,
    /// The values of the option, or a similar name.
    hint: Option<String>,
}

/// Sets an option that the user has written as `written`.
fn set(job: &mut Job, name: &str, value: Option<&str>, written: &str) -> Result<(), SetError> {
    job.set(name, value).map_err(|error| {
        let known = || "-x help lists the options".to_owned();
        let hint = error.hint(name).or_else(|| (error == OptionError::Name).then(known));
        SetError { written: written.to_owned(), error, hint }
    })
}

/// The time within which two signals are one interrupt: `timeout` of coreutils sends one to the process and one to its group.
const SAME: Duration = Duration::from_millis(200);

/// Installs a handler for Ctrl-C and SIGTERM: the first ends the run in order; a second one, or one while programs are
/// compiled, ends the process at once.
///
/// # Errors
/// The handler cannot be installed.
pub fn heed_interrupts(interrupt: &'static Interrupt) -> anyhow::Result<()> {
    let mut last: Option<Instant> = None;
    ctrlc::set_handler(move || {
        let is_same = last.replace(Instant::now()).is_some_and(|last| last.elapsed() < SAME);
        if !is_same && interrupt.raise() {
            std::process::exit(INTERRUPTED_STATUS);
        }
    })
    .context("cannot handle signals")
}

/// Prints the error that ends dtrace, and returns the exit status. If the reader of standard output has closed it, nothing is
/// printed.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let closed = error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(OutputError::Closed))
            || matches!(cause.downcast_ref(), Some(DtraceError::Write(OutputError::Closed)))
    });
    if closed {
        return ExitCode::from(CLOSED_STATUS);
    }
    output::say(format_args!("dtrace: {}\n", message(error)));
    let dtrace = error.downcast_ref::<DtraceError>();
    // A script needs no picture of the place. dtrace(1) prints neither the place nor hints.
    let frame = dtrace.and_then(DtraceError::compile_error).and_then(CompileError::frame);
    if let Some(frame) = frame.filter(|_| std::io::stderr().is_terminal()) {
        output::say(format_args!("{frame}\n"));
    }
    let option = error.downcast_ref().and_then(|error: &SetError| error.hint.as_deref());
    for hint in dtrace.map_or_else(Vec::new, DtraceError::hints).into_iter().chain(option) {
        output::say(format_args!("dtrace: hint: {hint}\n"));
    }
    ExitCode::FAILURE
}

/// Returns the text of an error with its causes, except those that its text contains already.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        let cause = system::words(&cause);
        if !text.contains(cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints the error in a command line, as dtrace(1) does, and returns the exit status. The usage follows, except if two
/// options exclude each other.
pub fn usage_error(error: &clap::Error, usage: &str) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match output::print(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(OutputError::Closed) => ExitCode::from(CLOSED_STATUS),
            Err(OutputError::Failed(_)) => ExitCode::FAILURE,
        };
    }
    let usage = if error.kind() == ErrorKind::ArgumentConflict { "" } else { usage };
    output::say(format_args!("dtrace: {}\n{usage}", complaint(error)));
    ExitCode::from(USAGE_STATUS)
}

/// Prints the usage, as dtrace(1) does without any argument, and returns the exit status.
pub fn usage(usage: &str) -> ExitCode {
    output::say(usage);
    ExitCode::from(USAGE_STATUS)
}

/// Returns the text of a command line error: in getopt(3)'s words if getopt has this error, otherwise in clap's words.
pub fn complaint(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let short = context(ContextKind::InvalidArg).and_then(|arg| {
        let mut letters = arg.strip_prefix('-')?.chars();
        let letter = letters.next().filter(|&letter| letter != '-')?;
        matches!(letters.next(), None | Some(' ')).then_some(letter)
    });
    let missing = context(ContextKind::InvalidValue).is_none_or(str::is_empty);
    match (error.kind(), short) {
        (ErrorKind::MissingRequiredArgument, _) => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(missing)) => missing.join(", "),
                _ => String::new(),
            };
            format!("missing: {missing}")
        }
        (ErrorKind::UnknownArgument, Some(letter)) => format!("illegal option -- {letter}"),
        (ErrorKind::InvalidValue, Some(letter)) if missing => {
            format!("option requires an argument -- {letter}")
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            if let Some(similar) = context(ContextKind::SuggestedArg) {
                return format!("{first}: {}", did_you_mean(similar));
            }
            match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) if !values.is_empty() => {
                    format!("{first}: the value must be one of {}", values.join(", "))
                }
                _ => first.to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use dtrace_abi::option::UNSET;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true, disable_help_flag = true)]
    struct Cli {
        #[command(flatten)]
        args: DtraceArgs,
    }

    fn job(line: &str) -> Result<Job, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| complaint(&error))?;
        let job = cli.args.job().map_err(|error| error.to_string())?;
        Ok(job.expect("no version is asked for"))
    }

    #[test]
    fn programs_keep_their_order() {
        let job = job("-n a -P b -s x.d -m c:d -i 3 -n e -f f one -q two").unwrap();
        let line = |text: &str, option| Text::Line(text.into(), specifies(option));
        let expected = [
            line("a", 'n'),
            line("b", 'P'),
            Text::Script("x.d".into()),
            line("c:d", 'm'),
            line("3", 'n'),
            line("e", 'n'),
            line("f", 'f'),
        ];
        assert_eq!(job.programs, expected);
        assert_eq!(job.arguments, ["one", "two"]);
    }

    #[test]
    fn options_are_combined_and_repeated() {
        let job = job("-lvn proc:::").unwrap();
        assert!(job.mode == Mode::List && job.verbose);
        // The first line `#!/usr/sbin/dtrace -wqs` of a script.
        let job = super::tests::job("-wqs x.d 1").unwrap();
        let set = |option| job.options.get(option) != UNSET;
        assert!(set(OptionId::Destructive) && set(OptionId::Quiet));
        assert_eq!(job.programs, [Text::Script("x.d".into())]);
        // Like getopt(3), accepts repeated options; the last value counts.
        let job = super::tests::job("-q -qs x.d -q -b 1k -b 2k -o a -o b -D A -D B").unwrap();
        assert_eq!(job.options.get(OptionId::Bufsize), 2048);
        assert_eq!(job.output, Some("b".into()));
        assert_eq!(job.preprocessor.arguments, ["-DA", "-DB"]);
    }

    #[test]
    fn letters_are_options() {
        let line =
            "-x quiet -xzdefs -b 64k -C -D A=1 -U B -I /x -H -F -S -L /lib -o out -p 7 -a -n a";
        let job = job(line).unwrap();
        assert!(
            job.options.no_probes && job.options.preprocess && job.options.list_difos && job.claim
        );
        assert_eq!(job.options.get(OptionId::Bufsize), 65536);
        assert_ne!(job.options.get(OptionId::Flowindent), UNSET);
        assert_eq!(job.preprocessor.arguments, ["-H", "-DA=1", "-UB", "-I/x"]);
        assert_eq!((job.target, job.output), (7, Some("out".into())));
        for (line, mode) in
            [("-e -n a", Mode::Compile), ("-A -n a", Mode::Anonymous), ("-n a", Mode::Trace)]
        {
            assert_eq!(super::tests::job(line).unwrap().mode, mode);
        }
    }

    #[test]
    fn errors_have_the_words_of_dtrace() {
        let cases = [
            ("-s /nonexistent.d -x nosuchopt", "failed to set -x nosuchopt: Invalid option name"),
            ("-x nosuchopt=1 -n a", "failed to set -x nosuchopt: Invalid option name"),
            ("-x quiet=maybe -n a", "failed to set -x quiet: Invalid value for specified option"),
            ("-x zdefs=1 -n a", "failed to set -x zdefs: Invalid value for specified option"),
            ("-b much -n a", "failed to set -b much: Invalid value for specified option"),
        ];
        for (line, error) in cases {
            assert_eq!(job(line).unwrap_err(), error, "{line}");
        }
        assert!(job("-G -s x.d").unwrap_err().starts_with("-G is for programs in C; "));
        assert!(job("-h -s x.d").unwrap_err().starts_with("-h is for programs in C; "));
    }

    #[test]
    fn bad_command_lines_get_getopts_words() {
        assert_eq!(job("-y").unwrap_err(), "illegal option -- y");
        assert_eq!(job("-ly").unwrap_err(), "illegal option -- y");
        assert_eq!(job("-n").unwrap_err(), "option requires an argument -- n");
        assert_eq!(job("-p x").unwrap_err(), "invalid value 'x' for '-p <PID>': not a process ID");
        let error = job("--nosuch").unwrap_err();
        assert!(error.starts_with("unexpected argument '--nosuch'"), "{error}");
        let error = job("--perfeto x").unwrap_err();
        assert_eq!(error, "unexpected argument '--perfeto' found: did you mean --perfetto?");
    }
}
