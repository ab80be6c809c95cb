//! Each function that reaches a framework, as a `Kernel` calls it while a clause runs.

use std::ffi::c_void;
use std::ptr::null_mut;

use sdt_core::arg::Borrows;
use sdt_core::ops::{
    Framework as _, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderOps,
};
use sdt_core::patch::{NoText, Patcher};
use sdt_framework::console::{Console, ConsoleError};
use sdt_framework::server::{Limits, Lost, NoSites, Secure, SecureHost, Server, Stream, Tracer};
use sdt_framework::smp::{Machine, Tracing};
use sdt_framework::{
    Config, ConsumerError, Dtrace, FunctionError, FunctionSite, FunctionText, Host as _, InitError,
    Memory, ProbeContext, Registers, Rights, Spec, Which, registration,
};

use crate::common::memory;
use crate::world::{One, World, compile};

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Worked,
    /// The function refused, because it was called in probe context.
    Refused,
}

use Outcome::{Refused, Worked};

pub type Call = fn(&'static World) -> Outcome;

/// Errors by which functions refuse in probe context.
trait Refusal: std::fmt::Debug + PartialEq + Sized {
    const REFUSAL: Self;
}

impl Refusal for ProbeContext {
    const REFUSAL: Self = Self;
}

impl Refusal for ConsumerError {
    const REFUSAL: Self = Self::ProbeContext;
}

impl Refusal for FrameworkError {
    const REFUSAL: Self = Self::ProbeContext;
}

impl Refusal for FunctionError {
    const REFUSAL: Self = Self::Consumer(ConsumerError::ProbeContext);
}

impl Refusal for ConsoleError {
    const REFUSAL: Self = Self::Refused(ConsumerError::ProbeContext);
}

/// Converts the result of a function that returns an error in probe context.
fn of<T, E: Refusal>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Worked,
        Err(error) => {
            assert_eq!(error, E::REFUSAL);
            Refused
        }
    }
}

/// Converts the result of a function that returns `None` in probe context, and a value in a thread.
fn none<T>(found: Option<T>) -> Outcome {
    if found.is_some() { Worked } else { Refused }
}

/// Text of which no function is traced.
struct NoFunctions;

// SAFETY: nothing is traceable.
unsafe impl FunctionText for NoFunctions {
    fn build_id(&self) -> &[u8] {
        b"none"
    }

    fn is_traceable(&self, _: u64, _: usize) -> bool {
        false
    }

    fn free_stack(&self) -> u64 {
        0
    }

    fn handlers(&self) -> &[u64] {
        &[]
    }

    fn patcher(&self) -> &'static dyn Patcher {
        &NoText
    }
}

const SITE: FunctionSite<'_> = FunctionSite {
    module: b"m",
    function: b"f",
    is_return: false,
    address: 0,
    offset: 0,
    code: &[0x90],
    window: None,
};

struct Idle;

impl Stream for Idle {
    fn read(&mut self, _: &mut [u8]) -> Result<usize, Lost> {
        Ok(0)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        Ok(bytes.len())
    }
}

impl SecureHost for Idle {
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        bytes.fill(7);
        true
    }

    fn now(&mut self) -> u64 {
        0
    }
}

/// A machine whose framework has no memory.
struct Still;

static STILL: Tracing<Still, 1> = Tracing::new(c"still");

// SAFETY: it has one CPU, of which nothing is traced.
unsafe impl Machine for Still {
    fn cpu() -> usize {
        0
    }

    fn cpus() -> usize {
        1
    }

