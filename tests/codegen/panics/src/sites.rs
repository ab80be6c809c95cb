//! Sites of every kind.

use core::ffi::CStr;
use core::fmt;
use core::num::NonZero;
use core::ptr::NonNull;

use sdt_core::arg::{Argument, CType, Json, Shown, json, show, show_debug};
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};
use serde::Serialize;

#[derive(Clone, Copy, Argument, Serialize)]
#[repr(u8)]
enum Side {
    Left,
    Right,
}

#[derive(Clone, Copy, Argument, Serialize)]
struct Port(u16);

/// Every kind of value that a kernel serialises.
#[derive(Serialize)]
struct Header<'a> {
    name: &'a str,
    side: Side,
    port: Port,
    ids: (i8, u64, i128),
    letter: char,
    flags: Option<bool>,
    bytes: &'a [u8],
    kind: Kind<'a>,
}

#[derive(Serialize)]
enum Kind<'a> {
    None,
    One(u32),
    Two(u8, &'a str),
    Named { len: usize, next: Option<&'a Kind<'a>> },
}

#[derive(CType)]
#[repr(C)]
struct Pair {
    left: u32,
    either: Either,
}

#[derive(Clone, Copy, CType)]
#[repr(C, u8)]
enum Either {
    Number(u64),
    Text { bytes: [u8; 4] },
}

#[derive(CType)]
#[repr(C)]
#[c_type(describe(2))]
struct Block<const MOST: usize> {
    words: [u16; MOST],
}

struct Failure<'a>(u32, &'a str);

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ignores the result, as code may do that does not check for room.
        let _ = f.write_str(self.1);
        f.write_str(self.1)
    }
}

sdt_provider!(open);
sdt_provider! {
    declared {
        fn none();
        fn words(path: &str, data: &[u8], wide: u128, code: Option<i32>, side: Side, port: Port);
        fn ten(a: u8, b: u16, c: u32, d: u64, e: i8, f: i16, g: i32, h: i64, i: bool, j: char);
        fn said(error: Shown<32>, header: Json<512>);
        fn text(text: &CStr, none: Option<&u32>);
        fn places(place: *const u64, at: NonNull<u8>, maybe: Option<NonNull<u8>>, array: &[u16; 4], words: &[u32]);
        fn numbers(a: NonZero<u32>, b: Option<NonZero<i8>>, c: Option<bool>, d: Option<&str>, e: usize);
        fn types(pair: &Pair, either: &Either, block: &Block<2>, other: *const Header<'_> as "struct header *");
    }
}

/// Hides a value from the optimiser.
#[inline(never)]
fn same<T>(value: T) -> T {
    core::hint::black_box(value)
}

fn header(n: u64) -> Header<'static> {
    let name = same("name");
    let kind = match n & 3 {
        0 => Kind::None,
        1 => Kind::One(n as u32),
        2 => Kind::Two(n as u8, name),
        _ => Kind::Named { len: n as usize, next: same(None) },
    };
    let side = if n & 4 == 0 { Side::Left } else { Side::Right };
    let (ids, letter) = ((n as i8, n, -i128::from(n)), same('x'));
    let (flags, bytes) = (same(Some(true)), name.as_bytes());
    Header { name, side, port: Port(n as u16), ids, letter, flags, bytes, kind }
}

fn fire(n: u64, header: &Header<'_>) {
    let (path, data) = (same("path"), same(&b"data"[..]));
    let failure = &Failure(n as u32, path);
    sdt_probe!(declared::none);
    sdt_probe!(declared::words, path, data, 5, same(Some(1)), header.side, header.port);
    sdt_probe!(declared::ten, 1, 2, 3, n, -1, -2, -3, -4, true, 'x');
    sdt_probe!(declared::said, Shown::new(failure), Json::new(header));
    sdt_probe!(declared::text, c"text", None);
    let (mut place, byte) = (n, same(7u8));
    sdt_probe!(
        declared::places,
        &raw const place,
        NonNull::from(&byte),
        None,
        &[1, 2, 3, 4],
        &[5, 6]
    );
    sdt_probe!(open::place, &mut place);
    let one = NonZero::<u32>::MIN;
    sdt_probe!(
        declared::numbers,
        one,
        NonZero::new(byte as i8),
        Some(n == 3),
        Some(path),
        n as usize
    );
    let either = if n == 3 { Either::Number(n) } else { Either::Text { bytes: same([1; 4]) } };
    let (pair, block) = (Pair { left: same(1), either }, Block { words: same([1, 2]) });
    sdt_probe!(declared::types, &pair, &either, &block, header);
    sdt_probe!(open::words, path, data, n, Some(n as u8));
    sdt_probe!(open::apart, same(path), same(data), failure.0);
    sdt_probe!(open::said, show(failure), show_debug(path.as_bytes()), json(header));
    if sdt_enabled!(declared::none) {
        sdt_probe!(open::asked, n);
    }
    #[cfg(with_a_panic)]
    sdt_probe!(open::panics, data[n as usize]);
}

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    let n = same(3);
    fire(n, &header(n));
    0
}
