//! Libraries of any structs, compiled as C.

use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;

use dtrace_abi::Platform;
use dtrace_compiler::declared::{Declarations, DeclaredError, Enum, Field, Kind, Struct};
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source};

use crate::dlib::{DlibError, of_all, read, render};
use crate::platform::Os;
use crate::process;

const LIMIT: Duration = Duration::from_secs(60);

/// Compiles a library as C, together with assertions about it.
fn compile(library: &str, holds: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("library.c");
    let text = format!("#include <stddef.h>\n#include <stdint.h>\n{library}\n{holds}");
    std::fs::write(&source, &text).expect("the source is written");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-fsyntax-only"]);
    command.arg(&source);
    if let Err(error) = process::run(&mut command, LIMIT) {
        panic!("{error}\n{text}");
    }
}

/// C's assertions that a struct is laid out as described.
fn assertions(of: &Struct) -> String {
    let name = &of.name;
    let mut text = format!("_Static_assert(sizeof({name}) == {}, \"size\");\n", of.size);
    for Field { name: field, offset, size, .. } in &of.fields {
        text.push_str(&format!(
            "_Static_assert(offsetof({name}, {field}) == {offset}, \"{field}\");\n\
             _Static_assert(sizeof((({name} *)0)->{field}) == {size}, \"{field}\");\n"
        ));
    }
    text
}

fn parse(text: &str) -> Result<Declarations, DlibError> {
    Ok(Declarations::parse(text.as_bytes())?)
}

fn library(text: &str) -> String {
    render(&parse(text).unwrap(), "x.ko", Os::FreeBsd).unwrap()
}

/// The types that random fields have.
const TYPES: [(&str, u64); 8] = [
    ("uint8_t", 1),
    ("_Bool", 1),
    ("int16_t", 2),
    ("int", 4),
    ("size_t", 8),
    ("struct mbuf *", 8),
    ("struct s0 *", 8),
    ("void **", 8),
];

/// Returns a struct with fields of any types at any distances, as in a packed struct. The fields may contain the structs in
/// `before`.
fn describe(index: usize, before: &[Struct], seeds: &[(u8, u8, Vec<u8>)], tail: u8) -> Struct {
    let (mut fields, mut end) = (Vec::new(), 0);
    for (number, (kind, gap, counts)) in seeds.iter().enumerate() {
        let kind = usize::from(*kind) % (TYPES.len() + before.len());
        let (c_type, size) = match before.get(kind.wrapping_sub(TYPES.len())) {
            Some(inner) => (inner.name.clone(), inner.size),
            None => (TYPES[kind].0.to_owned(), TYPES[kind].1),
        };
        let dimensions: Vec<u64> = counts.iter().map(|&count| u64::from(count % 4) + 1).collect();
        let size = dimensions.iter().product::<u64>() * size;
        let offset = end + u64::from(gap % 12);
        let name = format!("f{number}");
        fields.push(Field { name, offset, size, dimensions, c_type });
        end = offset + size;
    }
    // The size is at least a multiple of its alignment in C.
    let size = (end + u64::from(tail % 12)).next_multiple_of(8);
    let (name, text, missing) = (format!("struct s{index}"), None, Vec::new());
    Struct { kind: Kind::Struct, name, size, align: 8, fields, text, missing }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn c_lays_out_what_is_described(
        seeds in prop::collection::vec(
            (
                prop::collection::vec(
                    (any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..=3)),
                    1..8,
                ),
                any::<u8>(),
            ),
            1..12,
        )
    ) {
        let mut structs = Vec::new();
        for (index, (fields, tail)) in seeds.iter().enumerate() {
            let next = describe(index, &structs, fields, *tail);
            structs.push(next);
        }
        let holds: String = structs.iter().map(assertions).collect();
        // Defined before they are contained, whatever the order of their names.
        structs.reverse();
        let description = Declarations { structs, ..Declarations::default() };
        let text = render(&description, "x.ko", Os::FreeBsd).unwrap();
        compile(&text, &holds);
    }
}

