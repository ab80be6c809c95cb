//! Lists probes (`-l`), with their attributes and arguments (`-v`) and their sites (`--sites`).

use dtrace_compiler::program::Program;
use dtrace_compiler::surroundings::Description;

use super::compile::Compiled;
use super::error::DtraceError;
use super::hint;
use crate::client::Client;
use crate::format;
use crate::job::Job;
use crate::render::Output;
use crate::trace::Trace;

/// Lists the probes that the programs match; all probes if there are no programs.
pub(super) fn list(
    mut trace: Trace,
    job: &Job,
    programs: &[Compiled],
    output: &mut dyn Output,
) -> Result<(), DtraceError> {
    output.line(format::list_header().as_bytes())?;
    let any = [Description::default()];
    let described = programs.iter().flat_map(|program| &program.program.ecbs).map(|ecb| &ecb.probe);
    let described: Vec<_> =
        if programs.is_empty() { any.iter().collect() } else { described.collect() };
    let mut is_any_declared = false;
    for description in described {
        let probes = trace.kernel().list(description)?;
        if probes.is_empty() {
            // This does not change the exit status (`list_stmt` in dtrace.c).
            let description = description.to_string();
            output.message(&format!(
                "failed to match {description}: No probe matches description\n"
            ))?;
            if let Some(hint) = hint::of(&description, trace.kernel()) {
                output.message(&format!("hint: {hint}\n"))?;
            }
        }
        for probe in &probes {
            is_any_declared |= hint::is_declared(probe);
            let mut detail = None;
            if job.verbose {
                detail = trace.detail(probe)?;
                if detail.is_none() {
                    // The probe disappeared since it was listed.
                    continue;
                }
            }
            output.line(format::listed(probe).as_bytes())?;
            if let Some(detail) = detail {
                output.line(format::detail(&detail).as_bytes())?;
            }
            if job.sites {
                let sites = trace.kernel().ask(|client| client.sites(probe.id))?;
                let text = format::sites(&sites, |address| trace.kernel().lines(address));
                output.line(text.as_bytes())?;
            }
        }
    }
    let complaints = trace.kernel().function_complaints();
    for line in complaints.into_iter().chain(trace.kernel().process_messages()) {
        output.message(&format!("{line}\n"))?;
    }
    if programs.is_empty() && !is_any_declared {
        output.message(&format!("{}\n", hint::NONE_DECLARED))?;
    }
    output.flush()?;
    Ok(trace.kernel().ask(Client::close)?)
}

/// Returns the number of probes that the clauses of a program match.
pub(super) fn count(trace: &Trace, program: &Program) -> Result<u32, DtraceError> {
    let probes = program.ecbs.iter().map(|ecb| trace.kernel().list(&ecb.probe));
    probes.map(|probes| Ok(probes?.len() as u32)).sum()
}

/// Prints the descriptions of a program with the attributes and arguments of their first probes.
pub(super) fn describe(
    trace: &Trace,
    program: &Program,
    output: &mut dyn Output,
) -> Result<(), DtraceError> {
    for ecb in &program.ecbs {
        output.line(format!("\n{}\n", ecb.probe).as_bytes())?;
        let probes = trace.kernel().list(&ecb.probe)?;
        let detail = probes.first().map(|probe| trace.kernel().detail(probe));
        if let Some(detail) = detail.transpose()?.flatten() {
            output.line(format::detail(&detail).as_bytes())?;
        }
    }
    Ok(())
}
