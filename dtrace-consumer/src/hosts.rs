//! Several kernels as one trace.
//!
//! ```no_run
//! use dtrace_consumer::compiler::{Source, options::Options};
//! use dtrace_consumer::hosts::Hosts;
//! use dtrace_consumer::{Address, Client, Protection, Trace, render};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut all = Vec::new();
//! for host in ["unix:/run/a.sock", "unix:/run/b.sock"] {
//!     let line = host.parse::<Address>()?.open(&Protection::Machine, || {})?;
//!     let mut trace = Trace::new(Client::connect(line)?, Options::default(), 0);
//!     trace.set_host(host);
//!     let program = trace.compile(Source::line(b"syscall:::entry { @[execname] = count() }"))?;
//!     trace.enable(&program)?;
//!     all.push(trace.go()?);
//! }
//! let mut hosts = Hosts::new(all);
//! let mut sink = render::Text::new(render::Streams::standard("dtrace")?);
//! while !hosts.work_now(&mut sink, false)? {
//!     std::thread::sleep(hosts.pause());
//! }
//! // Each element with the host it is from as its first key.
//! hosts.finish(&mut sink)?;
//! # Ok(())
//! # }
//! ```
//!
//! - Each record names its kernel.
//! - At the end of the run there is one set of aggregations, with the kernel's name as the first key. If a program uses D's
//!   variable `hostname`, the keys are those of the program, and the values of all kernels are added.
//! - `printa` in a program prints the aggregations of the kernel in which the program runs, with its name as the first key
//!   unless there is a format.
//! - If the values of all kernels are added, `trunc` keeps the first elements of the sum. These are unknown while the program
//!   runs, so elements beyond them are hidden and continue to count.
//! - An `exit` in one kernel ends the run in all. If a kernel ends the run itself, as a process that exits does, the trace
//!   continues without it, and prints a message.
//! - If a connection breaks, or a kernel does not answer in time or has closed this consumer's session, the trace continues
//!   without that kernel, and prints a message.

use std::time::Duration;

use crate::client::Client;
use crate::kernel::Kernel;
use crate::render::{Aggregations, Module, RenderError, Sink, Symbol, Symbols, View};
use crate::trace::{Look, Running, TraceError};

/// Longest time without a request to a kernel: a kernel closes a session after 30 s without one. While dtrace waits for the
/// answer of one kernel, the others get no request.
const SILENCE: Duration = Duration::from_secs(20);
/// Shortest time limit for an answer. On a slow line, an answer can take that long.
const SHORTEST: Duration = Duration::from_secs(2);

/// Returns the time limit for the answers of each kernel, so that all others get a request in time.
pub(crate) fn answer_limit(kernels: usize) -> Duration {
    let part = SILENCE / u32::try_from(kernels).unwrap_or(u32::MAX).max(1);
    part.max(SHORTEST)
}

/// The running traces of all kernels.
#[derive(Debug)]
pub struct Hosts {
    all: Vec<Host>,
}

#[derive(Debug)]
struct Host {
    running: Running,
    /// Whether the trace is over and all records are read.
    over: bool,
    /// Whether the connection is lost.
    gone: bool,
    /// Whether this side has ended the run.
    stopped: bool,
}

impl Hosts {
    /// Returns the messages of kernels about missing names and frames, each once.
    pub fn process_messages(&self) -> Vec<String> {
        self.all.iter().flat_map(|host| host.running.kernel().process_messages()).collect()
    }

    /// Creates one trace from at least one running trace. Kernels close a session after 30 s without a request. So with
    /// several kernels, the time limit for the answers of each kernel is a part of these 30 s.
    pub fn new(mut all: Vec<Running>) -> Self {
        let kernels = all.len();
        if kernels > 1 {
            let limit = answer_limit(kernels);
            for running in &mut all {
                running.kernel().limit_answers(limit);
                running.share_with(kernels);
            }
        }
        let host = |running| Host { running, over: false, gone: false, stopped: false };
        Self { all: all.into_iter().map(host).collect() }
    }

    fn live(&mut self) -> impl Iterator<Item = &mut Host> {
        self.all.iter_mut().filter(|host| !host.gone)
    }

    /// Sets the look of the output of all kernels.
    pub fn set_look(&mut self, look: Look) {
        self.all.iter_mut().for_each(|host| host.running.set_look(look));
    }

    /// Returns whether all kernels ended the run themselves, without an `exit` of a program.
    pub fn was_ended(&self) -> bool {
        self.all.iter().all(|host| host.running.was_ended())
    }

    /// Sends no more requests: the connections are lost. [`finish`](Self::finish) shows the records read so far.
    pub fn abandon(&mut self) {
        for host in &mut self.all {
            host.gone = true;
            host.running.abandon();
        }
    }

    /// Returns the time until [`work_now`](Self::work_now) has something to do.
    pub fn pause(&self) -> Duration {
        let live = self.all.iter().filter(|host| !host.gone && !host.over);
        live.map(|host| host.running.pause()).min().unwrap_or_default()
    }

    /// Stops recording in all kernels.
    ///
    /// # Errors
    /// The last kernel or its connection failed. Failures of others are messages to the sink.
    pub fn stop(&mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        for index in 0..self.all.len() {
            let host = &mut self.all[index];
            if !host.gone && !host.running.is_over() {
                host.stopped = true;
                let stopped = host.running.stop();
                self.without(index, stopped, sink)?;
            }
        }
        Ok(())
    }

