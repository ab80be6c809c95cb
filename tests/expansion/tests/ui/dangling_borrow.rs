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
    // The name must live until the probe has fired, and does not.
    sdt_probe!(proc::exec_success, {
        let name = String::from("gone");
        let name = std::ffi::CString::new(name).unwrap();
        name.as_c_str()
    });
}
