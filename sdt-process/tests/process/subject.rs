//! The process that is traced: this test program, started once more. It obeys commands on its standard input, one
//! command a line, and answers each with a line that begins with `> `.

mod forks;
mod functions;
mod late;
mod pages;
#[cfg(not(target_arch = "x86_64"))]
mod registers;
mod sampling;
mod sandbox;
mod scripts;
mod signals;
mod stacks;
mod typed;
#[cfg(target_arch = "x86_64")]
mod windows;

use std::ffi::{CString, c_char};
use std::io::{BufRead as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sdt_core::arg::{ArgType, Argument, Value};
use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::patch::Mode;
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};
use sdt_framework::{Config, Record};
use sdt_process::{Options, Process};

use forks::FORKING;
use signals::{SIGNALLED, TRAPPED};

/// The variable that makes this program the subject: the mode of its sites, `-allowed` if it declares that its sandbox allows tracing,
/// `-panics` if its function for refusals panics, and the number of slots.
pub const ROLE: &str = "SDT_PROCESS_SUBJECT";

sdt_provider! {
    /// The work of the traced process.
    pub subject {
        /// A thread has done some work: the number of the thread, and the number of times.
        fn work(thread: u64, times: u64);
        /// A thread has done some work in another function.
        fn more(times: u64);
        /// A signal handler runs.
        fn signalled(times: u64);
        /// A page is about to be filled: its address.
        fn filled(address: u64);
        /// The program prints a greeting: to this name, and the number of greetings before.
        fn greeted(name: *const c_char, times: u64);
        /// The program says a text.
        fn said(text: &str);
        /// The program claims that there is a text at an address.
        fn claimed(text: Claim);
    }
}

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
    sdt_probe!(subject::greeted, NAME.as_ptr(), times);
}

/// The name that is greeted, on the heap. The kernel copies it for a program in D, because the site does not borrow it.
static NAME: LazyLock<CString> = LazyLock::new(|| c"world".to_owned());

/// An address and a length that a program claims to be those of a text.
#[derive(Clone, Copy)]
struct Claim(u64, u64);

impl Value for Claim {
    type Words = [u64; 2];

    fn words(&self) -> [u64; 2] {
        [self.0, self.1]
    }
}

impl Argument for Claim {
    const TYPES: &'static [ArgType] = <&str>::TYPES;
}

/// Says a text.
#[inline(never)]
fn say(text: &str) {
    sdt_probe!(subject::said, text);
}

/// Returns whether hits leave `errno` as it was.
fn keeps_errno() -> bool {
    let place = || {
        // SAFETY: the address of this thread's `errno` is valid while the thread runs.
        unsafe { &mut *libc::__errno_location() }
    };
    *place() = 77;
    greet(0);
    std::mem::replace(place(), 0) == 77
}

/// Makes spans in two threads at the same time, each from `work` to `more` with the same number.
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

fn start() -> Result<Process, String> {
    let role = std::env::var(ROLE).unwrap();
    let mode = if role.contains("trap") { Mode::Trap } else { Mode::Jump };
    let config = Config { buffer: 20_000 * Record::SIZE, consumers: 3, ..Config::DEFAULT };
    let mut options = Options::new().mode(mode).config(config).module(c"subject".to_owned());
    options = options.allowed_by_sandbox(role.contains("allowed"));
    if role.contains("few") {
        options = options.function_sites(8);
    } else if role.contains("many") {
        options = options.function_sites(100_000);
    }
    if role.contains("panics") {
        options = options.on_refusal(|probe, _| panic!("{:?} is refused", probe.name()));
    }
    if let Some((_, slots)) = role.split_once(' ') {
        options = options.slots(slots.parse().unwrap());
    }
    options.start().map_err(|error| error.to_string())
}

