//! The same functions twice, without and with probes. `codegen`'s tests compile this program with the
//! flags they are about and compare `plain::x` with `probed::x`. Running it does nothing of interest.

use std::arch::x86_64::{__m512d, _mm512_add_pd, _mm512_set1_pd};
use std::ffi::CStr;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use sdt_core::sdt_provider;

/// An argument expression's side effect.
pub static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Four words, handed around by value.
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

/// Something that is changed through a reference.
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

/// Not to be seen through.
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

/// Some arithmetic, another one for each `K`: no two functions are merged, and what is computed before a
/// site has no subexpression or constant in common with what is computed behind it.
#[inline(always)]
fn mix<const K: u32>(x: u64, y: u64) -> u64 {
    let x = x.wrapping_mul(u64::from(0x5bd1_e995 + 2 * K)).rotate_left(1 + K % 31) ^ y;
    (x ^ (x >> (1 + K % 61))).wrapping_mul(u64::from(0x2545_f491 + 2 * K)).wrapping_add(y)
}

/// No instruction, but the optimiser knows nothing of the result: loops over it are left as they are.
#[inline(always)]
fn hide(mut x: u64) -> u64 {
    // SAFETY: does nothing.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags));
    }
    x
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
