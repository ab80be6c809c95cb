use sdt_core::sdt_provider;

sdt_provider! {
    one {
        fn returns() -> u8;
    }
}
sdt_provider! {
    two {
        fn method(&self);
    }
}
sdt_provider! {
    three {
        fn pattern((a, b): (u8, u8));
    }
}
sdt_provider! {
    four {
        const X: u8 = 1;
    }
}
sdt_provider!(five six);

fn main() {}
