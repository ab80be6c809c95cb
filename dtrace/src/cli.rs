//! dtrace(1)'s command line, as far as it does not say where the kernel is.

use std::fs::File;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::clause::{Clause, Field};
use crate::consume::{DtraceError, Interrupt, Options};
use crate::output::{self, CLOSED_STATUS, OutputError};
use crate::xoptions::{self, XOption};

/// dtrace's exit status for a command line it does not understand.
const USAGE_STATUS: u8 = 2;
/// What a user who presses Ctrl-C again gets.
const INTERRUPTED_STATUS: i32 = 130;

/// Options that are dtrace's own.
#[derive(Debug, clap::Args)]
pub struct DtraceArgs {
    /// List probes instead of enabling them.
    #[arg(short)]
    list: bool,
    /// With -l: stability attributes and argument types, too.
    #[arg(short)]
    verbose: bool,
    /// With -l: where each probe fires, what is there, and how far a jump would go.
    #[arg(long, requires = "list")]
    sites: bool,
    /// Quiet: print only what is traced explicitly.
    #[arg(short)]
    quiet: bool,
    /// Permit probe descriptions that match no probes.
    #[arg(short = 'Z')]
    zero: bool,
    /// Set an option: quiet, zdefs.
    #[arg(short = 'x', value_name = "OPT[=VAL]")]
    option: Vec<String>,
    #[command(flatten)]
    programs: Programs,
}

/// The values of `-P`, `-m`, `-f`, `-n` and `-s`, in the order of the command line.
#[derive(Debug, Default)]
struct Programs(Vec<(Source, String)>);

/// What an option's value is: a description that ends with a field, or the name of a D script.
#[derive(Clone, Copy, Debug)]
enum Source {
    Clause(Field),
    Script,
}

const PROGRAMS: [(&str, char, Source, &str, &str); 5] = [
    (
        "provider",
        'P',
        Source::Clause(Field::Provider),
        "PROVIDER",
        "Enable or list probes of a provider",
    ),
    (
        "module-name",
        'm',
        Source::Clause(Field::Module),
        "MODULE",
        "Enable or list probes in a module",
    ),
    (
        "function",
        'f',
        Source::Clause(Field::Function),
        "FUNC",
        "Enable or list probes in a function",
    ),
    ("name", 'n', Source::Clause(Field::Name), "NAME", "Enable or list probes of a name"),
    ("script", 's', Source::Script, "SCRIPT", "Enable or list according to a D script (not yet)"),
];

impl clap::Args for Programs {
    fn augment_args(mut command: Command) -> Command {
        for (id, short, _, value, help) in PROGRAMS {
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
        for (id, _, source, _, _) in PROGRAMS {
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<String>(id).into_iter().flatten();
            found.extend(places.zip(values).map(|(place, value)| (place, source, value.clone())));
        }
        found.sort_by_key(|&(place, ..)| place);
        Ok(Self(found.into_iter().map(|(_, source, value)| (source, value)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl DtraceArgs {
    /// What they say.
    ///
    /// # Errors
    /// It is wrong, or not there yet; to be said as `dtrace: ERROR`, exit status 1.
    pub fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options {
            list: self.list,
            verbose: self.verbose,
            sites: self.sites,
            quiet: self.quiet,
            allow_none: self.zero,
            clauses: Vec::new(),
        };
        // As dtrace does: options first, wherever they stand, then programs in their order.
        for option in &self.option {
            let (name, value) = option
                .split_once('=')
                .map_or((&**option, None), |(name, value)| (name, Some(value)));
            let error = |error| anyhow::anyhow!("failed to set -x {name}: {error}");
            match xoptions::parse(name, value).map_err(error)? {
                XOption::Quiet(quiet) => options.quiet = quiet,
                XOption::ZDefs => options.allow_none = true,
            }
        }
        if self.verbose && !self.list {
            anyhow::bail!("-v is only there together with -l yet");
        }
        for (source, text) in &self.programs.0 {
            match *source {
                Source::Clause(field) => options.clauses.push(Clause::parse(text, field)?),
                Source::Script => return Err(no_script(text)),
            }
        }
        Ok(options)
    }
}

/// Why a D script is not run.
fn no_script(script: &str) -> anyhow::Error {
    match File::open(script) {
        Ok(_) => anyhow::anyhow!("failed to compile script {script}: D programs come later"),
        Err(error) => {
            // C's words alone.
            let reason = error.to_string();
            let reason = reason.split(" (os error ").next().unwrap_or_default();
            anyhow::anyhow!("failed to open {script}: {reason}")
        }
    }
}

/// Has a first Ctrl-C or SIGTERM end a run in order, and a second one at once.
///
/// # Errors
/// Signals cannot be handled.
pub fn heed_interrupts(interrupt: &'static Interrupt) -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if interrupt.raise() {
            std::process::exit(INTERRUPTED_STATUS);
        }
    })
    .context("cannot handle signals")
}

/// Says why dtrace ends, and returns its exit status. A reader that has gone is told nothing.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let closed = error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(OutputError::Closed))
            || matches!(cause.downcast_ref(), Some(DtraceError::Write(OutputError::Closed)))
    });
    if closed {
        return ExitCode::from(CLOSED_STATUS);
    }
    output::say(format_args!("dtrace: {}\n", message(error)));
    ExitCode::FAILURE
}

