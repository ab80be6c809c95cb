//! Enabling and disabling a probe: changing the text of its sites.
//!
//! Trap mode. A site is enabled by storing a breakpoint instruction over its nop, in one store that
//! other CPUs see whole or not at all, and disabled by storing the nop's byte back. Nothing has to
//! stop and nothing has to be synchronised: a CPU that still has the old instruction executes the
//! nop, and one that traps late is sent behind the nop by [`resume_address`](crate::trap::resume_address).

use core::sync::atomic::Ordering;

use spin::Mutex;

use crate::arch;
use crate::attach;
use crate::record::{Probe, Site};

/// How the host kernel writes to text.
///
/// # Safety
/// [`store`](Self::store) must store what it is told to where it is told to, with a single store, and
/// nothing else.
pub unsafe trait Patcher: Sync {
    /// Stores one byte of text.
    ///
    /// Called with interrupts on or off, the framework's lock held, never in probe context. Text is
    /// not writable as a rule, so this lifts the protection for this CPU or writes through an alias;
    /// other CPUs execute the text meanwhile, so the byte must change in one store.
    ///
    /// # Safety
    /// `address` is a byte of a site in this image's text, and `byte` makes a valid instruction of it.
    unsafe fn store(&self, address: usize, byte: u8);
}

/// Held while sites are patched. Never taken in probe context.
static PATCHING: Mutex<()> = Mutex::new(());

/// One more enabling of the logical probe. The first one patches its sites.
///
/// Called by the framework through the ops table, or by a host that has no framework. Not in probe
/// context.
pub fn enable(probe: &Probe) {
    let _patching = PATCHING.lock();
    let probe = probe.primary();
    // Counted before the text changes: a breakpoint that is hit must find the probe enabled.
    if probe.enablings().fetch_add(1, Ordering::AcqRel) == 0 {
        set_sites(probe, true);
    }
}

/// One enabling of the logical probe less. The last one restores its sites. Without an enabling
/// nothing happens.
///
/// Called as [`enable`]. When it returns no site traps any more, but a CPU may still be on its way
/// from a site to the framework.
pub fn disable(probe: &Probe) {
    let _patching = PATCHING.lock();
    let probe = probe.primary();
    let enablings = probe.enablings();
    let before = enablings.load(Ordering::Acquire);
    if before == 0 {
        return;
    }
    enablings.store(before - 1, Ordering::Release);
    if before == 1 {
        set_sites(probe, false);
    }
}

/// Whether the logical probe has an enabling.
///
/// Probe context.
pub fn is_enabled(probe: &Probe) -> bool {
    probe.primary().enablings().load(Ordering::Acquire) != 0
}

fn set_sites(probe: &Probe, enabled: bool) {
    let Some(attachment) = attach::current() else { return };
    for site in probe.sites() {
        let (address, byte) = arch::breakpoint_store(site.patchpoint(), enabled);
        // SAFETY: the site was checked when the image was attached: there is a nop at its
        // patchpoint, and both bytes are the first of a valid instruction there.
        unsafe { attachment.patcher.store(address, byte) };
    }
}

/// Whether the text at the site's patchpoint is the nop.
pub(crate) fn has_nop(site: &Site) -> bool {
    let text = core::ptr::with_exposed_provenance::<[u8; arch::NOP.len()]>(site.patchpoint());
    // SAFETY: a record that the site's assembly made points at an instruction of that length in the
    // same image. Volatile, because patching changes it behind the compiler's back.
    unsafe { text.read_volatile() == arch::NOP }
}
