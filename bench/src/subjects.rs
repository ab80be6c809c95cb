//! The functions that are measured: one leaf function, instrumented in different ways.
//!
//! Each has two variants. In the *cheap* one, the two arguments of the instrumentation are values that the
//! function has at hand; in the *costly* one, one of them is the result of a call.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use sdt_core::{sdt_probe, sdt_provider};
use static_keys::{define_static_key_false, static_branch_unlikely};

/// A function that is measured.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its name in this module.
    pub name: &'static str,
    /// The function.
    pub call: fn(u64, u64) -> u64,
    /// Calls it this number of times. No call needs the result of another, so that the cost of a call cannot hide in
    /// their latency.
    pub repeat: fn(u64) -> u64,
}

impl Subject {
    /// Its address.
    pub fn entry(&self) -> u64 {
        self.call as *const () as u64
    }
}

/// The subject of this name.
macro_rules! the {
    ($name:ident) => {
        Subject {
            name: stringify!($name),
            call: $name,
            // A separate loop with a direct call: a shared loop would measure the branch prediction of the CPU.
            repeat: |calls| (0..calls).fold(0, |sum, x| sum ^ $name(black_box(x), x + 1)),
        }
    };
}

/// The number of calls of the consumer's stand-in.
pub static CALLS: AtomicU64 = AtomicU64::new(0);

