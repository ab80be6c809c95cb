//! Seccomp filters that were installed since tracing started.
//!
//! A process cannot ask whether a filter lets a system call pass: the attempt may end the process. So a filter that was
//! not there at the start means that text is not changed, unless the program declares that its filter allows the system
//! calls that tracing makes ([`Options::allowed_by_sandbox`](crate::Options::allowed_by_sandbox)).

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::kept::STATUS;

/// How many filters each thread may have: those of the process when it started tracing.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// Bytes of a status, at most.
const LONGEST: usize = 4096;

/// Remembers the filters of this moment as those that tracing has been started with.
pub(crate) fn remember() -> io::Result<()> {
    STATUS.open()?;
    KNOWN.store(filters(&status()?), Ordering::Release);
    Ok(())
}

/// Whether the first thread has a filter that was not there when tracing started. Makes the calls `fstat` and `pread64`
/// only.
pub(crate) fn has_tightened() -> io::Result<bool> {
    Ok(is_tighter(&status()?))
}

/// Whether the thread with this status has a filter that was not there when tracing started.
pub(crate) fn is_tighter(status: &str) -> bool {
    filters(status) > KNOWN.load(Ordering::Acquire)
}

fn status() -> io::Result<String> {
    let mut bytes = [0; LONGEST];
    let length = STATUS.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

/// The number of filters (Linux 5.9), or else whether there are any.
fn filters(status: &str) -> u32 {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u32>().ok()
    };
    let mode = field("Seccomp").unwrap_or(0);
    field("Seccomp_filters").unwrap_or(0).max(mode.min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(filters("NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(filters("Seccomp:\t2\n"), 1, "Linux before 5.9");
        assert_eq!(filters("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
        assert_eq!(filters("Name:\tprogram\n"), 0, "a kernel without seccomp");
    }

    #[test]
    fn nothing_has_tightened_since() {
        remember().unwrap();
        assert!(!has_tightened().unwrap());
        assert!(is_tighter("Seccomp:\t2\nSeccomp_filters:\t99\n"));
    }
}
