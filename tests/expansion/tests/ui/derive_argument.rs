use sdt_core::arg::{Argument, CType};

#[derive(Argument)]
struct Two(u8, u8);

#[derive(Argument)]
struct Nothing;

#[derive(Argument)]
struct Holds(Opaque);

struct Opaque;

#[derive(Argument)]
union Bits {
    a: u32,
    b: f32,
}

#[derive(Argument)]
enum Data {
    None,
    Some(u8),
}

#[derive(Argument)]
enum Never {}

#[derive(Argument)]
enum Large {
    Value = 0x8000_0000,
}

#[derive(Argument)]
#[c_name = "a b c!"]
struct Odd(u8);

#[derive(Argument)]
#[c_name = "extent_t"]
struct Wide(u128);

#[derive(Argument)]
enum State {
    #[c_name = "int"]
    Keyword,
}

#[derive(CType)]
enum Size {
    Unknown,
}

#[derive(CType)]
enum WithData {
    A(u8),
}

#[derive(CType)]
#[repr(u8)]
enum Tagged {
    A { tag: u8 },
    String(u8),
}

#[derive(CType)]
#[repr(u8)]
enum Keyword {
    String(u8),
}

#[derive(CType)]
#[repr(C)]
enum Undescribable {
    A(Opaque),
}

#[derive(CType)]
#[repr(C)]
#[c_type(describe(1, (2, 3)))]
struct Block<const N: usize> {
    bytes: [u8; N],
}

#[derive(CType)]
#[repr(C)]
#[c_type(transparent)]
struct Word {
    word: u8,
}

fn main() {}
