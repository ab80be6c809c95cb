//! `cargo xtask dsuite`: chooses programs of the suite, runs them, prints the table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cargo_sdt::internal::process::{clean_cargo_env, run_visibly};
use harness::workspace;

use crate::case::{Case, read_list};
use crate::run::{Programs, run as run_case};
use crate::verdict::{Verdict, judge};

/// Time limit for building dtrace and `d-process`.
const BUILD: Duration = Duration::from_secs(30 * 60);

/// Options of `cargo xtask dsuite`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the suite: `testsuite` of Debian's package dtrace-tests, or a folder above it.
    suite: PathBuf,
    /// File that names the programs to run, below `test`, one a line [default: all of test/unittest and test/demo].
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Run only programs whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Time limit of a program in seconds, unless the program sets a longer one.
    #[arg(long, default_value_t = 41)]
    timeout: u64,
    /// Number of programs that run at the same time [default: two for each CPU].
    #[arg(long)]
    jobs: Option<usize>,
}

/// Number of programs in a folder for each verdict.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    passed: usize,
    alike: usize,
    expected: usize,
    failed: usize,
}

impl Tally {
    fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Passed => &mut self.passed,
            Verdict::Alike => &mut self.alike,
            Verdict::ExpectedFailure => &mut self.expected,
            Verdict::Failed(..) => &mut self.failed,
        } += 1;
    }

    fn row(&self, name: &str) -> String {
        let Self { passed, alike, expected, failed } = self;
        let all = passed + alike + expected + failed;
        format!("{name:<40} {all:>6} {passed:>7} {alike:>6} {expected:>9} {failed:>7}\n")
    }
}

/// Runs the command; the exit status is 1 if a program failed.
///
/// # Errors
/// The suite is not in the folder, or dtrace cannot be built or run.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let suite = find(&args.suite)?;
    let names = match &args.list {
        Some(list) => read_list(list)?,
        None => all(&suite)?,
    };
    let chosen = |name: &String| args.only.as_ref().is_none_or(|only| name.contains(only));
    let limit = Duration::from_secs(args.timeout);
    let cases: Vec<Case> = names
        .iter()
        .filter(|name| chosen(name))
        .map(|name| Case::read(&suite, name, limit))
        .collect::<anyhow::Result<_>>()?;
    let programs = build(suite)?;
    let verdicts = run_all(&programs, &cases, args.jobs)?;
    let mut folders: BTreeMap<String, Tally> = BTreeMap::new();
    let mut whole = Tally::default();
    let mut report = String::new();
    for (case, verdict) in cases.iter().zip(&verdicts) {
        let folder = Path::new(&case.name).parent().unwrap_or(Path::new("")).display().to_string();
        folders.entry(folder).or_default().add(verdict);
        whole.add(verdict);
        if let Verdict::Failed(why, difference) = verdict {
            report.push_str(&format!("{}: {why}\n", case.name));
            report.extend(difference.lines().map(|line| format!("    {line}\n")));
        }
    }
    report.push_str(&format!(
        "\n{:<40} {:>6} {:>7} {:>6} {:>9} {:>7}\n",
        "FOLDER", "ALL", "PASSED", "ALIKE", "EXPECTED", "FAILED"
    ));
    report.extend(folders.iter().map(|(name, tally)| tally.row(name)));
    report.push_str(&whole.row("all"));
    dtrace_consumer::output::print(report)?;
    Ok(if whole.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the folder that contains `runtest.sh`.
fn find(folder: &Path) -> anyhow::Result<PathBuf> {
    let below = [
        "",
        "testsuite",
        "usr/lib/x86_64-linux-gnu/dtrace-consumer/testsuite",
        "usr/lib/aarch64-linux-gnu/dtrace-consumer/testsuite",
    ];
    let mut folders = below.iter().map(|below| folder.join(below));
    match folders.find(|folder| folder.join("runtest.sh").exists()) {
        Some(folder) => folder.canonicalize().with_context(|| folder.display().to_string()),
        None => bail!(
            "{} has no runtest.sh: unpack the package dtrace-tests there, with dpkg-deb -x",
            folder.display()
        ),
    }
}

/// Lists the programs in the parts of the suite that need no kernel.
fn all(suite: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![suite.join("test/unittest"), suite.join("test/demo")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "d") {
                let name = path.strip_prefix(suite.join("test"))?;
                names.push(name.display().to_string());
            }
        }
    }
    names.sort();
    Ok(names)
}

fn build(suite: PathBuf) -> anyhow::Result<Programs> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--quiet", "-p", "dtrace-consumer", "-p", "d-process"])
        .current_dir(workspace::root());
    clean_cargo_env(&mut cargo);
    run_visibly(&mut cargo, BUILD)?;
    let built = workspace::root().join("target/debug");
    Ok(Programs { dtrace: built.join("dtrace"), host: built.join("d-process"), suite })
}

/// Runs all programs, several at a time.
fn run_all(
    programs: &Programs,
    cases: &[Case],
    jobs: Option<usize>,
) -> anyhow::Result<Vec<Verdict>> {
    let jobs = jobs.unwrap_or_else(|| 2 * thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![None; cases.len()]);
    thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { return Ok(()) };
                let ended = run_case(programs, case).context("running dtrace")?;
                let verdict =
                    judge(&programs.suite, case, &ended).with_context(|| case.name.clone())?;
                let mut verdicts = verdicts.lock().unwrap_or_else(PoisonError::into_inner);
                verdicts[index] = Some(verdict);
            }
        };
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(verdicts.into_iter().flatten().collect())
}
