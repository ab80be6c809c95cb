//! `cargo xtask fuzz`: runs the targets of `tests/fuzz` in libFuzzer, with cargo-fuzz and a nightly compiler.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail};

use cargo_sdt::internal::process::{clean_cargo_env, run_visibly};
use harness::{setup, workspace};

/// The time limit of a target in addition to its run: for the instrumented build.
const BUILD: Duration = Duration::from_secs(30 * 60);

/// Options of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Target to run [default: all, one after the other].
    #[arg(long)]
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// Runs the command. Stops at the first target with a finding, which is stored in `fuzz/artifacts`.
///
/// # Errors
/// If a tool is missing, the target does not exist, or it has a finding.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let folder = workspace::root().join("fuzz");
    let all = targets(&folder)?;
    let targets = match &args.target {
        Some(target) if all.contains(target) => vec![target.clone()],
        Some(target) => bail!("there is no target {target}; the targets are {}", all.join(", ")),
        None => all,
    };
    setup::cargo_fuzz()?;
    for target in targets {
        let limit = BUILD + Duration::from_secs(args.seconds);
        run_visibly(&mut command(&folder, &target, args.seconds)?, limit)
            .with_context(|| format!("fuzzing {target}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the names of the targets, those of their files.
fn targets(folder: &Path) -> anyhow::Result<Vec<String>> {
    let sources = folder.join("fuzz_targets");
    let entries = std::fs::read_dir(&sources).with_context(|| sources.display().to_string())?;
    let mut targets = Vec::new();
    for entry in entries {
        let file = entry?.path();
        if file.extension() == Some(OsStr::new("rs")) {
            targets.extend(file.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    Ok(targets)
}

/// Runs a target on its stored inputs and its seeds.
fn command(folder: &Path, target: &str, seconds: u64) -> anyhow::Result<Command> {
    let found: PathBuf = folder.join("corpus").join(target);
    std::fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
    let mut cargo = Command::new("cargo");
    clean_cargo_env(&mut cargo).current_dir(workspace::root());
    cargo
        .args(["+nightly", "fuzz", "run", target])
        .args([&found, &folder.join("seeds").join(target)]);
    cargo.args(["--", &format!("-max_total_time={seconds}"), "-rss_limit_mb=2048"]);
    let dictionary = folder.join(format!("{target}.dict"));
    if dictionary.exists() {
        cargo.arg(format!("-dict={}", dictionary.display()));
    }
    Ok(cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds() {
        let folder = workspace::root().join("fuzz");
        let targets = targets(&folder).unwrap();
        assert!(targets.contains(&"glob".to_owned()), "{targets:?}");
        for target in targets {
            assert!(folder.join("seeds").join(&target).is_dir(), "{target}");
        }
    }
}
