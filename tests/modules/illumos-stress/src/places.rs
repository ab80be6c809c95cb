//! Sites at places where compilers change calls: tail positions, branches, loops, closures, inlined and generic functions.

use core::ffi::CStr;

use sdt_core::{sdt_enabled, sdt_probe};

use crate::{io, opaque, sdt_stress};

/// Fires the probes of all places. Returns the number of hits. Not inlined, because the recordings of illumos contain its name.
#[inline(never)]
pub(crate) fn fire(a: u64) -> u64 {
    tail(a);
    tail_of_six(a);
    before_tail_call(a);
    let mut hits = 3;
    hits += branches(a) + branches(a + 1);
    hits += chosen(a) + chosen(a + 1) + chosen(a + 2);
    hits += generic(a as u8) + generic(a as u16) + generic(a);
    hits += sized::<1>(a) + sized::<2>(a);
    hits += inlined(a) + inlined(a + 1);
    hits += closures(a);
    hits += looped(a);
    hits += dynamic(&Method(a)) + declared(a);
    hits += borrowed(a) + asked(a);
    hits + diverging(a)
}

/// A probe at the end of a function. A C compiler would replace its call by a jump.
#[inline(never)]
fn tail(a: u64) {
    sdt_probe!(sdt_stress::tail, a);
}

#[inline(never)]
fn tail_of_six(a: u64) {
    sdt_probe!(sdt_stress::tail_of_six, a, a + 1, a + 2, a + 3, a + 4, a + 5);
}

/// A probe before a tail call.
#[inline(never)]
fn before_tail_call(a: u64) {
    sdt_probe!(sdt_stress::before_tail_call, a);
    opaque(a);
}

/// The same probe in both branches: both are its sites. Returns the number of hits.
#[inline(never)]
fn branches(a: u64) -> u64 {
    if a & 1 == 0 {
        sdt_probe!(sdt_stress::branch, a);
    } else {
        sdt_probe!(sdt_stress::branch, a);
    }
    1
}

/// Other probes in other branches, at the end of each.
#[inline(never)]
fn chosen(a: u64) -> u64 {
    match a % 3 {
        0 => sdt_probe!(sdt_stress::chosen_0, a),
        1 => sdt_probe!(sdt_stress::chosen_1, a, a + 1),
        _ => sdt_probe!(sdt_stress::chosen_2, opaque(a), opaque(a) + 1),
    }
    1
}

#[inline(never)]
fn generic<T: Copy + Into<u64>>(a: T) -> u64 {
    sdt_probe!(sdt_stress::generic, a.into());
    1
}

fn sized<const N: usize>(a: u64) -> u64 {
    let room = [a; N];
    sdt_probe!(sdt_stress::sized, room[N - 1], room.len());
    1
}

#[inline(always)]
fn inlined(a: u64) -> u64 {
    sdt_probe!(sdt_stress::inlined, a);
    1
}

/// Called directly, and through a pointer.
fn closures(a: u64) -> u64 {
    let direct = |b| {
        sdt_probe!(sdt_stress::closure, b, a);
        1
    };
    let indirect: &dyn Fn(u64) -> u64 = core::hint::black_box(&direct);
    direct(a) + indirect(a)
}

/// A loop that the compiler may unroll.
#[inline(never)]
fn looped(a: u64) -> u64 {
    for i in 0..4 {
        sdt_probe!(sdt_stress::looped, a + i);
    }
    4
}

struct Method(u64);

trait Fires {
    fn fires(&self) -> u64;
}

impl Fires for Method {
    fn fires(&self) -> u64 {
        sdt_probe!(sdt_stress::method, self.0);
        1
    }
}

#[inline(never)]
fn dynamic(object: &dyn Fires) -> u64 {
    object.fires()
}

fn declared(a: u64) -> u64 {
    sdt_probe!(io::start, a, opaque(a) as u32 + 1);
    1
}

/// A probe's argument borrows from a temporary, which lives while the probe fires.
#[inline(never)]
fn borrowed(a: u64) -> u64 {
    sdt_probe!(
        sdt_stress::borrowed,
        CStr::from_bytes_until_nul(&text(a)).unwrap_or_default(),
        a + 1
    );
    1
}

/// Returns a C string that ends with a letter.
#[inline(never)]
fn text(a: u64) -> [u8; 9] {
    let mut text = *b"letter: \0";
    text[7] = b'a' + (a % 26) as u8;
    text
}

/// Fires if and only if `sdt_enabled!` has returned `true`. Returns the number of hits.
#[inline(never)]
fn asked(a: u64) -> u64 {
    if !sdt_enabled!(sdt_stress::asked) {
        return 0;
    }
    sdt_probe!(sdt_stress::asked, opaque(a));
    1
}

/// A site before code that does not return.
#[inline(never)]
fn diverging(a: u64) -> u64 {
    if opaque(a) == u64::MAX {
        sdt_probe!(sdt_stress::diverging, a);
        panic!("called with {a}");
    }
    0
}
