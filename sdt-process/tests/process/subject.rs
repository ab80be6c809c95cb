//! The process that is traced: this test program, started once more. It does what it is told on its standard input, one
//! command a line, and answers each with a line that begins with `> `.

use std::ffi::CStr;
use std::io::{BufRead as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::patch::Mode;
use sdt_core::runtime::{CloseError, Probe, Provider, Rules, Slot};
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};
use sdt_framework::{Config, LONGEST};
use sdt_host::Done;
use sdt_process::{Options, Process, StartError};

/// Set where this program is the subject. The mode of its sites, and how many slots there are.
pub const ROLE: &str = "SDT_PROCESS_SUBJECT";

sdt_provider! {
    /// What the subject does.
    pub subject {
        /// A thread does its work: which thread, and for the how manyth time.
        fn work(thread: u64, times: u64);
        /// The same, elsewhere.
        fn more(times: u64);
        /// A signal has come.
        fn signalled(times: u64);
        /// Somebody is greeted: who, and for the how manyth time.
        fn greeted(name: &CStr, times: u64);
    }
}

/// As many times as each has fired, enabled or not.
static SIGNALLED: AtomicU64 = AtomicU64::new(0);
static TRAPPED: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn work(thread: u64, times: u64) {
    sdt_probe!(subject::work, thread, std::hint::black_box(times));
}

#[inline(never)]
fn more(times: u64) {
    sdt_probe!(subject::more, times);
}

#[inline(never)]
fn greet(times: u64) {
    sdt_probe!(subject::greeted, c"world", times);
}

/// Whether the probes that are hit leave `errno` alone, whatever is asked of them.
fn keeps_errno() -> bool {
    let place = || {
        // SAFETY: where this thread's is.
        unsafe { &mut *libc::__errno_location() }
    };
    *place() = 77;
    greet(0);
    std::mem::replace(place(), 0) == 77
}

/// Two threads at the same time, each with spans of its own: from `work` to `more`, with the same number.
fn spans(times: u64) {
    thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for n in (thread..2 * times).step_by(2) {
                    work(thread, n);
                    thread::yield_now();
                    more(n);
                }
            });
        }
    });
}

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let times = SIGNALLED.fetch_add(1, Ordering::Relaxed);
    sdt_probe!(subject::signalled, times);
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The handler of SIGTRAP that was there first. Goes on behind the breakpoint: x86_64's CPU is there already.
extern "C" fn on_trap(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    TRAPPED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: what the kernel hands over.
    let (info, _context) =
        unsafe { (&*info, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext) };
    if info.si_code == libc::TRAP_BRKPT {
        #[cfg(target_arch = "aarch64")]
        (_context.pc += 4);
        #[cfg(target_arch = "riscv64")]
        (_context.__gregs[libc::REG_PC] += 4);
    }
}

/// One that is nobody's probe.
fn breakpoint() {
    // SAFETY: the handler goes on behind it.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("int3");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("brk #1");
        #[cfg(target_arch = "riscv64")]
        std::arch::asm!(".option push", ".option norvc", "ebreak", ".option pop");
    }
}

fn handle(signal: libc::c_int, handler: Handler) {
    // SAFETY: the handlers count, and do what handlers may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn start() -> Result<Process, String> {
    let role = std::env::var(ROLE).unwrap();
    let mode = if role.contains("trap") { Mode::Trap } else { Mode::Jump };
    let config = Config { buffer: 20_000 * LONGEST, consumers: 3, ..Config::DEFAULT };
    let mut options = Options::new().mode(mode).config(config).module(c"subject".to_owned());
    if let Some((_, slots)) = role.split_once(' ') {
        options = options.slots(slots.parse().unwrap());
    }
    options.start().map_err(|error| error.to_string())
}

