//! Measures functions that are traced without a probe in their source: a hit in trap mode, and enabling many of them.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use dtrace_compiler::dof;
use dtrace_compiler::options::Options;
use recording_host::cpus::Uniprocessor;
use sdt_core::patch::{Patcher, machine};
use sdt_framework::{Config, Dtrace, Field, FunctionSite, FunctionText, Registers, Spec};

use crate::dif::compiled;
use crate::subjects::{self, Subject};
use crate::table::Table;
use crate::time::Samples;
use crate::traps;

/// The number of functions that each row enables, with the description that matches them.
const ROWS: [(u32, &str); 3] =
    [(1, "fbt::f00077:entry"), (1_000, "fbt::f00*:entry"), (MOST as u32, "fbt:::entry")];
const MOST: usize = 20_000;

/// `push rbp; mov rbp, rsp; pop rbp; ret`.
const CODE: [u8; 6] = [0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3];
/// Bytes from one function to the next.
const DISTANCE: usize = 16;
const BUILD: &[u8] = b"bench";

static DTRACE: Dtrace<Uniprocessor> =
    // SAFETY: the benchmark uses the framework in one thread.
    Dtrace::new(unsafe { Uniprocessor::new() });

const CONFIG: Config =
    Config { providers: 1, probes: MOST, ecbs: 2 * MOST, consumers: 2, buffer: 4096 };

/// The functions, in memory that is writable and executable.
struct Text;

static START: OnceLock<usize> = OnceLock::new();

fn start() -> usize {
    *START.get_or_init(|| {
        let length = MOST * DISTANCE;
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping; nothing else uses it.
        let text = unsafe { libc::mmap(null_mut(), length, protection, flags, -1, 0) };
        assert_ne!(text, libc::MAP_FAILED);
        for at in 0..MOST {
            // SAFETY: within the mapping.
            unsafe {
                let function = text.cast::<u8>().add(at * DISTANCE);
                function.copy_from_nonoverlapping(CODE.as_ptr(), CODE.len());
            }
        }
        text.expose_provenance()
    })
}

// SAFETY: stores go to the functions, which are writable; the benchmark has one thread.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        // SAFETY: by the caller's contract, bytes of the functions.
        unsafe { machine::store(std::ptr::with_exposed_provenance_mut(address), bytes) };
    }

    fn synchronise(&self) {}
}

// SAFETY: the functions stay, only this patcher changes them, and the signal handler calls none of them. Linux leaves 128 bytes
// free below the stack pointer before it stores the frame of a signal.
unsafe impl FunctionText for Text {
    fn build_id(&self) -> &[u8] {
        BUILD
    }

    fn is_traceable(&self, address: u64, length: usize) -> bool {
        let at = (address as usize).wrapping_sub(start());
        at < MOST * DISTANCE && at + length <= MOST * DISTANCE
    }

    fn free_stack(&self) -> u64 {
        128
    }

    fn handlers(&self) -> &[u64] {
        &[]
    }

    fn patcher(&self) -> &'static dyn Patcher {
        &Self
    }
}

/// The general registers in the order of their numbers.
const NUMBERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The handler of SIGTRAP while a function is traced.
extern "C" fn breakpoint(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of the interrupted code.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let saved = &mut context.uc_mcontext.gregs;
    let mut registers = Registers {
        general: NUMBERS.map(|number| saved[number as usize] as u64),
        rip: saved[libc::REG_RIP as usize] as u64 - 1,
        rflags: saved[libc::REG_EFL as usize] as u64,
    };
    // SAFETY: the registers are those of the interrupted code, which resumes with them.
    if !unsafe { DTRACE.function_hit(&mut registers) } {
        std::process::abort();
    }
    for (number, value) in NUMBERS.into_iter().zip(registers.general) {
        saved[number as usize] = value as i64;
    }
    saved[libc::REG_RIP as usize] = registers.rip as i64;
    saved[libc::REG_EFL as usize] = registers.rflags as i64;
}

/// Calls the first function.
fn call(one: u64, _other: u64) -> u64 {
    // SAFETY: `CODE` is a function that takes no arguments, and changes no registers that it has to preserve.
    let function: extern "C" fn(u64) =
        unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<()>(start())) };
    function(black_box(one));
    one
}

