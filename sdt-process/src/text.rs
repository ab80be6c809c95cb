//! How this program's text is written.
//!
//! # What a change needs
//!
//! All of it is proved or reserved before the first store, and in this order, so that what refuses is reached before
//! what might do harm:
//!
//! 1. No seccomp filter has come since the start, or the program says that it allows what follows (`sandbox.rs`).
//! 2. This crate's handler of SIGTRAP is installed, and no other handler and no thread has SIGTRAP blocked: at a
//!    breakpoint, which sites are while they change, the kernel would end the process (`breakpoint.rs`, `threads.rs`).
//! 3. Every CPU can be synchronised: `membarrier(2)` is called once.
//! 4. Text can be written: a descriptor of it is open until the change is done, and each site is written with the bytes
//!    that it holds already.
//!
//! The threads and handlers are looked at once more immediately before the first store. If any of this is missing, nothing
//! changes, and the reason goes to the consumer ([`Refused`]).
//!
//! # If a step fails after all
//!
//! A filter may come, or a descriptor be closed, in the middle of a change. Then nothing more is stored. Text is valid at
//! every step (`sdt_core`'s `patch/protocol.rs`): a site that was to change next holds its breakpoint, whose handler goes
//! on behind the site or in its cold block. The next change of the probe begins with putting the bytes behind the
//! breakpoint in order.
//!
//! # How it is written
//!
//! x86_64 writes through `/proc/self/mem`, by which a process may write to its own read-only pages: no page is ever
//! writable and executable. What has to be one store there is one byte. There is no other way: where the system refuses
//! this one, probes are not enabled. On aarch64 and riscv64 two or four bytes have to be one store, and nothing says how the
//! kernel copies them; so the page is made writable for the moment of the store. It stays executable, since other threads
//! execute it. Systems that forbid that (SELinux's `execmod`, `PR_SET_MDWE`) want the program built with `SDT_PATCH=gate`,
//! whose sites are never written to.
//!
//! The descriptor of `/proc/self/mem` is not kept from one change to the next: a child that was made by the bare system call
//! would inherit the right to write to its parent's memory.
//!
//! The pages that have been written to are this process's own from then on.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sdt_core::Probe;
use sdt_core::ops::{FUNCTION_NAME_LEN, Name};
use sdt_core::patch::{PatchError, Patcher, machine};
use sdt_core::site::{self, ENCODING, Site};

use crate::image::Image;
use crate::threads::{self, Obstacle};
use crate::{breakpoint, functions, sandbox};

/// The text of this program, for [`Attachment`](sdt_core::attach::Attachment)s.
///
/// Call [`prepare`](Self::prepare) first.
#[derive(Debug)]
pub struct Text {
    /// Called when a probe could not be enabled or disabled.
    refused: fn(&Probe, &Refused),
    /// Whether probes have functions.
    functions: bool,
    /// Whether filters that come after the start allow what a change needs.
    trusts_sandbox: bool,
    change: Mutex<Change>,
    /// Threads were waited for in vain: that is not done again for every probe.
    is_impatient: AtomicBool,
}

/// How far a change has come. Only the thread that holds `sdt_core`'s lock of patching is at one.
#[derive(Debug)]
enum Change {
    /// There is none.
    None,
    /// All that it needs is there.
    Proved(Access),
    /// Nothing is stored, for this reason.
    Refused(Refused),
    /// Nothing more is stored since a store at this address was to be made, if any was.
    Stopped(Refused, Option<usize>),
}

