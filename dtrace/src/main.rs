//! `dtrace --connect ADDRESS`: dtrace(1) for a kernel on the other side of a line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use dtrace::consume::{self, UntilInterrupted};
use dtrace::{Address, Client, ClientError, Interrupt, Output, Protection, cli, key, output};

const USAGE: &str = "\
Usage: dtrace [-lqvZ] [-s script] [-x opt[=val]] [--sites]
\t--connect unix:path | tcp:host:port | serial:device[,baud] | exec:command
\t[--key file | --unencrypted]
       dtrace --make-key file

\t[-P provider]
\t[-m [ provider: ] module]
\t[-f [[ provider: ] module: ] func]
\t[-n [[[ provider: ] module: ] func: ] name]
";

static INTERRUPT: Interrupt = Interrupt::new();

/// Traces a kernel on the other side of a line: takes dtrace(1)'s options, prints what it prints.
#[derive(Debug, Parser)]
#[command(name = "dtrace", version, disable_help_flag = true)]
struct Dtrace {
    #[command(flatten)]
    args: cli::DtraceArgs,
    /// Where the kernel is: unix:PATH, tcp:HOST:PORT, serial:DEVICE[,BAUD], or exec:COMMAND, whose standard input
    /// and output are the line.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "make_key")]
    connect: Option<String>,
    /// The kernel's key, 64 hexadecimal digits in a file that is yours alone (0600): authenticates and encrypts the
    /// line. For tcp: the environment's DTRACE_KEY_FILE if nothing is said.
    #[arg(long, value_name = "FILE", conflicts_with = "unencrypted")]
    key: Option<PathBuf>,
    /// Go to another machine without a key: over a network of your own, or a tunnel. Whoever is on the way can read
    /// and change what is said.
    #[arg(long)]
    unencrypted: bool,
    /// Make a new key in a new file, for a kernel and for --key, and do nothing else.
    #[arg(long, value_name = "FILE", exclusive = true)]
    make_key: Option<PathBuf>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args.len() == 1 {
        return cli::usage(USAGE);
    }
    match Dtrace::try_parse_from(args) {
        Ok(dtrace) => run(&dtrace).unwrap_or_else(|error| cli::failure(&error)),
        Err(error) => cli::usage_error(&error, USAGE),
    }
}

/// The environment's name for the file with the key.
const KEY_FILE: &str = "DTRACE_KEY_FILE";

/// What keeps others from the line.
fn protection(dtrace: &Dtrace, address: &Address) -> anyhow::Result<Protection> {
    if dtrace.unencrypted {
        return Ok(Protection::Nothing);
    }
    let usual = || std::env::var_os(KEY_FILE).filter(|_| matches!(address, Address::Tcp(_)));
    match dtrace.key.clone().or_else(|| usual().map(PathBuf::from)) {
        Some(file) => Ok(Protection::Key(key::read(&file)?)),
        None => Ok(Protection::Machine),
    }
}

fn run(dtrace: &Dtrace) -> anyhow::Result<ExitCode> {
    if let Some(file) = &dtrace.make_key {
        key::make(file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = dtrace.args.options()?;
    options.check()?;
    let address: Address = dtrace.connect.as_deref().unwrap_or_default().parse()?;
    let protection = protection(dtrace, &address)?;
    if !options.list {
        cli::heed_interrupts(&INTERRUPT)?;
    }
    let waiting = format!("dtrace: waiting for {address}: nothing has come from there yet\n");
    let line = address.open(&protection, move || output::say(waiting))?;
    let mut client = Client::connect(line).map_err(|error| match error {
        ClientError::NoAnswer { .. } | ClientError::Echo => {
            anyhow::Error::from(error).context(address.to_string())
        }
        error => error.into(),
    })?;
    let mut output = Output { out: std::io::stdout(), err: std::io::stderr() };
    consume::run(&mut client, &options, &INTERRUPT, &mut UntilInterrupted, &mut output)?;
    Ok(ExitCode::SUCCESS)
}
