use sdt_core::sdt_provider;

sdt_provider! {
    fs {
        fn write(path: &str, r#path: usize);
    }
}

fn main() {}
