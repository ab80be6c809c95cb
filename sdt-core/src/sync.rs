//! Locks for the state of a module, and for this crate.
//!
//! On FreeBSD and illumos, a [`Mutex`] is a lock of the kernel: a thread that waits for it sleeps, and the thread that holds it
//! may sleep, too. On other systems it is the mutex of the crate `spin`, and the thread that holds it must not wait.
//!
//! Not in probe context, and on FreeBSD and illumos not with interrupts off.

#[cfg_attr(any(target_os = "freebsd", target_os = "illumos"), path = "sync/host.rs")]
#[cfg_attr(not(any(target_os = "freebsd", target_os = "illumos")), path = "sync/spinning.rs")]
mod kind;
#[cfg(target_os = "freebsd")]
#[path = "sync/freebsd.rs"]
mod system;
#[cfg(target_os = "illumos")]
#[path = "sync/illumos.rs"]
mod system;
#[cfg_attr(sdt_route = "native", allow(unused_imports, reason = "the kernel patches there"))]
pub(crate) use kind::lock;
pub use kind::{Mutex, MutexGuard};