/// An error with its causes, but for those that it tells itself.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Says what is wrong with a command line as dtrace does, with its usage.
pub fn usage_error(error: &clap::Error, usage: &str) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match output::print(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(OutputError::Closed) => ExitCode::from(CLOSED_STATUS),
            Err(OutputError::Failed(_)) => ExitCode::FAILURE,
        };
    }
    output::say(format_args!("dtrace: {}\n{usage}", complaint(error)));
    ExitCode::from(USAGE_STATUS)
}

/// Prints the usage, as dtrace does when it is given nothing at all.
pub fn usage(usage: &str) -> ExitCode {
    output::say(usage);
    ExitCode::from(USAGE_STATUS)
}

/// getopt(3)'s words where it has some, clap's otherwise.
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
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Cli {
        #[command(flatten)]
        args: DtraceArgs,
    }

    fn options(line: &str) -> Result<Options, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| complaint(&error))?;
        cli.args.options().map_err(|error| error.to_string())
    }

    #[test]
    fn clauses_keep_their_order() {
        let options = options("-n a -P b -m c:d -n e -f f").unwrap();
        let texts: Vec<_> = options.clauses.iter().map(|clause| &*clause.text).collect();
        assert_eq!(texts, ["a", "b", "c:d", "e", "f"]);
        let specs: Vec<_> =
            options.clauses.iter().map(|clause| clause.descriptions[0].to_string()).collect();
        assert_eq!(specs, [":::a", "b:::", "c:d::", ":::e", "::f:"]);
    }

    #[test]
    fn options_may_stand_together() {
        let options = options("-lvn proc:::").unwrap();
        assert!(options.list && options.verbose && !options.quiet);
        assert_eq!(options.clauses[0].text, "proc:::");
    }

    #[test]
    fn some_x_options_are_there() {
        let options = options("-x quiet -xzdefs -n a").unwrap();
        assert!(options.quiet && options.allow_none);
    }

    #[test]
    fn what_is_not_there_yet_is_refused() {
        let cases = [
            ("-x bufsize=1m -n a", "failed to set -x bufsize: this option is not there yet"),
            ("-s Cargo.toml", "failed to compile script Cargo.toml: D programs come later"),
            ("-v -n a", "-v is only there together with -l yet"),
        ];
        for (line, error) in cases {
            assert_eq!(options(line).unwrap_err(), error);
        }
        let error = options("-n a{}").unwrap_err();
        assert!(error.starts_with("invalid probe specifier a{}: D programs "), "{error}");
    }

    #[test]
    fn what_is_wrong_reads_as_dtrace_says_it() {
        let missing = "failed to open /nonexistent.d: No such file or directory";
        let cases = [
            ("-s /nonexistent.d", missing),
            // In the order of the command line, but options come first.
            ("-s /nonexistent.d -n a{}", missing),
            ("-s /nonexistent.d -x nosuchopt", "failed to set -x nosuchopt: Invalid option name"),
            ("-x nosuchopt=1 -n a", "failed to set -x nosuchopt: Invalid option name"),
            ("-x quiet=maybe -n a", "failed to set -x quiet: Invalid value for specified option"),
            ("-x zdefs=1 -n a", "failed to set -x zdefs: Invalid value for specified option"),
        ];
        for (line, error) in cases {
            assert_eq!(options(line).unwrap_err(), error, "{line}");
        }
        let error = options("-n a{} -s /nonexistent.d").unwrap_err();
        assert!(error.starts_with("invalid probe specifier a{}: "), "{error}");
        assert!(!options("-q -x quiet=off -n a").unwrap().quiet);
    }

    #[test]
    fn bad_command_lines_get_getopts_words() {
        assert_eq!(options("-y").unwrap_err(), "illegal option -- y");
        assert_eq!(options("-ly").unwrap_err(), "illegal option -- y");
        assert_eq!(options("-n").unwrap_err(), "option requires an argument -- n");
        let error = options("--nosuch").unwrap_err();
        assert!(error.starts_with("unexpected argument '--nosuch'"), "{error}");
    }
}
