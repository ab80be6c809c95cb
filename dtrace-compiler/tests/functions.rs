//! Arguments of functions: their types are read when a program uses them, and each function has its own.

mod common;

use std::cell::{Cell, RefCell};

use common::Machine;
use dtrace_abi::stability::Attribute;
use dtrace_abi::{Platform, glob};
use dtrace_compiler::declared::{Declarations, Field, Kind, Struct};
use dtrace_compiler::options::Options;
use dtrace_compiler::program::Ecb;
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::types::Text;
use dtrace_compiler::{Compiler, Source};

/// A function: its module, its name, and its arguments with the numbers of their registers. A number of 9 is none.
type Function = (&'static str, &'static str, &'static [(&'static str, &'static str, u8)]);

const FUNCTIONS: [Function; 6] = [
    (
        "a.out",
        "shop::serve",
        &[("id", "uint64_t", 0), ("path", "char *", 1), ("path", "size_t", 2)],
    ),
    (
        "a.out",
        "shop::query",
        &[("table", "char *", 0), ("table", "size_t", 1), ("id", "uint16_t", 2)],
    ),
    ("a.out", "shop::large", &[("value", "", 9), ("id", "uint64_t", 0)]),
    ("a.out", "shop::none", &[]),
    ("lib.so", "untyped", &[]),
    (
        "orders.so",
        "submit",
        &[
            ("order", "struct shop::Order *", 0),
            ("broken", "struct broken *", 1),
            ("unknown", "struct unknown *", 2),
        ],
    ),
];

/// A process with functions. It notes how often their types are read, and which structs.
#[derive(Default)]
struct Process {
    reads: Cell<u32>,
    structs: RefCell<Vec<String>>,
}

impl Process {
    fn matching(of: &Description) -> impl Iterator<Item = &'static Function> {
        let matches = |pattern: &str, name: &str| {
            pattern.is_empty() || glob::matches(pattern.as_bytes(), name.as_bytes())
        };
        FUNCTIONS.iter().filter(move |(module, function, _)| {
            of.provider == "pid7"
                && matches(&of.module, module)
                && matches(&of.function, function)
                && matches(&of.name, "entry")
        })
    }

    fn info((module, ..): &Function) -> ProbeInfo {
        let attributes = ProviderAttributes::all(Attribute::UNSTABLE);
        ProbeInfo { is_function: true, ..ProbeInfo::new((*module).into(), attributes, Vec::new()) }
    }
}

impl Surroundings for Process {
    fn probes(&self, description: &Description) -> Matches {
        if description.provider != "pid7" {
            return Machine.probes(description);
        }
        let mut all = Self::matching(description);
        match (all.next(), all.next()) {
            (None, _) => Matches::None,
            (Some(one), None) => Matches::One(Self::info(one)),
            (Some(first), Some(_)) => Matches::Several(Self::info(first)),
        }
    }

    fn each(&self, description: &Description) -> Vec<(Description, ProbeInfo)> {
        let typed = |of: &'static Function| {
            self.reads.set(self.reads.get() + 1);
            let (module, function, arguments) = *of;
            let argument = |&(name, native, mapping): &(&str, &str, u8)| Argument {
                name: name.into(),
                native: native.into(),
                translated: match native {
                    "char *" => "string".into(),
                    "size_t" => "size_t".into(),
                    _ => String::new(),
                },
                mapping,
                obstacle: (mapping == 9).then(|| "it is in memory".into()),
            };
            let description = Description {
                id: 0,
                provider: "pid7".into(),
                module: module.into(),
                function: function.into(),
                name: "entry".into(),
            };
            let untyped = (function == "untyped").then(|| "no debug information".into());
            let arguments = arguments.iter().map(argument).collect();
            (description, ProbeInfo { arguments, untyped, ..Self::info(of) })
        };
        Self::matching(description).map(typed).collect()
    }

    fn declarations(&self, name: &str) -> Option<Declarations> {
        self.structs.borrow_mut().push(name.to_owned());
        let structs = match name {
            "struct shop::Order" => vec![
                structure(
                    name,
                    48,
                    &[
                        ("price", 0, 4, "uint32_t"),
                        ("label", 8, 16, "struct &str"),
                        ("customer", 24, 8, "struct shop::Customer *"),
                        ("next", 32, 8, "struct shop::Order *"),
                        ("", 40, 8, "union shop::Order::{inner}"),
                    ],
                ),
                Struct {
                    text: Some(Text { address: 0, length: 8 }),
                    ..structure(
                        "struct &str",
                        16,
                        &[("data_ptr", 0, 8, "uint8_t *"), ("length", 8, 8, "size_t")],
                    )
                },
                Struct {
                    kind: Kind::Union,
                    missing: vec![("bits".to_owned(), "it is a bit-field".to_owned())],
                    ..structure("union shop::Order::{inner}", 8, &[("whole", 0, 8, "int64_t")])
                },
            ],
            "struct shop::Customer" => {
                vec![structure(name, 8, &[("id", 0, 2, "uint16_t"), ("__0", 4, 4, "float")])]
            }
            "struct broken" => vec![structure(name, 8, &[("inner", 0, 8, "struct broken")])],
            _ => return None,
        };
        Some(Declarations { structs, ..Declarations::default() })
    }
}

