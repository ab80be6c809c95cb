//! Arguments by name: `args.path`.

mod common;

use common::Machine;
use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_abi::dif::{Opcode, TypeKind};
use dtrace_abi::stability::Attribute;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Ecb, Program};
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::{Compiler, Source};

/// The probes of a shop. Like all probes of Rust programs, their attributes are not stable.
struct Shop;

/// Module, probe and arguments: name, native type, translated type.
type Declared = (&'static str, &'static str, &'static [[&'static str; 3]]);

const PROBES: &[Declared] = &[
    (
        "shop",
        "request-start",
        &[["id", "uint64_t", ""], ["path", "char *", "string"], ["path", "size_t", "size_t"]],
    ),
    (
        "shop",
        "request-done",
        &[
            ["status", "uint16_t", ""],
            ["id", "uint64_t", ""],
            ["path", "char *", "string"],
            ["path", "size_t", "size_t"],
        ],
    ),
    ("shop", "query-done", &[["id", "uint32_t", ""]]),
    ("shop", "plain", &[["", "int", ""]]),
    (
        "shop",
        "all",
        &[
            ["numbers", "uint32_t *", ""],
            ["numbers", "size_t", ""],
            ["tries", "int", ""],
            ["tries", "_Bool", ""],
            ["key", "uint64_t", ""],
            ["key", "uint64_t", ""],
            ["self", "char *", ""],
            ["int", "int", ""],
        ],
    ),
    ("old", "sale", &[["cents", "uint32_t", ""]]),
    ("new", "sale", &[["name", "uint8_t", ""], ["cents", "uint32_t", ""]]),
];

impl Shop {
    fn matching(of: &Description) -> impl Iterator<Item = &'static Declared> {
        let matches = |pattern: &str, name: &str| match pattern.split_once('*') {
            _ if pattern.is_empty() => true,
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => pattern == name,
        };
        PROBES.iter().filter(move |(module, name, _)| {
            matches(&of.provider, "shop") && matches(&of.module, module) && matches(&of.name, name)
        })
    }

    fn info((module, _, arguments): &Declared) -> ProbeInfo {
        let argument = |([name, native, translated], mapping): (&[&str; 3], u8)| Argument {
            name: (*name).into(),
            native: (*native).into(),
            translated: (*translated).into(),
            mapping,
            obstacle: None,
        };
        let arguments = arguments.iter().zip(0..).map(argument).collect();
        ProbeInfo::new((*module).into(), ProviderAttributes::all(Attribute::UNSTABLE), arguments)
    }
}

