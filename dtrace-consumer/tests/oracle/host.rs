//! dtrace(1) and its kernel, in one process.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use d_process::{Line, Machine};
use dtrace_consumer::consume::{self, Interrupt, UntilInterrupted};
use dtrace_consumer::{Client, DtraceError, Job, cli};

use crate::case::Case;
use crate::printed::Printed;

/// A command that does not end by itself is interrupted after this time.
const LIMIT: Duration = Duration::from_secs(20);
/// The limit for a command whose recorded run was interrupted: its output is complete by then.
const SOON: Duration = Duration::from_secs(2);
/// The status of an interrupted command.
const STOPPED: i32 = 124;

/// The result of a command line.
pub struct Run {
    pub out: String,
    pub err: String,
    /// The hints that dtrace prints after an error; dtrace(1) prints none.
    #[allow(dead_code, reason = "compared with the guide only")]
    pub hints: Vec<String>,
    pub status: i32,
}

#[derive(Debug, Parser)]
#[command(name = "dtrace", disable_help_flag = true)]
struct Dtrace {
    #[command(flatten)]
    args: cli::DtraceArgs,
}

/// Runs a case on a new kernel.
pub fn run(case: &Case) -> Run {
    let (mut printed, mut hints) = (Printed::default(), Vec::new());
    let status = match Dtrace::try_parse_from(case.words()) {
        Ok(dtrace) => match dtrace.args.job() {
            Ok(Some(job)) => trace(case, job, &mut printed, &mut hints),
            Ok(None) => 0,
            Err(error) => {
                printed.err.push_str(&format!("dtrace: {error}\n"));
                1
            }
        },
        Err(error) => {
            printed.err.push_str(&format!("dtrace: {}\n", cli::complaint(&error)));
            2
        }
    };
    Run { out: String::from_utf8_lossy(&printed.out).into_owned(), err: printed.err, hints, status }
}

fn trace(case: &Case, mut job: Job, printed: &mut Printed, hints: &mut Vec<String>) -> i32 {
    // The machine of the recordings had neither types of the kernel nor libraries.
    job.options.no_libraries = true;
    let folder = tempfile::tempdir().unwrap();
    if job.output.is_some() {
        job.output = Some(folder.path().join("out"));
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let output: OwnedFd = theirs.try_clone().unwrap().into();
    // The properties of the machine in the recorded outputs.
    let machine = Machine {
        execargs: case.line.clone(),
        ustackdepth: 6,
        zonename: "0".into(),
        ..Machine::default()
    };
    let kernel = thread::spawn(move || d_process::serve(machine, Line::new(theirs.into(), output)));
    let line = dtrace_consumer::transport::Line::new(ours.into(), None).unwrap();
    let interrupt = Arc::new(Interrupt::new());
    let (over, wait) = std::sync::mpsc::channel::<()>();
    let limit = if case.status == STOPPED { SOON } else { LIMIT };
    let watch = {
        let interrupt = interrupt.clone();
        thread::spawn(move || {
            if wait.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                interrupt.raise();
            }
        })
    };
    let client = Client::connect(line).unwrap();
    let done: Result<u8, DtraceError> =
        consume::run(client, &job, &interrupt, &mut UntilInterrupted, printed);
    let status = match done {
        Ok(_) if interrupt.raised() => STOPPED,
        Ok(status) => status.into(),
        Err(error) => {
            printed.err.push_str(&format!("dtrace: {error}\n"));
            hints.extend(error.hints().into_iter().map(String::from));
            1
        }
    };
    drop(over);
    watch.join().unwrap();
    kernel.join().unwrap();
    status
}
