//! Enabling and disabling a probe: changing the text of its sites.
//!
//! The first enabling of a probe puts its sites into trap or jump [mode](Mode), the last one that goes
//! restores their nops; in between [`set_mode`] leads from one mode to the other. How text changes under
//! running CPUs is [`protocol`]'s business; a CPU that has hit a breakpoint is sent on by
//! [`resume_address`](crate::trap::resume_address).

pub mod protocol;

use core::sync::atomic::Ordering;

use spin::Mutex;

use crate::arch;
use crate::attach::{self, Attachment};
use crate::record::{PROBES, Probe, Site};
use protocol::{Place, State, Text};

/// How the host kernel writes to text.
///
/// # Safety
/// [`store`](Self::store) must store what it is told to where it is told to and nothing else, in one store
/// if it is 1, 2 or 4 bytes at a multiple of their number. [`synchronise`](Self::synchronise) must do
/// what it says.
pub unsafe trait Patcher: Sync {
    /// Stores a few bytes of text, at most 4.
    ///
    /// Called with interrupts on or off, the framework's lock held, never in probe context. Text is
    /// not writable as a rule, so this lifts the protection for this CPU or writes through an alias;
    /// other CPUs execute the text meanwhile.
    ///
    /// # Safety
    /// The bytes are those of a site in this image's text, and other CPUs may execute what it holds
    /// then.
    unsafe fn store(&self, address: usize, bytes: &[u8]);

    /// Returns when every CPU has fetched anew what it executes: none executes text as it was before
    /// earlier [`store`](Self::store)s. An interrupt on each CPU that returns by a synchronising
    /// instruction does it on x86_64; elsewhere instruction caches have to be seen to.
    fn synchronise(&self);

    /// Runs `change`, which brings the sites of a probe where they are to be, by [`store`](Self::store) and
    /// [`synchronise`](Self::synchronise). Sites hold breakpoints meanwhile; a host whose breakpoint handler does not
    /// know of them sees to it that nothing else is executed.
    fn exclusively(&self, change: &mut dyn FnMut()) {
        change();
    }

    /// Whether all of these bytes are text of this image, for hosts that can tell. Sites elsewhere are
    /// refused when the image is attached, before anything is read there. Where nobody can tell, records are
    /// trusted as far as this.
    ///
    /// Not in probe context.
    fn is_text(&self, _address: usize, _length: usize) -> bool {
        true
    }
}

/// The patcher of hosts that patch nothing: their sites are in gate mode.
#[derive(Clone, Copy, Debug)]
pub struct NoText;

// SAFETY: in gate mode there are no sites, so nobody asks it to store anything.
unsafe impl Patcher for NoText {
    unsafe fn store(&self, _: usize, _: &[u8]) {}

    fn synchronise(&self) {}
}

/// What an enabled site does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A breakpoint exception. Works everywhere.
    #[default]
    Trap,
    /// A jump, where the cold block is within reach of one; a breakpoint exception elsewhere.
    Jump,
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

/// Chooses a mode for the logical probe, instead of the [`Attachment`]'s. If the probe is enabled, its
/// sites change over now; it fires all the time, and no hit is lost. The choice stays until another one
/// is made, enabled or not.
///
/// Called as [`enable`]. When it returns every CPU sees the sites as they are now; with
/// [`Mode::Jump`] a site whose cold block is out of a jump's reach goes on trapping.
///
/// Not on illumos, whose breakpoint handler knows of no site: they jump.
#[cfg(not(target_os = "illumos"))]
pub fn set_mode(probe: &Probe, mode: Mode) {
    let _patching = PATCHING.lock();
    let probe = probe.primary();
    probe.set_mode(mode);
    if probe.enablings().load(Ordering::Acquire) != 0 {
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
    let goal = match probe.mode().unwrap_or(attachment.mode) {
        _ if !enabled => State::Nop,
        Mode::Trap => State::Trap,
        Mode::Jump => State::Jump,
    };
    for record in PROBES.iter().filter(|record| core::ptr::eq(record.primary(), probe)) {
        record.set_gate(enabled);
    }
    attachment.patcher.exclusively(&mut || {
        // SAFETY: the sites were checked when the image was attached, and `PATCHING` is held.
        unsafe { text(attachment).bring(probe.sites().map(place), goal) };
    });
}

fn text(attachment: &'static Attachment) -> Text<'static> {
    Text { encoding: &arch::ENCODING, patcher: attachment.patcher }
}

const fn place(site: &Site) -> Place {
    Place { patchpoint: site.patchpoint(), target: site.target() }
}

/// What the site does now, for listings. Takes the lock that patching takes: not in probe context.
pub fn state(site: &Site) -> Option<State> {
    let attachment = attach::current()?;
    let _patching = PATCHING.lock();
    // SAFETY: as in `set_sites`.
    Some(unsafe { text(attachment).state(place(site)) })
}

/// Whether the text at the site's patchpoint is the nop.
pub(crate) fn has_nop(site: &Site) -> bool {
    let nop = arch::ENCODING.nop;
    nop.as_bytes().iter().enumerate().all(|(i, &byte)| {
        let text = core::ptr::with_exposed_provenance::<u8>(site.patchpoint() + i);
        // SAFETY: a record that the site's assembly made points at an instruction of that length in the
        // same image. Volatile, because patching changes it behind the compiler's back.
        unsafe { text.read_volatile() == byte }
    })
}
