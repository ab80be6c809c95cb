//! `dtrace --connect ADDRESS`: dtrace(1) for a kernel on the other side of a line; `dtrace -p PID`, for a process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use dtrace::consume::{self, Meanwhile, Past, Target, UntilEnded, UntilInterrupted};
use dtrace::job::Mode;
use dtrace::process::Process;
use dtrace::render::{Output as _, Streams};
use dtrace::{
    Address, Client, ClientError, DtraceError, Interrupt, Job, Protection, cli, key, output,
    postmortem,
};
use dtrace_abi::option::{OptionId, UNSET};

const USAGE: &str = "\
Usage: dtrace -p pid | --connect [name=]unix:path | tcp:host:port | serial:device[,baud] | exec:command ...
\t[--key file | --unencrypted] [-c cmd]
       dtrace --core file
       dtrace --make-key file
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
    /// Several are traced as one, each called by its address, or NAME=ADDRESS: D's variable hostname.
    #[arg(long, value_name = "ADDRESS")]
    connect: Vec<String>,
    /// The kernel's key, 64 hexadecimal digits in a file that is yours alone (0600): authenticates and encrypts the
    /// line. For tcp: the environment's DTRACE_KEY_FILE if nothing is said.
    #[arg(long, value_name = "FILE", conflicts_with = "unencrypted")]
    key: Option<PathBuf>,
    /// Go to another machine without a key: over a network of your own, or a tunnel. Whoever is on the way can read
    /// and change what is said.
    #[arg(long)]
    unencrypted: bool,
    /// Print what was recorded last, from a dump: the core of a process, an ELF dump of a machine's memory, or its bytes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connect", "pid", "command", "key", "unencrypted"])]
    core: Option<PathBuf>,
    /// Make a new key in a new file, for a kernel and for --key, and do nothing else.
    #[arg(long, value_name = "FILE", exclusive = true)]
    make_key: Option<PathBuf>,
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
    let Some(mut job) = dtrace.args.job()? else { return Ok(ExitCode::SUCCESS) };
    if let Some(file) = &dtrace.core {
        return dumped(file, job);
    }
    job.check()?;
    let addresses = addresses(dtrace)?;
    if job.mode == Mode::Trace {
        cli::heed_interrupts(&INTERRUPT)?;
    }
    let mut process = dtrace.command.as_deref().map(Process::new).transpose()?;
    let mut traced = match &addresses[..] {
        [(_, Address::Process(id))] => Some(UntilEnded(*id)),
        _ => None,
    };
    let meanwhile: &mut dyn Meanwhile = match (&mut process, &mut traced) {
        (Some(process), _) => {
            job.target = process.id().into();
            process
        }
        (None, Some(traced)) => traced,
        (None, None) => &mut UntilInterrupted,
    };
    let mut targets = Vec::with_capacity(addresses.len());
    for (name, address) in addresses {
        let client = connect(dtrace, &address)?;
        targets.push(Target { name, client });
    }
    let mut output = Streams::standard("dtrace")?;
    let status = consume::run_all(targets, &job, &INTERRUPT, meanwhile, &mut output)?;
    Ok(ExitCode::from(status))
}

/// Where the kernels are, and what they are called.
fn addresses(dtrace: &Dtrace) -> anyhow::Result<Vec<(String, Address)>> {
    if let Some(id) = dtrace.args.pid
        && dtrace.connect.is_empty()
    {
        return Ok(vec![(format!("process:{id}"), Address::Process(id))]);
    }
    if dtrace.connect.is_empty() && dtrace.command.is_none() {
        anyhow::bail!(
            "no target: -p PID, a process that has probes of its own; --connect ADDRESS, a kernel; or --core FILE, a dump of one \
             of them"
        );
    }
    if dtrace.connect.is_empty() {
        anyhow::bail!(
            "-c runs a command while a kernel is traced, and --connect has to say which; to trace a program, \
             start it, and trace it with -p"
        );
    }
    let mut all: Vec<(String, Address)> = Vec::with_capacity(dtrace.connect.len());
    for given in &dtrace.connect {
        let (name, address) = match given.split_once('=') {
            Some((name, address)) if !name.is_empty() && !name.contains([':', '/']) => {
                (name, address)
            }
            _ => (&**given, &**given),
        };
        if all.iter().any(|(other, _)| other == name) {
            anyhow::bail!(
                "--connect: two kernels are called {name}: give one another name, NAME=ADDRESS"
            );
        }
        all.push((name.to_owned(), address.parse()?));
    }
    Ok(all)
}

/// Greets the kernel at an address. Ctrl-C bounds how long it is waited for, as for all of its answers.
fn connect(dtrace: &Dtrace, address: &Address) -> anyhow::Result<Client> {
    let protection = protection(dtrace, address)?;
    let waiting = format!("dtrace: waiting for {address}: nothing has come from there yet\n");
    let line = address.open(&protection, move || output::say(waiting))?;
    Client::connect_until(line, || INTERRUPT.raised()).map_err(|error| match error {
        ClientError::NoAnswer { .. } | ClientError::Echo => {
            anyhow::Error::from(error).context(address.to_string())
        }
        error => error.into(),
    })
}

/// Prints what is in a dump.
fn dumped(file: &Path, mut job: Job) -> anyhow::Result<ExitCode> {
    let is_quiet = job.options.get(OptionId::Quiet) != UNSET;
    match job.mode {
        Mode::Trace if job.programs.is_empty() => job.claim = true,
        Mode::List => {}
        _ => anyhow::bail!("--core: a dump is read, and not traced: what was enabled is in it"),
    }
    let mut output = Streams::standard("dtrace")?;
    let mut status = ExitCode::SUCCESS;
    let dump = postmortem::read(file)?;
    for traced in dump.consumers {
        if job.mode == Mode::Trace && !is_quiet {
            let policy = traced.policy.map_or("unknown", |policy| policy.name());
            let (consumer, cpus) = (traced.consumer, traced.cpus.len());
            output
                .message(&format!("consumer {consumer}: {cpus} CPUs, buffer policy {policy}\n"))?;
        }
        let client = Client::connect(postmortem::Line::new(traced.clone()))?;
        match consume::run(client, &job, &INTERRUPT, &mut Past, &mut output) {
            // Nobody reads any more.
            Err(error @ DtraceError::Write(_)) => return Err(error.into()),
            // What others had is whole.
            Err(error) => {
                output.flush()?;
                status = cli::failure(&error.into());
            }
            Ok(_) => {}
        }
        for complaint in &traced.complaints {
            output.message(&format!("{complaint}\n"))?;
        }
    }
    for complaint in &dump.complaints {
        output.message(&format!("{complaint}\n"))?;
    }
    Ok(status)
}
