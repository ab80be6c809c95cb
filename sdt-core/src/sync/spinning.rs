//! A spinning mutex for all other hosts.

pub use spin::{Mutex, MutexGuard};

/// Waits for a lock, with calls of `relax`.
#[cfg_attr(sdt_route = "native", allow(dead_code, reason = "the kernel patches there"))]
pub(crate) fn lock<T>(mutex: &Mutex<T>, relax: impl Fn()) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Some(guard) => return guard,
            None => relax(),
        }
    }
}