#[test]
fn a_library_reads_as_c() {
    let text = library(
        "provider\tnet\nprovider\tdisk\nprovider\tnet\n\
         struct\tstruct packet\t64\t8\n\
         field\tlen\t0\t4\t0 0 0\tuint32_t\n\
         field\tname\t4\t16\t16 0 0\tchar\n\
         field\tgrid\t20\t12\t3 2 0\tuint16_t\n\
         field\tup\t32\t1\t0 0 0\tbool\n\
         field\tnothing\t33\t0\t0 0 0\tstruct none\n\
         field\tinner\t40\t8\t0 0 0\tinner_t\n\
         field\tnext\t48\t8\t0 0 0\tstruct packet *\n\
         field\tlock\t56\t8\t0 0 0\tstruct mtx\n\
         struct\tinner_t\t8\t8\nfield\t__pad0\t0\t4\t0 0 0\tint\n",
    );
    assert_eq!(
        text,
        "/*\n * The structs, enums and arguments of the probes of x.ko.\n \
         * Generated by cargo sdt dlib; do not edit.\n */\n\
         #pragma D depends_on provider disk\n\
         #pragma D depends_on provider net\n\
         \n\
         typedef struct inner_t inner_t;\n\
         struct packet;\n\
         \n\
         struct inner_t {\n\
         \tint __pad0;\n\
         \tuint8_t __pad1[4];\n\
         };\n\
         \n\
         struct packet {\n\
         \tuint32_t len;\n\
         \tchar name[16];\n\
         \tuint16_t grid[3][2];\n\
         \tuint8_t up;\n\
         \tuint8_t __pad0[7];\n\
         \tinner_t inner;\n\
         \tstruct packet *next;\n\
         \tuint8_t lock[8];\t/* struct mtx */\n\
         };\n"
    );
}

#[test]
fn enums_have_their_constants() {
    let text = library(
        "enum\tenum link_state\nconstant\tLINK_DOWN\t0\nconstant\tLINK_UP\t-2147483648\n\
         enum\tside_t\nconstant\tLEFT\t5\n",
    );
    let defined = "enum link_state {\n\tLINK_DOWN = 0,\n\tLINK_UP = -2147483648\n};\n\n\
                   typedef enum side_t {\n\tLEFT = 5\n} side_t;\n";
    assert!(text.ends_with(defined), "{text}");
    compile(
        &text,
        "_Static_assert(LINK_UP < LINK_DOWN && LEFT == 5, \"\"); enum link_state a; side_t b;\n",
    );
}

#[test]
fn translators_are_behind_what_they_translate() {
    let text = library(
        "struct\tstruct s\t4\t4\nfield\ta\t0\t4\t0 0 0\tint\n\
         text\ttypedef struct t { int b; } t_t;\n\
         text\ttranslator t_t < struct s *S > {\ntext\t\tb = S->a;\ntext\t};\n",
    );
    assert!(
        text.ends_with("\tint a;\n};\n\ntypedef struct t { int b; } t_t;\ntranslator t_t < struct s *S > {\n\tb = S->a;\n};\n"),
        "{text}"
    );
}

/// Only its size is known.
#[test]
fn what_is_opaque_is_bytes() {
    let text = library(
        "struct\tstruct addrs\t34\t2\n\
         struct\tstruct flow\t44\t4\n\
         field\tproto\t0\t1\t0 0 0\tuint8_t\n\
         field\taddrs\t2\t34\t0 0 0\tstruct addrs\n\
         field\tports\t36\t4\t2 0 0\tuint16_t\n",
    );
    compile(
        &text,
        "_Static_assert(sizeof(struct addrs) == 34 && sizeof(struct flow) == 44, \"\");\n\
         _Static_assert(offsetof(struct flow, ports) == 36, \"\");\n",
    );
}

#[test]
fn constants_of_one_name_are_refused() {
    let two = "enum\tenum a\nconstant\tX\t1\nenum\tenum b\nconstant\tX\t1\n";
    assert_eq!(parse(two), Err(DeclaredError::Constant("X".into()).into()));
    let same = "enum\tenum a\nconstant\tX\t1\n";
    let expected = Enum { name: "enum a".into(), constants: vec![("X".into(), 1)] };
    assert_eq!(parse(&[same, same].concat()).unwrap().enums, [expected]);
    let tags = "enum\tenum a\nstruct\tstruct a\t1\t1\n";
    assert!(matches!(parse(tags), Err(DlibError::Declared(DeclaredError::Clash(_)))));
    for text in ["constant\tX\t1\n", "enum\tstruct a\n", "enum\tenum a;\n"] {
        assert!(
            matches!(parse(text), Err(DlibError::Declared(DeclaredError::Line { number: 1, .. }))),
            "{text}"
        );
    }
    for text in ["constant\tX; b\t1\n", "constant\tX\t2147483648\n", "constant\tX\t1 \n"] {
        let text = format!("enum\tenum a\n{text}");
        assert!(
            matches!(parse(&text), Err(DlibError::Declared(DeclaredError::Line { number: 2, .. }))),
            "{text}"
        );
    }
}

