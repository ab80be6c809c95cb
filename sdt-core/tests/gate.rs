//! Gate mode: sites that test a flag. Built with `SDT_PATCH=gate`.
#![cfg(sdt_patch = "gate")]

use std::ffi::CStr;

use sdt_core::patch::Mode;
use sdt_core::site;
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider! {
    declared {
        fn six(a: u8, b: i64, c: bool, d: u64, e: &CStr, f: u16);
    }
}

#[inline(never)]
fn fire(n: u64, text: &CStr) -> bool {
    let costly = |n: u64| std::hint::black_box(n) * 3;
    sdt_probe!(declared::six, n as u8, -(n as i64), n % 2 == 1, n * 3, text, 6);
    sdt_probe!(open::costly, costly(n), text.count_bytes());
    sdt_probe!(open::twice, n);
    sdt_enabled!(open::twice)
}

fn fire_elsewhere(n: u64) {
    sdt_probe!(open::twice, n);
}

#[test]
fn probes_fire_through_their_gates() {
    let recorder = recording_host::attach(Mode::Trap);
    assert!(site::all().is_empty(), "nothing is patched");
    let [six, costly, twice] = [("declared", "six"), ("open", "costly"), ("open", "twice")]
        .map(|(p, n)| recorder.find(p, n).unwrap());
    let all = [six, costly, twice];

    assert!(!fire(5, c"text"));
    assert_eq!(all.map(|id| recorder.hits(id)), [0; 3]);

    all.iter().for_each(|&id| recorder.enable(id));
    assert!(fire(5, c"text"));
    fire_elsewhere(7);
    assert_eq!(all.map(|id| recorder.hits(id)), [1, 1, 2]);
    let args = recorder.args(six);
    assert_eq!([args[0], args[1], args[2], args[3], args[5]], [5, -5i64 as u64, 1, 15, 6]);
    // SAFETY: the address of the literal.
    assert_eq!(unsafe { CStr::from_ptr(args[4] as *const _) }, c"text");
    assert_eq!(recorder.args(costly)[..2], [15, 4]);
    assert_eq!(recorder.args(twice)[0], 7);
    assert_eq!(recorder.types(costly), ["uint64_t", "size_t"]);

    recorder.enable(twice);
    recorder.disable(twice);
    assert!(fire(1, c""), "one enabling is left");
    all.iter().for_each(|&id| recorder.disable(id));
    assert!(!fire(1, c""));
    assert_eq!(all.map(|id| recorder.hits(id)), [2, 2, 3]);
    assert_eq!(recording_host::breakpoints(), 0);
}
