use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    proc {
        fn exec_success(status: i32);
        fn fork();
    }
}

fn main() {
    sdt_probe!(proc::exec-success, 0);
    if sdt_enabled!(proc::exec-success) {}
    sdt_probe!(proc::fork-);
}