#[test]
fn what_only_the_kernel_knows_waits_for_its_types() {
    let one = |c_type: &str, os| {
        let text = format!("struct\tstruct s\t8\t8\nfield\tp\t0\t8\t0 0 0\t{c_type}\n");
        render(&parse(&text).unwrap(), "x", os).unwrap()
    };
    for os in [Os::FreeBsd, Os::Illumos] {
        for known in ["void *", "struct s *", "struct mbuf **", "size_t *", "char *"] {
            assert!(!one(known, os).contains("depends_on"), "{known}");
        }
    }
    assert!(one("vnode_t *", Os::FreeBsd).contains("#pragma D depends_on module kernel\n"));
    assert!(one("vnode_t *", Os::Illumos).contains("#pragma D depends_on module genunix\n"));
}

#[test]
fn structs_of_others_are_declared_before_they_are_named() {
    let text = library(
        "struct\tstruct s\t24\t8\n\
         field\ta\t0\t8\t0 0 0\tstruct mbuf *\n\
         field\tb\t8\t8\t0 0 0\tunion u **\n\
         field\tc\t16\t8\t0 0 0\tstruct s *\n",
    );
    let (declared, defined) = text.split_once("struct s {\n").expect("it is defined");
    assert!(declared.ends_with("\nstruct s;\nstruct mbuf;\nunion u;\n\n"), "{declared}");
    assert!(defined.contains("\tstruct mbuf *a;\n\tunion u **b;\n"), "{defined}");
    compile(
        &text,
        "struct mbuf { int x; }; static int f(struct s *s) { return s->a->x; }\n\
                    int g(struct s *s) { return f(s); }\n",
    );
}

#[test]
fn of_several_modules_each_struct_is_declared_once() {
    let module = |provider: &str, size: u64| {
        let text = format!("provider\t{provider}\nstruct\tstruct s\t{size}\t1\n");
        parse(&text).unwrap()
    };
    let both = of_all(vec![module("a", 4), module("b", 4)]).unwrap();
    assert_eq!((both.providers.len(), both.structs.len()), (0, 1));
    let clash = of_all(vec![module("a", 4), module("b", 5)]);
    assert_eq!(clash, Err(DeclaredError::Clash("struct s".into()).into()));
    assert_eq!(of_all(vec![module("a", 4)]), Ok(module("a", 4)));
}

#[test]
fn of_several_modules_each_text_is_there_once() {
    let shared = "text\ttypedef struct t {\ntext\t\tint b; /* }; \\\n\
        text\t\t; */\ntext\t} t_t;\n\
        text\tinline string T = \"/* ; {\";\n";
    let module = |own: &str| parse(&format!("{shared}text\tinline int {own} = 1;\n")).unwrap();
    let both = of_all(vec![module("A"), module("B")]).unwrap();
    let expected = format!("{}inline int B = 1;\n", module("A").text);
    assert_eq!(both.text, expected);
    let other = parse("text\ttypedef struct t {\ntext\t\tint c;\ntext\t} t_t;\n").unwrap();
    let all = of_all(vec![module("A"), other.clone()]).unwrap();
    assert_eq!(all.text, module("A").text + &other.text);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |text: &str| {
        let rendered = parse(text).and_then(|all| render(&all, "x.ko", Os::FreeBsd));
        rendered.expect_err(text).to_string()
    };
    assert_eq!(
        refused("provider\ta\nstruct\tstruct s\tmany\t1\n"),
        "line 2 of its declarations, \"struct\\tstruct s\\tmany\\t1\", has an unknown form: build \
         it with the sdt-core of this release"
    );
    for text in [
        "provider\tx y; BEGIN\n",
        "provider\t\n",
        "provider\t9\n",
        "struct\tstruct a {}; BEGIN { system(\"id\"); } struct b\t8\t8\n",
        "struct\tunion a\t8\t8\n",
        "struct\tstruct \t8\t8\n",
        "struct\tstruct  a\t8\t8\n",
        "struct\ta*\t8\t8\n",
    ] {
        assert!(refused(text).starts_with("line 1 of its declarations, "), "{text}");
    }
    for (name, c_type) in [
        ("f; int g", "int"),
        ("", "int"),
        ("1f", "int"),
        ("f", ""),
        ("f", " *"),
        ("f", "*/ BEGIN { exit(0); } /*"),
        ("f", "struct a *b; int *"),
        ("f", "int\u{b}"),
    ] {
        let text = format!("struct\tstruct s\t8\t8\nfield\t{name}\t0\t8\t0 0 0\t{c_type}\n");
        assert!(refused(&text).starts_with("line 2 of its declarations, "), "{text}");
    }
    assert!(refused("field\ta\t0\t1\t0 0 0\tint\n").starts_with("line 1"));
    // `struct s` and a typedef of the same struct.
    assert!(refused("struct\tstruct s\t1\t1\nstruct\ts\t1\t1\n").starts_with("two different"));
    let field = |offset: u64, size: u64, c_type: &str| {
        format!("field\tf{offset}\t{offset}\t{size}\t0 0 0\t{c_type}\n")
    };
    assert_eq!(
        refused(&format!("struct\tstruct s\t8\t8\n{}", field(0, 8, "int"))),
        "struct s.f0 has 8 bytes, but its type int has another size: correct its implementation of `CType`"
    );
    let overlap = "the fields of struct s overlap, or end beyond its size: correct its implementation of `CType`";
    let twice = field(0, 4, "int") + &field(2, 4, "int");
    assert_eq!(refused(&format!("struct\tstruct s\t8\t8\n{twice}")), overlap);
    assert_eq!(refused(&format!("struct\tstruct s\t8\t8\n{}", field(6, 4, "int"))), overlap);
    assert_eq!(
        refused(&format!("struct\tstruct s\t8\t8\n{}", field(0, 8, "struct s"))),
        "struct s contains itself by value: correct its implementation of `CType`"
    );
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(read(b"no module"), Err(DlibError::Unreadable(_))));
    let this = std::env::current_exe().and_then(std::fs::read).expect("this program");
    assert_eq!(read(&this), Err(DlibError::Nothing));
}

