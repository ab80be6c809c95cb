//! Patching of sites: the functions that a host provides, and the state of the sites of each probe.
//!
//! The framework enables a probe through the ops table: the first enabling patches the probe's sites, and the end of
//! the last one restores their nops. In between, [`set_mode`] changes the mode. `patch/protocol.rs` defines the order
//! in which bytes are stored under running CPUs. [`resume_address`](crate::trap::resume_address) redirects a CPU that
//! has hit a breakpoint.

pub mod machine;
mod patcher;
pub mod protocol;
mod rendezvous;

pub use patcher::{NoText, PatchError, Patcher};
pub use rendezvous::Rendezvous;

pub use crate::route::mode::Mode;

use core::sync::atomic::Ordering;

use crate::atomic::{AtomicBool, AtomicUsize};
use crate::record::{Probe, Site};
use crate::route::attachment::{self, Attachment};
use crate::site;
use crate::sync::{Mutex, MutexGuard, lock};
use protocol::{State, Text, Tracepoint};

/// Whether sites of this build are patched. In gate mode they are not, and a host needs neither a writing [`Patcher`]
/// nor a breakpoint handler.
pub const PATCHES: bool = cfg!(sdt_site = "patched");

/// Held while sites are patched. Never taken in probe context.
static PATCHING: Mutex<()> = Mutex::new(());
/// The number of threads in [`batch`].
static BATCHES: AtomicUsize = AtomicUsize::new(0);
/// Whether the sites of some probe are not in their final state yet. Changed with the lock of patching.
static LATE: AtomicBool = AtomicBool::new(false);

/// Runs `change`, by which a framework enables or disables many probes, and then changes the text of all their sites
/// together: all CPUs are [synchronised](Patcher::synchronise) as often as for one probe: once for breakpoints, three
/// times for jumps.
///
/// Until `batch` returns, a site of such a probe may still have its previous effect: none, or a trap, after which the
/// CPU continues behind the site. Probes that other threads enable meanwhile without a batch may also be late.
///
/// Not in probe context. Call it in the context of the provider's ops, as it takes the same locks at the end.
pub fn batch<R>(change: impl FnOnce() -> R) -> R {
    struct Ending;

    impl Drop for Ending {
        fn drop(&mut self) {
            BATCHES.fetch_sub(1, Ordering::AcqRel);
            settle();
        }
    }

    BATCHES.fetch_add(1, Ordering::AcqRel);
    let _ending = Ending;
    change()
}

/// Changes all sites to the state of their probes. When it returns, this thread or another one has done so.
pub(crate) fn settle() {
    let _patching = patching();
    if !LATE.swap(false, Ordering::AcqRel) {
        return;
    }
    let Some(attachment) = attachment::current() else { return };
    let text = text(attachment);
    leave_read_only(attachment, &text);
    let late = |goal| {
        let of = site::all().iter().filter(move |site| {
            let probe = site.probe();
            !probe.is_left() && state_of(probe, attachment) == goal
        });
        of.map(tracepoint)
    };
    attachment.patcher.exclusively(&mut || {
        for goal in [State::Nop, State::Trap, State::Jump] {
            // SAFETY: `attach` has checked that these are sites, `leave_read_only` that the patcher can store to them, and
            // this thread holds `PATCHING`.
            unsafe { text.bring(late(goal), goal) };
        }
    });
}

/// Marks the probes to skip, because the host cannot write to one of the sites that must change: the text has become
/// read-only since the probe was enabled, or prevented disabling before. They stay late.
///
/// This calls the host once, before the first store. If the result could change between two passes, a site could be left between
/// two instructions.
fn leave_read_only(attachment: &Attachment, text: &Text<'_>) {
    for site in site::all() {
        site.probe().set_left(false);
    }
    for site in site::all() {
        let (probe, patchpoint) = (site.probe(), site.patchpoint());
        // SAFETY: `attach` has checked that this is a site, and this thread holds `PATCHING`.
        let has_to_change =
            || unsafe { text.has_to_change(tracepoint(site), state_of(probe, attachment)) };
        if !probe.is_left()
            && has_to_change()
            && !attachment.patcher.is_writable(patchpoint, site::LEN)
        {
            probe.set_left(true);
            LATE.store(true, Ordering::Release);
            attachment.patcher.refused(probe, PatchError::ReadOnly { patchpoint });
        }
    }
}

/// Takes the lock of patching. Waits with the host's `relax`.
fn patching() -> MutexGuard<'static, ()> {
    lock(&PATCHING, || match attachment::current() {
        Some(Attachment { patcher, .. }) => patcher.relax(),
        None => core::hint::spin_loop(),
    })
}

/// Adds an enabling of the logical probe. The first one patches its sites. After an error, nothing has changed.
///
/// Only the ops table calls it, so that the framework knows of every enabling and ends it with the attachment. Not in
/// probe context.
pub(crate) fn enable(probe: &Probe) -> Result<(), PatchError> {
    let _patching = patching();
    let probe = probe.primary();
    for (done, of) in with_groups(probe).enumerate() {
        // Counted before the text changes: a breakpoint that is hit must find the probe enabled.
        if of.enablings().fetch_add(1, Ordering::AcqRel) == 0
            && let Err(error) = set_sites(of, true)
        {
            of.enablings().fetch_sub(1, Ordering::AcqRel);
            // These sites were writable a moment ago.
            with_groups(probe).take(done).for_each(|of| {
                let _ = one_less(of);
            });
            return Err(error);
        }
    }
    Ok(())
}

