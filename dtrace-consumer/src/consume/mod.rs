//! A run of dtrace(1), from the job to the last line (cmd/dtrace/dtrace.c).

mod compile;
mod error;
mod hint;
mod interrupt;
mod list;
mod picture;
mod session;
mod workload;

pub(crate) use compile::specifies;
pub use error::{CompileError, DtraceError};
pub use interrupt::Interrupt;
pub use workload::{Recorded, UntilExit, UntilInterrupted, Workload, WorkloadError};

use std::path::PathBuf;

use crate::client::Client;
use crate::format;
use crate::functions::Functions;
use crate::job::{Job, Mode};
use crate::render::Output;
use crate::trace::Trace;

use compile::{Compiled, Scripts};
use session::Prepared;

/// The file of `-A` if `-o` names none.
const ANONYMOUS: &str = "dtrace.dof";

/// A kernel to trace.
#[derive(Debug)]
pub struct Target {
    /// The kernel's name: D's variable `hostname`, and with several kernels the first key of aggregations. `None` leaves the
    /// only kernel of a run without a name.
    pub name: Option<String>,
    /// The connection to the kernel.
    pub client: Client,
    /// The process ID, if the kernel is a process of this machine: its files give the names of inlined functions.
    pub process: Option<u32>,
}

impl Job {
    /// Checks that the job has something to do.
    ///
    /// # Errors
    /// [`DtraceError::NoProgram`].
    pub fn check(&self) -> Result<(), DtraceError> {
        let nothing = self.programs.is_empty() && self.mode != Mode::List && !self.claim;
        if nothing { Err(DtraceError::NoProgram) } else { Ok(()) }
    }
}

/// Runs dtrace with one kernel. Returns its exit status.
///
/// # Errors
/// See [`run_all`].
pub fn run(
    client: Client,
    job: &Job,
    interrupt: &Interrupt,
    workload: &mut dyn Workload,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    run_all(vec![Target { name: None, client, process: None }], job, interrupt, workload, output)
}

/// Runs dtrace with one or several kernels (see [`hosts`](crate::hosts)): lists probes, or traces until a program, the
/// workload or the user ends the run. Returns dtrace's exit status.
///
/// # Errors
/// Why the run ends with status 1; dtrace prints it as `dtrace: ERROR`.
pub fn run_all(
    targets: Vec<Target>,
    job: &Job,
    interrupt: &Interrupt,
    workload: &mut dyn Workload,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    job.check()?;
    let pictures = [&job.flame_graph, &job.heat_map, &job.perfetto];
    let one =
        job.mode == Mode::Anonymous || job.claim || pictures.iter().any(|file| file.is_some());
    if one && targets.len() > 1 {
        return Err(DtraceError::OneKernel);
    }
    let kernels = interrupt.while_compiling(|| prepare(targets, job, output))?;
    match job.mode {
        Mode::Trace => session::run(kernels, job, interrupt, workload, output),
        Mode::List => each(kernels, output, |kernel, output| {
            list::list(kernel.trace, job, &kernel.programs, output)
        }),
        Mode::Compile => each(kernels, output, |kernel, output| explain(&kernel, job, output)),
        Mode::Anonymous => each(kernels, output, |kernel, output| anonymous(kernel, job, output)),
    }
}

/// Calls `f` for each kernel. If there are several kernels, prints the name of the kernel before each call.
fn each(
    kernels: Vec<Prepared>,
    output: &mut dyn Output,
    mut f: impl FnMut(Prepared, &mut dyn Output) -> Result<(), DtraceError>,
) -> Result<u8, DtraceError> {
    for kernel in kernels {
        let name = kernel.name.clone();
        if let Some(name) = &name {
            output.line(format!("{name}:\n").as_bytes())?;
        }
        f(kernel, output).map_err(|error| error.of(name.as_deref()))?;
    }
    output.flush()?;
    Ok(0)
}

/// Compiles the programs for all kernels.
fn prepare(
    targets: Vec<Target>,
    job: &Job,
    output: &mut dyn Output,
) -> Result<Vec<Prepared>, DtraceError> {
    let mut options = job.options.clone();
    options.no_probes |= job.mode == Mode::List;
    let several = targets.len() > 1;
    let mut scripts = Scripts::new();
    let mut kernels = Vec::with_capacity(targets.len());
    for Target { name, client, process } in targets {
        client.budget().set_limit(job.memory);
        let mut trace = Trace::new(client, options.clone(), job.target);
        if let Some(id) = process {
            trace.set_process(id);
        }
        match &name {
            Some(name) if several => trace.set_host_of_many(name),
            Some(name) => trace.set_host(name),
            None => {}
        }
        let name = name.filter(|_| several);
        let programs = functions(&mut trace, job)
            .and_then(|()| compile::all(&mut trace, job, &mut scripts, output));
        let programs = programs.map_err(|error| error.of(name.as_deref()))?;
        complain(&trace, output)?;
        kernels.push(Prepared { name, trace, programs });
    }
    Ok(kernels)
}

/// Reads the functions of the files of the kernel and of its modules (`--kernel`).
fn functions(trace: &mut Trace, job: &Job) -> Result<(), DtraceError> {
    for (index, file) in job.kernel.iter().enumerate() {
        let failed = |why: String| DtraceError::Functions { file: file.clone(), why };
        let functions = Functions::read(file).map_err(|error| failed(error.to_string()))?;
        let added = match index {
            0 => trace.trace_functions(functions),
            _ => trace.trace_module(functions),
        };
        added.map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// Prints messages about functions that descriptions have matched and that the kernel does not trace.
fn complain(trace: &Trace, output: &mut dyn Output) -> Result<(), DtraceError> {
    for line in trace.kernel().function_complaints() {
        output.message(&format!("{line}\n"))?;
    }
    Ok(())
}

/// Prints the stability of compiled programs, and their probes (`-e -v`).
fn explain(kernel: &Prepared, job: &Job, output: &mut dyn Output) -> Result<(), DtraceError> {
    for Compiled { kind, name, program } in kernel.programs.iter().filter(|_| job.verbose) {
        output.line(format::stability(kind, name, program).as_bytes())?;
        list::describe(&kernel.trace, program, output)?;
    }
    Ok(())
}

/// Writes the programs and their options as one DOF, for a kernel that enables them without a consumer (`-A`).
fn anonymous(mut kernel: Prepared, job: &Job, output: &mut dyn Output) -> Result<(), DtraceError> {
    let file = job.output.clone().unwrap_or_else(|| PathBuf::from(ANONYMOUS));
    let all = kernel.programs.iter().map(|compiled| &compiled.program);
    let image = kernel.trace.anonymous(all).map_err(DtraceError::Go)?;
    std::fs::write(&file, image)
        .map_err(|error| DtraceError::File { file: file.clone(), error })?;
    Ok(output.message(&format!("saved anonymous enabling in {}\n", file.display()))?)
}
