use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider!(profile);
sdt_provider!(syscall);
sdt_provider!(pid7);
sdt_provider! {
    declared {
        fn __proc_exec();
    }
}

fn main() {
    sdt_probe!(open::__io_start, 1);
}