    fn timestamp() -> u64 {
        0
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    fn interrupt_others() {}
}

const EVERY: ProviderAttr = ProviderAttr::SDT;
const ALL: Rights = Rights::ALL;

/// Functions that other code calls: [`several`](crate::several), in which they have to wait. [`Tracing::start`] is not called,
/// because it begins with [`Dtrace::init`]; the others are unsafe.
pub const ELSEWHERE: [&str; 8] = [
    "Tracing::called",
    "Tracing::start",
    "Smp::sync",
    "Smp::synchronise",
    "Smp::relax",
    "Smp::store",
    "Smp::contexts",
    "Held::drop",
];

/// Each function by the name that the table has.
pub fn all() -> Vec<(&'static str, Call)> {
    let mut all = boot();
    all.extend(providers());
    all.extend(consumers());
    all.extend(others());
    all.extend(tracers());
    all
}

fn boot() -> Vec<(&'static str, Call)> {
    vec![
        ("Dtrace::new", |_| {
            let _ = Dtrace::new(One);
            Worked
        }),
        ("Dtrace::init", |w| {
            assert_eq!(w.dtrace.init(memory(1 << 16), &Config::DEFAULT), Err(InitError::Ready));
            Refused
        }),
        ("Dtrace::host", |w| {
            let _ = w.dtrace.host();
            Worked
        }),
        ("Dtrace::memory_left", |w| of(w.dtrace.memory_left())),
        ("Dtrace::share_memory", |w| of(w.dtrace.share_memory(1))),
        ("Dtrace::count_stray", |w| {
            let before = w.dtrace.counters().stray;
            w.dtrace.count_stray();
            assert_eq!(w.dtrace.counters().stray, before + 1);
            Worked
        }),
        ("Dtrace::counters", |w| {
            assert_eq!(w.dtrace.counters().records, 0);
            Worked
        }),
        ("Dtrace::system", |w| {
            let _ = Tracer::system(&w.dtrace);
            Worked
        }),
        ("Dtrace::unsampled_threads", |w| {
            assert_eq!(Tracer::unsampled_threads(&w.dtrace), 0);
            Worked
        }),
        ("Dtrace::late_timers", |w| {
            assert_eq!(w.dtrace.late_timers(), 0);
            Worked
        }),
        ("Dtrace::register_own", |w| of(w.dtrace.register_own())),
        ("Dtrace::register_profile", |w| of(w.dtrace.register_profile(4))),
        ("Dtrace::register_functions", |w| of(w.dtrace.register_functions(&NoFunctions, 4))),
        ("Dtrace::add_function", |w| of(w.dtrace.add_function(w.consumer, b"none", &SITE))),
        ("Dtrace::remove_functions", |w| of(w.dtrace.remove_functions(0..u64::MAX))),
        ("Dtrace::function_hit", |w| {
            // SAFETY: no function is traced.
            assert!(!unsafe { w.dtrace.function_hit(&mut Registers::default()) });
            Worked
        }),
        ("Dtrace::function_emulate", |w| {
            // SAFETY: no function is traced.
            assert!(!unsafe { w.dtrace.function_emulate(&mut Registers::default()) });
            Worked
        }),
        ("Dtrace::function_record", |w| {
            w.dtrace.function_record(&Registers::default());
            Worked
        }),
        ("Dtrace::function_skip", |w| {
            // SAFETY: no function is traced.
            assert!(!unsafe { w.dtrace.function_skip(&mut Registers::default()) });
            Worked
        }),
        ("Dtrace::is_function_site", |w| {
            assert!(!w.dtrace.is_function_site(1));
            Worked
        }),
        ("Dtrace::tick", |w| {
            w.dtrace.tick(0, 0);
            Worked
        }),
        ("Dtrace::sample", |w| {
            w.dtrace.sample(0, 0, 0, 0);
            Worked
        }),
        ("Dtrace::suspend", |w| {
            w.dtrace.suspend();
            assert_eq!(of(w.dtrace.close(w.consumer)), Refused, "it is probe context yet");
            Worked
        }),
        ("Dtrace::resume", |w| {
            w.dtrace.resume();
            assert_eq!(of(w.dtrace.close(w.consumer)), Refused, "it is probe context yet");
            Worked
        }),
        ("Dtrace::try_hold", |w| none(w.dtrace.try_hold())),
        ("Dtrace::end_runs", |w| of(w.dtrace.end_runs())),
        ("Dtrace::started_consumers", |w| of(w.dtrace.started_consumers())),
    ]
}

fn providers() -> Vec<(&'static str, Call)> {
    vec![
        ("Dtrace::register", |w| {
            let (none, ops) = (Privileges::empty(), ProviderOps::INERT);
            // SAFETY: the ops do nothing, and are statics.
            of(unsafe { w.dtrace.register(c"more", &EVERY, none, &ops, null_mut()) })
        }),
        ("Dtrace::unregister", |w| of(w.dtrace.unregister(w.other))),
        ("Dtrace::invalidate", |w| {
            // SAFETY: it is registered.
            unsafe { sdt_core::ops::Framework::invalidate(&w.dtrace, w.other) };
            of(w.dtrace.invalidate(w.other))
        }),
        ("Dtrace::condense", |w| {
            // SAFETY: it is registered.
            unsafe { sdt_core::ops::Framework::condense(&w.dtrace, w.other) };
            of(w.dtrace.condense(w.other))
        }),
        ("Dtrace::probe_create", |w| {
            // SAFETY: it is registered, and takes any pointer.
            of(unsafe { w.dtrace.probe_create(w.other, c"m", c"f", c"new", 0, null_mut()) })
        }),
        ("Dtrace::probe_lookup", |w| none(w.dtrace.probe_lookup(w.other, c"m", c"f", c"quiet"))),
        ("Dtrace::probe_arg", |w| none(w.dtrace.probe_arg(w.provider, w.probe))),
        ("Dtrace::providing", |w| of(w.dtrace.providing(|| panic!("it is called")))),
        ("Dtrace::module_loaded", |w| {
            // SAFETY: the providers take any pointer.
            of(unsafe { w.dtrace.module_loaded(null_mut::<c_void>()) })
        }),
        ("Dtrace::destroy_module", |w| of(w.dtrace.destroy_module(c"nothing"))),
        ("Dtrace::for_each_probe", |w| of(w.dtrace.for_each_probe(&Spec::ALL, |_| {}))),
        ("Dtrace::describe", |w| none(w.dtrace.describe(w.probe))),
        ("Dtrace::arg_descs", |w| {
            assert_eq!(w.dtrace.arg_descs(w.probe).count(), 0);
            Refused
        }),
        ("Dtrace::probe", |w| {
            let before = w.dtrace.counters().reentered;
            w.dtrace.probe(w.probe, &[0x1000, 2]);
            assert_eq!(w.dtrace.counters().reentered, before + 1);
            Worked
        }),
        ("Dtrace::probe5", |w| {
            // SAFETY: the provider has no `getargval`.
            unsafe { w.dtrace.probe5(w.probe.get(), [0; 5]) };
            assert_eq!(w.dtrace.counters().reentered, 1);
            Worked
        }),
        ("Dtrace::hit", |w| {
            let id = std::sync::atomic::AtomicU32::new(w.probe.get());
            // SAFETY: it is the id of a probe that is enabled.
            unsafe { w.dtrace.hit(&id, &[0; 10], Borrows::NOTHING) };
            assert_eq!(w.dtrace.counters().reentered, 1);
            Worked
        }),
    ]
}

fn consumers() -> Vec<(&'static str, Call)> {
    vec![
        ("Dtrace::open", |w| of(w.dtrace.open())),
        ("Dtrace::open_with", |w| of(w.dtrace.open_with(ALL))),
        ("Dtrace::close", |w| of(w.dtrace.close(w.consumer))),
        ("Dtrace::enable", |w| of(w.dtrace.enable(w.consumer, &Spec::ALL))),
        ("Dtrace::disable", |w| of(w.dtrace.disable(w.consumer, &Spec::ALL))),
        ("Dtrace::set_option", |w| of(w.dtrace.set_option(w.consumer, 0, 1))),
        ("Dtrace::next_option", |w| of(w.dtrace.next_option(w.consumer, 0))),
        ("Dtrace::enable_program", |w| {
            of(w.dtrace.enable_program(w.consumer, &compile("p:::hit { trace(1); }")))
        }),
        ("Dtrace::program_piece", |w| of(w.dtrace.program_piece(w.consumer, 64, 0, &[0; 8]))),
        ("Dtrace::go", |w| of(w.dtrace.go(w.consumer))),
        ("Dtrace::stop", |w| of(w.dtrace.stop(w.consumer))),
        ("Dtrace::status", |w| of(w.dtrace.status(w.consumer))),
        ("Dtrace::snapshot", |w| {
            of(w.dtrace.snapshot(w.consumer, 0, Which::Records, 0, &mut [0; 256]))
        }),
        ("Dtrace::eprobe", |w| of(w.dtrace.eprobe(w.consumer, 1, 0, &mut []))),
        ("Dtrace::aggregation", |w| of(w.dtrace.aggregation(w.consumer, 1, 0, &mut []))),
        ("Dtrace::format", |w| of(w.dtrace.format(w.consumer, 1, 0, &mut [0; 8]))),
        ("Dtrace::enable_anonymously", |w| {
            of(w.dtrace.enable_anonymously(&compile("p:::hit { trace(1); }")))
        }),
        ("Dtrace::clean_anonymous", |w| of(w.dtrace.clean_anonymous())),
        ("Dtrace::claim", |w| none(w.dtrace.claim(ALL))),
        ("Dtrace::close_anonymous", |w| of(w.dtrace.close_anonymous())),
    ]
}

fn others() -> Vec<(&'static str, Call)> {
    vec![
        ("Console::new", |w| {
            let _ = Console::<2048>::new(&w.dtrace);
            Worked
        }),
        ("Console::command", |w| {
            let mut console: Console<'_> = Console::new(&w.dtrace);
            of(console.command("-n hit", &mut String::new()))
        }),
        ("Console::print", |w| {
            of(w.console.lock().unwrap().as_mut().unwrap().print(&mut String::new()))
        }),
        ("Console::stop", |w| {
            of(w.console.lock().unwrap().as_mut().unwrap().stop(&mut String::new()))
        }),
        ("Server::new", |w| {
            let _: Server<'_> = Server::new(&w.dtrace, &NoSites, ALL);
            Worked
        }),
        ("Server::step", |w| {
            // A request has arrived, and is answered later.
            let stepped =
                w.server.lock().unwrap().as_mut().unwrap().step(&mut *w.line.lock().unwrap());
            if stepped.unwrap() { Worked } else { Refused }
        }),
        ("Server::reset", |w| {
            w.server.lock().unwrap().as_mut().unwrap().reset();
            // Its consumer is still open.
            Refused
        }),
        ("Tracing::new", |_| {
            let _ = Tracing::<Still, 1>::new(c"more");
            Worked
        }),
        ("Tracing::memory", |_| {
            assert!(Tracing::<Still, 1>::memory(&Config::DEFAULT, 1) > 0);
            Worked
        }),
        ("Tracing::dtrace", |_| {
            let _ = STILL.dtrace();
            Worked
        }),
        ("Smp::cpu", |_| {
            assert_eq!(STILL.dtrace().host().cpu(), 0);
            Worked
        }),
        ("Smp::cpus", |_| {
            assert_eq!(STILL.dtrace().host().cpus(), 1);
            Worked
        }),
        ("Smp::timestamp", |_| {
            assert_eq!(STILL.dtrace().host().timestamp(), 0);
            Worked
        }),
        ("Smp::without_interrupts", |_| STILL.dtrace().host().without_interrupts(|| Worked)),
        ("Smp::kernel", |_| {
            assert!(!STILL.dtrace().host().kernel().load(0, &mut [0]));
            Worked
        }),
        ("Smp::longest_sync", |_| {
            assert_eq!(STILL.dtrace().host().longest_sync(), 0);
            Worked
        }),
        ("Smp::timers_changed", |_| {
            STILL.dtrace().host().timers_changed();
            Worked
        }),
        ("Smp::is_text", |_| {
            assert!(STILL.dtrace().host().is_text(0, 1));
            Worked
        }),
        ("registration::check", |_| {
            let checked = registration::check(c"name", Privileges::empty(), &ProviderOps::INERT);
            assert_eq!(checked, Ok(()));
            Worked
        }),
        ("registration::from_raw", |_| {
            assert!(registration::from_raw(&[0; 15], 0).is_ok());
            Worked
        }),
        ("Memory::new", |_| {
            let _ = Memory::<8>::new();
            Worked
        }),
        ("Memory::take", |_| {
            static MEMORY: Memory<8> = Memory::new();
            let _ = MEMORY.take();
            Worked
        }),
        ("Config::check", |_| {
            assert_eq!(Config::DEFAULT.check(), Ok(()));
            Worked
        }),
        ("Config::tables", |_| {
            assert!(Config::DEFAULT.tables::<One>(1) > 0);
            Worked
        }),
        ("Config::memory", |_| {
            assert!(Config::DEFAULT.memory::<One>(1, 1) > 0);
            Worked
        }),
        ("Secure::new", |_| secure(|_| {})),
        ("Secure::is_proven", |_| secure(|line| assert!(!line.is_proven()))),
        ("Secure::end", |_| secure(|line| assert!(line.end().is_none()))),
        ("Secure::into_stream", |_| secure(|_| {})),
        ("Secure::read", |_| secure(|line| assert_eq!(line.read(&mut [0; 8]).unwrap(), 0))),
        ("Secure::write", |_| {
            secure(|line| {
                let _ = line.write(&[0; 8]);
            })
        }),
    ]
}

/// Calls a function of an encrypted line without a peer.
fn secure(f: fn(&mut Secure<'_, Idle, Idle>)) -> Outcome {
    let key = dtrace_protocol::secure::Key::new([7; 32]);
    let mut line = Secure::new(Idle, &key, Idle, Limits { handshake: 1, silence: 1 });
    f(&mut line);
    line.into_stream();
    Worked
}

/// The calls of a server to a framework.
fn tracer(world: &World) -> &dyn Tracer {
    &world.dtrace
}

fn tracers() -> Vec<(&'static str, Call)> {
    vec![
        ("arguments::records", |_| {
            assert_eq!(sdt_framework::records(&[]).count(), 0);
            Worked
        }),
        ("Dtrace::need_thread", |w| of(tracer(w).need_thread())),
        ("Dtrace::cpus", |w| {
            assert_eq!(tracer(w).cpus(), 1);
            Worked
        }),
        ("Dtrace::start", |w| of(tracer(w).start(w.consumer))),
        ("Dtrace::stop", |w| of(tracer(w).stop(w.consumer))),
        ("Dtrace::function_text", |w| none(tracer(w).function_text())),
        ("Dtrace::adding_functions", |w| {
            tracer(w).adding_functions(&mut || panic!("it is called"));
            Refused
        }),
        ("Dtrace::symbol", |w| {
            tracer(w).symbol(1, &mut |_| panic!("it is shown"));
            Refused
        }),
        ("Dtrace::symbol_named", |w| {
            tracer(w).symbol_named(None, b"x", &mut |_| panic!("it is shown"));
            Refused
        }),
        ("Dtrace::declared", |w| {
            tracer(w).declared(0, &mut |_| panic!("it is shown"));
            Refused
        }),
        ("Dtrace::next_probe", |w| none(tracer(w).next_probe(&Spec::ALL, 0, ALL))),
        ("Dtrace::arg_desc", |w| none(tracer(w).arg_desc(ProbeId::new(1).unwrap(), 0, ALL))),
    ]
}
