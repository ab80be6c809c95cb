use sdt_core::arg::{ArgType, Argument, CarriedBy, Value};

/// A number, which claims to be text.
struct Claim(u64);

impl Value for Claim {
    type Words = [u64; 1];

    fn words(&self) -> [u64; 1] {
        [self.0]
    }
}

impl Argument for Claim {
    const TYPES: &'static [ArgType] = <&core::ffi::CStr>::TYPES;

    const BORROW_OF_ARGUMENT: sdt_core::arg::Borrow<Self> = <&core::ffi::CStr>::BORROW_OF_ARGUMENT;

    fn carried(&self) -> CarriedBy<Self> {
        (&7_u64).carried()
    }
}

fn main() {}
