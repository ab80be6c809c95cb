//! The steps of a run, each with a name and timed. Several run at a time: a step often waits, for a linker, for an emulated
//! machine, for its last test, and another one uses the CPU meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cargo_sdt::internal::progress::note;

/// Number of steps that run at a time once everything is compiled: they wait more than they compute. On two CPUs.
const AT_A_TIME: usize = 4;
/// Number of steps that a report lists.
const LONGEST: usize = 10;

/// A step's work.
type Work<'a> = Box<dyn FnOnce(&mut Running) -> anyhow::Result<()> + Send + 'a>;

/// A step.
pub struct Step<'a> {
    name: &'static str,
    work: Work<'a>,
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Step<'a> {
    /// Returns a step with this name.
    pub fn new(
        name: &'static str,
        work: impl FnOnce(&mut Running) -> anyhow::Result<()> + Send + 'a,
    ) -> Self {
        Self { name, work: Box::new(work) }
    }

    fn run(self) -> Done {
        let Self { name, work } = self;
        note(format_args!("{name}: started"));
        let start = Instant::now();
        let mut running = Running { name, cpu: Duration::ZERO };
        let error = work(&mut running).err().map(|error| format!("{error:#}"));
        let (took, cpu) = (start.elapsed(), running.cpu);
        let how = if error.is_some() { "failed" } else { "passed" };
        note(format_args!(
            "{name}: {how} after {} s, {} s of CPU time",
            took.as_secs(),
            cpu.as_secs()
        ));
        if let Some(error) = &error {
            note(format_args!("{name}: {error}"));
        }
        Done { name, took, cpu, error }
    }
}

/// There is no step of this name.
#[derive(Debug, thiserror::Error)]
#[error("there is no step {name:?}; the steps are: {}", .names.join(", "))]
pub struct NoSuchStep {
    name: String,
    names: Vec<&'static str>,
}

/// The steps of a run.
#[derive(Debug)]
pub struct Steps<'a> {
    /// Steps whose results the last ones need, or that lock the same folder. They run one after the other.
    pub first: Vec<Step<'a>>,
    /// Steps that need none of these results. They run one after the other, at the same time as the first ones.
    pub beside: Vec<Step<'a>>,
    /// Steps that do not depend on each other: started in this order once all others have ended, four at a time.
    pub then: Vec<Step<'a>>,
}

impl Steps<'_> {
    /// Keeps only the step of this name.
    ///
    /// # Errors
    /// There is no such step.
    pub fn only(mut self, name: &str) -> Result<Self, NoSuchStep> {
        let groups = [&mut self.first, &mut self.beside, &mut self.then];
        let names: Vec<_> = groups.iter().flat_map(|of| of.iter()).map(|step| step.name).collect();
        if !names.contains(&name) {
            return Err(NoSuchStep { name: name.to_owned(), names });
        }
        for group in groups {
            group.retain(|step| step.name == name);
        }
        Ok(self)
    }

    /// Runs all steps. A step that fails does not prevent the others.
    pub fn run(self) -> Report {
        let Self { first, beside, then } = self;
        let in_order = |steps: Vec<_>| steps.into_iter().map(Step::run).collect::<Vec<_>>();
        let queue = Mutex::new(VecDeque::from(then));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let from_queue = || std::iter::from_fn(next).map(Step::run).collect::<Vec<_>>();
        let mut done = together([first, beside].map(|steps| || in_order(steps)));
        done.extend(together([(); AT_A_TIME].map(|()| from_queue)));
        Report { done }
    }
}

