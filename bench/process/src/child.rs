//! The children that are measured in turn, and the table of the medians.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use crate::beside::{self, Rounds};
use crate::records;
use crate::rows::{ROWS, Traced};

/// Shows what a hit costs in a process that sdt-process traces.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench --process")]
struct Options {
    /// Rounds; every row is measured once in each.
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Hits of a row in a round.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// Another build of this benchmark, which is measured in turn with this one.
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    /// Measure only records on their way to a file.
    #[arg(long)]
    records: bool,
    /// Measure a round for each line on standard input: what a child does.
    #[arg(long, hide = true)]
    child: bool,
    /// Make records at this rate: what another child does.
    #[arg(long, hide = true)]
    produce: Option<u64>,
}

/// Runs the rows of the command line.
///
/// # Errors
/// A row did not have its expected effect, or a child failed.
pub fn run() -> Result<()> {
    let options = Options::parse();
    if options.child {
        return measure(options.calls);
    }
    let own = std::env::current_exe().context("finding this program")?;
    if let Some(rate) = options.produce {
        return records::produce(rate);
    }
    if options.records {
        return records::run();
    }
    let files = options.beside.into_iter().chain([own]);
    let mut builds =
        files.map(|file| Build::start(&file, options.calls)).collect::<Result<Vec<_>>>()?;
    for _ in 0..options.rounds {
        for build in &mut builds {
            build.round()?;
        }
    }
    let heads = if builds.len() == 2 { &["beside", "this build"][..] } else { &["this build"] };
    let width = ROWS.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut out = std::io::stdout().lock();
    write!(out, "{:width$}", "NANOSECONDS A HIT")?;
    for head in heads {
        write!(out, "  {head:>10}       min..max")?;
    }
    writeln!(out)?;
    for (index, row) in ROWS.iter().enumerate() {
        write!(out, "{:width$}", row.name)?;
        for build in &mut builds {
            let [min, median, max] = build.spread(index)?;
            write!(out, "  {median:>10.1}  {:>13}", format!("{min:.1}..{max:.1}"))?;
        }
        writeln!(out)?;
    }
    drop((out, builds));
    println!();
    records::run()?;
    println!();
    beside::run(Rounds { rounds: options.rounds, calls: options.calls });
    Ok(())
}

/// Measures a round of all rows for each line on standard input, and prints the times in one line.
fn measure(calls: u64) -> Result<()> {
    let mut traced = Traced::new()?;
    // The first round touches memory for the first time.
    for row in &ROWS {
        traced.round(row, calls)?;
    }
    println!("ready");
    for line in std::io::stdin().lines() {
        line?;
        traced.rest()?;
        let times = ROWS.iter().map(|row| traced.round(row, calls)).collect::<Result<Vec<_>>>()?;
        println!("{}", times.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}

/// Returns the fastest of all rounds, the median and the slowest.
///
/// # Errors
/// There was no round.
pub fn spread(times: &mut [f64]) -> Result<[f64; 3]> {
    times.sort_by(f64::total_cmp);
    let [first, .., last] = *times else {
        let only = *times.first().context("no round")?;
        return Ok([only; 3]);
    };
    Ok([first, times[times.len() / 2], last])
}

/// A child of a build of this program.
struct Build {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The times of each row.
    times: Vec<Vec<f64>>,
}

impl Build {
    fn start(file: &Path, calls: u64) -> Result<Self> {
        let mut child = Command::new(file)
            .args(["--child", "--calls", &calls.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", file.display()))?;
        let input = child.stdin.take().context("a child without standard input")?;
        let output = BufReader::new(child.stdout.take().context("a child without output")?);
        let mut build = Self { child, input, output, times: vec![Vec::new(); ROWS.len()] };
        let line = build.line()?;
        ensure!(line == "ready", "{}: {line}", file.display());
        Ok(build)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? != 0, "a child has ended");
        Ok(line.trim_end().to_owned())
    }

    /// Measures a round.
    fn round(&mut self) -> Result<()> {
        writeln!(self.input)?;
        let line = self.line()?;
        let times = line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        ensure!(times.len() == ROWS.len(), "a child has other rows: {line}");
        for (all, time) in self.times.iter_mut().zip(times) {
            all.push(time);
        }
        Ok(())
    }

    /// Returns the fastest round of a row, the median and the slowest.
    fn spread(&mut self, row: usize) -> Result<[f64; 3]> {
        spread(self.times.get_mut(row).context("no such row")?)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
