//! Seccomp filters that were installed since tracing started.
//!
//! A process cannot ask whether a filter lets a system call pass: the attempt may end the process. So a filter that was
//! not there at the start means that text is not changed, unless the program declares that its filter allows the system
//! calls that tracing makes ([`Options::allowed_by_sandbox`](crate::Options::allowed_by_sandbox)).
//!
//! The kernel tells how many filters a thread has, and not which. `start` has tried the calls in the thread that called it. So
//! a thread counts as sandboxed if it has more filters than the thread that had the fewest at the start. Before Linux 5.9 the
//! kernel tells only that there are filters: then any thread that has one counts as sandboxed.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::kept::STATUS;
use crate::threads;

/// How many filters each thread may have: as many as the thread with the fewest when this process started tracing.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// Bytes of a status, at most.
const LONGEST: usize = 4096;

/// Remembers the filters of this moment as those that tracing has been started with.
pub(crate) fn remember() -> io::Result<()> {
    STATUS.open()?;
    let mut statuses = Vec::new();
    threads::each(|_, status| {
        statuses.push(status.to_owned());
        Ok(None::<()>)
    })?;
    KNOWN.store(fewest(statuses.iter().map(String::as_str)), Ordering::Release);
    Ok(())
}

/// Whether the first thread has a filter that was not there when tracing started, or has ended, so that it tells nothing of
/// the others. Makes the calls `fstat` and `pread64` only.
pub(crate) fn has_tightened() -> io::Result<bool> {
    let status = status()?;
    Ok(is_tighter(&status) || threads::has_ended(&status))
}

/// Whether the thread with this status has a filter that was not there when tracing started.
pub(crate) fn is_tighter(status: &str) -> bool {
    exceeds(status, KNOWN.load(Ordering::Acquire))
}

/// Whether the thread with this status has more filters than are known, or some that the kernel does not count.
fn exceeds(status: &str, known: u32) -> bool {
    match filters(status) {
        Filters::Counted(count) => count > known,
        Filters::Uncounted => true,
    }
}

/// The smallest number of filters of threads with these statuses.
fn fewest<'s>(statuses: impl Iterator<Item = &'s str>) -> u32 {
    let counts = statuses.filter(|status| !threads::has_ended(status)).filter_map(|status| {
        match filters(status) {
            Filters::Counted(count) => Some(count),
            Filters::Uncounted => None,
        }
    });
    counts.min().unwrap_or(0)
}

fn status() -> io::Result<String> {
    let mut bytes = [0; LONGEST];
    let length = STATUS.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

/// What a status says about the filters of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filters {
    Counted(u32),
    /// There are some, and the kernel does not tell how many: Linux before 5.9.
    Uncounted,
}

fn filters(status: &str) -> Filters {
    let field = |name| threads::field(status, name)?.parse::<u32>().ok();
    match (field("Seccomp"), field("Seccomp_filters")) {
        (Some(mode), Some(count)) => Filters::Counted(count.max(mode.min(1))),
        // A kernel without seccomp has neither.
        (Some(0) | None, None) => Filters::Counted(0),
        (Some(_), None) => Filters::Uncounted,
        (None, Some(count)) => Filters::Counted(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status with these fields. Before Linux 5.9 the second one is not there.
    fn status(state: &str, mode: u32, count: Option<u32>) -> String {
        let count = count.map_or_else(String::new, |count| format!("Seccomp_filters:\t{count}\n"));
        format!("Name:\tSeccomp:\nState:\t{state}\nNoNewPrivs:\t1\nSeccomp:\t{mode}\n{count}")
    }

    #[test]
    fn filters_are_counted() {
        assert_eq!(filters(&status("R (running)", 2, Some(3))), Filters::Counted(3));
        assert_eq!(filters(&status("R (running)", 0, Some(0))), Filters::Counted(0));
        assert_eq!(filters(&status("R (running)", 0, None)), Filters::Counted(0));
        assert_eq!(filters(&status("R (running)", 1, Some(0))), Filters::Counted(1), "strict mode");
        assert_eq!(filters("Name:\tprogram\n"), Filters::Counted(0), "a kernel without seccomp");
    }

    /// Another filter changes nothing in the status there.
    #[test]
    fn filters_that_are_not_counted_are_not_trusted() {
        let sandboxed = status("S (sleeping)", 2, None);
        assert_eq!(filters(&sandboxed), Filters::Uncounted);
        let free = status("S (sleeping)", 0, None);
        let known = fewest([&*sandboxed, &*sandboxed].into_iter());
        assert!(exceeds(&sandboxed, known), "neither if all had some at the start");
        assert!(!exceeds(&free, known) && exceeds(&sandboxed, fewest([&*free].into_iter())));
    }

    /// The filters of one thread say nothing about those of another.
    #[test]
    fn threads_are_compared_with_the_one_that_had_the_fewest() {
        let thread = |count| status("S (sleeping)", u32::min(count, 1) * 2, Some(count));
        let [none, one, two, three] = [0, 1, 2, 3].map(thread);
        let known = fewest([&*three, &*one, &*two].into_iter());
        assert!(!exceeds(&none, known) && !exceeds(&one, known));
        assert!(exceeds(&two, known) && exceeds(&three, known));
        // The first thread may have ended before the others.
        let ended = status("Z (zombie)", 0, Some(0));
        assert_eq!(fewest([&*ended, &*two].into_iter()), 2);
    }

    #[test]
    fn nothing_has_tightened_since() {
        remember().unwrap();
        assert!(!has_tightened().unwrap());
        assert!(is_tighter("Seccomp:\t2\nSeccomp_filters:\t99\n"));
    }
}
