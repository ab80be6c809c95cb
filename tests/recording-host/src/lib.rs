//! A process as host, for the tests of `sdt-core` and `sdt-framework` and for the benchmark. It adds to `sdt-process` a framework
//! that records every call, CPUs that a test chooses, and text that a test can make read-only.

pub mod cpus;
mod done;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod process;
mod recorder;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod text;

pub use done::Done;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use process::{attach, host, set_mode, site_bytes, try_attach};
pub use recorder::{Entry, Hook, Recorder};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use sdt_process::breakpoint::count as breakpoints;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use text::{REFUSED, SYNCHRONISED, Text, WRITABLE, turning_read_only};