/// Why sites were left as they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Another handler of SIGTRAP has taken the place of this crate's.
    #[error(
        "another handler of SIGTRAP has been installed; install it before sdt_process is started"
    )]
    Handler,
    /// A thread would not survive a breakpoint.
    #[error(
        "thread {0} blocks SIGTRAP, and a breakpoint in it would end the process; leave SIGTRAP out of its mask"
    )]
    Blocked(u32),
    /// A signal handler would not survive a breakpoint.
    #[error(
        "the handler of signal {0} blocks SIGTRAP, and a breakpoint in it would end the process; leave SIGTRAP out of its \
         sa_mask"
    )]
    Masked(i32),
    /// A thread has a sandbox of which nothing is known.
    #[error(
        "a seccomp filter has been installed after sdt_process was started, or in some threads only, or Linux before 5.9 \
         does not tell, and it may end the process for a system call that tracing makes; install it in all threads before \
         the start, or let it allow them and say so by Options::allowed_by_sandbox"
    )]
    Sandbox,
    /// Nobody knows whether a thread would survive a breakpoint.
    #[error(
        "/proc/self cannot be read, so whether a thread blocks SIGTRAP is unknown: {0}; give the process /proc and a file \
         descriptor"
    )]
    Unknown(#[source] io::Error),
    /// CPUs cannot be synchronised.
    #[error(
        "membarrier(2) fails: {0}; let the sandbox allow it, or build the program with SDT_PATCH=gate"
    )]
    Synchronise(#[source] io::Error),
    /// Text cannot be written.
    #[error("text cannot be written: {0}; build the program with SDT_PATCH=gate")]
    Text(#[source] io::Error),
    /// A step failed that had just been proved. Sites that hold a breakpoint keep it.
    #[error(
        "a change of text stopped midway, and some sites may go on trapping until the next change: {0}"
    )]
    Stopped(#[source] Box<Self>),
    /// `sdt_core` refuses.
    #[error(transparent)]
    Patch(PatchError),
}

