//! `cargo sdt check`: the checks after linking, on any module.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::check::{self, Against, Finding, Kernel, Level};
use crate::input;
use crate::link;
use crate::output;
use crate::platform::Os;

/// Options of `cargo sdt check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Operating system of the kernel [default: illumos if the file's header indicates it, or else FreeBSD].
    #[arg(long, value_enum)]
    os: Option<Os>,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Modules to check.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The files of the kernel for which modules are checked. From them `check` reads the exports of the kernel.
#[derive(Debug, Default, clap::Args)]
pub struct KernelArgs {
    /// The kernel's own file (FreeBSD's `kernel`; illumos's `unix` and `genunix`), or the file of a dependency of the
    /// module. Repeat the option for several files. A symbol that none of them exports is an error.
    #[arg(long, value_name = "FILE")]
    kernel: Vec<PathBuf>,
    /// A list of the kernel's symbols, as nm(1) prints it.
    #[arg(long, value_name = "FILE")]
    symbols: Vec<PathBuf>,
}

impl KernelArgs {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, or none of them is the kernel itself.
    pub fn read(&self) -> anyhow::Result<Kernel> {
        let mut kernel = Kernel::default();
        for file in &self.kernel {
            let bytes = input::read(file)?;
            kernel.add_file(file, &bytes)?;
        }
        for file in &self.symbols {
            let text = input::read_text(file)?;
            kernel.add_list(file, &text)?;
        }
        let given = !self.kernel.is_empty() || !self.symbols.is_empty();
        anyhow::ensure!(
            kernel.is_known() || !given,
            "no file of --kernel is a kernel: add the file of the kernel, or its symbols with \
             --symbols"
        );
        Ok(kernel)
    }
}

/// Runs the command. Prints a line with the contents of every module that can be loaded, and on standard error a line for
/// every finding.
///
/// # Errors
/// A file could not be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let kernel = args.kernel.read()?;
    let mut code = ExitCode::SUCCESS;
    for file in &args.files {
        let bytes = input::read(file)?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        let os = args.os.unwrap_or_else(|| Os::of_file(&bytes));
        match check::module(os, &bytes, Against { file: Some(&name), kernel: &kernel }) {
            Ok(contents) => {
                say(&name, contents.warnings());
                let sealed = link::Seal::of(&bytes) == link::Seal::Whole;
                let how = if sealed {
                    ""
                } else {
                    "; without a checksum of the link, checked by \
                     the rules only"
                };
                output::line(format_args!("{name}: ok: {contents}{how}"))?;
            }
            Err(findings) => {
                say(&name, &findings);
                output::line(format_args!("{name}: must not be loaded: {}", counted(&findings)))?;
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// Prints a line for each finding in a file.
pub(crate) fn say(file: &str, findings: &[Finding]) {
    for finding in findings {
        output::say(format_args!("{file}: {}: {finding}\n", finding.level()));
    }
}

/// Returns how many errors and warnings there are.
fn counted(findings: &[Finding]) -> String {
    let of = |level| findings.iter().filter(|finding| finding.level() == level).count();
    let errors = of(Level::Error);
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    match of(Level::Warning) {
        0 => count(errors, "error"),
        warnings => format!("{}, {}", count(errors, "error"), count(warnings, "warning")),
    }
}
