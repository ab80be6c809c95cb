//! `cargo sdt dlib`: writes a D library of modules.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::dlib::{of_all, read, render};
use crate::input;
use crate::output;
use crate::platform::Os;
use crate::whole;

/// Options of `cargo sdt dlib`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The module, or all modules that share structs: D allows only one declaration of each struct.
    #[arg(required = true, value_name = "MODULE")]
    modules: Vec<PathBuf>,
    /// Operating system of the kernel [default: illumos if the file's header indicates it, or else FreeBSD].
    #[arg(long, value_enum)]
    os: Option<Os>,
    /// File for the library [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// A module cannot be read, describes no struct or impossible ones, or is for another operating system than the first;
/// or the library cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut descriptions, mut names, mut systems) = (Vec::new(), Vec::new(), Vec::new());
    for module in &args.modules {
        let path = || module.display().to_string();
        let file = input::read(module)?;
        descriptions.push(read(&file).with_context(path)?);
        names.push(module.file_name().unwrap_or(module.as_os_str()).to_string_lossy());
        systems.push(Os::of_file(&file));
    }
    let os = args.os.map_or_else(|| common(&systems), Ok)?;
    let names = names.join(", ");
    let text = of_all(descriptions)
        .and_then(|all| render(&all, &names, os))
        .with_context(|| names.clone())?;
    match &args.output {
        Some(output) => {
            whole::write(output, text.as_bytes()).with_context(|| output.display().to_string())?;
        }
        None => output::print(text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the operating system that all modules are for.
fn common(systems: &[Os]) -> anyhow::Result<Os> {
    let first = systems.first().copied().unwrap_or_default();
    if let Some(other) = systems.iter().find(|&&os| os != first) {
        anyhow::bail!(
            "one module is for {first}, another for {other}: make a library for each, or select \
             one system with --os"
        );
    }
    Ok(first)
}

#[cfg(test)]
#[path = "../../tests/unit/cmd/dlib.rs"]
mod tests;
