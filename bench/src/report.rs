//! Measures everything and writes the tables.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use sdt_core::patch::Mode;

use crate::clauses;
use crate::code::{Code, Program};
use crate::compile;
use crate::cpus;
use crate::dif;
use crate::functions;
use crate::host::{self, Counter};
use crate::scale;
use crate::subjects::{self, CALLS, DISABLED, Disabled, Subject};
use crate::table::Table;
use crate::time::{Samples, Spread};
use crate::traps;

/// Shows the cost of a probe, compared with other ways to instrument a function.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Options {
    /// Rounds; every function is measured once in each.
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// A tenth of the rounds and of the calls in each, and the smallest crate only: for a first look.
    #[arg(long)]
    quick: bool,
}

/// Calls of a function in a round, while disabled.
const CALLS_DISABLED: u32 = 200_000;
/// Calls of a function in a round, while enabled without a trap.
const CALLS_ENABLED: u32 = 20_000;
/// Calls of a function in a round, while enabled with a trap.
const CALLS_TRAPPING: u32 = 1_000;

/// Runs the command line.
///
/// # Errors
/// If a function did not have its effect, or if this program's file cannot be decoded.
pub fn run() -> Result<()> {
    let mut options = Options::parse();
    let mut divisor = 1;
    if options.quick {
        divisor = 10;
        options.rounds = options.rounds.div_ceil(divisor);
    }
    static_keys::global_init();
    usdt::register_probes().context("registering usdt's probes")?;
    let counter = host::attach()?;

    let mut out = std::io::stdout().lock();
    writeln!(out, "cpu       {}", cpu().as_deref().unwrap_or("unknown"))?;
    writeln!(out, "compiler  {}, opt-level 3, fat LTO", env!("BENCH_RUSTC"))?;
    writeln!(out, "rounds    {}, all functions in turn in each\n", options.rounds)?;
    writeln!(out, "{}", disabled(options.rounds, CALLS_DISABLED / divisor)?)?;
    writeln!(out, "{}", enabled(options.rounds, counter, divisor)?)?;
    writeln!(out, "{}", functions::table(options.rounds, CALLS_TRAPPING / divisor)?)?;
    writeln!(out, "{}", dif::table(options.rounds, CALLS_ENABLED / divisor)?)?;
    writeln!(out, "{}", cpus::table(options.rounds, CALLS_ENABLED / divisor)?)?;
    writeln!(out, "{}", clauses::table()?)?;
    writeln!(out, "{}", compile::table(options.quick)?)?;
    writeln!(out, "{}", scale::table()?)?;
    Ok(())
}

/// The model of the CPU.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.to_owned())
}

/// The variants of all rows: the row's index and the function.
fn variants() -> impl Iterator<Item = (usize, Subject)> {
    let cheap = DISABLED.iter().map(|row| row.cheap).enumerate();
    let costly = DISABLED.iter().map(|row| row.costly).enumerate();
    cheap.chain(costly.filter_map(|(i, function)| Some((i, function?))))
}

/// Measures everything while nothing is enabled.
fn disabled(rounds: u32, calls: u32) -> Result<String> {
    let program = Program::open(DISABLED[0].cheap)?;
    let base = program.code(DISABLED[0].cheap)?;
    let fired = CALLS.load(Ordering::Relaxed);
    let functions: Vec<_> = variants().collect();
    let mut samples = vec![Samples::default(); functions.len()];
    for _ in 0..rounds {
        for ((_, subject), samples) in functions.iter().zip(&mut samples) {
            samples.measure(*subject, calls);
        }
    }
    ensure!(CALLS.load(Ordering::Relaxed) == fired, "something that is disabled fired");

    let spreads = samples.iter().map(Samples::spread).collect::<Option<Vec<_>>>();
    let spreads = spreads.context("no round")?;
    let nothing = spreads[0].median;
    let mut table = Table::new(&[
        "DISABLED",
        "instr.",
        "hot bytes",
        "cold bytes",
        "ns/call",
        "min..max",
        "ratio",
        "| costly: instr.",
        "hot bytes",
        "cold bytes",
        "ns/call",
        "ratio",
    ]);
    for (i, Disabled { name, cheap, costly }) in DISABLED.iter().enumerate() {
        let code = program.code(*cheap)?;
        let mut row = vec![(*name).to_owned()];
        row.extend(code_cells(code, base));
        row.extend(time_cells(spreads[i], nothing));
        if let Some(costly) = costly {
            let mut cells = code_cells(program.code(*costly)?, base);
            cells[0].insert_str(0, "| ");
            row.extend(cells);
            let at = functions.iter().position(|(_, function)| function.name == costly.name);
            let [ns, _, ratio] = time_cells(spreads[at.context("a variant was left out")?], nothing);
            row.extend([ns, ratio]);
        }
        table.row(row);
    }
    let noise = (spreads[1].median / nothing - 1.0).abs() * 100.0;
    let wide = (spreads[0].max / spreads[0].min - 1.0) * 100.0;
    Ok(format!(
        "{table}noise: \"nothing\" measured twice differs by {noise:.1} %: a smaller \
         difference is none; its slowest round is {wide:.0} % over its fastest\n"
    ))
}

