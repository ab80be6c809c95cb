//! `cargo xtask torture`: patches the kernel's own probes, or all its functions, while all CPUs execute them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sdt_protocol::{Tortured, TorturedFunctions};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::output;
use cargo_sdt::internal::progress::note;
use harness::kernel;
use harness::session::Session;
use harness::torture;

/// The interval of progress messages.
const BEAT: Duration = Duration::from_secs(5);

/// Options of `cargo xtask torture`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture of the kernel.
    #[arg(long, value_enum, default_value_t)]
    arch: Arch,
    /// CPUs of the machine.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    cpus: u32,
    /// Seed of the random order [default: another one each time].
    #[arg(long)]
    seed: Option<u64>,
    /// Number of transitions: a probe is enabled, disabled, or gets another mode.
    #[arg(long, default_value_t = 1_000_000)]
    transitions: u64,
    /// Also enable a D program on some of the probes, with a predicate, an aggregation and a record, and compare its
    /// totals at the end.
    #[arg(long)]
    program: bool,
    /// Instead of probes, enable and disable all functions of the kernel (provider fbt). A transition is one of all functions.
    #[arg(long, conflicts_with = "program")]
    functions: bool,
}

/// Returns a random seed.
pub fn random_seed() -> u64 {
    // From a random number of the system for each process, and a count.
    RandomState::new().build_hasher().finish()
}

/// Runs the command. The exit status is 1 after a failure.
///
/// # Errors
/// If the kernel could not be built or failed, including a panic because of an unexpected trap.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let seed = args.seed.unwrap_or_else(random_seed);
    output::line(format_args!("seed {seed}"))?;
    let mut session = Session::boot(args.arch, args.cpus, false)?;
    let start = Instant::now();
    let mut told = start;
    let progress = |done| {
        if told.elapsed() >= BEAT {
            told = Instant::now();
            note(format_args!("{done} of {} transitions, {}", args.transitions, rate(done, start)));
        }
    };
    let (done, report, failures) = if args.functions {
        let file = kernel::build(args.arch)?;
        let result = session.torture_functions(&file, seed, args.transitions, progress)?;
        let failures = function_failures(&result, args.transitions);
        (result.transitions, function_report(&result), failures)
    } else {
        let program = if args.program { torture::program() } else { Vec::new() };
        let result = session.torture(seed, args.transitions, program, progress)?;
        (transitions(&result), report(&result), failures(&result, args.transitions))
    };
    session.power_off()?;
    output::line(format_args!("{done} transitions on {} CPUs, {}", args.cpus, rate(done, start)))?;
    output::print(report)?;
    for failure in &failures {
        output::line(format_args!("failure: {failure}"))?;
    }
    Ok(if failures.is_empty() {
        output::line("passed")?;
        ExitCode::SUCCESS
    } else {
        output::line(format_args!("FAILED; repeat it with --seed {seed}"))?;
        ExitCode::FAILURE
    })
}

fn rate(done: u64, start: Instant) -> String {
    let seconds = start.elapsed().as_secs_f64();
    format!("{:.0} a second, {seconds:.0} s", done as f64 / seconds)
}

/// The number of changes.
fn transitions(result: &Tortured) -> u64 {
    result.enabled + result.upgraded + result.downgraded + result.disabled
}

/// Returns the counts as a table.
fn report(result: &Tortured) -> String {
    let Tortured { enabled, upgraded, downgraded, disabled, .. } = result;
    let mut text = format!(
        "enabled {enabled}, upgraded {upgraded}, downgraded {downgraded}, disabled {disabled}\n\
         {:>12} {:>5} {:>12} {:>12} {:>10} {:>14} {:>12}\n",
        "PROBE", "SITES", "PASSES", "HITS", "INTERVALS", "PASSES IN THEM", "HITS"
    );
    for probe in &result.probes {
        text.push_str(&format!(
            "{:>12} {:>5} {:>12} {:>12} {:>10} {:>14} {:>12}\n",
            probe.name,
            probe.sites,
            probe.passes,
            probe.hits,
            probe.intervals,
            probe.stable_passes,
            probe.stable_hits
        ));
    }
    text.push_str(&format!(
        "{} hits in the framework; {} breakpoints, {} timer interrupts; {} bytes of text compared\n",
        result.framework, result.breakpoints, result.ticks, result.text
    ));
    text
}

