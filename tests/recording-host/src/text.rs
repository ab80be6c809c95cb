//! The text of this program as a patcher, which a test can make read-only.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sdt_core::Probe;
use sdt_core::patch::{PatchError, Patcher};

/// Whether text can be written to.
pub static WRITABLE: AtomicBool = AtomicBool::new(true);

/// Whether text is reported as read-only after the next store.
static TURNS_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// Whether a store has happened since [`turning_read_only`] began.
static STORED: AtomicBool = AtomicBool::new(false);

/// Runs `change` with text that is reported as read-only from the first store on.
pub fn turning_read_only<R>(change: impl FnOnce() -> R) -> R {
    STORED.store(false, Ordering::Relaxed);
    TURNS_READ_ONLY.store(true, Ordering::Relaxed);
    let result = change();
    TURNS_READ_ONLY.store(false, Ordering::Relaxed);
    result
}

/// Number of calls of `synchronise`.
pub static SYNCHRONISED: AtomicU64 = AtomicU64::new(0);

/// The last refusal.
pub static REFUSED: Mutex<Option<PatchError>> = Mutex::new(None);

static PROCESS: sdt_process::Text = sdt_process::Text::new(|_, _| {});

/// The text of this program, written by `sdt-process` while [`WRITABLE`] is set.
#[derive(Clone, Copy, Debug)]
pub struct Text;

// SAFETY: every call is either passed on to the patcher of `sdt-process`, or changes nothing.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        STORED.store(true, Ordering::Relaxed);
        if WRITABLE.load(Ordering::Relaxed) {
            // SAFETY: the caller of `store` guarantees the same conditions.
            unsafe { PROCESS.store(address, bytes) };
        }
    }

    fn synchronise(&self) {
        SYNCHRONISED.fetch_add(1, Ordering::Relaxed);
        PROCESS.synchronise();
    }

    fn exclusively(&self, change: &mut dyn FnMut()) {
        PROCESS.exclusively(change);
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        PROCESS.is_text(address, length)
    }

    fn is_writable(&self, address: usize, length: usize) -> bool {
        let turned = TURNS_READ_ONLY.load(Ordering::Relaxed) && STORED.load(Ordering::Relaxed);
        WRITABLE.load(Ordering::Relaxed) && !turned && PROCESS.is_writable(address, length)
    }

    fn relax(&self) {
        PROCESS.relax();
    }

    fn refused(&self, probe: &Probe, why: PatchError) {
        PROCESS.refused(probe, why);
        *REFUSED.lock().unwrap() = Some(why);
    }
}
