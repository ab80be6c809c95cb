//! Arguments of functions: their types are read when a program uses them, and each function has its own.

mod common;

use std::cell::Cell;

use common::Machine;
use dtrace_abi::stability::Attribute;
use dtrace_abi::{Platform, glob};
use dtrace_compiler::options::Options;
use dtrace_compiler::program::Ecb;
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::{Compiler, Source};

/// A function: its module, its name, and its arguments with the numbers of their registers. A number of 9 is none.
type Function = (&'static str, &'static str, &'static [(&'static str, &'static str, u8)]);

const FUNCTIONS: [Function; 5] = [
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
];

/// A process with functions. It counts how often their types are read.
#[derive(Default)]
struct Process {
    reads: Cell<u32>,
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