#[test]
fn unions_have_their_members_in_one_place() {
    let description = parse(
        "struct\tstruct address_v4\t6\t2\nfield\ttag\t0\t2\t0 0 0\tuint16_t\nfield\toctets\t2\t4\t4 0 0\tuint8_t\n\
         struct\tstruct address_v6\t24\t8\nfield\ttag\t0\t2\t0 0 0\tuint16_t\nfield\twords\t8\t16\t2 0 0\tuint64_t\n\
         union\tunion address\t32\t8\nfield\ttag\t0\t2\t0 0 0\tuint16_t\n\
         field\tv4\t0\t6\t0 0 0\tstruct address_v4\nfield\tv6\t0\t24\t0 0 0\tstruct address_v6\n\
         union\tword_t\t4\t4\nfield\tn\t0\t4\t0 0 0\tuint32_t\n",
    );
    let description = description.unwrap();
    let text = render(&description, "x.ko", Os::FreeBsd).unwrap();
    let defined = "union address {\n\tuint16_t tag;\n\tstruct address_v4 v4;\n\tstruct address_v6 v6;\n\
                   \tuint8_t __pad0[32];\n};\n\nunion word_t {\n\tuint32_t n;\n};\n";
    assert!(text.ends_with(defined), "{text}");
    assert!(
        text.contains("\nunion address;\n") && text.contains("\ntypedef union word_t word_t;\n"),
        "{text}"
    );
    let holds: String = description.structs.iter().map(assertions).collect();
    compile(&text, &holds);
    let apart = "union\tunion u\t8\t4\nfield\ta\t0\t4\t0 0 0\tint\nfield\tb\t4\t4\t0 0 0\tint\n";
    assert_eq!(
        render(&parse(apart).unwrap(), "x.ko", Os::FreeBsd),
        Err(DeclaredError::Overlap("union u".into()).into())
    );
    assert!(parse("union\tstruct u\t8\t4\n").is_err());
}

const NAMED: &str = "provider\tnet\nstruct\tstruct packet\t4\t4\nfield\tlen\t0\t4\t0 0 0\tuint32_t\n\
     enum\tenum side\nconstant\tSIDE_IN\t3\n\
     probe\tnet\tpacket-sent\n\
     argument\tpath\t2\tchar *\tsize_t\n\
     argument\tpacket\t1\tstruct packet *\t\n\
     argument\ttries\t2\tint\t_Bool\n\
     argument\tside\t1\tenum side\t\n\
     argument\tforeign\t1\tstruct mbuf *\t\n\
     argument\tother\t1\tmbuf_t *\t\n\
     argument\tnumber\t1\tpid_t\t\n\
     argument\tbeyond\t2\tuint32_t *\tsize_t\n\
     probe\tnet\twide\n\
     argument\tkey\t2\tuint64_t\tint64_t\n\
     argument\tall\t2\tuint32_t *\tsize_t\n\
     argument\tall__len\t1\tint\t\n\
     argument\t\t1\tint\t\n\
     argument\tlast\t1\tuint8_t\t\n\
     probe\tdisk\tuntyped\nargument\tblock\t1\n";

