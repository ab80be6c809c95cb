//! Only `sdt_provider!` may use this derive macro.

#[derive(sdt_core::__private::__SdtProvider)]
struct NoProvider {
    probe: u8,
}

fn main() {}
