//! Seccomp filters that were installed after tracing started.
//!
//! A process cannot ask whether a filter allows a system call: the attempt may end the process. So text is not changed once a filter has
//! been installed after the start, unless the program declares that the filter allows the system calls of tracing
//! ([`Options::allowed_by_sandbox`](crate::Options::allowed_by_sandbox)).
//!
//! The kernel tells how many filters a thread has, but not which. `start` tries the calls in the thread that calls it. A thread counts as
//! sandboxed if it has more filters than the thread with the fewest had at the start. Before Linux 5.9 the kernel does not count filters:
//! then any thread with a filter counts as sandboxed.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::io::Errno;

use crate::proc_file::STATUS;
use crate::{descriptor, threads};

/// The number of filters that each thread may have: that of the thread with the fewest when tracing started.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// See [`Options::allowed_by_sandbox`](crate::Options::allowed_by_sandbox).
static IS_ALLOWED: AtomicBool = AtomicBool::new(false);

/// The largest size of a status in bytes.
const LONGEST: usize = 4096;

/// Sets whether the program declares that its filters allow the system calls of tracing.
pub(crate) fn allow(allowed: bool) {
    IS_ALLOWED.store(allowed, Ordering::Release);
}

/// Returns whether the program declares that its filters allow the system calls of tracing.
pub(crate) fn is_allowed() -> bool {
    IS_ALLOWED.load(Ordering::Acquire)
}

/// Returns whether a filter may end the process for a system call of tracing. Makes the system calls `fstat` and `pread64` only.
pub(crate) fn may_end_the_process() -> bool {
    !is_allowed() && status().is_ok_and(|status| is_tighter(&status))
}

/// Stores the number of filters that each thread may have: the smallest number in any thread now.
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

/// Returns whether the first thread has more seccomp filters than when tracing started. Also `true` if the first thread
/// has ended, because then its status proves nothing about the process. Makes the system calls `fstat` and `pread64`
/// only.
pub(crate) fn has_tightened() -> io::Result<bool> {
    let status = status()?;
    Ok(is_tighter(&status) || threads::has_ended(&status))
}

/// Returns whether the thread with this status has got a filter since tracing started.
pub(crate) fn is_tighter(status: &str) -> bool {
    exceeds(status, KNOWN.load(Ordering::Acquire))
}

/// Returns whether the thread with this status has more than `known` filters, or filters that the kernel does not count.
fn exceeds(status: &str, known: u32) -> bool {
    match filters(status) {
        Filters::Counted(count) => count > known,
        Filters::Uncounted => true,
    }
}

/// Returns the smallest number of filters of threads with these statuses.
fn fewest<'s>(statuses: impl Iterator<Item = &'s str>) -> u32 {
    let counts = statuses.filter(|status| !threads::has_ended(status)).filter_map(|status| {
        match filters(status) {
            Filters::Counted(count) => Some(count),
            Filters::Uncounted => None,
        }
    });
    counts.min().unwrap_or(0)
}

/// Reads the status of the first thread.
fn status() -> io::Result<String> {
    let mut bytes = [0; LONGEST];
    let length = STATUS.read_at(&mut bytes, 0).map_err(|error| match error {
        Errno::BADF => descriptor::closed_by_program(),
        _ => error.into(),
    })?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

/// The filters of a thread, according to its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filters {
    Counted(u32),
    /// The thread has filters, which Linux before 5.9 does not count.
    Uncounted,
}

/// Returns the filters in a status.
fn filters(status: &str) -> Filters {
    let field = |name| threads::field(status, name)?.parse::<u32>().ok();
    match (field("Seccomp"), field("Seccomp_filters")) {
        (Some(mode), Some(count)) => Filters::Counted(count.max(mode.min(1))),
        // A kernel without seccomp has neither field.
        (Some(0) | None, None) => Filters::Counted(0),
        (Some(_), None) => Filters::Uncounted,
        (None, Some(count)) => Filters::Counted(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a status with these fields. Linux before 5.9 does not have the second one.
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

    /// A second filter does not change the status.
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
    fn no_filter_has_been_installed_since_the_start() {
        remember().unwrap();
        assert!(!has_tightened().unwrap());
        assert!(is_tighter("Seccomp:\t2\nSeccomp_filters:\t99\n"));
    }
}
