//! A run over several kernels at once: `--connect` given several times.

use dtrace_abi::option::{OptionId, UNSET};

use super::compile::{self, Compiled, Scripts};
use super::{DtraceError, Interrupt, Meanwhile, append, enable, list, run_one, wait};
use crate::client::Client;
use crate::format;
use crate::hosts::{Hosts, answer_limit};
use crate::job::{Job, Mode};
use crate::render::{Output, Sink, Structured, Text};
use crate::trace::Trace;

/// A kernel, and what it is called.
#[derive(Debug)]
pub struct Target {
    /// D's variable `hostname`, and the first key of what is aggregated.
    pub name: String,
    /// The line to it.
    pub client: Client,
}

/// What is done with one of them.
struct Host {
    name: String,
    trace: Trace,
    programs: Vec<Compiled>,
}

/// As [`run`](super::run), with several kernels: see [`hosts`](crate::hosts).
///
/// # Errors
/// As there, with the kernel's name where one of them is what is wrong.
pub fn run_all(
    targets: Vec<Target>,
    job: &Job,
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    let mut targets = targets;
    if targets.len() == 1
        && let Some(Target { name, client }) = targets.pop()
    {
        return run_one(client, Some(&name), job, interrupt, meanwhile, output);
    }
    job.check()?;
    let pictures = [&job.flame_graph, &job.heat_map, &job.perfetto];
    if job.mode == Mode::Anonymous || job.claim || pictures.iter().any(|file| file.is_some()) {
        return Err(DtraceError::OneKernel);
    }
    let mut options = job.options.clone();
    options.no_probes |= job.mode == Mode::List;
    let mut scripts = Scripts::new();
    let mut hosts = Vec::with_capacity(targets.len());
    for Target { name, client } in targets {
        client.budget().set_limit(job.memory);
        let mut trace = Trace::new(client, options.clone(), job.target);
        trace.set_host_of_many(&name);
        let programs =
            interrupt.while_compiling(|| compile::all(&mut trace, job, &mut scripts, output));
        let programs = programs.map_err(|error| of(&name, error))?;
        hosts.push(Host { name, trace, programs });
    }
    match job.mode {
        Mode::List => {
            for Host { name, trace, programs } in hosts {
                output.line(format!("{name}:\n").as_bytes())?;
                list::list(trace, job, &programs, output).map_err(|error| of(&name, error))?;
            }
        }
        Mode::Trace => return follow(hosts, job, interrupt, meanwhile, output),
        _ => {}
    }
    output.flush()?;
    Ok(0)
}

/// An error, of this kernel.
fn of(name: &str, error: DtraceError) -> DtraceError {
    match error {
        // Of nobody's.
        DtraceError::Write(_) | DtraceError::NothingToDo => error,
        error => DtraceError::Host { name: name.to_owned(), error: Box::new(error) },
    }
}

/// Traces.
fn follow(
    hosts: Vec<Host>,
    job: &Job,
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    let is_set = |option| hosts.iter().any(|host| host.trace.options().get(option) != UNSET);
    let (quiet, destructive) = (is_set(OptionId::Quiet), is_set(OptionId::Destructive));
    let mut file = job.output.as_deref().map(append).transpose()?;
    let output: &mut dyn Output = match &mut file {
        Some(file) => file,
        None => output,
    };
    let (mut text, mut structured) = match job.markup {
        None => (Some(Text::new(output)), None),
        Some(markup) => (None, Some(Structured::new(output, markup))),
    };
    let mut sink = (&mut text, &mut structured);
    let sink: &mut dyn Sink = &mut sink;
    let mut running = Vec::with_capacity(hosts.len());
    let mut matched: Vec<(&'static str, String, u32)> = Vec::new();
    let limit = answer_limit(hosts.len());
    for Host { name: host, mut trace, programs } in hosts {
        let host = &*host;
        // The first ones trace already while others are asked to.
        trace.kernel().limit_answers(limit);
        let mut said = Vec::new();
        enable(&mut trace, job, &programs, sink, &mut said).map_err(|error| of(host, error))?;
        for (index, Compiled { kind, name, program }) in programs.iter().enumerate() {
            let count = list::count(&trace, program).map_err(|error| of(host, error))?;
            match matched.get_mut(index) {
                Some(known) => known.2 += count,
                None => matched.push((*kind, name.clone(), count)),
            }
        }
        running.push(trace.go().map_err(|error| of(host, DtraceError::Go(error)))?);
    }
    for (kind, name, count) in matched.iter().filter(|_| !quiet) {
        sink.message(&format!("{}\n", format::matched(kind, name, *count)))?;
    }
    if destructive && !quiet {
        sink.message("allowing destructive actions\n")?;
    }
    let mut hosts = Hosts::new(running);
    hosts.look(job.look());
    let (mut over, mut interrupted) = (false, false);
    while !over {
        let goes_on = meanwhile.step().map_err(DtraceError::Meanwhile)?;
        wait(hosts.pause().min(meanwhile.pause()), interrupt);
        if interrupt.raised() && !std::mem::replace(&mut interrupted, true) {
            sink.print("\n")?;
        }
        if let Some(words) = meanwhile.last_words().filter(|_| !goes_on && !quiet) {
            sink.message(&format!("{words}\n"))?;
        }
        if !goes_on || interrupted {
            hosts.stop(sink)?;
        }
        over = hosts.work_now(sink, meanwhile.pause().is_zero())?;
    }
    Ok(hosts.finish(sink)?.unwrap_or(0) as u8)
}
