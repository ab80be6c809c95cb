use core::ffi::CStr;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    proc {
        fn exec_success(path: &CStr);
        fn exit(reason: i32, status: i32);
    }
}
sdt_provider!(open);

fn main() {
    sdt_probe!(proc::exec_success, "/bin/sh");
    sdt_probe!(proc::exit, 1u64, 2);
    sdt_probe!(open::start, 1.5);
}
