//! Unsafe operations need `unsafe` in an argument, too: the macros do not enclose arguments in `unsafe` blocks.

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider! {
    declared {
        fn value(value: u64);
    }
}

#[allow(non_upper_case_globals)]
static mut changing: u64 = 1;

unsafe fn dangerous(value: u64) -> u64 {
    value
}

fn same(value: u64) -> u64 {
    value
}

fn dereferences(pointer: *const u64) {
    sdt_probe!(open::in_place, *pointer);
    sdt_probe!(open::apart, same(*pointer));
    sdt_probe!(declared::value, *pointer);
    sdt_probe!(declared::value, same(*pointer));
}

fn calls(value: u64) {
    sdt_probe!(open::call, dangerous(value));
    sdt_probe!(declared::value, dangerous(value));
}

fn statics() {
    sdt_probe!(open::in_place, changing);
    sdt_probe!(open::apart, same(changing));
    sdt_probe!(open::borrowed, core::ptr::from_ref(&changing));
    // Only one of the two uses is in an `unsafe` block.
    sdt_probe!(open::both, unsafe { dangerous(changing) } + same(changing));
}

fn main() {
    dereferences(&1);
    calls(1);
    statics();
}
