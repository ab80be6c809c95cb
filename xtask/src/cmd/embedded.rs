//! `cargo xtask embedded`: builds the embedded example and runs it on a board in QEMU.

use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::{build, process, setup};

/// The program ends by itself in well under a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Options of `cargo xtask embedded`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command: prints what the board prints.
///
/// # Errors
/// The example could not be built, or failed on the board.
pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
    print!("{}", output()?);
    Ok(ExitCode::SUCCESS)
}

/// What the example prints.
///
/// # Errors
/// As [`run`].
pub fn output() -> anyhow::Result<String> {
    let qemu = setup::program("qemu-system-arm", "qemu-system-arm")?;
    let program = build::embedded()?;
    let mut command = Command::new(qemu);
    command.args(["-machine", "lm3s6965evb", "-display", "none", "-monitor", "none"]);
    command.args(["-serial", "none", "-semihosting-config", "enable=on,target=native"]);
    command.arg("-kernel").arg(program);
    let written = process::run(&mut command, LIMIT)?;
    Ok(String::from_utf8_lossy(&written.stdout).into_owned())
}
