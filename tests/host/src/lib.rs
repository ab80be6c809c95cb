//! A process as host of probes, for the tests of `sdt-core` and `sdt-framework` and for the benchmark: the text of the
//! program is written to in place, SIGTRAP is the breakpoint exception, threads are CPUs, and a framework keeps what it is
//! told.

pub mod cpus;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod process;
mod recorder;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod text;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub mod traps;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use process::{attach, host, set_mode, site_bytes, try_attach};
pub use recorder::{Entry, Hook, Recorder};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use text::{REFUSED, Text, WRITABLE};
