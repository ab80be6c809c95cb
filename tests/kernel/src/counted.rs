//! Functions that count their own calls: the host compares these counts with the records of the provider `fbt`.
//!
//! The functions have five shapes, whose entries and returns consist of different instructions: functions without a frame, with
//! locals on the stack, with two returns, with a jump to another function in place of a return, and functions that call
//! themselves. Each shape has several instances.

pub(crate) mod torture;

use alloc::format;
use alloc::string::String;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use sdt_protocol::{Called, CalledFunction};

use crate::smp;

/// The number of instances of each shape.
const INSTANCES: usize = 10;
/// The shapes, in the order of their instances.
const SHAPES: [&str; 5] = ["leaf", "locals", "branches", "tail", "recursive"];
/// The number of functions.
pub(crate) const FUNCTIONS: usize = SHAPES.len() * INSTANCES;
/// Words that `locals` keeps on the stack.
const LOCALS: usize = 24;
/// The maximum number of recursive calls of `recursive`. It is a mask: the low bits of the argument are the number of calls left.
const DEEPEST: u64 = 7;

static CALLS: [AtomicU64; FUNCTIONS] = [const { AtomicU64::new(0) }; FUNCTIONS];

#[inline(always)]
fn count(shape: usize, instance: usize) {
    CALLS[shape * INSTANCES + instance].fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn leaf<const N: usize>(word: u64) -> u64 {
    count(0, N);
    word.rotate_left(7) ^ N as u64
}

#[inline(never)]
fn locals<const N: usize>(word: u64) -> u64 {
    count(1, N);
    let mut words = black_box([word; LOCALS]);
    words[N] = words[N].wrapping_add(N as u64);
    black_box(&words).iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

#[inline(never)]
fn branches<const N: usize>(word: u64) -> u64 {
    // `black_box` stores the word on the stack, so that the function begins with the setup of a frame.
    let word = black_box(word);
    count(2, N);
    if word & 1 == 0 {
        return leaf::<N>(word).wrapping_add(leaf::<N>(!word));
    }
    word.wrapping_mul(5).wrapping_add(N as u64)
}

#[inline(never)]
fn tail<const N: usize>(word: u64) -> u64 {
    count(3, N);
    locals::<N>(word.wrapping_add(1))
}

#[inline(never)]
fn recursive<const N: usize>(word: u64) -> u64 {
    count(4, N);
    match word & DEEPEST {
        0 => word ^ N as u64,
        deep => black_box(recursive::<N>(word - 1)).wrapping_add(deep),
    }
}

/// The result of a function, computed without calling one.
fn expected(shape: usize, instance: u64, word: u64) -> u64 {
    let leaf = |word: u64| word.rotate_left(7) ^ instance;
    let locals = |word: u64| word.wrapping_mul(LOCALS as u64).wrapping_add(instance);
    match shape {
        0 => leaf(word),
        1 => locals(word),
        2 if word & 1 == 0 => leaf(word).wrapping_add(leaf(!word)),
        2 => word.wrapping_mul(5).wrapping_add(instance),
        3 => locals(word.wrapping_add(1)),
        _ => {
            let deep = word & DEEPEST;
            ((word - deep) ^ instance).wrapping_add(deep * (deep + 1) / 2)
        }
    }
}

type Function = fn(u64) -> u64;

macro_rules! instances {
    ($shape:ident: $($n:literal)*) => { [$($shape::<$n> as Function),*] };
}

/// All functions, by shape.
static ALL: [[Function; INSTANCES]; SHAPES.len()] = [
    instances!(leaf: 0 1 2 3 4 5 6 7 8 9),
    instances!(locals: 0 1 2 3 4 5 6 7 8 9),
    instances!(branches: 0 1 2 3 4 5 6 7 8 9),
    instances!(tail: 0 1 2 3 4 5 6 7 8 9),
    instances!(recursive: 0 1 2 3 4 5 6 7 8 9),
];

/// Calls one of the functions. Returns whether its result was right.
pub(crate) fn call(rng: &mut Rng) -> bool {
    let (shape, instance) = (rng.usize(0..SHAPES.len()), rng.usize(0..INSTANCES));
    let word = rng.u64(..);
    black_box(ALL[shape][instance])(word) == expected(shape, instance as u64, word)
}

/// Returns the name of a function, as consumers see it.
pub(crate) fn name(index: usize) -> String {
    let shape = SHAPES[index / INSTANCES];
    format!("stand_in_kernel::counted::{shape}::<{}>", index % INSTANCES)
}

/// Returns the number of calls of each function since boot.
pub(crate) fn calls() -> [u64; FUNCTIONS] {
    core::array::from_fn(|index| CALLS[index].load(Ordering::Relaxed))
}

/// Makes every CPU call `rounds` of the functions, chosen at random. Called by the first CPU, as a thread.
pub(crate) fn call_all(rounds: u32) -> Called {
    let wrong = AtomicU64::new(0);
    let work = |cpu: usize| {
        let mut rng = Rng::with_seed(cpu as u64);
        for _ in 0..rounds {
            if !call(&mut rng) {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let before = calls();
    smp::with_others(&work, || work(0));
    let functions = calls().into_iter().zip(before).enumerate();
    let functions = functions.map(|(index, (after, before))| CalledFunction {
        name: name(index),
        calls: after - before,
    });
    Called { functions: functions.collect(), wrong: wrong.load(Ordering::Relaxed) }
}