/// Runs these steps at the same time.
fn together(all: impl IntoIterator<Item: FnOnce() -> Vec<Done> + Send>) -> Vec<Done> {
    thread::scope(|scope| {
        let all: Vec<_> = all.into_iter().map(|one| scope.spawn(one)).collect();
        let joined = all.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// The result of a step.
#[derive(Debug)]
struct Done {
    name: &'static str,
    took: Duration,
    cpu: Duration,
    error: Option<String>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    done: Vec<Done>,
}

impl Report {
    /// The steps that failed, each with its error.
    pub fn failed(&self) -> Vec<String> {
        let error = |done: &Done| Some(format!("{}: {}", done.name, done.error.as_ref()?));
        self.done.iter().filter_map(error).collect()
    }

    /// The CPU time of all steps.
    pub fn cpu(&self) -> Duration {
        self.done.iter().map(|done| done.cpu).sum()
    }

    /// The steps that took longest, a line each with time and CPU time, the longest first.
    pub fn longest(&self) -> String {
        let mut done: Vec<_> = self.done.iter().collect();
        done.sort_by_key(|done| std::cmp::Reverse(done.took));
        let line = |done: &&Done| {
            format!("\n{:>6} s {:>6} s CPU  {}", done.took.as_secs(), done.cpu.as_secs(), done.name)
        };
        done.iter().take(LONGEST).map(line).collect()
    }
}

/// A step that is running. Everything that it prints goes to these writers, which put its name in front of each line, since the
/// lines of two steps may alternate.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    cpu: Duration,
}

impl Running {
    /// Standard output.
    pub fn out(&self) -> impl Write + use<> {
        Labels { label: self.name, to: io::stdout() }
    }

    /// Standard error.
    pub fn err(&self) -> impl Write + use<> {
        Labels { label: self.name, to: io::stderr() }
    }

    /// Adds CPU time that the step has used.
    pub fn used(&mut self, cpu: Duration) {
        self.cpu += cpu;
    }
}

/// Writes a label before each write, which must be a line.
struct Labels<W> {
    label: &'static str,
    to: W,
}

impl<W: Write> Write for Labels<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // In one write, so that no line of another step comes between.
        let labelled = [self.label.as_bytes(), b" | ", line].concat();
        self.to.write_all(&labelled)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn nothing(name: &'static str) -> Step<'static> {
        Step::new(name, |_| Ok(()))
    }

    fn done(name: &'static str, seconds: u64) -> Done {
        let took = Duration::from_secs(seconds);
        Done { name, took, cpu: 2 * took, error: None }
    }

    #[test]
    fn one_step_runs_alone_and_another_name_is_refused() {
        let steps = || Steps {
            first: vec![nothing("a")],
            beside: vec![nothing("b")],
            then: vec![nothing("c")],
        };
        let report = steps().only("c").unwrap().run();
        assert_eq!(report.done.iter().map(|done| done.name).collect::<Vec<_>>(), ["c"]);
        let error = steps().only("d").unwrap_err().to_string();
        assert_eq!(error, "there is no step \"d\"; the steps are: a, b, c");
    }

    #[test]
    fn two_steps_run_at_a_time_and_then_four_after_all_others() {
        let (two, four, ended) = (Barrier::new(2), Barrier::new(4), Mutex::new(0));
        let meets = |name, after: usize| {
            let together = if after == 0 { &two } else { &four };
            let ended = &ended;
            Step::new(name, move |_| {
                together.wait();
                let mut ended = ended.lock().unwrap();
                anyhow::ensure!(*ended >= after, "started after {ended} steps");
                *ended += 1;
                Ok(())
            })
        };
        let steps = Steps {
            first: vec![meets("a", 0), meets("b", 0)],
            beside: vec![meets("c", 0), meets("d", 0)],
            then: ["e", "f", "g", "h", "i", "j", "k", "l"].map(|name| meets(name, 4)).into(),
        };
        let report = steps.run();
        assert_eq!((report.failed(), report.done.len()), (Vec::new(), 12));
    }

    #[test]
    fn a_step_that_fails_prevents_no_other() {
        let fails = |name| Step::new(name, |_| anyhow::bail!("why"));
        let steps = Steps {
            first: vec![fails("a")],
            beside: Vec::new(),
            then: vec![fails("b"), nothing("c")],
        };
        let report = steps.run();
        assert_eq!(
            (report.failed(), report.done.len()),
            (vec!["a: why".into(), "b: why".into()], 3)
        );
    }

    #[test]
    fn the_ten_longest_steps_are_listed() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let report =
            Report { done: names.into_iter().zip(5..).map(|(name, s)| done(name, s)).collect() };
        let longest = report.longest();
        let first = "\n    15 s     30 s CPU  k\n    14 s     28 s CPU  j\n";
        assert!(longest.starts_with(first), "{longest}");
        assert_eq!(longest.lines().skip(1).count(), 10);
        assert!(!longest.contains('a'), "{longest}");
        assert_eq!(report.cpu(), Duration::from_secs(2 * 110));
    }

    #[test]
    fn lines_have_their_steps_name_in_front() {
        let mut written = Vec::new();
        let mut labels = Labels { label: "host", to: &mut written };
        labels.write_all(b"test a ... ok\n").unwrap();
        labels.write_all(b"\n").unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "host | test a ... ok\nhost | \n");
    }
}
