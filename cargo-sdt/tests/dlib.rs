//! Compiles the D library of this test program as C, and compares the layout of the structs below with their layout in Rust.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::mem::{align_of, offset_of, size_of};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU64};
use std::process::Command;

use sdt_core::arg::{Argument, CType};
use sdt_core::name::TypeName;
use sdt_core::sdt_provider;

sdt_provider! {
    net {
        fn sent(packet: &Packet<'_>, direction: Direction, block: &Block<2>);
    }
}

#[derive(CType)]
#[repr(C)]
struct Header {
    kind: u8,
    sequence: u64,
    flags: u16,
}

#[derive(CType)]
#[repr(C, align(64))]
#[c_name = "line_t"]
struct CacheLine {
    hits: AtomicU64,
    busy: AtomicBool,
}

/// In D, this is its integer type in C.
#[derive(CType)]
#[repr(u32)]
#[expect(dead_code, reason = "described, not used")]
enum Protocol {
    Tcp = 6,
    Udp = 17,
}

#[derive(Argument)]
enum Direction {
    In = -1,
    OutOf = 3,
}

/// An opaque type: D knows only its size.
#[derive(CType)]
#[c_type(opaque)]
#[expect(dead_code, reason = "described, not used")]
enum Addresses {
    V4([u8; 4]),
    V6([u16; 8]),
}

#[derive(CType)]
#[repr(C)]
#[c_type(describe(2, 5))]
struct Block<const LENGTH: usize> {
    of: Addresses,
    entries: [*const c_char; LENGTH],
}

/// A lock of the kernel, which has its own name in C.
#[repr(C, align(16))]
struct Lock([u8; 48]);

impl CType for Lock {
    const NAME: TypeName = TypeName::new("struct mtx");
}

#[derive(CType)]
#[repr(C)]
struct Packet<'a> {
    up: bool,
    headers: [[Header; 2]; 3],
    interface: [c_char; 15],
    r#type: Protocol,
    address: [u8; 6],
    owner: *mut c_void,
    next: Option<&'a Packet<'a>>,
    first: NonNull<Header>,
    length: UnsafeCell<usize>,
    #[c_name = "signed_"]
    signed: [i8; 3],
    port: AtomicU16,
    lines: [CacheLine; 2],
    lock: Lock,
    list: AtomicPtr<u32>,
    #[c_name = "last_probe"]
    probe: isize,
    nothing: [u64; 0],
    end: i32,
}

/// Returns C assertions of the size and alignment of a struct, and of the offset and size of each field.
macro_rules! layout {
    ($c:literal, $rust:ty: $($c_field:literal $field:ident),*) => {{
        let mut text = format!(
            "_Static_assert(sizeof({c}) == {}, \"size\");\n_Static_assert({} % _Alignof({c}) == 0, \"align\");\n",
            size_of::<$rust>(), align_of::<$rust>(), c = $c
        );
        $(
            text.push_str(&format!(
                "_Static_assert(offsetof({c}, {f}) == {}, \"{f}\");\n\
                 _Static_assert(sizeof((({c} *)0)->{f}) == {}, \"{f}\");\n",
                offset_of!($rust, $field), size_of_field(|of: &$rust| &raw const of.$field),
                c = $c, f = $c_field
            ));
        )*
        text
    }};
}

fn size_of_field<S, F>(_: impl Fn(&S) -> *const F) -> usize {
    size_of::<F>()
}

/// Runs a program, and returns what it printed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_library_of_this_program_is_laid_out_as_rust_has_it() {
    let this = std::env::current_exe().expect("this program");
    let library = output(Command::new(env!("CARGO_BIN_EXE_cargo-sdt")).arg("dlib").arg(this));
    let declared = |line: &&str| line.ends_with(" {");
    let declared: Vec<_> = library.lines().filter(declared).collect();
    let expected = [
        "enum direction {",
        "struct addresses {",
        "struct block_2 {",
        "struct block_5 {",
        "struct header {",
        "struct line_t {",
        "struct packet {",
    ];
    assert_eq!(declared, expected);
    assert!(library.contains("#pragma D depends_on provider net\n"), "{library}");

    for line in [
        "struct header headers[3][2];",
        "char interface[15];",
        "uint32_t type;",
        "struct packet *next;",
        "struct header *first;",
        "uint32_t *list;",
        "line_t lines[2];",
        "uint8_t lock[48];\t/* struct mtx */",
    ] {
        assert!(library.contains(&format!("\t{line}\n")), "{line} is not in\n{library}");
    }

    let mut text = format!("#include <stddef.h>\n#include <stdint.h>\n{library}");
    text += &layout!("struct header", Header: "kind" kind, "sequence" sequence, "flags" flags);
    text += &layout!("line_t", CacheLine: "hits" hits, "busy" busy);
    text += &layout!(
        "struct packet", Packet<'static>:
        "up" up, "headers" headers, "interface" interface, "type" r#type, "address" address, "owner" owner,
        "next" next, "first" first, "length" length, "signed_" signed, "port" port, "lines" lines, "lock" lock,
        "list" list, "last_probe" probe, "end" end
    );
    text += &layout!("struct block_5", Block<5>: "of" of, "entries" entries);
    text += "_Static_assert(DIRECTION_IN == -1 && DIRECTION_OUT_OF == 3, \"enum\"); enum direction direction;\n";
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("library.c");
    std::fs::write(&source, &text).expect("the source is written");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-fsyntax-only"]);
    output(command.arg(&source));
}
