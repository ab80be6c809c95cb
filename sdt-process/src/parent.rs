//! The parent that started this program to trace it (`dtrace -c`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sdt_framework::Dtrace;

use crate::slots::Slots;

/// The environment variable with the process ID of a parent that traces this program. Other values of the variable have no effect, so
/// the program's own children do not wait.
const WAIT: &str = "SDT_PROCESS_WAIT";
/// Time between two checks.
const BEAT: Duration = Duration::from_millis(1);

/// Waits until the parent that started this program to trace it does so, or ends. Does so once in a process.
pub(crate) fn wait_for(dtrace: &Dtrace<Slots>) {
    static WAITED: AtomicBool = AtomicBool::new(false);
    let named = std::env::var(WAIT).ok().and_then(|text| text.parse::<u32>().ok());
    let Some(tracer) = named.filter(|tracer| *tracer == std::os::unix::process::parent_id()) else {
        return;
    };
    if WAITED.swap(true, Ordering::Relaxed) {
        return;
    }
    // When the tracer ends, the system gives this process another parent.
    while dtrace.started_consumers() == Ok(0) && std::os::unix::process::parent_id() == tracer {
        std::thread::sleep(BEAT);
    }
}
