//! The text of this program, which tracing changes.
//!
//! # What a change needs
//!
//! Everything is proved or reserved before the first store, in this order:
//!
//! 1. No seccomp filter has been installed since the start, or the program declared that it allows the following calls (`sandbox.rs`).
//! 2. The handler of SIGTRAP is the one of this crate, and no other handler and no thread blocks SIGTRAP (`breakpoint.rs`,
//!    `obstacle.rs`). Sites are breakpoints while they change, and the kernel ends a process that hits one with SIGTRAP blocked.
//! 3. Every CPU can be synchronised: `membarrier(2)` is called once.
//! 4. Text can be written: it is open until the change is done, and each site is written once with the bytes that it holds
//!    (`text_access.rs`).
//! 5. No debugger has a breakpoint at a site.
//!
//! Points 1 and 2 are checked again immediately before the first store. If anything is missing, no site changes, and the reason goes to
//! the consumer ([`Refused`]).
//!
//! # If a step fails nevertheless
//!
//! A filter may be installed, or a descriptor closed, in the middle of a change. Then no further store is made. Text is valid at every step
//! (`sdt_core`'s `patch/protocol.rs`): the site that was to change next holds its breakpoint, and the handler resumes behind the site or
//! in its cold block. The next change of the probe first restores the bytes behind the breakpoint.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sdt_core::Probe;
use sdt_core::ops::{FUNCTION_NAME_LEN, Name};
use sdt_core::patch::{Mode, PatchError, Patcher, machine};
use sdt_core::site::{self, ENCODING, Site};

use crate::image::Image;
use crate::obstacle::{self, Obstacle};
use crate::refused::{Refused, TextError};
use crate::text_access::{self, Access, synchronise_threads};
use crate::{breakpoint, sandbox, site_functions, threads};

/// The text of this program, for an [`Attachment`](sdt_core::attach::Attachment).
///
/// Call [`prepare`](Self::prepare) first.
#[derive(Debug)]
pub struct Text {
    /// Called when a probe could not be enabled or disabled.
    on_refusal: fn(&Probe, &Refused),
    /// Whether descriptions contain functions.
    functions: bool,
    /// Whether enabled sites are breakpoints.
    traps: bool,
    /// The progress of the current change.
    change: Mutex<Change>,
    /// Whether the last wait for threads that block SIGTRAP was in vain. Then the next probe does not wait again.
    is_impatient: AtomicBool,
}

/// The progress of a change of text. Only the thread that holds `sdt_core`'s lock of patching changes text.
#[derive(Debug)]
enum Change {
    /// There is no change.
    None,
    /// Everything that the change needs is proved.
    Proved(Access),
    /// Nothing has been stored, for this reason.
    Refused(Refused),
    /// A step failed, and nothing more is stored. The address is that of the first store that was not made.
    Stopped(Refused, Option<usize>),
}

