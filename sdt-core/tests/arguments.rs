//! The values of arguments of every kind at a hit: of declared probes and open ones, evaluated in place and in a
//! separate function.

use std::ffi::{CStr, c_char};
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};

use recording_host::{Hook, Recorder};
use sdt_core::arg::{Argument, CType, Json, Shown, json, show, show_debug};
use sdt_core::ops::{ARGS, ProbeId};
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

#[derive(Clone, Copy, Argument)]
struct Port(u16);

/// A struct with a reference and a type parameter.
#[derive(Argument)]
struct Name<'a, T: ?Sized> {
    text: &'a T,
}

#[derive(Clone, Copy, Argument)]
#[c_name = "pid_t"]
struct Pid(i32);

#[derive(Clone, Copy, Argument, CType)]
#[repr(u8)]
enum LinkState {
    Down,
    Up = 7,
    #[c_name = "LINK_LOST"]
    Lost = 200,
}

#[derive(Clone, Copy, Argument)]
#[c_name = "enum sign"]
enum Signed {
    Below = -2,
}

/// A type of another crate, which has no C name.
struct Foreign(#[allow(dead_code)] u64);

/// A type that D programs cannot look into; D has only its size.
#[derive(CType)]
#[c_type(opaque)]
#[allow(dead_code)]
enum Address {
    V4([u8; 4]),
    V6([u8; 16]),
}

#[derive(CType)]
#[repr(C)]
#[c_type(describe(2, 8))]
struct Block<const LENGTH: usize> {
    len: usize,
    state: LinkState,
    entries: [*const c_char; LENGTH],
}

#[derive(serde::Serialize)]
struct Header {
    len: u32,
}

sdt_provider!(open);
sdt_provider! {
    fs {
        fn write(path: &str, data: &[u8]);
        fn mixed(before: u8, path: &str, wide: i128, code: Option<i32>, behind: char);
        fn ten(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8);
        fn five_texts(a: &str, b: &str, c: &str, d: &str, e: &str);
        fn numbers(a: NonZero<u32>, b: Option<NonZero<i8>>, c: Option<bool>, d: u128);
        fn pointers(a: &mut u32, b: NonNull<u8>, c: Option<NonNull<u8>>, d: &[u16; 3], e: Option<&[u16]>);
        fn types(port: Port, name: Name<'_, str>, pid: Pid, state: LinkState, signed: Signed);
        fn said(err: Shown<64>, header: Json<64>);
        fn explicit(a: *const Foreign as "struct foreign *", b: &Foreign as "struct foreign *" => "foreign_t *", c: &CStr => "string");
        fn structs(address: &Address, block: &Block<2>, other: *const Block<3>);
        fn optional(text: Option<&str>, r#type: Option<&CStr>, structs: Option<&Block<8>>);
    }
}

/// Runs `f` while a probe is enabled. Returns the arguments of its hit, and their types. The image is attached once, and one
/// thread at a time runs sites.
fn traced(provider: &str, name: &str, f: impl FnOnce()) -> ([u64; ARGS], Vec<String>) {
    traced_by(None, provider, name, f)
}

/// Traces as `traced` does, and passes each hit to `hook`.
fn traced_by(
    hook: Option<Hook>,
    provider: &str,
    name: &str,
    f: impl FnOnce(),
) -> ([u64; ARGS], Vec<String>) {
    static RECORDER: OnceLock<&Recorder> = OnceLock::new();
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let recorder = RECORDER.get_or_init(|| recording_host::attach(Mode::Trap));
    let id: ProbeId = recorder.find(provider, name).expect("the probe is known");
    let before = recorder.hits(id);
    *recorder.hook.write().unwrap() = hook;
    recorder.enable(id);
    f();
    recorder.disable(id);
    *recorder.hook.write().unwrap() = None;
    assert_eq!(recorder.hits(id) - before, 1);
    (recorder.all_args(id), recorder.types(id))
}

fn and_zeros<const COUNT: usize>(words: [u64; COUNT]) -> [u64; ARGS] {
    std::array::from_fn(|i| words.get(i).copied().unwrap_or(0))
}

fn place<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<()>() as u64
}

/// Not inlined: an argument that calls it is evaluated in a separate function.
#[inline(never)]
fn same<T>(value: T) -> T {
    std::hint::black_box(value)
}

#[test]
fn text_and_bytes_are_two_words_of_one_argument() {
    let (path, data) = ("/a\0b", &[1u8, 2, 3][..]);
    let expected = and_zeros([place(path), 4, place(data), 3]);
    let types = ["char * > string", "size_t > size_t", "uint8_t * > string", "size_t > size_t"];
    for (words, listed) in [
        traced("fs", "write", || sdt_probe!(fs::write, path, data)),
        traced("fs", "write", || sdt_probe!(fs::write, same(path), data)),
    ] {
        assert_eq!((words, &listed[..]), (expected, &types.map(str::to_owned)[..]));
    }
    #[inline(never)]
    fn fire(path: &str, data: &[u8]) {
        sdt_probe!(open::write, path, data);
    }
    assert_eq!(traced("open", "write", || fire(path, data)).0, expected);
    let (words, listed) =
        traced("open", "write-apart", || sdt_probe!(open::write_apart, same(path), data));
    assert_eq!((words, &listed[..]), (expected, &types.map(str::to_owned)[..]));
}

#[test]
fn words_stand_behind_those_of_other_arguments() {
    let path = "path";
    let expected = and_zeros([1, place(path), 4, u64::MAX - 1, u64::MAX, 5, 1, 'x' as u64]);
    let types = [
        "uint8_t",
        "char * > string",
        "size_t > size_t",
        "uint64_t",
        "int64_t",
        "int",
        "_Bool",
        "uint32_t",
    ];
    let (words, listed) =
        traced("fs", "mixed", || sdt_probe!(fs::mixed, 1, path, -2, Some(5), 'x'));
    assert_eq!((words, listed), (expected, types.map(str::to_owned).to_vec()));
    let (words, _) =
        traced("fs", "mixed", || sdt_probe!(fs::mixed, same(1), path, same(-2), Some(5), 'x'));
    assert_eq!(words, expected);
    let (words, listed) =
        traced("open", "mixed", || sdt_probe!(open::mixed, 1u8, path, -2i128, Some(5i32), 'x'));
    assert_eq!((words, listed), (expected, types.map(str::to_owned).to_vec()));
    let none = traced("fs", "mixed", || sdt_probe!(fs::mixed, 1, "", 0, None, '\0'));
    assert_eq!(none.0[2..], [0; 8]);
}

#[test]
fn there_can_be_ten() {
    let ten = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let (words, listed) =
        traced("fs", "ten", || sdt_probe!(fs::ten, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    assert_eq!((words, listed.len()), (ten, 10));
    let n = same(1u8);
    let (words, _) = traced("fs", "ten", || {
        sdt_probe!(fs::ten, n, n + 1, same(3), 4, 5, 6, 7, same(n) * 8, 9, 10)
    });
    assert_eq!(words, ten);
    let (words, listed) = traced("open", "ten", || {
        sdt_probe!(open::ten, 1u8, 2u8, 3u8, 4u8, 5u8, 6u8, 7u8, 8u8, 9u8, 10u8)
    });
    assert_eq!((words, listed.len()), (ten, 10));
    let texts = ["", "a", "bb", "ccc", "dddd"];
    let [a, b, c, d, e] = texts;
    let (words, listed) = traced("fs", "five-texts", || sdt_probe!(fs::five_texts, a, b, c, d, e));
    let expected: Vec<u64> = texts.iter().flat_map(|t| [place(*t), t.len() as u64]).collect();
    assert_eq!((&words[..], listed.len()), (&expected[..], 10));
}

#[test]
fn numbers_and_pointers() {
    let (three, minus) = (NonZero::new(3u32).unwrap(), NonZero::new(-1i8));
    let (words, _) =
        traced("fs", "numbers", || sdt_probe!(fs::numbers, three, minus, Some(true), 1 << 64 | 9));
    assert_eq!(words, and_zeros([3, u64::MAX, 1, 1, 9, 1]));
    let (mut value, byte, array) = (7u32, 8u8, [1u16, 2, 3]);
    let at = place(&value);
    let (words, listed) = traced("fs", "pointers", || {
        sdt_probe!(fs::pointers, &mut value, NonNull::from(&byte), None, &array, Some(&array[1..]))
    });
    assert_eq!(words, and_zeros([at, place(&byte), 0, place(&array), place(&array[1]), 2]));
    assert_eq!(listed[3..], ["uint16_t *", "uint16_t *", "size_t"]);
}

#[test]
fn derived_types_are_what_they_hold() {
    let name = "eth0";
    let (words, listed) = traced("fs", "types", || {
        sdt_probe!(
            fs::types,
            Port(443),
            Name { text: name },
            Pid(-5),
            LinkState::Lost,
            Signed::Below
        )
    });
    let expected = [443, place(name), 4, (-5i64) as u64, 200, (-2i64) as u64];
    assert_eq!(words, and_zeros(expected));
    let types =
        ["uint16_t", "char * > string", "size_t > size_t", "pid_t", "enum link_state", "enum sign"];
    assert_eq!(listed, types);
    for (state, number) in [(LinkState::Down, 0), (LinkState::Up, 7)] {
        let (words, _) = traced("open", "state", || sdt_probe!(open::state, state));
        assert_eq!(words[0], number);
    }
}

#[test]
fn what_is_said_is_a_string_while_it_is_recorded() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    /// Reads strings during the hit, as a consumer does.
    fn read(_: u32, args: &[u64; ARGS]) {
        for arg in &args[..2] {
            // SAFETY: the arguments are addresses of C strings, which exist until the hit is recorded.
            let text = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(*arg as usize)) };
            SEEN.lock().unwrap().push(text.to_str().unwrap().to_owned());
        }
    }
    let err = "x".parse::<u8>().unwrap_err();
    let (header, long) = (Header { len: 20 }, "y".repeat(100));
    let (_, listed) = traced_by(Some(read), "fs", "said", || {
        sdt_probe!(fs::said, Shown::new(&err), Json::new(&header));
    });
    assert_eq!(listed, ["char * > string", "char * > string"]);
    traced_by(Some(read), "open", "said", || {
        sdt_probe!(open::said, show(&err), json(&header));
    });
    traced_by(Some(read), "open", "debugged", || {
        sdt_probe!(open::debugged, show_debug(&err), Json::<48>::new(&long));
    });
    let (said, header) = ("invalid digit found in string", r#"{"ok":{"len":20}}"#);
    let expected = [
        said,
        header,
        said,
        header,
        "ParseIntError { kind: InvalidDigit }",
        r#"{"ok":"yyyyyyyyyyyyyyyyyyyyy","truncated":true}"#,
    ];
    assert_eq!(*SEEN.lock().unwrap(), expected);
}

#[test]
fn types_can_be_said() {
    let foreign = Foreign(1);
    let (words, listed) =
        traced("fs", "explicit", || sdt_probe!(fs::explicit, &raw const foreign, &foreign, c"x"));
    assert_eq!(words, and_zeros([place(&foreign), place(&foreign), place(c"x")]));
    assert_eq!(listed, ["struct foreign *", "struct foreign * > foreign_t *", "char * > string"]);
}

#[test]
fn structs_with_numbers_and_opaque_ones_have_names() {
    let address = Address::V4([127, 0, 0, 1]);
    let block = Block::<2> { len: 0, state: LinkState::Up, entries: [std::ptr::null(); 2] };
    let (_, listed) =
        traced("fs", "structs", || sdt_probe!(fs::structs, &address, &block, std::ptr::null()));
    assert_eq!(listed, ["struct address *", "struct block_2 *", "struct block_3 *"]);
    let (words, _) = traced("fs", "optional", || sdt_probe!(fs::optional, None, None, None));
    assert_eq!(words, [0; ARGS]);
    assert_eq!(<LinkState as CType>::VALUE.as_str(), "uint8_t");
}

mod texts {
    sdt_core::sdt_provider! { pub texts { fn both(text: &str); } }
}
mod numbers {
    sdt_core::sdt_provider! { pub numbers { fn both(address: u64, length: u64); } }
}

/// A module that reexports items of two providers.
mod mixed_up {
    pub use super::numbers::numbers::*;
    #[allow(unused_imports)]
    pub use super::texts::texts::both;
}

/// A site takes the record, the types and the words from the same provider: otherwise a number would pass as text.
#[test]
fn providers_with_the_same_probe_are_not_mixed() {
    let (words, _) = traced("numbers", "both", || sdt_probe!(mixed_up::both, same(1), same(2)));
    assert_eq!(words, and_zeros([1, 2]));
}
