//! `dtrace --connect ADDRESS`: dtrace(1) for a kernel on the other side of a line; `dtrace -p PID`, for a process.

use std::process::ExitCode;

use clap::Parser;
use dtrace::consume::{self, UntilInterrupted};
use dtrace::{Address, Client, Interrupt, Output, cli};

const USAGE: &str = "\
Usage: dtrace [-lqvZ] [-s script] [-x opt[=val]] [--sites]
\t-p pid | --connect unix:path | tcp:host:port | serial:device[,baud] | exec:command

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
    #[arg(long, value_name = "ADDRESS", required_unless_present = "process")]
    connect: Option<String>,
    /// A process of this machine that hosts its probes itself.
    #[arg(short = 'p', value_name = "PID", conflicts_with = "connect")]
    process: Option<u32>,
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

fn run(dtrace: &Dtrace) -> anyhow::Result<ExitCode> {
    let options = dtrace.args.options()?;
    options.check()?;
    let address = match dtrace.process {
        Some(id) => Address::Process(id),
        None => dtrace.connect.as_deref().unwrap_or_default().parse()?,
    };
    if !options.list {
        cli::heed_interrupts(&INTERRUPT)?;
    }
    let mut client = Client::connect(address.connect()?)?;
    let mut output = Output { out: std::io::stdout(), err: std::io::stderr() };
    consume::run(&mut client, &options, &INTERRUPT, &mut UntilInterrupted, &mut output)?;
    Ok(ExitCode::SUCCESS)
}
