//! Other code cannot name the parts of a site.

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

fn same<T>(value: T) -> T {
    value
}

fn main() {
    let x = 1u64;
    sdt_probe!(open::frame, same(x + core::mem::size_of_val(&frame) as u64));
    sdt_probe!(open::capture, same(x + core::mem::size_of_val(&capture_0) as u64));
    sdt_probe!(open::local, same(x + __sdt_local_0));
    sdt_probe!(open::word, x, __sdt_word_0);
    sdt_probe!(open::arguments, x, same(arguments.0));
}
