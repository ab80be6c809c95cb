//! The command `dtrace`: dtrace(1) for a process (`-p`), for a kernel (`--connect`), or for a dump (`--core`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, ValueHint};
use dtrace_abi::option::OptionId;
use dtrace_consumer::command::{Command, Hosting};
use dtrace_consumer::consume::{self, Recorded, Target, UntilExit, UntilInterrupted, Workload};
use dtrace_consumer::functions::{self, Functions};
use dtrace_consumer::job::Mode;
use dtrace_consumer::render::{Output as _, Streams};
use dtrace_consumer::{
    Address, Client, ClientError, DtraceError, Interrupt, Job, Peer, Protection, cli, key, output,
    postmortem,
};

const USAGE: &str = "\
Usage: dtrace -p pid ... | -c cmd
       dtrace --connect [name=]unix:path | tcp:host:port | serial:device[,baud] | exec:command ...
\t[--key file | --unencrypted] [-c cmd | -p pid]
       dtrace --core file
       dtrace --functions file [-v]
       dtrace --make-key file
       dtrace --completions bash|elvish|fish|powershell|zsh
";

static INTERRUPT: Interrupt = Interrupt::new();

/// Traces a process or a kernel that hosts sdt-framework, with dtrace(1)'s options and output
#[derive(Debug, Parser)]
#[command(name = "dtrace", disable_help_flag = true)]
struct Dtrace {
    #[command(flatten)]
    args: cli::DtraceArgs,
    /// Run a command while tracing, and end with it; $target is its process
    ///
    /// Without --connect, trace the command itself from its start: it is a program that hosts its probes.
    #[arg(short, value_name = "CMD", conflicts_with = "pid")]
    command: Option<String>,
    /// Trace the kernel at an address: unix:PATH, tcp:HOST:PORT, serial:DEVICE[,BAUD], or exec:COMMAND, which speaks on its
    /// standard input and output
    ///
    /// Several --connect are one trace of several kernels. Each kernel's name, D's variable hostname, is its address, or NAME in
    /// NAME=ADDRESS.
    #[arg(long, value_name = "ADDRESS")]
    connect: Vec<String>,
    /// Authenticate and encrypt the connection with the kernel's key in a file that only you can read (mode 0600)
    ///
    /// The file has 64 hexadecimal digits. For tcp:, the default is the file that the environment variable DTRACE_KEY_FILE
    /// names.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "unencrypted")]
    key: Option<PathBuf>,
    /// Connect to another machine without a key: anyone on the network can read and change the data
    #[arg(long)]
    unencrypted: bool,
    /// Print the last records in a dump: the core of a process, an ELF dump of a machine's memory, or its raw bytes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["connect", "pid", "command", "key", "unencrypted"])]
    core: Option<PathBuf>,
    /// List the functions in an ELF file whose entries or returns cannot be traced, with the reason, and how many can be; with
    /// -v, list all functions
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["connect", "pid", "command", "core"])]
    functions: Option<PathBuf>,
    /// Create a file with a new key, for a kernel and for --key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, exclusive = true)]
    make_key: Option<PathBuf>,
    /// Print the completions for a shell
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<clap_complete::Shell>,
    /// Print help
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

/// The environment variable that names the file of the key.
const KEY_FILE: &str = "DTRACE_KEY_FILE";

