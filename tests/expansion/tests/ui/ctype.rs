use sdt_core::arg::CType;

#[derive(CType)]
struct NoRepr {
    a: u32,
}

#[derive(CType)]
#[repr(C, packed(2))]
struct Packed {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
struct Parameters<T> {
    a: *const T,
}

#[derive(CType)]
#[repr(C)]
struct NoNames(u32);

#[derive(CType)]
#[repr(C)]
struct Nothing;

#[derive(CType)]
#[repr(u32)]
enum Kind {
    One,
}

#[derive(CType)]
#[repr(C)]
struct Provider {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
struct Keyword {
    string: u32,
}

#[derive(CType)]
#[repr(C)]
#[c_name = "struct a-b"]
struct NoName {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
#[c_name("no_value")]
struct NoValue {
    a: u32,
}

fn main() {}