/// Returns a probe and the groups that contain it, which are enabled with it.
fn with_groups(probe: &Probe) -> impl Iterator<Item = &Probe> {
    let groups = probe.provider().primary().groups_of(probe);
    core::iter::once(probe).chain(groups.map(|group| -> &Probe { group }))
}

/// Sets the mode of the logical probe, which replaces that of the [`Attachment`]. If the probe is enabled, its sites
/// change now; it fires all the time, and no hit is lost. The mode stays until the next call, whether or not the probe
/// is enabled.
///
/// When it returns, every CPU sees the new sites. With [`Mode::Jump`], a site whose cold block is out of the reach of a
/// jump continues to trap.
///
/// Not available on illumos, whose breakpoint handler cannot handle sites: there they always jump.
///
/// # Safety
/// The caller may call the attachment's [`Patcher`] as the framework's enabling does: it is not in probe context, and
/// holds no lock for which another CPU waits with interrupts off, because all CPUs must take part in
/// [`synchronise`](Patcher::synchronise).
///
/// # Errors
/// If the sites could not be changed; the mode stays the same.
#[cfg(not(target_os = "illumos"))]
pub unsafe fn set_mode(probe: &Probe, mode: Mode) -> Result<(), PatchError> {
    let _patching = patching();
    let probe = probe.primary();
    let before = probe.mode();
    probe.set_mode(Some(mode));
    if probe.enablings().load(Ordering::Acquire) != 0 {
        let attachment = may_change(probe).inspect_err(|_| probe.set_mode(before))?;
        bring(probe, attachment);
    }
    Ok(())
}

/// Removes an enabling of the logical probe. Removing the last one restores its sites. Does nothing without an
/// enabling.
///
/// Called like [`enable`]. When it returns, or the [`batch`] ends, no site traps any more, but a CPU may still be on its way from
/// a site to the framework. After an error, sites may continue to trap or jump: then the CPU continues behind the nop, or the
/// framework ignores the hit.
pub(crate) fn disable(probe: &Probe) -> Result<(), PatchError> {
    let _patching = patching();
    let probe = probe.primary();
    if probe.enablings().load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    // Removes the enabling from the probe and all its groups, even if one fails.
    with_groups(probe).map(one_less).fold(Ok(()), Result::and)
}

/// Removes an enabling of a probe or a group that has one.
fn one_less(of: &Probe) -> Result<(), PatchError> {
    if of.enablings().fetch_sub(1, Ordering::AcqRel) == 1 { set_sites(of, false) } else { Ok(()) }
}

/// Returns whether the logical probe has an enabling.
///
/// Probe context.
pub(crate) fn is_enabled(probe: &Probe) -> bool {
    probe.primary().enablings().load(Ordering::Acquire) != 0
}

fn set_sites(probe: &Probe, enabled: bool) -> Result<(), PatchError> {
    let attachment = may_change(probe)?;
    for record in probe.records() {
        record.set_gate(enabled);
    }
    if BATCHES.load(Ordering::Acquire) == 0 {
        bring(probe, attachment);
    } else {
        LATE.store(true, Ordering::Release);
    }
    Ok(())
}

/// Checks that the patcher can store to all sites of the probe, and reports to the patcher if it cannot.
fn may_change(probe: &Probe) -> Result<&'static Attachment, PatchError> {
    let attachment = attachment::current().ok_or(PatchError::NotAttached)?;
    let refuses = |site: &&Site| !attachment.patcher.is_writable(site.patchpoint(), site::LEN);
    match probe.sites().find(refuses) {
        Some(site) => {
            let error = PatchError::ReadOnly { patchpoint: site.patchpoint() };
            attachment.patcher.refused(probe, error);
            Err(error)
        }
        None => Ok(attachment),
    }
}

/// Changes the sites to the state of the probe.
fn bring(probe: &Probe, attachment: &'static Attachment) {
    let goal = state_of(probe, attachment);
    attachment.patcher.exclusively(&mut || {
        // SAFETY: `attach` has checked that these are sites, `may_change` that the patcher can store to them, and this thread
        // holds `PATCHING`.
        unsafe { text(attachment).bring(probe.sites().map(tracepoint), goal) };
    });
}

/// Returns the state that the sites of a logical probe should have.
fn state_of(probe: &Probe, attachment: &Attachment) -> State {
    match probe.mode().unwrap_or(attachment.mode) {
        _ if !is_enabled(probe) => State::Nop,
        Mode::Trap => State::Trap,
        Mode::Jump => State::Jump,
    }
}

fn text(attachment: &'static Attachment) -> Text<'static> {
    Text { encoding: &site::ENCODING, patcher: attachment.patcher }
}

const fn tracepoint(site: &Site) -> Tracepoint {
    Tracepoint { patchpoint: site.patchpoint(), target: site.target() }
}

/// Returns the current state of a site.
pub(crate) fn state(site: &Site) -> Option<State> {
    let attachment = attachment::current()?;
    let _patching = patching();
    // SAFETY: `attach` has checked that this is a site, and this thread holds `PATCHING`.
    Some(unsafe { text(attachment).state(tracepoint(site)) })
}

/// Returns whether the text at the site's patchpoint is the nop.
pub(crate) fn has_nop(site: &Site) -> bool {
    let nop = site::ENCODING.nop;
    nop.as_bytes().iter().enumerate().all(|(i, &byte)| {
        let text = core::ptr::with_exposed_provenance::<u8>(site.patchpoint() + i);
        // SAFETY: the record, which the site's assembly emitted, points to an instruction of that length in the same
        // image. Volatile, because patching changes it without the compiler's knowledge.
        unsafe { text.read_volatile() == byte }
    })
}
