//! Several kernels at once: what all of them record, as one trace.
//!
//! ```no_run
//! use dtrace::compiler::{Source, options::Options};
//! use dtrace::hosts::Hosts;
//! use dtrace::{Address, Client, Protection, Trace, render};
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
//! Kernels are to such a trace what CPUs are to one of a single kernel. Each record says of which it is. Aggregations are one
//! at the end, with the host as first key, or, if a program has D's variable `hostname` in it, by the keys that the program
//! says. What a program prints itself (`printa`) is of the kernel that it runs in, whose name is the first key there, too, unless
//! there is a format. Where kernels are added up `trunc` leaves the first of the sum: which they are nobody knows while one kernel's
//! are looked at, so those behind are not shown, and count on. An `exit` in one ends all. Where a line breaks,
//! or a kernel does not answer in time or has given its consumer up, that kernel is left out from there on, which is said, and
//! the others go on.

use std::time::Duration;

use crate::kernel::Kernel;
use crate::render::{Aggregations, Module, RenderError, Sink, Symbol, Symbols, View};
use crate::trace::{Look, Running, TraceError};

/// Kernels give up who is silent for 30 s; while one of them owes an answer, the others are not asked.
const SILENCE: Duration = Duration::from_secs(20);
/// A line that is slow takes so long for an answer.
const SHORTEST: Duration = Duration::from_secs(2);

/// How long each of so many kernels may take for an answer: that others hear of their consumer meanwhile.
pub(crate) fn answer_limit(kernels: usize) -> Duration {
    let part = SILENCE / u32::try_from(kernels).unwrap_or(u32::MAX).max(1);
    part.max(SHORTEST)
}

/// Traces that go on, of one kernel each.
#[derive(Debug)]
pub struct Hosts {
    all: Vec<Host>,
}

#[derive(Debug)]
struct Host {
    running: Running,
    /// All of it has been taken.
    over: bool,
    /// Its line is no more.
    gone: bool,
}

impl Hosts {
    /// All of these, which are at least one. Where there are several, each answer of a kernel's has a part of the 30 s after
    /// which the others would give their consumer up.
    pub fn new(all: Vec<Running>) -> Self {
        if all.len() > 1 {
            let limit = answer_limit(all.len());
            all.iter().for_each(|running| running.kernel().limit_answers(limit));
        }
        let host = |running| Host { running, over: false, gone: false };
        Self { all: all.into_iter().map(host).collect() }
    }

    fn live(&mut self) -> impl Iterator<Item = &mut Host> {
        self.all.iter_mut().filter(|host| !host.gone)
    }

    /// As [`Running::look`], of all.
    pub fn look(&mut self, look: Look) {
        self.all.iter_mut().for_each(|host| host.running.look(look));
    }

    /// How often aggregations have been taken so far.
    pub fn taken(&self) -> u64 {
        self.all.iter().map(|host| host.running.taken()).sum()
    }

    /// How long it is until there is something to do.
    pub fn pause(&self) -> Duration {
        let live = self.all.iter().filter(|host| !host.gone && !host.over);
        live.map(|host| host.running.pause()).min().unwrap_or_default()
    }

    /// Ends it in all kernels.
    ///
    /// # Errors
    /// The last of them failed; what is wrong with another is said to the sink.
    pub fn stop(&mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        for index in 0..self.all.len() {
            let host = &mut self.all[index];
            if !host.gone && !host.running.is_over() {
                let stopped = host.running.stop();
                self.without(index, stopped, sink)?;
            }
        }
        Ok(())
    }

    /// As [`Running::work_now`], of all.
    ///
    /// # Errors
    /// As there; what is wrong with the line to one of several is said to the sink, and ends its part.
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
        // As on the CPUs of one kernel.
        if self.all.len() > 1 && self.live().any(|host| host.running.is_over()) {
            self.stop(sink)?;
        }
        Ok(self.live().all(|host| host.over))
    }

    /// Says why one of several does not go on, and leaves it out from here on.
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
                sink.message(&format!("{name}: {error}; the others go on\n"))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives what has been aggregated, and what is needed to show it.
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

    /// How things are shown: as for the first kernel, but that all have to agree on symbols. Where one has gone that something
    /// is shown of, nobody knows what it would say.
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

    /// As [`Running::finish`], of all.
    ///
    /// # Errors
    /// As there.
    pub fn finish(mut self, sink: &mut dyn Sink) -> Result<Option<u32>, TraceError> {
        if self.all.len() == 1
            && let Some(host) = self.all.pop()
        {
            return host.running.finish(sink);
        }
        let all = self.all(|running, all| running.add_unprinted(all));
        let options = self.all[0].running.options();
        self.first_view(|view| sink.finish(&all.table(options, |_| true), view))?;
        sink.flush()?;
        let mut status = None;
        for Host { running, gone, .. } in self.all {
            status = running.exit_status().or(status);
            if !gone && let Err(error) = running.close() {
                sink.message(&format!("{error}\n"))?;
            }
        }
        Ok(status)
    }
}

/// What all kernels know that know anything of an address: one address may be something else in each.
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

    fn module(&self, address: u64) -> Option<Module> {
        self.agreed(|kernel| kernel.module(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_owes_an_answer_does_not_have_the_others_wait_too_long() {
        for kernels in 2_usize..=10 {
            let limit = answer_limit(kernels);
            assert!(limit >= SHORTEST, "{kernels}");
            assert!(limit * (kernels as u32 - 1) < Duration::from_secs(30), "{kernels}");
        }
        assert_eq!(answer_limit(1000), SHORTEST);
    }
}