/// Returns the failures: those that the kernel found, and those that follow from its counts.
pub fn failures(result: &Tortured, wanted: u64) -> Vec<String> {
    let mut failures = result.failures.clone();
    let done = transitions(result);
    if done != wanted {
        failures.push(format!("{done} transitions of {wanted}"));
    }
    for probe in &result.probes {
        if probe.stable_passes != probe.stable_hits {
            failures.push(format!(
                "{}: {} passes while enabled, but {} hits",
                probe.name, probe.stable_passes, probe.stable_hits
            ));
        }
        if probe.sites == 0 {
            failures.push(format!("{} has no site", probe.name));
        }
        if probe.hits > probe.passes {
            failures.push(format!("{}: more hits than passes", probe.name));
        }
    }
    let hits: u64 = result.probes.iter().map(|probe| probe.hits).sum();
    if hits != result.framework {
        failures.push(format!("{hits} hits, but {} in the framework", result.framework));
    }
    if result.text == 0 {
        failures.push("no text was compared".into());
    }
    failures
}

/// Returns the counts of a torture of functions as lines.
fn function_report(result: &TorturedFunctions) -> String {
    let TorturedFunctions { probes, calls, entries, breakpoints, text, .. } = result;
    format!(
        "{probes} probes; {calls} calls of counted functions compared, {entries} entries recorded; {breakpoints} breakpoints; \
         {text} bytes of text compared\n"
    )
}

/// Returns the failures of a torture of functions.
pub fn function_failures(result: &TorturedFunctions, wanted: u64) -> Vec<String> {
    let mut failures = result.failures.clone();
    let TorturedFunctions { transitions, probes, calls, entries, text, .. } = *result;
    if transitions != wanted {
        failures.push(format!("{transitions} transitions of {wanted}"));
    }
    if probes == 0 || calls == 0 || entries == 0 || entries >= calls || text == 0 {
        failures.push("nothing was compared".into());
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use sdt_protocol::TorturedProbe;

    fn good() -> Tortured {
        let probe = TorturedProbe {
            name: "tight".into(),
            sites: 1,
            passes: 100,
            hits: 60,
            intervals: 3,
            stable_passes: 50,
            stable_hits: 50,
        };
        Tortured {
            enabled: 4,
            upgraded: 2,
            downgraded: 1,
            disabled: 3,
            probes: vec![probe],
            framework: 60,
            breakpoints: 30,
            ticks: 9,
            text: 4096,
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_good_result_passes() {
        assert_eq!(failures(&good(), 10), [""; 0]);
        assert!(report(&good()).contains("enabled 4, upgraded 2, downgraded 1, disabled 3\n"));
    }

    #[test]
    fn every_difference_is_told() {
        assert_eq!(failures(&good(), 11), ["10 transitions of 11"]);
        let mut result = good();
        result.probes[0].stable_hits = 49;
        assert_eq!(failures(&result, 10), ["tight: 50 passes while enabled, but 49 hits"]);
        let mut result = good();
        result.framework = 59;
        assert_eq!(failures(&result, 10), ["60 hits, but 59 in the framework"]);
        let mut result = good();
        result.failures.push("the text has changed at 0x1".into());
        assert_eq!(failures(&result, 10), ["the text has changed at 0x1"]);
    }

    #[test]
    fn differences_of_functions_are_told() {
        let good = TorturedFunctions {
            transitions: 10,
            probes: 100,
            calls: 20,
            entries: 10,
            breakpoints: 30,
            text: 4096,
            failures: Vec::new(),
        };
        assert_eq!(function_failures(&good, 10), [""; 0]);
        assert_eq!(function_failures(&good, 11), ["10 transitions of 11"]);
        let none = TorturedFunctions { entries: 0, ..good.clone() };
        assert_eq!(function_failures(&none, 10), ["nothing was compared"]);
        let failed = TorturedFunctions { failures: vec!["leaf: 1 calls".into()], ..good };
        assert_eq!(function_failures(&failed, 10), ["leaf: 1 calls"]);
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(random_seed(), random_seed());
    }
}