const TRACED: Subject = Subject {
    name: "call",
    call,
    repeat: |calls| (0..calls).fold(0, |sum, x| sum ^ call(black_box(x), x + 1)),
};

/// Prints the tables.
///
/// # Errors
/// If a step failed.
pub fn table(rounds: u32, calls: u32) -> Result<String> {
    let bytes = CONFIG.memory::<Uniprocessor>(1, 4) + (4 << 20);
    DTRACE.init(vec![std::mem::MaybeUninit::uninit(); bytes].leak(), &CONFIG)?;
    let sender = DTRACE.open()?;
    let all = DTRACE.memory_left()?;
    DTRACE.register_functions(&Text, MOST).context("registering")?;
    let sites = DTRACE.memory_left()?;
    let began = Instant::now();
    for at in 0..MOST {
        let function = format!("f{at:05}");
        let site = FunctionSite {
            module: b"bench",
            function: function.as_bytes(),
            is_return: false,
            address: (start() + at * DISTANCE) as u64,
            offset: 0,
            code: &CODE[..1],
            window: None,
        };
        DTRACE.add_function(sender, BUILD, &site)?;
    }
    let sent = began.elapsed();
    let names = DTRACE.memory_left()?;
    let each = |bytes: usize| bytes as f64 / MOST as f64;
    let tables = |probes| Config { probes, ..CONFIG }.tables::<Uniprocessor>(1);
    let [probe, site, names] = [tables(2 * MOST) - tables(MOST), all - sites, sites - names].map(each);
    let hit = hit(rounds, calls)?;
    let mut table = Table::new(&["FUNCTIONS", "enable, us", "disable, us"]);
    let consumer = DTRACE.open()?;
    for (count, text) in ROWS {
        let spec = Spec::parse(text, Field::Name)?;
        let (enabled, enabling) = timed(|| DTRACE.enable(consumer, &spec))?;
        let (disabled, disabling) = timed(|| DTRACE.disable(consumer, &spec))?;
        ensure!(enabled == count && disabled == count, "{text}: {enabled} enabled");
        table.row(vec![count.to_string(), us(enabling), us(disabling)]);
    }
    DTRACE.close(consumer)?;
    DTRACE.close(sender)?;
    Ok(format!(
        "{table}{MOST} functions are checked and added in {} us\n\
         a function's probe takes {:.1} bytes: {probe:.1} of the tables, {site:.1} for its site, {names:.1} for names beyond the usual\n\
         {hit}",
        us(sent),
        probe + site + names,
    ))
}

/// Measures a hit whose predicate is false, beside a breakpoint that nothing handles.
fn hit(rounds: u32, calls: u32) -> Result<String> {
    let consumer = DTRACE.open()?;
    let program = compiled("fbt::f00000:entry /arg0 == -1/ { }");
    let image = dof::program(&program, &Options::default())?;
    ensure!(DTRACE.enable_program(consumer, &image)? == 1, "there is no function");
    DTRACE.go(consumer)?;
    let (mut bare, mut traced) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        traps::with(traps::ignore, || bare.measure(subjects::BREAKPOINT, calls));
        let before = DTRACE.counters().hits;
        traps::with(breakpoint, || traced.measure(TRACED, calls));
        let hits = DTRACE.counters().hits - before;
        ensure!(hits == u64::from(calls), "{hits} hits of {calls}");
    }
    DTRACE.close(consumer)?;
    let [bare, traced] = [bare, traced].map(|samples| samples.spread());
    let (bare, traced) = (bare.context("no round")?.median, traced.context("no round")?.median);
    let ratio = traced / bare;
    Ok(format!(
        "entry of a function, trap mode: {traced:.0} ns; bare SIGTRAP: {bare:.0} ns; ratio {ratio:.3}\n"
    ))
}

fn timed<R, E>(work: impl FnOnce() -> Result<R, E>) -> Result<(R, Duration), E> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed()))
}

fn us(time: Duration) -> String {
    format!("{:.1}", time.as_nanos() as f64 / 1e3)
}