/// Returns a struct with these members: names, offsets, sizes and types.
fn structure(name: &str, size: u64, fields: &[(&str, u64, u64, &str)]) -> Struct {
    let field = |&(name, offset, size, c_type): &(&str, u64, u64, &str)| Field {
        name: name.to_owned(),
        offset,
        size,
        dimensions: Vec::new(),
        c_type: c_type.to_owned(),
    };
    let (name, fields) = (name.to_owned(), fields.iter().map(field).collect());
    Struct { kind: Kind::Struct, name, size, align: 1, fields, text: None, missing: Vec::new() }
}

/// Compiles a program. Returns its clauses, and how many functions' types were read.
fn compile(text: &str) -> Result<(Vec<Ecb>, u32), String> {
    let process = Process::default();
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &process);
    match program {
        Ok(program) => Ok((program.ecbs, process.reads.get())),
        Err(error) => Err(error.to_string()),
    }
}

fn ecbs(text: &str) -> Vec<Ecb> {
    compile(text).unwrap_or_else(|error| panic!("{text}: {error}")).0
}

/// Returns the only clause without its description and names.
fn code(text: &str) -> Vec<Option<dtrace_compiler::program::Difo>> {
    let ecbs = ecbs(text);
    assert_eq!(ecbs.len(), 1, "{text}");
    ecbs.into_iter().flat_map(|ecb| ecb.actions).map(|act| act.difo).collect()
}

#[test]
fn types_are_read_only_for_programs_that_use_arguments() {
    for (text, reads) in [
        ("pid7:::entry { trace(arg0); @[probefunc] = count(); }", 0),
        ("pid7:a.out:*serve:entry { trace(args[0]); }", 1),
        ("pid7:a.out:*serve:entry { trace(args[0]); trace(args[1]); }", 1),
        ("pid7:a.out:*serve:entry { trace(args.id); }", 1),
    ] {
        assert_eq!(compile(text).unwrap().1, reads, "{text}");
    }
}

#[test]
fn names_are_positions_with_types() {
    for (named, position) in
        [("args.id", "args[0]"), ("args.path", "args[1]"), ("args.path.len", "args[2]")]
    {
        let of = |value: &str| code(&format!("pid7:a.out:*serve:entry {{ trace({value}); }}"));
        assert_eq!(of(named), of(position));
        assert_ne!(of(named), of("args.id + 1"));
    }
    // The argument of the JSON output has its name in both forms.
    for value in ["args.path", "args[1]"] {
        let ecbs = ecbs(&format!("pid7:a.out:*serve:entry {{ trace({value}); }}"));
        assert_eq!(ecbs[0].actions[0].name.as_deref(), Some("path"), "{value}");
    }
}

#[test]
fn functions_with_different_arguments_are_compiled_apart() {
    let all = ecbs("pid7:a.out:shop::[sq]*:entry { trace(args.id); }");
    let probes: Vec<_> = all.iter().map(|ecb| ecb.probe.to_string()).collect();
    assert_eq!(probes, ["pid7:a.out:shop::serve:entry", "pid7:a.out:shop::query:entry"]);
    // One has 64 bits in the first register, the other 16 bits in the third.
    let alone =
        |function: &str| code(&format!("pid7:a.out:{function}:entry {{ trace(args.id); }}"));
    for (ecb, function) in all.into_iter().zip(["shop::serve", "shop::query"]) {
        let difos: Vec<_> = ecb.actions.into_iter().map(|act| act.difo).collect();
        assert_eq!(difos, alone(function), "{function}");
    }
}