#[test]
fn arguments_get_inlines() {
    let inlines = |os| -> Vec<String> {
        let text = render(&parse(NAMED).unwrap(), "x.ko", os).unwrap();
        let wanted = |line: &&str| line.starts_with("inline") || line.starts_with("/* ");
        text.lines().filter(wanted).map(str::to_owned).collect()
    };
    let all = inlines(Os::FreeBsd);
    assert_eq!(
        all,
        [
            "inline string net__packet_sent__path = memstr((void *)arg0, '?', (arg1 < 4095 ? arg1 : 4095) + 1);",
            "inline unsigned long net__packet_sent__path__len = (unsigned long)arg1;",
            "inline struct packet *net__packet_sent__packet = (struct packet *)arg2;",
            "inline int net__packet_sent__tries = (int)arg3;",
            "inline uint8_t net__packet_sent__tries__is_some = (uint8_t)arg4;",
            "inline enum side net__packet_sent__side = (enum side)arg5;",
            "inline struct mbuf *net__packet_sent__foreign = (struct mbuf *)arg6;",
            "inline void *net__packet_sent__other = (void *)arg7;",
            "inline uint64_t net__packet_sent__number = (uint64_t)arg8;",
            "inline uint64_t net__wide__key__low = (uint64_t)arg0;",
            "inline int64_t net__wide__key__high = (int64_t)arg1;",
            "inline uint32_t *net__wide__all = (uint32_t *)arg2;",
            "/* all of net:::wide has no name here: another argument would have the same, net__wide__all__len */",
            "/* all__len of net:::wide has no name here: another argument would have the same, net__wide__all__len */",
            "inline uint8_t net__wide__last = (uint8_t)arg6;",
        ]
    );
    let text = "inline string net__packet_sent__path = substr(stringof((char *)arg0), 0, arg1);";
    assert_eq!(inlines(Os::Illumos)[0], text);
}

/// D accepts the library, and programs can use each name.
#[test]
fn inlines_are_d() {
    for os in [Os::FreeBsd, Os::Illumos] {
        let library = render(&parse(NAMED).unwrap(), "x.ko", os).unwrap();
        let library = library.replace("#pragma D depends_on provider net\n", "");
        let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
        compiler.library("x.d", library.as_bytes(), &EveryProbe).unwrap();
        for value in [
            "net__packet_sent__path",
            "strlen(net__packet_sent__path) + net__packet_sent__path__len",
            "net__packet_sent__packet->len",
            "net__packet_sent__tries__is_some ? net__packet_sent__tries : 0",
            "net__packet_sent__side == SIDE_IN",
            "(uintptr_t)net__packet_sent__foreign + (uintptr_t)net__packet_sent__other",
            "net__packet_sent__number",
            "net__wide__key__low ^ net__wide__key__high",
            "net__wide__all[1]",
            "net__wide__last",
        ] {
            let program = format!("net:::packet-sent {{ trace({value}); }}");
            let compiled = compiler.compile(Source::line(program.as_bytes()), &EveryProbe);
            assert!(compiled.is_ok(), "{program}: {compiled:?}");
        }
    }
}

#[test]
fn names_of_probes_that_are_declared_differently_are_dropped() {
    let twice = "probe\tp\tn\nargument\ta\t1\nprobe\tp\tn\nargument\ta\t1\n";
    assert_eq!(parse(twice).unwrap().probes.len(), 1);
    let other = "probe\tp\tn\nargument\ta\t1\nprobe\tp\tn\nargument\tb\t1\n";
    assert_eq!(parse(other).unwrap().probes, []);
    for bad in [
        "argument\ta\t1\n",
        "probe\tp\tn\nargument\ta b\t1\n",
        "probe\tp\tn\nargument\ta\t3\n",
        "probe\tp\tn\nargument\ta\t2\tint\n",
        "probe\tp\tn\nargument\ta\t1\tint;\n",
        "probe\tp;\tn\n",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
