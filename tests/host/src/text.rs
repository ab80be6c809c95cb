//! The text of this program, as `sdt-process` writes it; and as if it could not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sdt_core::Probe;
use sdt_core::patch::{PatchError, Patcher};

/// Whether text can be written to.
pub static WRITABLE: AtomicBool = AtomicBool::new(true);

/// Text is said to be read-only once something has been stored.
static TURNS_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// Something has been stored since.
static STORED: AtomicBool = AtomicBool::new(false);

/// Runs `change`, while text is said to be read-only from the first store on. It is not.
pub fn turning_read_only<R>(change: impl FnOnce() -> R) -> R {
    STORED.store(false, Ordering::Relaxed);
    TURNS_READ_ONLY.store(true, Ordering::Relaxed);
    let result = change();
    TURNS_READ_ONLY.store(false, Ordering::Relaxed);
    result
}

/// How often all threads have been synchronised.
pub static SYNCHRONISED: AtomicU64 = AtomicU64::new(0);

/// What was refused last.
pub static REFUSED: Mutex<Option<PatchError>> = Mutex::new(None);

static PROCESS: sdt_process::Text = sdt_process::Text::new(|_, _| {});

/// The text of this program, unless it cannot be written to.
#[derive(Clone, Copy, Debug)]
pub struct Text;

// SAFETY: as `sdt-process` does it, or not at all.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        STORED.store(true, Ordering::Relaxed);
        if WRITABLE.load(Ordering::Relaxed) {
            // SAFETY: the contract of this function.
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
