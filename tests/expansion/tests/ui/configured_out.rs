use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    disk {
        fn always();
        #[cfg(any())]
        fn absent();
        #[cfg(all())]
        fn there(bytes: u64);
    }
}

fn main() {
    sdt_probe!(disk::always);
    sdt_probe!(disk::absent);
    sdt_enabled!(disk::absent);
    sdt_probe!(disk::there);
}