/// Returns how the connection to an address is protected.
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
    if let Some(shell) = dtrace.completions {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Dtrace::command(), "dtrace", &mut script);
        output::print(String::from_utf8_lossy(&script))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(mut job) = dtrace.args.job()? else { return Ok(ExitCode::SUCCESS) };
    if let Some(file) = &dtrace.functions {
        let functions = Functions::read(file).with_context(|| file.display().to_string())?;
        output::print(functions::listing(&functions, job.verbose))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &dtrace.core {
        return dumped(file, job);
    }
    job.check()?;
    let (mut hosting, mut command) = match &dtrace.command {
        Some(command) if dtrace.connect.is_empty() => (Some(Hosting::new(command)?), None),
        command => (None, command.as_deref().map(Command::new).transpose()?),
    };
    let addresses = match &hosting {
        Some(hosting) => vec![of_process(hosting.id())],
        None => addresses(dtrace)?,
    };
    if job.mode == Mode::Trace {
        cli::heed_interrupts(&INTERRUPT)?;
    }
    if let Some(hosting) = &mut hosting {
        hosting.wait_for_probes(&INTERRUPT, |text| output::say(text))?;
    }
    let ids = addresses.iter().map(|(_, address)| match address {
        Address::Process(id) => Some(*id),
        _ => None,
    });
    let mut traced = ids.collect::<Option<Vec<u32>>>().map(UntilExit);
    if let Some(id) = hosting.as_ref().map(Hosting::id).or(command.as_ref().map(Command::id)) {
        job.target = id.into();
    }
    let workload: &mut dyn Workload = match (&mut hosting, &mut command, &mut traced) {
        (Some(hosting), ..) => hosting,
        (None, Some(command), _) => command,
        (None, None, Some(traced)) => traced,
        (None, None, None) => &mut UntilInterrupted,
    };
    if !job.kernel.is_empty()
        && let Some((_, Address::Process(id))) =
            addresses.iter().find(|(_, address)| matches!(address, Address::Process(_)))
    {
        anyhow::bail!(
            "--kernel: process {id} is not a kernel; its functions are probes of the provider pid: pid$target:a.out:NAME:entry"
        );
    }
    let mut targets = Vec::with_capacity(addresses.len());
    for (name, address) in addresses {
        let client = connect(dtrace, &address)?;
        let process = match address {
            Address::Process(id) => Some(id),
            _ => None,
        };
        targets.push(Target { name: Some(name), client, process });
    }
    let mut output = Streams::standard("dtrace")?;
    let status = consume::run_all(targets, &job, &INTERRUPT, workload, &mut output)?;
    if job.mode == Mode::Trace
        && let Some(hosting) = &mut hosting
        && hosting.is_running()
    {
        output::say(format_args!("dtrace: pid {} is still running\n", hosting.id()));
    }
    Ok(ExitCode::from(status))
}

/// Returns the name and address of a process that hosts its probes.
fn of_process(id: u32) -> (String, Address) {
    (format!("process:{id}"), Address::Process(id))
}

/// Returns the names and addresses of the kernels.
fn addresses(dtrace: &Dtrace) -> anyhow::Result<Vec<(String, Address)>> {
    if dtrace.connect.is_empty() && !dtrace.args.pid.is_empty() {
        let mut ids = Vec::new();
        for &id in &dtrace.args.pid {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        return Ok(ids.into_iter().map(of_process).collect());
    }
    if dtrace.connect.is_empty() {
        anyhow::bail!(
            "no target: name a process that hosts its probes with -p PID, a program that does with -c CMD, a kernel with --connect \
             ADDRESS, or a dump of one of them with --core FILE"
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
                "--connect: two kernels have the name {name}: give one of them another name with NAME=ADDRESS"
            );
        }
        all.push((name.to_owned(), address.parse()?));
    }
    Ok(all)
}

/// Connects to the kernel at an address. After an interrupt, dtrace waits only a bounded time for this and all other answers.
fn connect(dtrace: &Dtrace, address: &Address) -> anyhow::Result<Client> {
    let protection = protection(dtrace, address)?;
    let (peer, waited) = (address.peer(), address.clone());
    let waiting = move || match peer.stopped() {
        Some(how) => output::say(format_args!("dtrace: {peer} {how}\n")),
        None => output::say(format_args!("dtrace: waiting for {waited}: no data received yet\n")),
    };
    let line = address.open(&protection, waiting)?;
    Client::connect_until(line, peer, || INTERRUPT.raised()).map_err(|error| match error {
        ClientError::NoAnswer { peer: Peer::Kernel, .. } | ClientError::Echo => {
            anyhow::Error::from(error).context(address.to_string())
        }
        error => error.into(),
    })
}

/// Prints the records in a dump.
fn dumped(file: &Path, mut job: Job) -> anyhow::Result<ExitCode> {
    let is_quiet = job.options.is_set(OptionId::Quiet);
    match job.mode {
        Mode::Trace if job.programs.is_empty() => job.claim = true,
        Mode::List => {}
        _ => anyhow::bail!(
            "--core reads the records of programs that were enabled before the dump: it takes no programs"
        ),
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
        match consume::run(client, &job, &INTERRUPT, &mut Recorded, &mut output) {
            // The reader has closed the output.
            Err(error @ DtraceError::Write(_)) => return Err(error.into()),
            // The records of other consumers in the dump can still be shown.
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
