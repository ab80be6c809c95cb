//! `dtrace --connect ADDRESS`: dtrace(1) for a kernel on the other side of a line; `dtrace -p PID`, for a process.

use std::process::ExitCode;

use clap::Parser;
use dtrace::consume::{self, Meanwhile, UntilInterrupted};
use dtrace::job::Mode;
use dtrace::process::Process;
use dtrace::render::Streams;
use dtrace::{Address, Client, Interrupt, cli};

const USAGE: &str = "\
Usage: dtrace -p pid | --connect unix:path | tcp:host:port | serial:device[,baud] | exec:command
\t[-c cmd]
";

static INTERRUPT: Interrupt = Interrupt::new();

/// Traces a kernel on the other side of a line: takes dtrace(1)'s options, prints what it prints.
#[derive(Debug, Parser)]
#[command(name = "dtrace", disable_help_flag = true)]
struct Dtrace {
    #[command(flatten)]
    args: cli::DtraceArgs,
    /// Run a command, and end with it; $target is its process.
    #[arg(short, value_name = "CMD", conflicts_with = "pid")]
    command: Option<String>,
    /// Where the kernel is: unix:PATH, tcp:HOST:PORT, serial:DEVICE[,BAUD], or exec:COMMAND, whose standard input
    /// and output are the line.
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["version", "pid"])]
    connect: Option<String>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let usage = [USAGE, cli::USAGE].concat();
    if args.len() == 1 {
        return cli::usage(&usage);
    }
    match Dtrace::try_parse_from(args) {
        Ok(dtrace) => run(&dtrace).unwrap_or_else(|error| cli::failure(&error)),
        Err(error) => cli::usage_error(&error, &usage),
    }
}

fn run(dtrace: &Dtrace) -> anyhow::Result<ExitCode> {
    let Some(mut job) = dtrace.args.job()? else { return Ok(ExitCode::SUCCESS) };
    job.check()?;
    let address = match (&dtrace.connect, dtrace.args.pid) {
        (None, Some(id)) => Address::Process(id),
        (connect, _) => connect.as_deref().unwrap_or_default().parse()?,
    };
    if job.mode == Mode::Trace {
        cli::heed_interrupts(&INTERRUPT)?;
    }
    let mut process = dtrace.command.as_deref().map(Process::new).transpose()?;
    let meanwhile: &mut dyn Meanwhile = match &mut process {
        Some(process) => {
            job.target = process.id().into();
            process
        }
        None => &mut UntilInterrupted,
    };
    let client = Client::connect(address.connect()?)?;
    let mut output = Streams::standard("dtrace")?;
    let status = consume::run(client, &job, &INTERRUPT, meanwhile, &mut output)?;
    Ok(ExitCode::from(status))
}