/// Each of so many threads works so many times.
fn fire(threads: u64, times: u64) -> u64 {
    let fired = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..threads {
            let fired = &fired;
            scope.spawn(move || {
                for n in 0..times {
                    work(thread, n);
                    fired.fetch_add(1, Ordering::Relaxed);
                    // A reader that keeps up.
                    if n % 64 == 63 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
    fired.into_inner()
}

/// A thread works until it has been signalled so often, at whatever it was about. Returns how often it has worked.
fn signals(times: u64) -> u64 {
    let before = SIGNALLED.load(Ordering::Relaxed);
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let worker = scope.spawn(move || {
            // SAFETY: who this thread is.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            let mut n = 0;
            while !done.load(Ordering::Acquire) {
                work(0, n);
                n += 1;
                if n % 64 == 63 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            n
        });
        let end = Done(done);
        let thread = receiver.recv().unwrap();
        for sent in 0..times {
            // SAFETY: it is there until it is told that this is done.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            // The kernel keeps one of a kind.
            while SIGNALLED.load(Ordering::Relaxed) - before <= sent {
                assert!(!worker.is_finished(), "nobody is signalled");
                std::hint::spin_loop();
            }
        }
        drop(end);
        worker.join().unwrap()
    })
}

/// A thread is signalled so often, and handles it on an alternate stack of so many bytes, below which there is nothing.
fn on_alternate_stack(bytes: usize, times: u64) {
    const PAGE: usize = 4096;
    thread::spawn(move || {
        // SAFETY: memory of its own, which stays the thread's alternate stack until the thread ends; the handler counts.
        unsafe {
            let (none, how) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let memory = libc::mmap(none, bytes + PAGE, libc::PROT_NONE, how, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            let start = memory.add(PAGE);
            assert_eq!(libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            let stack = libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: bytes };
            let mut before: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&stack, &mut before), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as Handler as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, none.cast()), 0);
            for _ in 0..times {
                libc::raise(libc::SIGUSR2);
            }
            // Rust's own, which is freed when the thread ends.
            assert_eq!(libc::sigaltstack(&before, none.cast()), 0);
            assert_eq!(libc::munmap(memory, bytes + PAGE), 0);
        }
    })
    .join()
    .unwrap();
}

/// What all sites hold.
fn text() -> String {
    let site = |site: &sdt_core::__private::record::Site| {
        let bytes = (0..sdt_core::__private::arch::SITE_LEN).map(|at| {
            // SAFETY: a site of this program.
            let byte = unsafe { *((site.patchpoint() + at) as *const u8) };
            format!("{byte:02x}")
        });
        bytes.collect::<String>()
    };
    let sites: Vec<_> = sdt_core::__private::inspect::sites().iter().map(site).collect();
    sites.join(" ")
}

/// Whether all sites are nops.
fn is_text_restored() -> bool {
    let nop = sdt_core::__private::arch::ENCODING.nop;
    let nop: String = nop.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    text().split(' ').all(|site| site == nop)
}

/// A child, which looks around, works, and lets itself be traced until its standard input ends.
#[inline(never)]
fn fork() -> i32 {
    // SAFETY: the child does what children of programs with threads seldom may, and this C library allows.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let restored = is_text_restored();
        let is_enabled = sdt_enabled!(subject::work);
        work(77, 0);
        let process = start();
        let started = process.as_ref().map(|_| "started").map_err(String::as_str);
        answer(format_args!(
            "child {} restored={restored} enabled={is_enabled} {started:?}",
            std::process::id()
        ));
        obey(process.ok());
        // SAFETY: ends the process without the parent's cleaning.
        unsafe { libc::_exit(0) };
    }
    child
}

/// Has one thread make a provider and a probe and remove them, again and again, while this one forks so many children. Says how many of
/// them could let themselves be traced, and make one of their own and remove it and what was left of that one.
fn forks_of_makers(children: u64) -> u64 {
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
                assert!(!maker.is_finished(), "nobody makes any");
                thread::yield_now();
            }
            // SAFETY: as above.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let process = start();
                let is_good = process.is_ok()
                    && matches!(MADE.close(), Ok(()) | Err(CloseError::NotOpen))
                    && make(&OWN, c"own").is_ok();
                std::mem::forget(process);
                // SAFETY: as above.
                unsafe { libc::_exit((!is_good).into()) };
            }
            status(child) == 0
        });
        good.count() as u64
    })
}

/// A provider whose rules fork, where a probe is enabled, or wait until they are told to go on.
struct Forks;

static WAITS: AtomicBool = AtomicBool::new(false);
static IS_WAITING: AtomicBool = AtomicBool::new(false);

/// The children that are to be looked after.
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
        // SAFETY: the child does nothing.
        match unsafe { libc::fork() } {
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            child => CHILDREN.lock().unwrap().push(child),
        }
    }
}

