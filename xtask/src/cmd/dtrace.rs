//! `cargo xtask dtrace`: dtrace(1)'s command line.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use sdt_protocol::Field;

use crate::dtrace::xoptions::{self, XOption};
use crate::dtrace::{self, Clause, Interrupt, Output};
use cargo_sdt::arch::Arch;
use cargo_sdt::module::Patch;
use cargo_sdt::output::{self, CLOSED_STATUS, OutputError};
use cargo_sdt::platform::{FreeBsd, Os, Route};

const USAGE: &str = "\
Usage: dtrace [-lqvZ] [-s script] [-x opt[=val]]
\t[--arch arch] [--os os] [--freebsd release] [--route route] [--patch mode]
\t[--cpus count] [--module file.ko] [--workload log] [--console] [--sites]
\t[-c cmd]

\t[-P provider]
\t[-m [ provider: ] module]
\t[-f [[ provider: ] module: ] func]
\t[-n [[[ provider: ] module: ] func: ] name]
";
/// dtrace's exit status for a command line it does not understand.
const USAGE_STATUS: u8 = 2;
/// What a user who presses Ctrl-C again gets.
const INTERRUPTED_STATUS: i32 = 130;

static INTERRUPT: Interrupt = Interrupt::new();

/// Options of `cargo xtask dtrace`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
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
    /// Run a command instead of playing a log, and end with it: sysctl NAME=VALUE or kstat -p MODULE:INSTANCE:NAME,
    /// which are all that the stand-in kernel knows.
    #[arg(short, value_name = "CMD", conflicts_with_all = ["workload", "list"])]
    command: Option<String>,
    #[command(flatten)]
    programs: Programs,
    /// Architecture of the kernel.
    #[arg(long, value_enum, default_value_t)]
    arch: Arch,
    /// CPUs of the machine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    cpus: u32,
    /// Operating system of the kernel.
    #[arg(long, value_enum, default_value_t)]
    os: Os,
    /// Release of FreeBSD: a major one, 10 to 15, or an exact __FreeBSD_version [default: 15].
    #[arg(long, value_name = "RELEASE")]
    freebsd: Option<FreeBsd>,
    /// How the kernel comes to know the probes of the example module.
    #[arg(long, value_enum, default_value_t)]
    route: Route,
    /// What enabled sites of the example module do, with a provider of its own [default: trap].
    #[arg(long, value_enum)]
    patch: Option<Patch>,
    /// Kernel module to load, several if given several times [default: the example module].
    #[arg(long, value_name = "FILE.ko", conflicts_with_all = ["route", "patch"])]
    module: Vec<PathBuf>,
    /// Exec log to play, as strace -f -e trace=execve -o writes it [default: the recorded one].
    #[arg(long, value_name = "LOG", conflicts_with = "list")]
    workload: Option<PathBuf>,
    /// Show the kernel's console on standard error.
    #[arg(long)]
    console: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
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

impl Args {
    fn options(&self) -> anyhow::Result<dtrace::Options> {
        self.os.runs_on(self.arch)?;
        let mut options = dtrace::Options {
            arch: self.arch,
            cpus: self.cpus,
            os: self.os,
            freebsd: self.os.release(self.freebsd)?,
            route: self.route,
            patch: self.patch,
            modules: self.module.clone(),
            workload: self.workload.clone(),
            command: self.command.as_deref().map(str::parse).transpose()?,
            console: self.console,
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

/// Runs the command.
///
/// # Errors
/// Those of [`dtrace::run`]; to be said as `dtrace: ERROR`, exit status 1.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    if !options.list {
        ctrlc::set_handler(|| {
            if INTERRUPT.raise() {
                // The machine goes when we go.
                std::process::exit(INTERRUPTED_STATUS);
            }
        })
        .context("cannot handle signals")?;
    }
    let mut output = Output { out: std::io::stdout(), err: std::io::stderr() };
    dtrace::run(&options, &INTERRUPT, &mut output)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether these are the arguments of a whole dtrace command: one that clap's own errors do not fit.
pub fn is_ours(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|command| command == "dtrace")
}

/// Says what is wrong with a command line as dtrace does, with its usage.
pub fn usage_error(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelp {
        return match output::print(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(OutputError::Closed) => ExitCode::from(CLOSED_STATUS),
            Err(OutputError::Failed(_)) => ExitCode::FAILURE,
        };
    }
    output::say(format_args!("dtrace: {}\n{USAGE}", complaint(error)));
    ExitCode::from(USAGE_STATUS)
}

/// getopt(3)'s words where it has some, clap's otherwise.
fn complaint(error: &clap::Error) -> String {
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

/// Prints the usage, as dtrace does when it is given nothing at all.
pub fn usage() -> ExitCode {
    output::say(USAGE);
    ExitCode::from(USAGE_STATUS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn options(line: &str) -> Result<dtrace::Options, String> {
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
    fn the_kernel_and_its_example_module_can_be_chosen() {
        let plain = options("-l").unwrap();
        assert_eq!((plain.os, plain.freebsd), (Os::FreeBsd, FreeBsd::default()));
        assert_eq!((plain.route, plain.patch), (Route::default(), None));
        let other = options("-l --freebsd 1304000 --route provider --patch jump").unwrap();
        assert_eq!(other.freebsd.to_string(), "1304000");
        assert_eq!((other.route, other.patch), (Route::Provider, Some(Patch::Jump)));
        assert_eq!(options("-l --os illumos").unwrap().os, Os::Illumos);
        // A module that is there already has been built for something.
        let module = options("-l --freebsd 14 --module x.ko").unwrap();
        assert_eq!(module.freebsd.major(), 14);
        for option in ["--route native", "--patch trap"] {
            let error = options(&format!("-l --module x.ko {option}")).unwrap_err();
            assert!(error.contains("cannot be used with"), "{error}");
        }
        let command = options("-c kstat -n a").unwrap_err();
        assert!(command.starts_with("failed to run kstat: the stand-in kernel "), "{command}");
        // Listing plays nothing.
        let error = options("-l --workload x.log").unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
        let error = options("-l --os illumos --freebsd 15").unwrap_err();
        assert!(error.starts_with("--freebsd 15 is a release of FreeBSD, "), "{error}");
        let error = options("-l --os illumos --arch aarch64 --module x").unwrap_err();
        assert_eq!(error, "illumos is not there for aarch64: take --arch x86_64");
        let error = options("-l --freebsd 9").unwrap_err();
        assert!(error.starts_with("invalid value '9' for '--freebsd <RELEASE>'"), "{error}");
        assert!(error.contains("is not a release of FreeBSD that modules can be built for"));
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
        let error = options("--cpus 0").unwrap_err();
        assert!(error.starts_with("invalid value '0' for '--cpus <CPUS>'"), "{error}");
        let error = options("--nosuch").unwrap_err();
        assert!(error.starts_with("unexpected argument '--nosuch'"), "{error}");
    }
}