/// Returns the code in addition to that of `base`; for `base` itself, its whole code.
fn code_cells(code: Code, base: Code) -> [String; 3] {
    [
        format!("{:+}", code.executed - base.executed),
        format!("{:+}", code.hot - base.hot),
        code.cold.to_string(),
    ]
}

fn time_cells(spread: Spread, nothing: f64) -> [String; 3] {
    let Spread { min, median, max } = spread;
    // Only significant digits.
    let digits = if median < 100.0 { 2 } else { 0 };
    [
        format!("{median:.digits$}"),
        format!("{min:.digits$}..{max:.digits$}"),
        format!("{:.2}", median / nothing),
    ]
}

/// A row of the second table.
struct Enabled {
    name: &'static str,
    subject: Subject,
    calls: u32,
    /// The handler, instead of the one that handles sites.
    handler: Option<traps::Handler>,
    /// The project's probe that the function fires, and the mode of its sites.
    probe: Option<(&'static str, Mode)>,
    /// Whether every call of the function is a call of the consumer.
    consumes: bool,
}

/// Measures the instrumentation that can be enabled in this process.
fn enabled(rounds: u32, counter: &Counter, divisor: u32) -> Result<String> {
    let jumping = |name, subject, consumes| Enabled {
        name,
        subject,
        calls: CALLS_ENABLED / divisor,
        handler: None,
        probe: None,
        consumes,
    };
    let jumping_probe = |name, subject, probe| Enabled {
        probe: Some((probe, Mode::Jump)),
        ..jumping(name, subject, false)
    };
    let trapping = |name, subject, handler, probe: Option<&'static str>| Enabled {
        name,
        subject,
        calls: CALLS_TRAPPING / divisor,
        handler,
        probe: probe.map(|probe| (probe, Mode::Trap)),
        consumes: false,
    };
    let rows = [
        jumping("nothing", DISABLED[0].cheap, false),
        jumping("indirect call", subjects::INDIRECT, true),
        jumping("relaxed AtomicBool", subjects::FLAG_SET, true),
        jumping("static-keys", subjects::KEY_SET, true),
        jumping("tracing, a subscriber that counts", subjects::SUBSCRIBED, true),
        trapping("bare SIGTRAP round trip", subjects::BREAKPOINT, Some(traps::ignore), None),
        jumping_probe("this project, jump mode", subjects::SDT, "cheap"),
        jumping_probe("  with a costly argument", subjects::SDT_COSTLY, "costly"),
        trapping("this project, trap mode", subjects::SDT, None, Some("cheap")),
        trapping("  with a costly argument", subjects::SDT_COSTLY, None, Some("costly")),
    ];
    subjects::enable_peers(true);
    subjects::subscribe().context("subscribing to tracing's events")?;
    for (probe, _) in rows.iter().filter_map(|row| row.probe) {
        counter.set(probe, true)?;
    }
    let mut samples = vec![Samples::default(); rows.len()];
    for _ in 0..rounds {
        for (row, samples) in rows.iter().zip(&mut samples) {
            if let Some((probe, mode)) = row.probe {
                host::set_mode(probe, mode)?;
            }
            let (hits, consumed) = (counter.hits(), CALLS.load(Ordering::Relaxed));
            let mut measure = || samples.measure(row.subject, row.calls);
            match row.handler {
                Some(handler) => traps::with(handler, measure),
                None => measure(),
            }
            let calls = u64::from(row.calls);
            let expected = (row.probe.map_or(0, |_| calls), if row.consumes { calls } else { 0 });
            let found = (counter.hits() - hits, CALLS.load(Ordering::Relaxed) - consumed);
            ensure!(found == expected, "{}: hits {found:?}, expected {expected:?}", row.name);
        }
    }
    for (probe, _) in rows.iter().filter_map(|row| row.probe) {
        counter.set(probe, false)?;
    }
    subjects::enable_peers(false);

    let spreads = samples.iter().map(Samples::spread).collect::<Option<Vec<_>>>();
    let spreads = spreads.context("no round")?;
    let mut table =
        Table::new(&["ENABLED", "ns/call", "min..max", "ratio to nothing", "to SIGTRAP"]);
    let at = |name| rows.iter().position(|row| row.name == name).context("a row is missing");
    let (nothing, bare) = (spreads[at("nothing")?], spreads[at("bare SIGTRAP round trip")?]);
    for (row, spread) in rows.iter().zip(&spreads) {
        let mut cells = vec![row.name.to_owned()];
        cells.extend(time_cells(*spread, nothing.median));
        if row.calls == CALLS_TRAPPING / divisor {
            cells.push(format!("{:.3}", spread.median / bare.median));
        }
        table.row(cells);
    }
    Ok(format!(
        "{table}usdt and probe are enabled by a tracer in the kernel, which would be measured with \
         them: not here"
    ))
}