thread_local! {
    /// The last refusal of a change or of sampling that this thread made.
    static REFUSAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes the last refusal of a change of text, or of sampling, in this thread: the probe, and the reason.
pub(crate) fn take_refusal() -> Option<String> {
    REFUSAL.take()
}

/// Notes a refusal for the consumer that this thread serves.
pub(crate) fn refuse(reason: String) {
    REFUSAL.set(Some(reason));
}

/// The C library blocks all signals of a thread for a moment when the thread begins, ends, or starts a program. On a busy machine that
/// moment can be long, so a change waits for it: this many times [`PAUSE`], two seconds in all.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(2);

impl Text {
    /// Calls `on_refusal` for each probe that cannot be enabled or disabled, in a thread that holds locks of the
    /// framework: it must not call the framework.
    pub const fn new(on_refusal: fn(&Probe, &Refused)) -> Self {
        Self {
            on_refusal,
            functions: false,
            traps: false,
            change: Mutex::new(Change::None),
            is_impatient: AtomicBool::new(false),
        }
    }

    /// Sets whether functions are looked up in the symbols of the program's file.
    pub(crate) const fn with_functions(mut self, functions: bool) -> Self {
        self.functions = functions;
        self
    }

    /// Sets how enabled sites work.
    pub(crate) const fn with_mode(mut self, mode: Mode) -> Self {
        self.traps = matches!(mode, Mode::Trap);
        self
    }

    /// Returns whether enabled sites may jump.
    pub(crate) const fn jumps(&self) -> bool {
        !self.traps
    }

    /// Checks that no debugger has a breakpoint at a site. A debugger saves the first byte of the site, and restores it
    /// later. If the site had changed meanwhile, the bytes after it would belong to another instruction. In trap mode
    /// both instructions have the same bytes there.
    fn check_debugger(&self, address: usize) -> Result<(), Refused> {
        let is_breakpoint = || {
            text_access::site_bytes(address, site::LEN).starts_with(ENCODING.breakpoint.as_bytes())
        };
        let has_tail = !ENCODING.split(&ENCODING.nop).1.is_empty();
        if has_tail
            && !self.traps
            && is_breakpoint()
            && threads::is_debugged().map_err(Refused::Unknown)?
        {
            return Err(Refused::Debugger);
        }
        Ok(())
    }

    /// Prepares the process for changes of its text: installs the handler of breakpoints, registers for `membarrier(2)`, counts seccomp
    /// filters, and checks that text can be written. Must be called again in the child of a `fork`.
    ///
    /// # Errors
    /// The system lacks or forbids one of these.
    pub fn prepare() -> Result<(), TextError> {
        breakpoint::install().map_err(TextError::Handler)?;
        text_access::register_synchronisation().map_err(TextError::Synchronise)?;
        sandbox::remember().map_err(TextError::Proc)?;
        Access::open().map_err(TextError::Memory)?;
        Ok(())
    }

    /// Runs `change` in the child of a `fork`, as its only thread. Returns whether all of the change was made.
    pub(crate) fn change_alone(change: impl FnOnce()) -> bool {
        take_refusal();
        text_access::alone(change);
        take_refusal().is_none()
    }

    fn change(&self) -> MutexGuard<'_, Change> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Proves everything that a change needs, except that a certain site can be written.
    pub(crate) fn prove(&self) -> Result<Access, Refused> {
        self.check()?;
        synchronise_threads().map_err(Refused::Synchronise)?;
        Access::open().map_err(Refused::Text)
    }

    /// Checks that a breakpoint in any thread does not end the process.
    fn check(&self) -> Result<(), Refused> {
        if !sandbox::is_allowed() && sandbox::has_tightened().map_err(Refused::Unknown)? {
            return Err(Refused::Sandbox);
        }
        if text_access::is_alone() {
            return Ok(());
        }
        if !breakpoint::is_installed() {
            return Err(Refused::Handler);
        }
        if let Some(signal) = breakpoint::blocking_handler() {
            return Err(Refused::Masked(signal));
        }
        for _ in 0..ATTEMPTS {
            match obstacle::find().map_err(Refused::Unknown)? {
                Some(Obstacle::IsSandboxed) if !sandbox::is_allowed() => {
                    return Err(Refused::Sandbox);
                }
                Some(Obstacle::Blocks(thread)) if self.is_impatient.load(Ordering::Relaxed) => {
                    return Err(Refused::Blocked(thread));
                }
                Some(Obstacle::Blocks(_)) => thread::sleep(PAUSE),
                Some(Obstacle::IsSandboxed) | None => {
                    self.is_impatient.store(false, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
        self.is_impatient.store(true, Ordering::Relaxed);
        self.check()
    }

    /// Reports to the program, and to the consumer that this thread serves, that a probe cannot be enabled or disabled.
    fn report(&self, probe: &Probe, why: &Refused) {
        let [provider, name] =
            [probe.provider().name(), probe.name()].map(|of| of.to_string_lossy());
        refuse(format!("{provider}:::{name} cannot be enabled or disabled: {why}"));
        // A panic must not unwind into the framework, which calls this function as C code would. The panic hook has printed the
        // message already, and the consumer gets the refusal.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| (self.on_refusal)(probe, why)));
    }
}

// SAFETY: `store` stores exactly the bytes that it gets. A store that running threads may execute is a single store: on
// x86_64 one byte, because all other bytes change behind a breakpoint; elsewhere an aligned word. `synchronise` makes
// every thread of this process execute a synchronising instruction. If a store or a synchronisation fails,
// `Change::Stopped` prevents all later stores of the change. So no thread executes bytes of a step after the failed
// one, and sites keep the breakpoint that hides their other bytes. Every change starts with `is_writable`, which
// restores these bytes.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let mut change = self.change();
        match &mut *change {
            Change::Proved(access) => {
                // SAFETY: the contract of this function is that of `Access::write`.
                if let Err(error) = unsafe { access.write(address, bytes) } {
                    *change = Change::Stopped(Refused::Text(error), Some(address));
                }
            }
            Change::Stopped(_, first) => *first = first.or(Some(address)),
            Change::None | Change::Refused(_) => {}
        }
    }

    fn synchronise(&self) {
        machine::synchronise_cpu();
        let mut change = self.change();
        if matches!(*change, Change::Proved(_))
            && let Err(error) = synchronise_threads()
        {
            *change = Change::Stopped(Refused::Synchronise(error), None);
        }
    }

    fn exclusively(&self, change: &mut dyn FnMut()) {
        {
            let mut state = self.change();
            // Other probes of the batch were proved since this probe's proof, so the checks are repeated.
            if matches!(*state, Change::Proved(_))
                && let Err(why) = self.check()
            {
                *state = Change::Stopped(why, None);
            }
        }
        change();
        let state = std::mem::replace(&mut *self.change(), Change::None);
        if let Change::Stopped(why, Some(address)) = state
            && let Some(probe) = probe_at(address)
        {
            self.report(probe, &Refused::Stopped(why.into()));
        }
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        Image::here().is_text(address, length)
    }

    fn is_writable(&self, address: usize, length: usize) -> bool {
        let mut change = self.change();
        if !matches!(*change, Change::Proved(_)) {
            *change = self.prove().map_or_else(Change::Refused, Change::Proved);
        }
        let Change::Proved(access) = &*change else { return false };
        let refused = self
            .check_debugger(address)
            .and_then(|()| access.repair(address))
            .and_then(|()| access.rewrite(address, length));
        match refused {
            Ok(()) => true,
            Err(why) => {
                *change = Change::Refused(why);
                false
            }
        }
    }

    fn function(&self, address: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
        self.functions.then(|| site_functions::name(address)).flatten()
    }

    fn relax(&self) {
        thread::yield_now();
    }

    fn refused(&self, probe: &Probe, why: PatchError) {
        let state = std::mem::replace(&mut *self.change(), Change::None);
        match state {
            Change::Refused(why) => self.report(probe, &why),
            _ => self.report(probe, &Refused::Patch(why)),
        }
    }
}

/// Returns the probe of the site that an address is in.
fn probe_at(address: usize) -> Option<&'static Probe> {
    let is_in =
        |site: &&Site| (site.patchpoint()..site.patchpoint() + site::LEN).contains(&address);
    site::all().iter().find(is_in).map(Site::probe)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::AtomicUsize;

    use sdt_core::patch::protocol::{self, Tracepoint};
    use sdt_core::site::State;

    use super::*;
    use crate::text_access::site_bytes;

    #[inline(never)]
    fn executed() -> u64 {
        std::hint::black_box(7)
    }

    /// A write to text leaves no page that is writable and executable.
    #[test]
    fn no_page_stays_writable() {
        let address = executed as *const () as usize;
        let access = Access::open().unwrap();
        access.rewrite(address, 4).unwrap();
        assert_eq!(executed(), 7);
        // SAFETY: no page is mapped at this address, so nothing is written.
        assert!(unsafe { access.write(16, &[0; 4]) }.is_err());
        access.rewrite(address, 4).unwrap();
        drop(access);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_executed = maps.lines().find(|line| {
            let (start, rest) = line.split_once('-').unwrap();
            let (end, _) = rest.split_once(' ').unwrap();
            let [start, end] = [start, end].map(|of| usize::from_str_radix(of, 16).unwrap());
            (start..end).contains(&address)
        });
        assert!(of_executed.unwrap().contains(" r-xp "), "{maps}");
    }

    /// Stops a change at the step with this number, as if the system refused it.
    struct StopsAt {
        text: Text,
        step: AtomicUsize,
    }

    impl StopsAt {
        fn new(step: usize) -> Self {
            let text = Text::new(|_, _| {});
            *text.change() = Change::Proved(Access::open().unwrap());
            Self { text, step: AtomicUsize::new(step) }
        }

        fn step(&self) {
            if self.step.fetch_sub(1, Ordering::Relaxed) == 1 {
                let why = Refused::Text(io::ErrorKind::PermissionDenied.into());
                *self.text.change() = Change::Stopped(why, None);
            }
        }

        fn has_stopped(&self) -> bool {
            matches!(*self.text.change(), Change::Stopped(..))
        }
    }

    // SAFETY: forwards to `Text`. From one step on, `Change::Stopped` prevents all stores, as in `Text`.
    unsafe impl Patcher for StopsAt {
        unsafe fn store(&self, address: usize, bytes: &[u8]) {
            self.step();
            // SAFETY: the contract of this function is that of the function it forwards to.
            unsafe { self.text.store(address, bytes) };
        }

        fn synchronise(&self) {
            self.step();
            self.text.synchronise();
        }
    }

    /// Makes text with two sites and their targets, which no thread executes.
    fn places() -> [Tracepoint; 2] {
        const LENGTH: usize = 4096;
        // SAFETY: writes to a page that this function has just mapped.
        let page = unsafe {
            let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), LENGTH, libc::PROT_WRITE, how, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            for site in [0, 64] {
                let nop = ENCODING.nop.as_bytes();
                page.cast::<u8>().add(site).copy_from_nonoverlapping(nop.as_ptr(), nop.len());
            }
            assert_eq!(libc::mprotect(page, LENGTH, libc::PROT_READ | libc::PROT_EXEC), 0);
            page.expose_provenance()
        };
        [0, 64].map(|site| Tracepoint { patchpoint: page + site, target: page + site + 1024 })
    }

    /// If a change stops at any step, each site holds an instruction, and the next change succeeds.
    #[test]
    fn a_change_that_stops_midway_leaves_valid_text() {
        Text::prepare().unwrap();
        let goals = [State::Nop, State::Trap, State::Jump];
        let mut stopped = 0;
        for (from, to, then) in goals.into_iter().flat_map(|from| {
            goals
                .into_iter()
                .flat_map(move |to| goals.into_iter().map(move |then| (from, to, then)))
        }) {
            for step in 1.. {
                let places = places();
                let bring = |patcher: &StopsAt, goal| {
                    let text = protocol::Text { encoding: &ENCODING, patcher };
                    // SAFETY: only this test changes these sites.
                    unsafe { text.bring(places.into_iter(), goal) };
                };
                bring(&StopsAt::new(0), from);
                let stops = StopsAt::new(step);
                bring(&stops, to);
                for place in places {
                    let bytes = site_bytes(place.patchpoint, site::LEN);
                    let jump = (ENCODING.jump)(place.patchpoint, place.target).unwrap();
                    let is_valid = bytes == ENCODING.nop.as_bytes()
                        || bytes == jump.as_bytes()
                        || bytes.starts_with(ENCODING.breakpoint.as_bytes());
                    assert!(is_valid, "{from:?} to {to:?}, step {step}: {bytes:x?}");
                }
                let has_stopped = stops.has_stopped();
                stopped += usize::from(has_stopped);
                let access = Access::open().unwrap();
                for place in places {
                    access.repair(place.patchpoint).unwrap();
                }
                bring(&StopsAt::new(0), then);
                bring(&StopsAt::new(0), State::Nop);
                for place in places {
                    assert_eq!(site_bytes(place.patchpoint, site::LEN), ENCODING.nop.as_bytes());
                }
                if !has_stopped {
                    break;
                }
            }
        }
        assert!(stopped > 20, "{stopped}");
    }
}