impl Surroundings for Shop {
    fn probes(&self, description: &Description) -> Matches {
        if description.provider == "dtrace" {
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
        Self::matching(description)
            .map(|of| {
                let description = Description {
                    provider: "shop".into(),
                    module: of.0.into(),
                    name: of.1.into(),
                    ..Description::default()
                };
                (description, Self::info(of))
            })
            .collect()
    }
}

fn compile(text: &str) -> Result<Program, String> {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    compiler.compile(Source::file(text.as_bytes()), &Shop).map_err(|error| error.with_tag())
}

fn ecbs(text: &str) -> Vec<Ecb> {
    compile(text).unwrap_or_else(|error| panic!("{text}: {error}")).ecbs
}

/// Asserts that a clause with an argument's name compiles to the same code as the clause with its position.
fn is_position(named: &str, position: &str) {
    let (named_ecbs, position_ecbs) = (ecbs(named), ecbs(position));
    let actions =
        |ecbs: &[Ecb]| ecbs.iter().flat_map(|ecb| ecb.actions.clone()).collect::<Vec<_>>();
    assert_eq!(actions(&named_ecbs), actions(&position_ecbs), "{named}");
    let predicates = |ecbs: Vec<Ecb>| ecbs.into_iter().map(|ecb| ecb.predicate).collect::<Vec<_>>();
    assert_eq!(predicates(named_ecbs), predicates(position_ecbs), "{named}");
}

#[test]
fn names_are_positions() {
    for (name, position) in [
        ("args.path", "args[2]"),
        ("args->path", "args[2]"),
        ("args.path.len", "args[3]"),
        ("args->path->len", "args[3]"),
        ("args.status + args.id", "args[0] + args[1]"),
        ("strlen(args.path)", "strlen(args[2])"),
    ] {
        let clause = |value: &str| format!("shop:::request-done {{ trace({value}); }}");
        is_position(&clause(name), &clause(position));
    }
    is_position(
        "shop:::request-done /args.status >= 500 && args.path == \"/cart\"/ { @[args.path] = sum(args.id); }",
        "shop:::request-done /args[0] >= 500 && args[2] == \"/cart\"/ { @[args[2]] = sum(args[1]); }",
    );
}

#[test]
fn options_slices_and_wide_integers_have_parts() {
    for (name, position) in [
        ("args.tries", "args[2]"),
        ("args.tries.is_some", "args[3]"),
        ("args.numbers.len", "args[1]"),
        ("args.key.low ^ args.key.high", "args[4] ^ args[5]"),
        // Words of D.
        ("stringof(args.self)", "stringof(args[6])"),
        ("args.int", "args[7]"),
        ("args->int", "args[7]"),
    ] {
        let clause = |value: &str| format!("shop:::all {{ trace({value}); }}");
        is_position(&clause(name), &clause(position));
    }
    for good in ["args.numbers.is_some", "args.self.is_some", "*args.numbers"] {
        ecbs(&format!("shop:::all {{ trace({good}); }}"));
    }
}

#[test]
fn an_index_is_compared_with_the_length() {
    let ecbs = ecbs("shop:::all { trace(args.numbers[n++]); trace(&args.numbers[1]); }");
    let difo = ecbs[0].actions[0].difo.as_ref().unwrap();
    let opcodes: Vec<_> = difo.code.iter().filter_map(|instr| instr.opcode()).collect();
    for needed in [Opcode::Blu, Opcode::Mul, Opcode::Lduw] {
        assert!(opcodes.contains(&needed), "{opcodes:?}");
    }
    // The index is evaluated once.
    assert_eq!(opcodes.iter().filter(|opcode| **opcode == Opcode::Stgs).count(), 1);
    assert_eq!(difo.returns.size, 4);
}

#[test]
fn each_probe_has_its_own_positions() {
    let ecbs = ecbs("shop:::request-* { @[args.path] = sum(args.id); }");
    let names: Vec<_> = ecbs.iter().map(|ecb| ecb.probe.to_string()).collect();
    assert_eq!(names, ["shop:::request-done", "shop:::request-start"]);
    let keys = |ecb: &Ecb| ecb.actions[1].difo.clone().unwrap();
    assert_ne!(keys(&ecbs[0]), keys(&ecbs[1]));
    for ecb in &ecbs {
        assert_eq!(keys(ecb).returns.kind, TypeKind::String.number());
        let named: Vec<_> = ecb.actions.iter().map(|act| act.name.as_deref()).collect();
        assert_eq!(named, [None, Some("path"), None]);
        assert_eq!(ecb.actions[2].kind, Action::Sum);
    }
    // Also in a clause with several descriptions, and under `if`.
    assert_eq!(
        self::ecbs("shop:::request-start, shop:::request-done { trace(args.id); }").len(),
        2
    );
    self::ecbs(
        "shop:::request-* { if (args.id > 3) { trace(args.path); } else { trace(args.id); } }",
    );
    // A description that names one probe stays as it is.
    let one = self::ecbs("shop::f:query-done { trace(args.id); }");
    assert_eq!(one[0].probe.to_string(), "shop::f:query-done");
}

#[test]
fn modules_have_their_own_declarations() {
    let ecbs = ecbs("shop:::sale { trace(args.cents); }");
    let probes: Vec<_> = ecbs.iter().map(|ecb| ecb.probe.to_string()).collect();
    assert_eq!(probes, ["shop:old::sale", "shop:new::sale"]);
    assert_ne!(ecbs[0].actions[0].difo, ecbs[1].actions[0].difo);
}

#[test]
fn recorded_arguments_have_names() {
    let names = |text: &str| -> Vec<Option<String>> {
        ecbs(text)[0].actions.iter().map(|act| act.name.clone()).collect()
    };
    let some = |name: &str| Some(String::from(name));
    let printed = "shop:::request-done { printf(\"%s %d %d\", args.path, args.id, args.id + 1); }";
    assert_eq!(names(printed), [some("path"), some("id"), None]);
    assert_eq!(names("shop:::request-done { trace(args[3]); }"), [some("path.len")]);
}

#[test]
fn errors_name_the_probes_that_lack_the_argument() {
    for (text, expected) in [
        (
            "shop:::request-done { trace(args.paht); }",
            "shop:::request-done has no argument paht, only status, id, path",
        ),
        (
            "shop:::request-*, shop:::query-done { trace(args.id); trace(args.path); }",
            "shop:::query-done has no argument path, only id",
        ),
        (
            "shop:::query-done, shop:::request-start, shop:::plain /args.status/ { trace(1); }",
            "these probes have no argument status: shop:::plain, shop:::query-done, shop:::request-start",
        ),
        (
            "shop:::plain { trace(args.id); }",
            "shop:::plain has no argument id: its arguments have no names",
        ),
        (
            "shop:::all { trace(args.key); }",
            "args.key has 128 bits: use args.key.low and args.key.high",
        ),
        (
            "shop:::all { trace(args.tries.len); }",
            "args.tries has no member len, only args.tries.is_some",
        ),
        (
            "shop:::all { trace(args.numbers[1, 2]); }",
            "cannot access args.numbers as an associative array",
        ),
        (
            "shop:::all { trace(args.numbers[\"x\"]); }",
            "the index of args.numbers must be an integer",
        ),
        (
            "inline int i = args.id; shop:::all { trace(1); }",
            "args.id may not be referenced outside of a probe clause",
        ),
        (
            "shop:::query-done { trace(args.id.len); }",
            "operator . cannot be applied to type \"unsigned\"; must be applied to a struct or union",
        ),
    ] {
        let error = compile(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = compile("shop:::request-done /args.status > 3/ { trace(args.paht); }").unwrap_err();
    assert!(error.contains("line 1"), "{error}");
}

#[test]
fn statements_of_an_if_use_names() {
    let program = compile(
        "shop:::request-done { if (args.status > 3) { trace(1); } else { trace(args.path); } }",
    );
    assert!(program.is_ok(), "{program:?}");
    let error = compile("shop:::request-done { if (1) { trace(args.paht); } }").unwrap_err();
    assert!(error.contains("has no argument paht"), "{error}");
}

#[test]
fn what_is_not_named_compiles_as_before() {
    let error = compile("shop:::request-* { trace(args[0]); }").unwrap_err();
    assert!(error.contains("matches an unstable set of probes"), "{error}");
    assert_eq!(ecbs("shop::: { trace(probename); }").len(), 1);
}
