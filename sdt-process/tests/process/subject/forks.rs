//! Children of the subject.

use std::ffi::CStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use recording_host::Done;
use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::runtime::{CloseError, Probe, Provider, Rules, Slot};
use sdt_core::sdt_enabled;
use sdt_process::{ConsumerError, Options, Process, StartError};

use super::{answer, is_text_restored, obey, start, work};

/// Makes a child, which reports on its sites, works, and lets itself be traced until its standard input ends.
#[inline(never)]
pub(super) fn fork() -> i32 {
    // SAFETY: the child allocates and locks, which glibc and musl allow after `fork`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let restored = is_text_restored();
        let is_enabled = sdt_enabled!(super::subject::work);
        work(77, 0);
        let process = start();
        let started = process.as_ref().map(|_| "started").map_err(String::as_str);
        answer(format_args!(
            "child {} restored={restored} enabled={is_enabled} {started:?}",
            std::process::id()
        ));
        obey(process.ok());
        // SAFETY: ends the process without running the parent's handlers.
        unsafe { libc::_exit(0) };
    }
    child
}

/// Forks this many children while another thread makes and removes a provider and a probe again and again. Returns how many children could
/// start to be traced, make a provider of their own, and close that of the other thread.
pub(super) fn beside_makers(children: u64) -> u64 {
    static SLOTS: [[Slot; 1]; 2] = [const { [const { Slot::new() }; 1] }; 2];
    static MADE: Provider = Provider::new(&SLOTS[0]);
    static OWN: Provider = Provider::new(&SLOTS[1]);
    let make = |provider: &'static Provider, name| -> Result<(), Box<dyn std::error::Error>> {
        provider.open(name, &ProviderAttr::SDT, Privileges::USER)?;
        provider.add(c"here", c"probe", &[])?.remove()?;
        Ok(provider.close()?)
    };
    let (made, done) = (&AtomicU64::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        let _done = Done(done);
        let maker = scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                make(&MADE, c"made").unwrap();
                made.fetch_add(1, Ordering::Release);
            }
        });
        let good = (0..children).filter(|_| {
            let before = made.load(Ordering::Acquire);
            while made.load(Ordering::Acquire) == before {
                assert!(!maker.is_finished(), "the thread that makes probes has ended");
                thread::yield_now();
            }
            // SAFETY: the child allocates and locks, which glibc and musl allow after `fork`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let process = start();
                let is_good = process.is_ok()
                    && matches!(MADE.close(), Ok(()) | Err(CloseError::NotOpen))
                    && make(&OWN, c"own").is_ok();
                std::mem::forget(process);
                // SAFETY: ends the process without running the parent's handlers.
                unsafe { libc::_exit((!is_good).into()) };
            }
            status(child) == 0
        });
        good.count() as u64
    })
}

/// The rules of a provider: when a probe is enabled, they fork, or wait until `WAITS` is `false`.
struct Forks;

static WAITS: AtomicBool = AtomicBool::new(false);
static IS_WAITING: AtomicBool = AtomicBool::new(false);

/// The children that have not been waited for.
static CHILDREN: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

impl Rules for Forks {
    fn enabled(&self, _: &Probe) {
        if WAITS.load(Ordering::Acquire) {
            IS_WAITING.store(true, Ordering::Release);
            while WAITS.load(Ordering::Acquire) {
                thread::yield_now();
            }
            return;
        }
        // SAFETY: the child only ends.
        match unsafe { libc::fork() } {
            // SAFETY: ends the process without running the parent's handlers.
            0 => unsafe { libc::_exit(0) },
            child => CHILDREN.lock().unwrap().push(child),
        }
    }
}

pub(super) static FORKING: Provider = {
    static SLOTS: [Slot; 4] = [const { Slot::new() }; 4];
    Provider::ruled(&SLOTS, &Forks)
};

/// Calls `start` in this child, and ends the child: with status 0 if `start` fails with `Forked`.
fn try_to_start() -> ! {
    let is_good = matches!(Options::new().start(), Err(StartError::Forked));
    // SAFETY: ends the process without running the parent's handlers.
    unsafe { libc::_exit((!is_good).into()) };
}

/// Forks while another thread holds the framework's lock; after `pause` the worker thread waits for it as well. Returns the status of the
/// child.
pub(super) fn beside_who_waits(probe: &'static CStr, pause: Duration) -> libc::c_int {
    WAITS.store(true, Ordering::Release);
    let adding = thread::spawn(|| FORKING.add(c"", probe, &[]).map(drop));
    while !IS_WAITING.load(Ordering::Acquire) && !adding.is_finished() {
        thread::yield_now();
    }
    thread::sleep(pause);
    // SAFETY: the child allocates and locks, which glibc and musl allow after `fork`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        try_to_start();
    }
    let status = status(child);
    WAITS.store(false, Ordering::Release);
    IS_WAITING.store(false, Ordering::Release);
    adding.join().unwrap().unwrap();
    status
}

/// Forks by the bare system call. Returns the status of the child.
pub(super) fn barely() -> libc::c_int {
    // SAFETY: the child allocates little; no other thread of this subject holds a lock of the C library for long.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        try_to_start();
    }
    status(child as libc::pid_t)
}

/// Forks, and the child uses the `Process` of its parent. Returns the status of the child.
pub(super) fn heir(process: &Process) -> libc::c_int {
    // SAFETY: the child allocates and locks, which glibc and musl allow after `fork`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_good = process.enable_anonymously(&[]) == Err(ConsumerError::NotPermitted);
        // SAFETY: ends the process without running the parent's handlers.
        unsafe { libc::_exit((!is_good).into()) };
    }
    status(child)
}

/// Returns the statuses of the children that the rules made.
pub(super) fn statuses() -> Vec<libc::c_int> {
    std::mem::take(&mut *CHILDREN.lock().unwrap()).into_iter().map(status).collect()
}

/// Returns the status of a child. Kills it if it does not end in some minutes.
fn status(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    for round in 0..30_000 {
        // SAFETY: writes `status`; the child has not been waited for.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if round < 1000 => thread::yield_now(),
            0 => thread::sleep(Duration::from_millis(10)),
            ended => {
                assert_eq!(ended, child);
                return status;
            }
        }
    }
    // SAFETY: sends a signal to the child, which has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    status
}

/// Makes a thread fork again and again until `what` has returned. Returns the number of children, and how many of them had enabled sites.
pub(super) fn during(what: impl FnOnce()) -> (u64, u64) {
    let done = &AtomicBool::new(false);
    let (sender, first) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let forker = scope.spawn(move || {
            let (mut children, mut bad) = (0, 0);
            while !done.load(Ordering::Acquire) {
                // SAFETY: the child allocates, which glibc and musl allow after `fork`, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: ends the process without running the parent's handlers.
                    unsafe { libc::_exit((!is_text_restored()).into()) };
                }
                (children, bad) = (children + 1, bad + u64::from(status(child) != 0));
                let _ = sender.send(());
            }
            (children, bad)
        });
        let end = Done(done);
        first.recv().unwrap();
        what();
        drop(end);
        forker.join().unwrap()
    })
}
