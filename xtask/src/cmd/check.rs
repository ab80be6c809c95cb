//! `cargo xtask check`: the checks after linking, on any module.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::check::{self, Finding};
use crate::platform::Os;

/// Options of `cargo xtask check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Operating system of the kernel [default: illumos if the file's header says so, or else FreeBSD].
    #[arg(long, value_enum)]
    os: Option<Os>,
    /// Modules to check.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Runs the command: a line for every good module, a line for every finding.
///
/// # Errors
/// A file could not be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for file in &args.files {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        match summary(&bytes, args.os) {
            Ok(summary) => println!("{name}: ok: {summary}"),
            Err(findings) => {
                for finding in findings {
                    println!("{name}: {finding}");
                }
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

fn summary(bytes: &[u8], os: Option<Os>) -> Result<String, Vec<Finding>> {
    match os.unwrap_or_else(|| Os::of_file(bytes)) {
        Os::FreeBsd => check::module(bytes).map(|summary| summary.to_string()),
        Os::Illumos => check::illumos::module(bytes).map(|summary| summary.to_string()),
    }
}
