//! A library with a probe, which lets itself be traced when it is loaded.

use std::sync::OnceLock;

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    /// The work of the library.
    pub plugin {
        /// Counts the calls of the library.
        fn called(times: u64);
    }
}

static TRACED: OnceLock<sdt_process::Process> = OnceLock::new();

/// Executes the probe's site. Starts tracing at the first call, and returns whether tracing has started.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_call(times: u64) -> bool {
    let is_traced = TRACED.get().is_some()
        || sdt_process::start().is_ok_and(|process| TRACED.set(process).is_ok());
    sdt_probe!(plugin::called, times);
    is_traced
}
