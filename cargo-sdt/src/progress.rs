//! Progress of long steps, on standard error.

use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::output;

/// A shorter step prints nothing.
const QUIET: Duration = Duration::from_millis(700);
/// The interval at which a long step prints that it is still running.
const BEAT: Duration = Duration::from_secs(10);

/// The name of this program in messages.
static NAME: OnceLock<&str> = OnceLock::new();

/// Sets the name of this program in messages, if that is not `cargo-sdt`. Only the first call counts.
pub fn call_us(name: &'static str) {
    NAME.get_or_init(|| name);
}

fn name() -> &'static str {
    NAME.get().copied().unwrap_or("cargo-sdt")
}

/// Runs one step. A long one is announced, prints every ten seconds that it still runs, and at the end how long it took and
/// whether it failed.
///
/// # Errors
/// The error of `work`.
pub fn step<T, E>(what: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let start = Instant::now();
    let (done, wait) = channel::<()>();
    thread::scope(|scope| {
        let teller = scope.spawn(move || {
            let mut told = false;
            let mut beat = QUIET;
            while wait.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
                if told {
                    note(format_args!("{what}: {} s", start.elapsed().as_secs()));
                } else {
                    note(what);
                }
                told = true;
                beat = BEAT;
            }
            told
        });
        // On every path, including a panic, dropping `done` ends the reporting thread, so that the scope can end.
        let done = done;
        let result = work();
        drop(done);
        if teller.join().unwrap_or(false) {
            note(ended(what, result.is_ok(), start.elapsed()));
        }
        result
    })
}

fn ended(what: &str, well: bool, after: Duration) -> String {
    let end = if well { "done in" } else { "failed after" };
    format!("{what}: {end} {:.1} s", after.as_secs_f64())
}

/// Prints a line with the name of this program.
pub fn note(what: impl std::fmt::Display) {
    output::say(format_args!("{}: {what}\n", name()));
}

#[cfg(test)]
#[path = "../tests/unit/progress.rs"]
mod tests;
