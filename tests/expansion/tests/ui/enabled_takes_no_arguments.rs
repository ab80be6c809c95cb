use sdt_core::{sdt_enabled, sdt_provider};

sdt_provider! {
    proc {
        fn exit();
    }
}

fn main() {
    let _ = sdt_enabled!(proc::exit, 1);
    let _ = sdt_enabled!(proc::nosuch);
}