#[test]
fn errors_have_the_reason() {
    for (text, expected) in [
        (
            "pid7:a.out:shop::large:entry { trace(args.value); }",
            "args.value has no value: it is in memory",
        ),
        (
            "pid7:a.out:shop::large:entry { trace(args[0]); }",
            "args.value (args[0]) has no value: it is in memory",
        ),
        (
            "pid7:a.out:shop::large:entry { trace(args.value.len); }",
            "args.value has no value: it is in memory",
        ),
        (
            "pid7:lib.so:untyped:entry { trace(args[0]); }",
            "args[0] has no type: no debug information",
        ),
        (
            "pid7:lib.so:untyped:entry { trace(args.x); }",
            "pid7:lib.so:untyped:entry has no argument x: no debug information",
        ),
        (
            "pid7:a.out:shop::none:entry { trace(args.x); }",
            "pid7:a.out:shop::none:entry has no argument x: it has no arguments with names",
        ),
        ("pid7:a.out:shop::none:entry { trace(args[0]); }", "index 0 is out of range"),
        (
            "pid7:a.out:shop::serve:entry { trace(args.idd); }",
            "pid7:a.out:shop::serve:entry has no argument idd, only id, path",
        ),
        (
            "pid7:a.out::entry { trace(args.path); }",
            "these probes have no argument path: pid7:a.out:shop::large:entry, \
             pid7:a.out:shop::none:entry, pid7:a.out:shop::query:entry",
        ),
        ("pid7:a.out:shop::[sq]*:entry { trace(args[0]); }", "matches an unstable set of probes"),
    ] {
        let error = compile(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// Returns the structs whose layouts a program reads.
fn structs(text: &str) -> Vec<String> {
    let process = Process::default();
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let text = format!("pid7:orders.so:submit:entry {{ {text} }}");
    compiler.compile(Source::file(text.as_bytes()), &process).unwrap();
    process.structs.into_inner()
}

#[test]
fn layouts_are_read_only_for_structs_that_a_program_uses() {
    let (order, customer) = ("struct shop::Order", "struct shop::Customer");
    for (text, expected) in [
        ("trace(arg0);", &[][..]),
        ("trace(args.order->price);", &[order]),
        ("trace(args[0]->price); trace(args.order->next->next->whole);", &[order]),
        ("trace(args.order->customer->id);", &[order, customer]),
        ("this->c = args.order->customer; trace(this->c->id);", &[order, customer]),
        ("trace(sizeof(*args.order)); print(*args.order);", &[order]),
        ("trace(args.order[1].label.length);", &[order]),
    ] {
        assert_eq!(structs(text), expected, "{text}");
    }
}

/// The code is that for the same struct in the program.
#[test]
fn members_are_loads_at_their_offsets() {
    let own = "struct o { uint32_t price; char gap[36]; int64_t whole; };";
    let of = |value: &str| {
        code(&format!("{own} pid7:orders.so:submit:entry {{ trace({value}); }}")).remove(0).unwrap()
    };
    for (member, load) in [
        ("args.order->price", "((struct o *)args.order)->price"),
        ("args.order->whole", "((struct o *)args.order)->whole"),
        ("(*args[0]).whole", "((struct o *)args.order)->whole"),
        ("args.order[0].price", "((struct o *)args.order)[0].price"),
        ("sizeof(*args.order)", "sizeof(struct o)"),
        ("sizeof(args.order->label)", "(size_t)16"),
    ] {
        let (member, load) = (of(member), of(load));
        assert_eq!((member.code, member.returns), (load.code, load.returns));
    }
}

#[test]
fn structs_with_text_are_strings() {
    for text in [
        "trace(args.order->label == \"a\");",
        "@[args.order->label] = count();",
        "self->l = args.order->label; printf(\"%s\", self->l);",
        "trace(strlen(args.order->next->label));",
    ] {
        ecbs(&format!("pid7:orders.so:submit:entry {{ {text} }}"));
    }
}

/// A program can declare a struct of the same name, which is another type.
#[test]
fn structs_of_programs_are_other_types() {
    let declared = "struct broken { int inner; };";
    let text = "pid7:orders.so:submit:entry { trace(((struct broken *)arg0)->inner); }";
    ecbs(&format!("{declared} {text}"));
    let text = "pid7:orders.so:submit:entry { trace(args.broken->inner); }";
    let error = compile(&format!("{declared} {text}")).unwrap_err();
    assert!(error.contains("inner is not a member of struct broken"), "{error}");
    let error = compile("pid7:orders.so:submit:entry { trace(args.unknown->x); }").unwrap_err();
    assert!(error.contains("the members of struct unknown are unknown: "), "{error}");
}

#[test]
fn missing_members_have_the_reason() {
    for (member, expected, hint) in [
        (
            "pric",
            "struct shop::Order has no member pric, only price, label, customer, next, whole",
            Some("did you mean price?"),
        ),
        ("customer->x", "struct shop::Customer has no member x, only id, __0", None),
        ("bits", "bits of struct shop::Order has no value: it is a bit-field", None),
        ("price->x", "operator -> must be applied to a pointer", None),
    ] {
        let text = format!("pid7:orders.so:submit:entry {{ trace(args.order->{member}); }}");
        let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
        let program = compiler.compile(Source::file(text.as_bytes()), &Process::default());
        let error = program.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.hint.as_deref(), hint, "{error}");
    }
}