static FORKING: Provider = {
    static SLOTS: [Slot; 4] = [const { Slot::new() }; 4];
    Provider::ruled(&SLOTS, &Forks)
};

/// Ends the child that this is: well, if it cannot be started.
fn exit_unless_started() -> ! {
    let is_good = matches!(Options::new().start(), Err(StartError::Forked));
    // SAFETY: ends the process without the parent's cleaning.
    unsafe { libc::_exit((!is_good).into()) };
}

/// Forks while another thread has the framework locked, and does not let go; after `pause` the thread that answers consumers waits
/// for it as well. The status of the child.
fn fork_beside_who_waits(probe: &'static CStr, pause: Duration) -> libc::c_int {
    WAITS.store(true, Ordering::Release);
    let adding = thread::spawn(|| FORKING.add(c"", probe, &[]).map(drop));
    while !IS_WAITING.load(Ordering::Acquire) && !adding.is_finished() {
        thread::yield_now();
    }
    thread::sleep(pause);
    // SAFETY: the child does what one may that was made by the C library.
    let child = unsafe { libc::fork() };
    if child == 0 {
        exit_unless_started();
    }
    let status = status(child);
    WAITS.store(false, Ordering::Release);
    IS_WAITING.store(false, Ordering::Release);
    adding.join().unwrap().unwrap();
    status
}

/// Forks behind the back of the C library. The status of the child.
fn fork_barely() -> libc::c_int {
    // SAFETY: as above; nothing of the C library's is locked by others for long.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        exit_unless_started();
    }
    status(child as libc::pid_t)
}

/// The statuses of the children that were made where a probe was enabled.
fn statuses() -> Vec<libc::c_int> {
    std::mem::take(&mut *CHILDREN.lock().unwrap()).into_iter().map(status).collect()
}

/// What a child ends with. One that does not end in some minutes is killed.
fn status(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    for round in 0..30_000 {
        // SAFETY: a child of ours.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if round < 1000 => thread::yield_now(),
            0 => thread::sleep(Duration::from_millis(10)),
            ended => {
                assert_eq!(ended, child);
                return status;
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    status
}

/// Has one thread fork, again and again, until `during` is over; says how many children there were, and how many of them had
/// enabled sites.
fn forks(during: impl FnOnce()) -> (u64, u64) {
    let done = &AtomicBool::new(false);
    let (sender, first) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let forker = scope.spawn(move || {
            let (mut children, mut bad) = (0, 0);
            while !done.load(Ordering::Acquire) {
                // SAFETY: as above.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: as above.
                    unsafe { libc::_exit((!is_text_restored()).into()) };
                }
                (children, bad) = (children + 1, bad + u64::from(status(child) != 0));
                let _ = sender.send(());
            }
            (children, bad)
        });
        let end = Done(done);
        first.recv().unwrap();
        during();
        drop(end);
        forker.join().unwrap()
    })
}

fn answer(what: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {what}").unwrap();
    out.flush().unwrap();
}

fn number(word: Option<&&str>) -> u64 {
    word.map_or(1, |word| word.parse().unwrap())
}

