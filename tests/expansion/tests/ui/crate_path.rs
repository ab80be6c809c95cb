use sdt_core::arg::CType;
use sdt_core::sdt_provider;

sdt_provider! { crate = missing::sdt; open }
sdt_provider! { crate = "sdt_core"; text }
sdt_provider! { crate = sdt_core no_semicolon }

#[derive(CType)]
#[repr(C)]
#[c_type(crate = sdt_core)]
#[c_type(crate = sdt_core)]
struct Twice {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
#[c_type(name = "a")]
struct Other {
    a: u32,
}

fn main() {}
