//! uftrace, which records the entry and the return of a function that the compiler has instrumented (`-pg -mfentry`).

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Rounds, Subject, WIDTH, compile, output};

/// The traced function, and the letter that makes the program call it.
const FUNCTION: (&str, char) = ("hit_count", 'c');

/// Measures uftrace, which starts the program itself and ends with it.
pub(super) fn run(rounds: Rounds) -> Result<String> {
    output(Command::new("uftrace").arg("--version"))?;
    let folder = compile(&["-pg", "-mfentry"])?;
    let (program, data) = (folder.path().join("subject"), folder.path().join("data"));
    let (name, letter) = FUNCTION;
    let mut command = Command::new("uftrace");
    command
        .args(["record", "--no-libcall", "--no-event", "-F", name, "-d"])
        .arg(&data)
        .arg(program);
    let mut subject = Subject::start(&mut command)?;
    let times = rounds.measure(&mut subject, [letter])?;
    subject.finish()?;
    let mut report = Command::new("uftrace");
    report.args(["report", "--no-pager", "-f", "call", "-d"]).arg(&data);
    let report = output(&mut report)?;
    let row = report.lines().find(|line| line.trim_end().ends_with(name));
    let counted = row.and_then(|row| row.split_whitespace().next()).unwrap_or("none");
    ensure!(counted == rounds.fired().to_string(), "{counted} of {} calls", rounds.fired());
    let [min, median, max] = *times.first().context("no time")?;
    let spread = format!("{min:.1}..{max:.1}");
    let mut table = format!("{:WIDTH$}  {:>8}  {:>15}\n", "UFTRACE", "ns/call", "min..max");
    writeln!(table, "{:WIDTH$}  {median:>8.1}  {spread:>15}", "entry and return of a function")?;
    Ok(table)
}
