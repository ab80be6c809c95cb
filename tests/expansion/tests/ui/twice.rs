use sdt_core::sdt_provider;

sdt_provider! {
    disk {
        #[cfg(all())]
        fn one(bytes: u64);
        #[cfg(not(any()))]
        fn one(blocks: u32);
    }
}

fn main() {}
