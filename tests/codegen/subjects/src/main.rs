//! The same functions twice, without and with probes. The tests of `codegen` compile this program with various flags, and compare
//! `plain::x` with `probed::x`. They do not run it.

use std::arch::x86_64::{__m512d, _mm512_add_pd, _mm512_set1_pd};
use std::ffi::CStr;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use sdt_core::arg::{ArgType, Argument, Json, Shown, Value, json, show};
use sdt_core::sdt_provider;

/// An argument expression's side effect.
pub static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Four words, passed by value.
#[derive(Clone, Copy)]
pub struct Big {
    a: u64,
    b: u64,
    c: u64,
    d: u64,
}

impl Big {
    #[inline(never)]
    fn total(&self) -> u64 {
        black_box(self.a ^ self.b ^ self.c ^ self.d)
    }
}

/// Two words.
#[derive(Clone, Copy)]
pub struct Pair {
    left: u64,
    right: u64,
}

impl Pair {
    #[inline(never)]
    fn total(self) -> u64 {
        black_box(self.left ^ self.right)
    }
}

/// A value that is changed through a reference.
pub struct Counter {
    hits: u64,
    bytes: u64,
}

impl Counter {
    #[inline(never)]
    fn weight(&self) -> u64 {
        black_box(self.hits.wrapping_mul(self.bytes))
    }
}

/// Hides a value from the optimiser.
#[inline(never)]
fn opaque(x: u64) -> u64 {
    black_box(x) ^ 0x55
}

#[inline(never)]
fn hash(text: &str) -> u64 {
    black_box(text).bytes().fold(7, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte))
}

#[inline(never)]
fn total(value: &u64) -> u64 {
    *black_box(value)
}

#[inline(never)]
fn checksum(values: &[u64]) -> u64 {
    black_box(values).iter().fold(3, |sum, value| sum.wrapping_mul(33) ^ value)
}

#[inline(never)]
fn with_effect(x: u64) -> u64 {
    COUNTER.store(x, std::sync::atomic::Ordering::SeqCst);
    x
}

/// Arithmetic that differs for each `K`, so that the compiler merges no two functions, and the computations before and behind a
/// site share no subexpression or constant.
#[inline(always)]
fn mix<const K: u32>(x: u64, y: u64) -> u64 {
    let x = x.wrapping_mul(u64::from(0x5bd1_e995 + 2 * K)).rotate_left(1 + K % 31) ^ y;
    (x ^ (x >> (1 + K % 61))).wrapping_mul(u64::from(0x2545_f491 + 2 * K)).wrapping_add(y)
}

/// Returns a value that the optimiser does not know, without an instruction. So the optimiser does not transform loops that use
/// it.
#[inline(always)]
fn hide(mut x: u64) -> u64 {
    // SAFETY: does nothing.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags));
    }
    x
}

/// A value that has to be formatted.
#[derive(Clone, Copy)]
pub struct Failure {
    code: u64,
}

impl std::fmt::Display for Failure {
    #[inline(never)]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failure {}", self.code)
    }
}

/// A value that has to be serialised.
#[derive(Clone, Copy, serde::Serialize)]
pub struct Header {
    len: u64,
    kind: u32,
}

/// An argument that looks like a constructor, and computes its value when it is converted to words.
struct Lazily(u64);

impl Value for Lazily {
    type Words = [u64; 1];

    fn words(&self) -> [u64; 1] {
        [opaque(self.0)]
    }
}

impl Argument for Lazily {
    const TYPES: &'static [ArgType] = <u64 as Argument>::TYPES;
}

#[derive(Clone, Copy, Argument)]
struct Port(u16);

#[derive(Clone, Copy, Argument)]
#[repr(u8)]
enum Side {
    Left,
    Right = 7,
}

impl Side {
    fn of(x: u64) -> Self {
        if x.is_multiple_of(3) { Self::Left } else { Self::Right }
    }
}

sdt_provider!(open);

sdt_provider! {
    /// Typed probes.
    declared {
        /// No argument.
        fn nothing();
        /// Two plain arguments.
        fn two(value: u64, text: &CStr);
        /// One that will be costly.
        fn one(value: u64);
        /// Two words each.
        fn texts(path: &str, data: &[u8]);
        /// The greatest number of words.
        fn ten(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64, i: u64, j: u64);
        /// Numbers of all kinds.
        fn numbers(wide: u128, code: Option<i32>, letter: char, side: Side, port: Port);
        /// Texts of values.
        fn said(error: Shown<64>, header: Json<128>);
    }
}

#[allow(unused_variables, reason = "some are for the probes only")]
mod plain {
    use super::*;

    macro_rules! probe {
        ($($site:tt)*) => {};
    }
    macro_rules! when_enabled {
        ($provider:ident :: $probes:tt, $then:expr) => {};
    }

    include!("functions.rs");
}

mod probed {
    use super::*;

    macro_rules! probe {
        ($($site:tt)*) => { sdt_core::sdt_probe!($($site)*) };
    }
    macro_rules! when_enabled {
        ($provider:ident :: $probes:tt, $then:expr) => {
            if sdt_core::sdt_enabled!($provider::$probes) {
                $then;
            }
        };
    }

    include!("functions.rs");
}

fn main() {
    plain::keep();
    probed::keep();
}
