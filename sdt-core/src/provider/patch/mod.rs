//! What a host supplies so that the text of sites can change, and how enabled sites work.
//!
//! The framework enables a probe through the ops table: the first enabling patches the probe's sites, the last one
//! that goes restores their nops. In between [`set_mode`] leads from one mode to the other. In which order bytes are
//! stored under running CPUs is a matter of its own (`patch/protocol.rs`); a CPU that has hit a breakpoint is sent on by
//! [`resume_address`](crate::trap::resume_address).

pub mod machine;
pub mod protocol;
mod rendezvous;

pub use rendezvous::Rendezvous;

use core::fmt;
use core::sync::atomic::Ordering;

use crate::atomic::{AtomicBool, AtomicUsize};
use crate::attach::{self, Attachment};
use crate::ops::{FUNCTION_NAME_LEN, Name};
use crate::record::{Probe, Site};
use crate::site;
use crate::sync::{Mutex, MutexGuard, lock};
use protocol::{State, Text, Tracepoint};

/// How the host kernel writes to text.
///
/// # Safety
/// [`store`](Self::store) must store the given bytes at the given address and nothing else, in one store if
/// they are 1, 2 or 4 bytes at a multiple of their number. [`synchronise`](Self::synchronise) must do what its
/// documentation says.
pub unsafe trait Patcher: Sync {
    /// Stores a few bytes of text, at most 4.
    ///
    /// Called with interrupts on or off, the framework's lock held or not, never in probe context. Text is
    /// not writable as a rule, so this lifts the protection for this CPU or writes through an alias;
    /// other CPUs execute the text meanwhile.
    ///
    /// # Safety
    /// The bytes are those of a site in this image's text, and other CPUs may execute what it holds
    /// then. [`is_writable`](Self::is_writable) has said yes to them in this change, or since the [`batch`] began.
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

    /// Whether all of these bytes are text of this image, for hosts that can tell. Attaching refuses sites
    /// elsewhere before it reads anything there. If the host cannot tell, attaching trusts the addresses of the records.
    ///
    /// Not in probe context.
    fn is_text(&self, _address: usize, _length: usize) -> bool {
        true
    }

    /// The function that a site is in, as descriptions are to have it, for hosts that can tell (by symbols, demangled). It
    /// is the third part of the description of a probe whose sites are all in that one. A probe that fires in several
    /// functions, or on a host that cannot tell, has `none`, as FreeBSD's sdt has it; a probe for each function, as
    /// illumos's sdt has it, is not possible, as all sites of a probe hand over the same record.
    ///
    /// Called by [`attach`](crate::attach::attach), for each site.
    fn function(&self, _address: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
        None
    }

    /// Whether [`store`](Self::store) can store to these bytes of a site. All sites of a probe are asked about before the
    /// first of them changes, and not again until they all have, so a change is made as a whole or not at all. Called as
    /// `store`.
    fn is_writable(&self, _address: usize, _length: usize) -> bool {
        true
    }

    /// Called repeatedly by a thread that waits while another one changes sites, on hosts whose locks spin. A kernel
    /// without time slices lets other threads run here. Called as `store`, with interrupts on.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Reports that a probe could not be enabled or disabled. The framework gets an error as well, but FreeBSD's ignores it;
    /// a host with a console prints it. Called as `store`.
    fn refused(&self, _probe: &Probe, _why: PatchError) {}
}

/// The patcher of hosts that patch nothing: their sites are in gate mode.
#[derive(Clone, Copy, Debug)]
pub struct NoText;

// SAFETY: `is_writable` is false, so `store` is never called.
unsafe impl Patcher for NoText {
    unsafe fn store(&self, _: usize, _: &[u8]) {}

    fn synchronise(&self) {}

    fn is_writable(&self, _: usize, _: usize) -> bool {
        false
    }
}

/// Why sites were not changed. They are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatchError {
    /// The image is not attached.
    NotAttached,
    /// The host cannot write to a site.
    ReadOnly {
        /// Address of the site.
        patchpoint: usize,
    },
}

impl PatchError {
    /// The number by which the kernels know it: ENXIO or EACCES, the same on FreeBSD, illumos and Linux.
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotAttached => 6,
            Self::ReadOnly { .. } => 13,
        }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAttached => f.write_str("its image is not attached to a framework"),
            Self::ReadOnly { patchpoint } => {
                write!(f, "the site at {patchpoint:#x} is in text that cannot be written to")
            }
        }
    }
}

impl core::error::Error for PatchError {}

/// What an enabled site does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A breakpoint exception. Works everywhere.
    #[default]
    Trap,
    /// A jump, where the cold block is within reach of one; a breakpoint exception elsewhere.
    Jump,
}

impl Mode {
    /// What the build chose by `SDT_PATCH`.
    pub const BUILT: Self = if cfg!(sdt_patch = "jump") { Self::Jump } else { Self::Trap };
}

/// Whether sites of this build are patched. In gate mode they are not, and a host needs neither a [`Patcher`] that writes
/// nor a breakpoint handler.
pub const PATCHES: bool = cfg!(sdt_site = "patched");