/// Does what it is told, until there is nobody to tell it.
#[inline(never)]
fn obey(mut process: Option<Process>) {
    let busy: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let mut workers: Vec<thread::JoinHandle<u64>> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        match words[0] {
            "fire" => {
                answer(format_args!("{}", fire(number(words.get(1)), number(words.get(2)))));
            }
            "greet" => {
                (0..number(words.get(1))).for_each(greet);
                answer(format_args!("greeted"));
            }
            "errno" => answer(format_args!("{}", keeps_errno())),
            "spans" => {
                spans(number(words.get(1)));
                answer(format_args!("done"));
            }
            "signals" => {
                let worked = signals(number(words.get(1)));
                answer(format_args!("{worked} {}", SIGNALLED.load(Ordering::Relaxed)));
            }
            "alternate" => {
                on_alternate_stack(number(words.get(1)) as usize, number(words.get(2)));
                answer(format_args!("done"));
            }
            "busy" => {
                busy.store(true, Ordering::Release);
                workers.extend((0..number(words.get(1))).map(|thread| {
                    thread::spawn(move || {
                        let mut n = 0;
                        while busy.load(Ordering::Acquire) {
                            work(thread, n);
                            more(n);
                            n += 1;
                            // Others get a CPU, too.
                            if n % 256 == 0 {
                                thread::sleep(Duration::from_micros(50));
                            }
                        }
                        n
                    })
                }));
                answer(format_args!("busy"));
            }
            "calm" => {
                busy.store(false, Ordering::Release);
                let worked: u64 = workers.drain(..).map(|worker| worker.join().unwrap()).sum();
                answer(format_args!("{worked}"));
            }
            "breakpoint" => {
                breakpoint();
                // SAFETY: a signal that is handled.
                unsafe { libc::raise(libc::SIGTRAP) };
                answer(format_args!("{}", TRAPPED.load(Ordering::Relaxed)));
            }
            "handle" => {
                handle(libc::SIGTRAP, on_trap);
                answer(format_args!("handled"));
            }
            "deaf" => {
                let (_, unread) = std::io::pipe().unwrap();
                // SAFETY: what is said on standard error goes to nobody from here on.
                assert_eq!(unsafe { libc::dup2(unread.as_raw_fd(), 2) }, 2);
                answer(format_args!("deaf"));
            }
            "block" => {
                thread::spawn(|| {
                    // SAFETY: a set that is filled, for this thread.
                    unsafe {
                        let mut all: libc::sigset_t = std::mem::zeroed();
                        libc::sigfillset(&mut all);
                        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
                    }
                    answer(format_args!("blocked"));
                    loop {
                        thread::park();
                    }
                });
            }
            "fork" => drop(fork()),
            "forking" => {
                // Should it hang, it ends.
                // SAFETY: nobody handles it.
                unsafe { libc::alarm(300) };
                FORKING.open(c"forking", &ProviderAttr::SDT, Privileges::USER).unwrap();
                FORKING.add(c"", c"first", &[]).unwrap();
                answer(format_args!("forking"));
            }
            "second" => {
                FORKING.add(c"", c"second", &[]).unwrap();
                answer(format_args!("second"));
            }
            "beside" => {
                let (probe, pause) = match words.get(1) {
                    Some(_) => (c"fourth", Duration::from_millis(number(words.get(1)))),
                    None => (c"third", Duration::ZERO),
                };
                answer(format_args!("{}", fork_beside_who_waits(probe, pause)));
            }
            "barely" => answer(format_args!("{}", fork_barely())),
            "children" => answer(format_args!("{:?}", statuses())),
            "forks" => {
                let (children, bad) = forks(|| drop(process.take()));
                answer(format_args!("{} {bad}", children > 0));
            }
            "makers" => answer(format_args!("{}", forks_of_makers(number(words.get(1))))),
            "exec" => {
                let error = Command::new(std::env::current_exe().unwrap())
                    .args(std::env::args_os().skip(1))
                    .exec();
                answer(format_args!("{error}"));
            }
            "text" => answer(format_args!("{} {}", is_text_restored(), text())),
            "enabled" => answer(format_args!("{}", sdt_enabled!(subject::work))),
            "traps" => answer(format_args!("{}", sdt_process::breakpoint::taken())),
            "counters" => {
                let of = process.as_ref().unwrap().counters();
                answer(format_args!("{} {} {} {}", of.hits, of.reentered, of.unknown, of.stray));
            }
            "stop" => {
                drop(process.take());
                answer(format_args!("stopped"));
            }
            // A program that nobody has come for yet: DOF in hexadecimal digits.
            "enable" => {
                let digits = words[1].as_bytes().chunks(2);
                let dof = digits
                    .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap());
                let dof: Vec<u8> = dof.collect();
                let enabled = process.as_ref().unwrap().enable_anonymously(&dof);
                answer(format_args!("{enabled:?}"));
            }
            "start" => match start() {
                Ok(started) => {
                    process = Some(started);
                    answer(format_args!("started"));
                }
                Err(error) => answer(format_args!("{error}")),
            },
            other => panic!("{other}?"),
        }
    }
}

/// The subject, if this is it.
#[test]
fn main() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    handle(libc::SIGTRAP, on_trap);
    handle(libc::SIGUSR1, on_signal);
    let process = start();
    let socket = process.as_ref().map(|process| process.socket().display().to_string());
    answer(format_args!("{} {socket:?}", std::process::id()));
    obey(process.ok());
}