/// Why a process cannot change its own text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The handler of SIGTRAP cannot be installed.
    #[error("sigaction(2) of SIGTRAP fails: {0}")]
    Handler(#[source] io::Error),
    /// CPUs cannot be synchronised: that takes Linux 4.16, on riscv64 6.10, and no sandbox that forbids it.
    #[error("membarrier(2) cannot synchronise threads: {0}")]
    Synchronise(#[source] io::Error),
    /// `/proc` cannot be read.
    #[error("/proc/self/status cannot be read: {0}")]
    Proc(#[source] io::Error),
    /// The memory of the process cannot be opened for writing.
    #[error("/proc/self/mem cannot be opened for writing: {0}")]
    Memory(#[source] io::Error),
}

/// Whether this thread is the only one of the process, so that no other comes to a breakpoint.
static ALONE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What this thread was refused last.
    static REFUSAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes what was refused to this thread since the last call: which probe, and why.
pub(crate) fn take_refusal() -> Option<String> {
    REFUSAL.take()
}

/// The C library blocks all signals of a thread for a moment when the thread begins, ends, or starts a program, and on a busy
/// machine that may be long: so often this is looked at again, two seconds in all.
const LOOKS: u32 = 1000;
const BETWEEN: Duration = Duration::from_millis(2);

impl Text {
    /// Calls `refused` for each probe that is left as it is, in a thread that holds locks of the framework's: it must not
    /// call back.
    pub const fn new(refused: fn(&Probe, &Refused)) -> Self {
        Self {
            refused,
            functions: false,
            trusts_sandbox: false,
            change: Mutex::new(Change::None),
            is_impatient: AtomicBool::new(false),
        }
    }

    /// Whether functions are looked up in the symbols of the program's file. They are not unless that is said here.
    pub const fn with_functions(mut self, functions: bool) -> Self {
        self.functions = functions;
        self
    }

    /// See [`Options::allowed_by_sandbox`](crate::Options::allowed_by_sandbox).
    pub const fn allowed_by_sandbox(mut self, allowed: bool) -> Self {
        self.trusts_sandbox = allowed;
        self
    }

    /// Prepares the process for stores to its text: installs the handler of breakpoints, tells the kernel that threads will
    /// have to be synchronised, and finds out whether text can be written. To be called again in the child of a `fork`.
    ///
    /// # Errors
    /// The system lacks, or forbids, what changing text takes.
    pub fn prepare() -> Result<(), TextError> {
        breakpoint::install().map_err(TextError::Handler)?;
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)
            .map_err(TextError::Synchronise)?;
        sandbox::remember().map_err(TextError::Proc)?;
        Access::open().map_err(TextError::Memory)?;
        Ok(())
    }

    /// Runs `change` where this thread is the only one, and executes no site meanwhile. Returns whether all of it was made.
    pub(crate) fn alone(change: impl FnOnce()) -> bool {
        if cfg!(target_arch = "riscv64") {
            // Its instruction caches are seen to by the kernel only. Registered for the parent's memory, not for this one.
            membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE).ok();
        }
        take_refusal();
        ALONE.store(true, Ordering::Relaxed);
        change();
        ALONE.store(false, Ordering::Relaxed);
        take_refusal().is_none()
    }

    fn change(&self) -> MutexGuard<'_, Change> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Proves what a change needs, except that a certain site can be written to.
    fn prove(&self) -> Result<Access, Refused> {
        self.look()?;
        synchronise_threads().map_err(Refused::Synchronise)?;
        Access::open().map_err(Refused::Text)
    }

    /// Looks for whatever a breakpoint would end the process for.
    fn look(&self) -> Result<(), Refused> {
        if !self.trusts_sandbox && sandbox::has_tightened().map_err(Refused::Unknown)? {
            return Err(Refused::Sandbox);
        }
        if ALONE.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !breakpoint::is_installed() {
            return Err(Refused::Handler);
        }
        if let Some(signal) = breakpoint::blocking_handler() {
            return Err(Refused::Masked(signal));
        }
        for _ in 0..LOOKS {
            match threads::obstacle().map_err(Refused::Unknown)? {
                Some(Obstacle::IsSandboxed) if !self.trusts_sandbox => {
                    return Err(Refused::Sandbox);
                }
                Some(Obstacle::Blocks(thread)) if self.is_impatient.load(Ordering::Relaxed) => {
                    return Err(Refused::Blocked(thread));
                }
                Some(Obstacle::Blocks(_)) => thread::sleep(BETWEEN),
                Some(Obstacle::IsSandboxed) | None => {
                    self.is_impatient.store(false, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
        self.is_impatient.store(true, Ordering::Relaxed);
        self.look()
    }

    /// Tells the program, and who is answered by this thread, that a probe stays as it is.
    fn report(&self, probe: &Probe, why: &Refused) {
        let [provider, name] =
            [probe.provider().name(), probe.name()].map(|of| of.to_string_lossy());
        REFUSAL.set(Some(format!("{provider}:::{name} stays as it is: {why}")));
        (self.refused)(probe, why);
    }
}

// SAFETY: the bytes are stored where they belong. One store is one on x86_64 if it is a byte, which is all that changes under
// running threads there, the rest being behind a breakpoint; elsewhere if it is aligned. The system call makes every thread
// of this process execute a synchronising instruction. If a store or a synchronisation fails, none of the stores that follow
// in the change is made, so no thread meets bytes that the failed one was to come before: sites keep the breakpoint behind which
// their other bytes change. `is_writable`, without which no change begins, then puts those in order.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let mut change = self.change();
        match &mut *change {
            Change::Proved(access) => {
                // SAFETY: the caller's contract.
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
            // Since it was proved others may have done anything: the other probes of a batch come in between.
            if matches!(*state, Change::Proved(_))
                && let Err(why) = self.look()
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
        let refused = access.repair(address).and_then(|()| access.rewrite(address, length));
        match refused {
            Ok(()) => true,
            Err(why) => {
                *change = Change::Refused(why);
                false
            }
        }
    }

    fn function(&self, address: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
        self.functions.then(|| functions::name(address)).flatten()
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

/// The probe of the site that an address is in.
fn probe_at(address: usize) -> Option<&'static Probe> {
    let is_in =
        |site: &&Site| (site.patchpoint()..site.patchpoint() + site::LEN).contains(&address);
    site::all().iter().find(is_in).map(Site::probe)
}

/// The right to write to text, until it is dropped.
#[derive(Debug)]
struct Access {
    /// `/proc/self/mem`.
    #[cfg(target_arch = "x86_64")]
    memory: std::fs::File,
}

impl Access {
    #[cfg(target_arch = "x86_64")]
    fn open() -> io::Result<Self> {
        let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
        Ok(Self { memory })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn open() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Stores bytes of a site.
    ///
    /// # Safety
    /// They are what the site may hold now.
    #[cfg(target_arch = "x86_64")]
    unsafe fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.memory, bytes, address as u64)
    }

    /// Stores bytes of a site, with the protection of the page lifted.
    ///
    /// # Safety
    /// They are text of this image, and what the site may hold now.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: asks for a number.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let page = address & !(page_size - 1);
        let length = address + bytes.len() - page;
        let protect = |protection| {
            let pages = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(page);
            // SAFETY: pages of this image's text, which stay executable.
            match unsafe { libc::mprotect(pages, length, protection) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
        // SAFETY: by contract; writable just now.
        unsafe {
            machine::store(std::ptr::with_exposed_provenance_mut(address), bytes);
            machine::after_store(address, bytes.len());
        }
        protect(libc::PROT_READ | libc::PROT_EXEC)
    }

    /// Stores what a site holds already, byte by byte, as they are executed: each is what it was at every moment.
    fn rewrite(&self, address: usize, length: usize) -> Result<(), Refused> {
        let there = held(address, length);
        // SAFETY: nothing changes.
        unsafe { self.write(address, &there) }.map_err(Refused::Text)
    }

    /// Puts the bytes behind the breakpoint of a site in order, if an earlier change stopped before it had.
    fn repair(&self, address: usize) -> Result<(), Refused> {
        let (head, tail) = ENCODING.split(&ENCODING.nop);
        let there = held(address, site::LEN);
        let is_in_order = there.get(head.len()..) == Some(tail);
        if tail.is_empty() || is_in_order || !there.starts_with(ENCODING.breakpoint.as_bytes()) {
            return Ok(());
        }
        // Every thread sees the breakpoint, then the bytes behind it, before the head can change again.
        synchronise_threads().map_err(Refused::Synchronise)?;
        // SAFETY: bytes of a site that are executed by no thread.
        unsafe { self.write(address + head.len(), tail) }.map_err(Refused::Text)?;
        synchronise_threads().map_err(Refused::Synchronise)
    }
}

/// The bytes that text holds at a site.
fn held(address: usize, length: usize) -> Vec<u8> {
    let bytes = (address..address + length).map(|at| {
        let at = std::ptr::with_exposed_provenance::<u8>(at);
        // SAFETY: a site of this image. Volatile, as text changes behind the compiler's back.
        unsafe { at.read_volatile() }
    });
    bytes.collect()
}

/// Has every other thread execute a synchronising instruction.
fn synchronise_threads() -> io::Result<()> {
    if ALONE.load(Ordering::Relaxed) && !cfg!(target_arch = "riscv64") {
        return Ok(());
    }
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
}

/// `membarrier(2)`.
fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use sdt_core::patch::protocol::{self, Tracepoint};
    use sdt_core::site::State;

    use super::*;

    #[inline(never)]
    fn executed() -> u64 {
        std::hint::black_box(7)
    }

    /// Text is written, and no page is left that is writable and executable.
    #[test]
    fn no_page_stays_writable() {
        let address = executed as *const () as usize;
        let access = Access::open().unwrap();
        access.rewrite(address, 4).unwrap();
        assert_eq!(executed(), 7);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.lines().any(|line| line.contains(" r-xp ")), "{maps}");
        assert!(!maps.lines().any(|line| line.contains(" rwxp ")), "{maps}");
        // SAFETY: nothing is there.
        assert!(unsafe { access.write(16, &[0; 4]) }.is_err());
    }

    /// Stops a change at its step of this number, as if the system refused it.
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

    // SAFETY: as the other, or nothing from one step on, as the other.
    unsafe impl Patcher for StopsAt {
        unsafe fn store(&self, address: usize, bytes: &[u8]) {
            self.step();
            // SAFETY: the contract of this function.
            unsafe { self.text.store(address, bytes) };
        }

        fn synchronise(&self) {
            self.step();
            self.text.synchronise();
        }
    }

    /// Text for two sites and what they jump to, executed by no thread.
    fn places() -> [Tracepoint; 2] {
        const LENGTH: usize = 4096;
        // SAFETY: memory of the test's own, which becomes text.
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

    /// Wherever a change stops, each site holds an instruction, and the next change finds its way.
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
                    // SAFETY: sites that nobody else changes.
                    unsafe { text.bring(places.into_iter(), goal) };
                };
                bring(&StopsAt::new(0), from);
                let stops = StopsAt::new(step);
                bring(&stops, to);
                for place in places {
                    let there = held(place.patchpoint, site::LEN);
                    let jump = (ENCODING.jump)(place.patchpoint, place.target).unwrap();
                    let is_valid = there == ENCODING.nop.as_bytes()
                        || there == jump.as_bytes()
                        || there.starts_with(ENCODING.breakpoint.as_bytes());
                    assert!(is_valid, "{from:?} to {to:?}, step {step}: {there:x?}");
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
                    assert_eq!(held(place.patchpoint, site::LEN), ENCODING.nop.as_bytes());
                }
                if !has_stopped {
                    break;
                }
            }
        }
        assert!(stopped > 20, "{stopped}");
    }
}
