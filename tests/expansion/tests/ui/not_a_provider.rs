//! Derived by `sdt_provider!` alone.

#[derive(sdt_core::__private::__SdtProvider)]
struct NoProvider {
    probe: u8,
}

fn main() {}
