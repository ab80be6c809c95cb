use core::ffi::CStr;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    proc {
        fn exec_success(path: &CStr);
        fn exit(reason: i32, status: i32);
    }
}
sdt_provider!(open);

sdt_provider! {
    wide {
        fn seven(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8);
    }
}

fn main() {
    sdt_probe!(open::seven, 1, 2, 3, 4, 5, 6, 7);
}
