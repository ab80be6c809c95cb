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
    sdt_probe!(proc::exec_success);
    sdt_probe!(proc::exit, 1);
    sdt_probe!(proc::exec_success, c"/bin/sh", 1);
}