/// Makes this many threads work this many times each.
fn fire(threads: u64, times: u64) -> u64 {
    let fired = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..threads {
            let fired = &fired;
            scope.spawn(move || {
                for n in 0..times {
                    work(thread, n);
                    fired.fetch_add(1, Ordering::Relaxed);
                    // Gives the reader time to keep up.
                    if n % 64 == 63 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
    fired.into_inner()
}

/// Returns the bytes of all sites.
fn text() -> String {
    let site = |site: &sdt_core::site::Site| {
        let bytes = (0..sdt_core::site::LEN).map(|at| {
            // SAFETY: the byte belongs to a site of this program.
            let byte = unsafe { *((site.patchpoint() + at) as *const u8) };
            format!("{byte:02x}")
        });
        bytes.collect::<String>()
    };
    let sites: Vec<_> = sdt_core::site::all().iter().map(site).collect();
    sites.join(" ")
}

/// Returns whether all sites are nops.
fn is_text_restored() -> bool {
    let nop = sdt_core::site::ENCODING.nop;
    let nop: String = nop.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    text().split(' ').all(|site| site == nop)
}

fn answer(what: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {what}").unwrap();
    out.flush().unwrap();
}

fn number(word: Option<&&str>) -> u64 {
    word.map_or(1, |word| word.parse().unwrap())
}

/// Obeys commands until standard input ends.
#[inline(never)]
fn obey(mut process: Option<Process>) {
    static BUSY: AtomicBool = AtomicBool::new(false);
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
            "said" => {
                match words.get(1) {
                    Some(&"constant") => say("a text of this size"),
                    Some(&"heap") => {
                        let text = "a text of this size".to_owned();
                        say(std::hint::black_box(&text));
                    }
                    Some(&"file") => pages::say_from_file("a text of this size", false),
                    Some(&"copied") => pages::say_from_file("a text of this size", true),
                    Some(&"claim") => {
                        let claim = Claim(number(words.get(2)), number(words.get(3)));
                        sdt_probe!(subject::claimed, std::hint::black_box(claim));
                    }
                    _ => {
                        let text = std::hint::black_box(*b"a text of this size");
                        say(std::str::from_utf8(&text).unwrap());
                    }
                }
                answer(format_args!("said"));
            }
            "errno" => answer(format_args!("{}", keeps_errno())),
            "script" => {
                scripts::open();
                // SAFETY: returns a number and changes nothing.
                answer(format_args!("{}", unsafe { libc::gettid() }));
            }
            "line" => {
                (0..number(words.get(1))).for_each(|_| scripts::hit());
                answer(format_args!("done"));
            }
            "interrupt" => {
                scripts::interrupt_next_copy(number(words.get(1)) as libc::c_int);
                answer(format_args!("once"));
            }
            "hold" => {
                workers.push(scripts::hold());
                answer(format_args!("held"));
            }
            "release" => {
                scripts::release();
                let released: u64 = workers.drain(..).map(|worker| worker.join().unwrap()).sum();
                answer(format_args!("{released}"));
            }
            "cancel" => answer(format_args!("{}", scripts::cancel())),
            "limit" => {
                // Ends this process if it hangs.
                // SAFETY: SIGALRM has its default action: no handler is installed for it.
                unsafe { libc::alarm(number(words.get(1)) as libc::c_uint) };
                answer(format_args!("limited"));
            }
            "copies" => answer(format_args!("{}", scripts::copies())),
            "spans" => {
                spans(number(words.get(1)));
                answer(format_args!("done"));
            }
            "signals" => {
                let worked = signals::count(number(words.get(1)));
                answer(format_args!("{worked} {}", SIGNALLED.load(Ordering::Relaxed)));
            }
            "alternate" => {
                signals::on_alternate_stack(number(words.get(1)) as usize, number(words.get(2)));
                answer(format_args!("done"));
            }
            "reused" => {
                let bytes = signals::below_a_reused_stack(number(words.get(1)) as usize);
                answer(format_args!("{bytes}"));
            }
            "disarmed" => {
                let bytes = signals::below_a_disarmed_stack(number(words.get(1)) as usize);
                answer(format_args!("{bytes}"));
            }
            "around" => {
                let [bytes, flags] = [1, 2].map(|word| number(words.get(word)));
                let switches = words.get(3) == Some(&"switches");
                signals::around_alternate_stacks(bytes as usize, flags as libc::c_int, switches);
                answer(format_args!("done"));
            }
            "queries" => answer(format_args!("{}", signals::queries(number(words.get(1))))),
            "mask" => {
                signals::handle_with_all_blocked();
                answer(format_args!("masked"));
            }
            "masked" => {
                for _ in 0..number(words.get(1)) {
                    // SAFETY: this program handles the signal.
                    unsafe { libc::raise(libc::SIGUSR2) };
                }
                answer(format_args!("{}", SIGNALLED.load(Ordering::Relaxed)));
            }
            "filled" => {
                answer(format_args!("{}", pages::fill_by_hand(number(words.get(1)) as usize)))
            }
            "coroutine" => answer(format_args!("{}", stacks::beside_a_coroutine(words[1]))),
            "file" => {
                stacks::in_a_file();
                answer(format_args!("done"));
            }
            "guard" => {
                stacks::beside_a_guard();
                answer(format_args!("done"));
            }
            "growing" => answer(format_args!("{}", stacks::growing())),
            "calls" => {
                let [right, calls] = functions::calls(number(words.get(1)));
                answer(format_args!("{right} {calls}"));
            }
            "calling" => {
                workers.extend(functions::keep_calling());
                answer(format_args!("calling"));
            }
            "called" => {
                functions::stop_calling();
                let wrong: u64 = workers.drain(..).map(|worker| worker.join().unwrap()).sum();
                answer(format_args!("{wrong}"));
            }
            #[cfg(target_arch = "x86_64")]
            "doubling" => {
                workers.extend(windows::keep_doubling());
                answer(format_args!("doubling"));
            }
            #[cfg(target_arch = "x86_64")]
            "doubled-wrong" => {
                windows::stop_doubling();
                let wrong: u64 = workers.drain(..).map(|worker| worker.join().unwrap()).sum();
                answer(format_args!("{wrong}"));
            }
            #[cfg(target_arch = "x86_64")]
            "doubled" => answer(format_args!("{}", windows::doubled(number(words.get(1))))),
            #[cfg(target_arch = "x86_64")]
            "kept" => answer(format_args!("{}", windows::kept(number(words.get(1))))),
            #[cfg(not(target_arch = "x86_64"))]
            "registers" => {
                let [good, vectors] = registers::kept(number(words.get(1)));
                answer(format_args!("{good} {vectors}"));
            }
            "unwound" => answer(format_args!("{}", functions::unwound(number(words.get(1))))),
            "load" => {
                late::load(words[1]);
                answer(format_args!("loaded"));
            }
            "run" => answer(format_args!("{}", late::call(words[2], number(words.get(1))))),
            "close" => answer(format_args!("{}", late::close(words[1]))),
            "drive" => answer(format_args!("{}", typed::drive(words[1]))),
            "spawned" => answer(format_args!("{}", functions::spawned(number(words.get(1))))),
            "sandbox" => answer(format_args!("{}", sandbox::allow_what_is_documented())),
            "deny" => answer(format_args!("{}", sandbox::deny(words[1], words[2]))),
            "mdwe" => answer(format_args!("{}", sandbox::refuse_executable_gain())),
            "full" => answer(format_args!("{}", sandbox::take_all_descriptors())),
            "undump" => answer(format_args!("{}", sandbox::cannot_be_dumped())),
            "busy" => {
                BUSY.store(true, Ordering::Release);
                workers.extend((0..number(words.get(1))).map(|thread| {
                    thread::spawn(move || {
                        let mut n = 0;
                        while BUSY.load(Ordering::Acquire) {
                            work(thread, n);
                            more(n);
                            n += 1;
                            // Lets other threads run.
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
                BUSY.store(false, Ordering::Release);
                let worked: u64 = workers.drain(..).map(|worker| worker.join().unwrap()).sum();
                answer(format_args!("{worked}"));
            }
            "breakpoint" => {
                signals::breakpoint();
                // SAFETY: this program handles the signal.
                unsafe { libc::raise(libc::SIGTRAP) };
                answer(format_args!("{}", TRAPPED.load(Ordering::Relaxed)));
            }
            "handle" => {
                signals::handle(libc::SIGTRAP, signals::on_trap);
                answer(format_args!("handled"));
            }
            "deaf" => {
                let (_, unread) = std::io::pipe().unwrap();
                // SAFETY: no other part of this program uses standard error.
                assert_eq!(unsafe { libc::dup2(unread.as_raw_fd(), 2) }, 2);
                answer(format_args!("deaf"));
            }
            "block" => {
                thread::spawn(|| {
                    // SAFETY: `sigfillset` initialises the set before it is used.
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
            "burn" => {
                sampling::burn_in_threads(number(words.get(1)), number(words.get(2)));
                answer(format_args!("done"));
            }
            "short" => {
                sampling::burn_in_short_threads(number(words.get(1)));
                answer(format_args!("done"));
            }
            "wait-for-signals" => {
                let got = sampling::burn_and_wait_for_signals(number(words.get(1)));
                answer(format_args!("{got}"));
            }
            "interrupted" => {
                answer(format_args!("{}", sampling::interrupted_calls(number(words.get(1)))));
            }
            "named" => {
                let milliseconds = number(words.get(1));
                // Linux keeps the first 15 bytes.
                let thread = thread::Builder::new().name("a-thread-with-a-long-name".to_owned());
                let named = thread.spawn(move || {
                    work(0, 0);
                    sampling::burn(milliseconds);
                });
                named.unwrap().join().unwrap();
                answer(format_args!("done"));
            }
            "timers" => answer(format_args!("{}", sampling::timers())),
            "handlers" => answer(format_args!("{}", sampling::handlers())),
            "handle-all" => {
                sampling::handle_all();
                answer(format_args!("handled"));
            }
            "received" => {
                answer(format_args!("{}", sampling::RECEIVED.load(Ordering::Relaxed)));
            }
            "parked" => {
                BUSY.store(true, Ordering::Release);
                workers.extend((0..number(words.get(1))).map(|_| {
                    thread::spawn(|| {
                        while BUSY.load(Ordering::Acquire) {
                            thread::sleep(Duration::from_millis(50));
                        }
                        0
                    })
                }));
                answer(format_args!("parked"));
            }
            "filtered" => {
                thread::spawn(|| {
                    sandbox::allow_all_in_this_thread();
                    answer(format_args!("filtered"));
                    loop {
                        thread::park();
                    }
                });
            }
            "fork" => drop(forks::fork()),
            "forking" => {
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
                answer(format_args!("{}", forks::beside_who_waits(probe, pause)));
            }
            "barely" => answer(format_args!("{}", forks::barely())),
            "heir" => answer(format_args!("{}", forks::heir(process.as_ref().unwrap()))),
            "children" => answer(format_args!("{:?}", forks::statuses())),
            "forks" => {
                let (children, bad) = forks::during(|| drop(process.take()));
                answer(format_args!("{} {bad}", children > 0));
            }
            "makers" => answer(format_args!("{}", forks::beside_makers(number(words.get(1))))),
            "exit" => {
                // SAFETY: the functions that the C library calls at the end expect no lock of this thread.
                unsafe { libc::exit(0) }
            }
            "exec" => {
                let error = Command::new(std::env::current_exe().unwrap())
                    .args(std::env::args_os().skip(1))
                    .exec();
                answer(format_args!("{error}"));
            }
            "text" => answer(format_args!("{} {}", is_text_restored(), text())),
            "enabled" => answer(format_args!("{}", sdt_enabled!(subject::work))),
            "traps" => answer(format_args!("{}", sdt_process::breakpoint::count())),
            "counters" => {
                let of = process.as_ref().unwrap().counters();
                answer(format_args!("{} {} {} {}", of.hits, of.reentered, of.unknown, of.stray));
            }
            "stop" => {
                drop(process.take());
                answer(format_args!("stopped"));
            }
            // Enables a program without a consumer: DOF in hexadecimal digits.
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

/// Runs the subject if this process is one.
#[test]
fn main() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    LazyLock::force(&NAME);
    signals::handle(libc::SIGTRAP, signals::on_trap);
    signals::handle(libc::SIGUSR1, signals::on_signal);
    if std::env::var(ROLE).unwrap().contains("denied-timers") {
        sandbox::deny("timer_create", "errno");
    }
    let process = start();
    if std::env::var(ROLE).unwrap().ends_with("denied") {
        // A call that threads of Rust's standard library begin with.
        sandbox::deny("sigaltstack", "kill");
    }
    let socket = process.as_ref().map(|process| process.socket().display().to_string());
    answer(format_args!("{} {socket:?}", std::process::id()));
    obey(process.ok());
}