    /// Calls [`Running::work_now`] for all kernels. Returns whether the trace is over in all.
    ///
    /// # Errors
    /// See [`Running::work_now`]. The failure of one of several connections is a message to the sink, and ends the trace of that
    /// kernel.
    pub fn work_now(&mut self, sink: &mut dyn Sink, at_once: bool) -> Result<bool, TraceError> {
        for index in 0..self.all.len() {
            let host = &mut self.all[index];
            if host.gone || host.over {
                continue;
            }
            let worked = host.running.work_now(sink, at_once);
            if let Some(over) = self.without(index, worked, sink)? {
                self.all[index].over = over;
            }
        }
        self.leave_ended(sink)?;
        // An `exit` in one kernel ends the run in all, as for the CPUs of one kernel.
        let exits = |host: &mut Host| host.running.is_over() && !host.running.was_ended();
        if self.all.len() > 1 && self.live().any(exits) {
            self.stop(sink)?;
        }
        Ok(self.live().all(|host| host.over))
    }

    /// Continues without the kernels that ended the run themselves, such as processes that exit, while others run.
    fn leave_ended(&mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        let ended =
            |host: &Host| !host.gone && !host.stopped && host.over && host.running.was_ended();
        if self.live().all(|host| ended(host)) {
            return Ok(());
        }
        for host in self.all.iter_mut().filter(|host| ended(host)) {
            // Symbols are no longer available, as after a failure.
            host.gone = true;
            let name = host.running.host().unwrap_or_default().to_owned();
            sink.message(&format!("{name} has ended; the trace continues without it\n"))?;
            // The peer may have closed the connection already. An error does not matter: all of its records are read.
            let _ = host.running.kernel().ask(Client::close);
        }
        Ok(())
    }

    /// Continues without a kernel that failed, with a message, if there are others.
    fn without<T>(
        &mut self,
        index: usize,
        result: Result<T, TraceError>,
        sink: &mut dyn Sink,
    ) -> Result<Option<T>, TraceError> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error @ (TraceError::Client(_) | TraceError::Render(RenderError::Killed)))
                if self.live().count() > 1 =>
            {
                let host = &mut self.all[index];
                host.gone = true;
                let name = host.running.host().unwrap_or_default().to_owned();
                sink.message(&format!("{name}: {error}; the trace continues without it\n"))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Calls `show` with the aggregations of all kernels and the view that is needed to show them.
    pub fn view<R>(&self, show: impl FnOnce(&Aggregations, &View<'_>) -> R) -> R {
        if let [host] = &self.all[..] {
            return host.running.view(show);
        }
        let all = self.all(|running, all| running.add_all(all));
        self.first_view(|view| show(&all, view))
    }

    fn all(&self, add: impl Fn(&Running, &mut Aggregations)) -> Aggregations {
        let mut all = Aggregations::default();
        self.all.iter().for_each(|host| add(&host.running, &mut all));
        all
    }

    /// Calls `show` with the view of the first kernel, in which an address has a symbol only if all kernels agree. If the
    /// connection to a kernel with aggregations is lost, no address has a symbol.
    fn first_view<R>(&self, show: impl FnOnce(&View<'_>) -> R) -> R {
        let is_missed = |host: &Host| {
            let mut own = Aggregations::default();
            host.running.add_all(&mut own);
            host.gone && own.entries().next().is_some()
        };
        let kernels = match self.all.iter().any(is_missed) {
            true => Vec::new(),
            false => {
                let live = self.all.iter().filter(|host| !host.gone);
                live.map(|host| host.running.kernel()).collect()
            }
        };
        let agreed = Agreed(kernels);
        self.all[0].running.view(|_, view| show(&View { symbols: &agreed, host: None, ..*view }))
    }

    /// Passes the aggregations that no program has printed to the sink, and ends all connections. Returns the status of the last
    /// `exit`.
    ///
    /// # Errors
    /// See [`Running::finish`].
    pub fn finish(mut self, sink: &mut dyn Sink) -> Result<Option<u32>, TraceError> {
        if self.all.len() == 1
            && let Some(host) = self.all.pop()
        {
            return host.running.finish(sink);
        }
        let all = self.all(|running, all| running.add_unprinted(all));
        let options = self.all[0].running.options();
        let completed = self.view(|all, view| sink.complete(all, view));
        self.first_view(|view| sink.finish(&all.table(options, |_| true), view))?;
        sink.flush()?;
        let mut status = None;
        for Host { running, gone, .. } in self.all {
            status = running.exit_status().or(status);
            if !gone && let Err(error) = running.close() {
                sink.message(&format!("{error}\n"))?;
            }
        }
        completed?;
        Ok(status)
    }
}

/// The symbols on which all kernels agree: in different kernels, an address may have different symbols.
struct Agreed<'a>(Vec<&'a Kernel>);

impl Agreed<'_> {
    fn agreed<T: PartialEq>(&self, ask: impl Fn(&Kernel) -> Option<T>) -> Option<T> {
        let mut answers = self.0.iter().filter_map(|kernel| ask(kernel));
        let first = answers.next()?;
        answers.all(|other| other == first).then_some(first)
    }
}

impl Symbols for Agreed<'_> {
    fn symbol(&self, address: u64) -> Option<Symbol> {
        self.agreed(|kernel| Symbols::symbol(kernel, address))
    }

    fn inlined(&self, address: u64) -> Vec<String> {
        self.agreed(|kernel| Some(kernel.inlined(address))).unwrap_or_default()
    }

    fn module(&self, address: u64) -> Option<Module> {
        self.agreed(|kernel| kernel.module(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_owes_an_answer_does_not_make_others_wait_too_long() {
        for kernels in 2_usize..=10 {
            let limit = answer_limit(kernels);
            assert!(limit >= SHORTEST, "{kernels}");
            assert!(limit * (kernels as u32 - 1) < Duration::from_secs(30), "{kernels}");
        }
        assert_eq!(answer_limit(1000), SHORTEST);
    }
}