/// Held while sites are patched. Never taken in probe context.
static PATCHING: Mutex<()> = Mutex::new(());
/// Threads that are in [`batch`].
static BATCHES: AtomicUsize = AtomicUsize::new(0);
/// Some probe's sites are not where they are to be yet. Changed while patching.
static LATE: AtomicBool = AtomicBool::new(false);

/// Runs `change`, by which a framework enables or disables many probes, and then changes the text of all their sites
/// together: all CPUs are [synchronised](Patcher::synchronise) as often as for one probe, once by breakpoints and
/// three times by jumps.
///
/// Until `batch` returns a site of such a probe may do what it did before: nothing, or trap, and a CPU that does goes on
/// behind the site. What is enabled by other threads meanwhile, without a batch of theirs, may be as late.
///
/// Not in probe context; called as the provider's ops are, whose locks are taken at the end, too.
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
    let Some(attachment) = attach::current() else { return };
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

/// Marks the probes that are left as they are, as the host cannot write to one of the sites that had to change: those whose
/// text has become read-only since they were enabled, and those that could not be disabled because of it. They are late again.
///
/// Asked once, in front of the first store: an answer that changed from one pass to the next would leave a site between two
/// instructions.
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

/// Takes the lock of patching, and waits for it by the host's means.
fn patching() -> MutexGuard<'static, ()> {
    lock(&PATCHING, || match attach::current() {
        Some(Attachment { patcher, .. }) => patcher.relax(),
        None => core::hint::spin_loop(),
    })
}

/// One more enabling of the logical probe. The first one patches its sites. On an error nothing has changed.
///
/// For the ops table alone: only then is every enabling one that the framework knows of, and ends with the attachment.
/// Not in probe context.
pub(crate) fn enable(probe: &Probe) -> Result<(), PatchError> {
    let _patching = patching();
    let probe = probe.primary();
    for (done, of) in with_groups(probe).enumerate() {
        // Counted before the text changes: a breakpoint that is hit must find the probe enabled.
        if of.enablings().fetch_add(1, Ordering::AcqRel) == 0
            && let Err(error) = set_sites(of, true)
        {
            of.enablings().fetch_sub(1, Ordering::AcqRel);
            // These could be written to a moment ago.
            with_groups(probe).take(done).for_each(|of| {
                let _ = one_less(of);
            });
            return Err(error);
        }
    }
    Ok(())
}

/// A probe, and the groups that mean it, which are enabled with it.
fn with_groups(probe: &Probe) -> impl Iterator<Item = &Probe> {
    let groups = probe.provider().primary().groups_of(probe);
    core::iter::once(probe).chain(groups.map(|group| -> &Probe { group }))
}

/// Chooses a mode for the logical probe, instead of the [`Attachment`]'s. If the probe is enabled, its
/// sites change over now; it fires all the time, and no hit is lost. The choice stays until another one
/// is made, enabled or not.
///
/// When it returns every CPU sees the sites as they are now; with [`Mode::Jump`] a site whose cold block is out of a
/// jump's reach goes on trapping.
///
/// Not on illumos, whose breakpoint handler knows of no site: they jump.
///
/// # Safety
/// The caller may call the attachment's [`Patcher`] as the framework's enabling does: it is not in probe context and
/// holds nothing that other CPUs wait for with interrupts off, as they have to answer
/// [`synchronise`](Patcher::synchronise).
///
/// # Errors
/// The sites could not be changed; the mode is as it was.
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

/// One enabling of the logical probe less. The last one restores its sites. Without an enabling
/// nothing happens.
///
/// As [`enable`]. When it returns, or the [`batch`] ends, no site traps any more, but a CPU may still be on its way from a site to the
/// framework. After an error sites may go on trapping or jumping: a CPU that does goes on behind the nop, or is turned
/// back on its way to the framework.
pub(crate) fn disable(probe: &Probe) -> Result<(), PatchError> {
    let _patching = patching();
    let probe = probe.primary();
    if probe.enablings().load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    // All of them, whatever becomes of one.
    with_groups(probe).map(one_less).fold(Ok(()), Result::and)
}

/// One enabling less of a probe or a group that has one.
fn one_less(of: &Probe) -> Result<(), PatchError> {
    if of.enablings().fetch_sub(1, Ordering::AcqRel) == 1 { set_sites(of, false) } else { Ok(()) }
}

/// Whether the logical probe has an enabling.
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
    let attachment = attach::current().ok_or(PatchError::NotAttached)?;
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

/// Returns what a site does now: [`site::state`].
pub(crate) fn state(site: &Site) -> Option<State> {
    let attachment = attach::current()?;
    let _patching = patching();
    // SAFETY: `attach` has checked that this is a site, and this thread holds `PATCHING`.
    Some(unsafe { text(attachment).state(tracepoint(site)) })
}

/// Whether the text at the site's patchpoint is the nop.
pub(crate) fn has_nop(site: &Site) -> bool {
    let nop = site::ENCODING.nop;
    nop.as_bytes().iter().enumerate().all(|(i, &byte)| {
        let text = core::ptr::with_exposed_provenance::<u8>(site.patchpoint() + i);
        // SAFETY: a record that the site's assembly made points at an instruction of that length in the
        // same image. Volatile, because patching changes it behind the compiler's back.
        unsafe { text.read_volatile() == byte }
    })
}