/// The stand-in for a consumer: the target of the enabled indirect call, static key and flag.
#[cold]
#[inline(never)]
fn consume(a: u64, b: u64) {
    black_box((a, b));
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// An argument with a call, which takes some time.
#[inline(never)]
fn costly(x: u64) -> u64 {
    (0..32).fold(x, |x, i| black_box(x).rotate_left(7) ^ i)
}

/// Some arithmetic, different for each `K`, so that no two functions are merged.
#[inline(always)]
fn mix<const K: u32>(x: u64, y: u64) -> u64 {
    let x = x.wrapping_mul(u64::from(0x5bd1_e995 + 2 * K)).rotate_left(13) ^ y;
    (x ^ (x >> 29)).wrapping_mul(u64::from(0x2545_f491 + 2 * K)).wrapping_add(y)
}

/// Defines the function, with instrumentation in the middle.
macro_rules! subject {
    ($name:ident, $k:literal, |$x:ident, $y:ident| $($site:expr)?) => {
        #[inline(never)]
        pub fn $name($x: u64, y: u64) -> u64 {
            let $y = mix::<$k>($x, y);
            $($site;)?
            $y ^ mix::<{ $k + 1 }>($y, $x)
        }
    };
}

sdt_provider!(bench);

#[usdt::provider]
mod usdt_bench {
    fn cheap(_: u64, _: u64) {}
    fn costly(_: u64, _: u64) {}
}

define_static_key_false!(KEY);
static FLAG: AtomicBool = AtomicBool::new(false);
static POINTER: AtomicPtr<()> = AtomicPtr::new(ignore as *mut ());

/// The target of the indirect call.
#[inline(never)]
fn ignore(a: u64, b: u64) {
    black_box((a, b));
}

#[inline(always)]
fn indirect(a: u64, b: u64) {
    let pointer = POINTER.load(Ordering::Relaxed);
    // SAFETY: `POINTER` only ever holds functions of this type.
    let function: fn(u64, u64) = unsafe { std::mem::transmute(pointer) };
    function(a, b);
}

macro_rules! flagged {
    ($a:expr, $b:expr) => {
        if FLAG.load(Ordering::Relaxed) {
            consume($a, $b);
        }
    };
}

macro_rules! keyed {
    ($a:expr, $b:expr) => {
        if static_branch_unlikely!(KEY) {
            consume($a, $b);
        }
    };
}

/// A breakpoint.
#[inline(always)]
fn trap() {
    // SAFETY: the handler that is installed during this call resumes after the breakpoint.
    unsafe { std::arch::asm!("int3", options(nomem, nostack)) };
}

subject!(nothing, 1, |x, z|);
subject!(nothing_again, 3, |x, z|);
subject!(sdt_cheap, 5, |x, z| sdt_probe!(bench::cheap, x, z));
subject!(sdt_costly, 7, |x, z| sdt_probe!(bench::costly, costly(x), z));
subject!(usdt_cheap, 9, |x, z| usdt_bench::cheap!(|| (x, z)));
subject!(usdt_costly, 11, |x, z| usdt_bench::costly!(|| (costly(x), z)));
subject!(probe_cheap, 13, |x, z| probe::probe!(bench, cheap, x, z));
subject!(probe_costly, 15, |x, z| probe::probe!(bench, costly, costly(x), z));
subject!(lazy_cheap, 17, |x, z| probe::probe_lazy!(bench, lazy_cheap, x, z));
subject!(lazy_costly, 19, |x, z| probe::probe_lazy!(bench, lazy_costly, costly(x), z));
subject!(key_cheap, 21, |x, z| keyed!(x, z));
subject!(key_costly, 23, |x, z| keyed!(costly(x), z));
subject!(tracing_cheap, 25, |x, z| tracing::event!(tracing::Level::INFO, x, z));
subject!(tracing_costly, 27, |x, z| tracing::event!(tracing::Level::INFO, x = costly(x), z));
subject!(flag_cheap, 29, |x, z| flagged!(x, z));
subject!(flag_costly, 31, |x, z| flagged!(costly(x), z));
subject!(indirect_cheap, 33, |x, z| indirect(x, z));
subject!(indirect_costly, 35, |x, z| indirect(costly(x), z));
subject!(breakpoint, 37, |x, z| trap());

/// A row of the table of disabled instrumentation.
pub struct Disabled {
    /// Its description.
    pub name: &'static str,
    /// The variant with cheap arguments.
    pub cheap: Subject,
    /// The variant with a costly argument, if there are arguments.
    pub costly: Option<Subject>,
}

macro_rules! rows {
    ($($name:literal: $cheap:ident $(, $costly:ident)?;)*) => {
        [$(Disabled {
            name: $name,
            cheap: the!($cheap),
            costly: rows!(@ $($costly)?),
        }),*]
    };
    (@) => { None };
    (@ $costly:ident) => { Some(the!($costly)) };
}

/// The rows that are measured while nothing is enabled; the others are compared with the first one.
pub const DISABLED: [Disabled; 10] = rows! {
    "nothing": nothing;
    "nothing, once more": nothing_again;
    "this project": sdt_cheap, sdt_costly;
    "usdt (Linux: stapsdt)": usdt_cheap, usdt_costly;
    "probe, probe!": probe_cheap, probe_costly;
    "probe, probe_lazy!": lazy_cheap, lazy_costly;
    "static-keys": key_cheap, key_costly;
    "tracing, no subscriber": tracing_cheap, tracing_costly;
    "relaxed AtomicBool": flag_cheap, flag_costly;
    "indirect call": indirect_cheap, indirect_costly;
};

/// A subscriber to everything that counts events.
struct Subscriber;

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        black_box(event);
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Subscribes to tracing's events until the program ends.
///
/// # Errors
/// If a subscriber exists already.
pub fn subscribe() -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
    tracing::subscriber::set_global_default(Subscriber)
}

/// The rows that are measured while enabled.
pub const INDIRECT: Subject = the!(indirect_cheap);
/// See [`INDIRECT`].
pub const FLAG_SET: Subject = the!(flag_cheap);
/// See [`INDIRECT`].
pub const KEY_SET: Subject = the!(key_cheap);
/// See [`INDIRECT`].
pub const SUBSCRIBED: Subject = the!(tracing_cheap);
/// See [`INDIRECT`].
pub const BREAKPOINT: Subject = the!(breakpoint);
/// See [`INDIRECT`].
pub const SDT: Subject = the!(sdt_cheap);
/// See [`INDIRECT`].
pub const SDT_COSTLY: Subject = the!(sdt_costly);

/// Enables or disables the static key and the flag, and sets the target of the indirect call.
pub fn enable_peers(enabled: bool) {
    FLAG.store(enabled, Ordering::Relaxed);
    let function = if enabled { consume } else { ignore };
    POINTER.store(function as *mut (), Ordering::Relaxed);
    // SAFETY: this program has one thread, and `global_init` was called.
    unsafe {
        if enabled {
            KEY.enable();
        } else {
            KEY.disable();
        }
    }
}
