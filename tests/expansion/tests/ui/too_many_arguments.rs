use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

sdt_provider! {
    wide {
        fn ten(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8);
        fn six(a: &str, b: &str, c: &str, d: &str, e: &str, f: &str);
    }
}

sdt_provider! {
    wider {
        fn eleven(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8);
    }
}

fn main() {
    sdt_probe!(open::eleven, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    sdt_probe!(open::ten, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}
