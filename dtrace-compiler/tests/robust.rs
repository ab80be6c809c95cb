//! For any text, the compiler returns a program, or an error with a place, and does not panic.

mod common;

use std::fs;
use std::path::Path;

use common::Machine;
use dtrace_abi::Platform;
use dtrace_abi::dif::{Form, Opcode};
use dtrace_abi::dof::Dof;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::Difo;
use dtrace_compiler::{Compiler, Source, dof};
use proptest::prelude::*;

/// Compiles a text, writes the program as DOF, and reads the DOF again.
fn compile(text: &[u8]) -> Result<(), TestCaseError> {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    match compiler.compile(Source::file(text), &Machine) {
        Ok(program) => {
            let bytes = dof::program(&program, compiler.options()).unwrap();
            let dof = Dof::parse(&bytes).unwrap();
            prop_assert_eq!(dof.ecbs().count(), program.ecbs.len());
            for ecb in &program.ecbs {
                let difos = ecb.actions.iter().filter_map(|act| act.difo.as_ref());
                difos.chain(&ecb.predicate).try_for_each(check)?;
            }
        }
        // The error of a full table has no place.
        Err(error) => prop_assert!(error.place.is_some() || error.tag.is_none(), "{}", error),
    }
    Ok(())
}

/// Checks the rules that every kernel has for a DIFO: registers, tables, branches forward, `ret` at the end.
fn check(difo: &Difo) -> Result<(), TestCaseError> {
    for (index, instr) in difo.code.iter().enumerate() {
        let op = instr.opcode().unwrap();
        let last = index + 1 == difo.code.len();
        prop_assert_eq!(op == Opcode::Ret && last, last, "{:?}", difo);
        let registers: &[u8] = match op.form() {
            Form::Three => &[instr.r1(), instr.r2(), instr.rd()],
            Form::Compare => &[instr.r1(), instr.r2()],
            Form::Test => &[instr.r1()],
            Form::Two | Form::Load | Form::Store => &[instr.r1(), instr.rd()],
            Form::LoadArray | Form::Push => &[instr.r2(), instr.rd()],
            Form::Branch | Form::Plain | Form::Translate => &[],
            _ => &[instr.rd()],
        };
        prop_assert!(registers.iter().all(|&register| register < 8), "{:?}", difo);
        let operand = usize::from(instr.operand());
        prop_assert!(
            match op.form() {
                Form::Branch => (index + 1..difo.code.len()).contains(&(instr.label() as usize)),
                Form::Integer => operand < difo.integers.len(),
                Form::String => operand < difo.strings.len(),
                _ => true,
            },
            "{:?}",
            difo
        );
    }
    Ok(())
}

fn programs() -> Vec<String> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
    let paths = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let programs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "d"));
    programs.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()).collect()
}

/// Returns a recorded program in which some words are replaced by words of other programs.
fn spliced() -> impl Strategy<Value = String> {
    let programs = programs();
    let words: Vec<String> = programs
        .iter()
        .flat_map(|program| program.split_inclusive(|c: char| !c.is_alphanumeric()))
        .map(String::from)
        .collect();
    let edit = (any::<prop::sample::Index>(), prop::sample::select(words), any::<bool>());
    (prop::sample::select(programs), prop::collection::vec(edit, 1..5)).prop_map(
        |(program, edits)| {
            let mut words: Vec<_> =
                program.split_inclusive(|c: char| !c.is_alphanumeric()).map(String::from).collect();
            for (at, word, replace) in edits {
                if words.is_empty() {
                    break;
                }
                let at = at.index(words.len());
                if replace {
                    words[at] = word;
                } else {
                    words.insert(at, word);
                }
            }
            words.concat()
        },
    )
}

/// Returns an expression with any of D's operators, functions and operands.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "0",
        "-1",
        "0xffffffffffffffff",
        "1ull",
        "'a'",
        "\"s\"",
        "x",
        "g",
        "g.a",
        "g.b",
        "p",
        "*p",
        "p->a",
        "arr",
        "arr[1]",
        "m[1, \"k\"]",
        "self->t",
        "this->l",
        "pid",
        "timestamp",
        "probename",
        "NULL",
        "A",
        "args[0]",
        "stringof(p)",
        "sizeof (p)",
        "twice[2]",
        "xlate <struct t>(p).c",
        "curthread",
    ])
    .prop_map(String::from);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "&&", "||", "^^", "==", "!=", "<",
            "<=", ">", ">=", "=", "+=", "-=", "*=", "/=", "&=", "<<=", ",",
        ]);
        let unary = prop::sample::select(vec![
            "-",
            "!",
            "~",
            "*",
            "&",
            "++",
            "--",
            "sizeof ",
            "stringof ",
            "(char)",
            "(struct s *)",
            "(string)",
            "(void)",
        ]);
        let function = prop::sample::select(vec![
            "strlen",
            "strjoin",
            "alloca",
            "bcopy",
            "copyin",
            "lltostr",
            "index",
            "speculation",
            "json",
            "basename",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
            (unary, inner.clone()).prop_map(|(op, operand)| format!("{op}({operand})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (function, prop::collection::vec(inner.clone(), 0..4))
                .prop_map(|(function, args)| format!("{function}({})", args.join(", "))),
            (inner.clone(), inner).prop_map(|(array, index)| format!("{array}[{index}]")),
        ]
    })
}

const DECLARATIONS: &str = "
struct s { int a; int b:5; char c[8]; struct s *next; }; struct t { int c; string d; };
enum e { A, B }; struct s g; struct s *p; int arr[4]; string m[int, string]; self int t; this enum e l;
inline int twice[int x] = x * 2; int x;
translator struct t < struct s *I > { c = I->a + 1; d = \"d\"; };
";

/// Returns the text of a program whose nesting has this depth.
type Body = fn(usize) -> String;

/// Inlines that use inlines expand to trees that are deeper and larger than the text of a program can be.
#[test]
fn inlines_have_limits() {
    let deep = |n: usize| format!("i{n} {}", "+ y ".repeat(140));
    let wide = |n: usize| format!("(i{n}, i{n})");
    let bodies: [&dyn Fn(usize) -> String; 2] = [&deep, &wide];
    for body in bodies {
        let lines = (0..60).map(|n| format!("inline int i{} = {};\n", n + 1, body(n)));
        let text = format!(
            "int y; inline int i0 = pid; {} BEGIN {{ trace(i60); }}",
            lines.collect::<String>()
        );
        let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
        let error = compiler.compile(Source::file(text.as_bytes()), &Machine).unwrap_err();
        assert_eq!(error.message, "the expression is too large after its inlines are expanded");
    }
}

/// The parser accepts trees up to a depth that all later stages can process, and refuses deeper ones.
#[test]
fn deep_programs() {
    let bodies: [(usize, Body); 13] = [
        (750, |n| format!("x = y{};", " || y".repeat(n))),
        (750, |n| format!("x = y{};", ", y".repeat(n))),
        (750, |n| format!("x = {}1;", "y ? 2 : ".repeat(n))),
        (750, |n| format!("x = ((struct s *)0){};", "->next".repeat(n))),
        (300, |n| format!("x = {}y{};", "(".repeat(n), ")".repeat(n))),
        (900, |n| format!("x = {}y;", "- ".repeat(n))),
        (900, |n| format!("x = {}y;", "(int)".repeat(n))),
        (900, |n| format!("{}y;", "y = ".repeat(n))),
        (300, |n| format!("x = {}\"a\"{};", "basename(".repeat(n), ")".repeat(n))),
        (450, |n| format!("{} y++;", "if (y) ".repeat(n))),
        (700, |n| format!("x = (int)(int {})0;", "*".repeat(n))),
        (700, |n| format!("x = sizeof (int {});", "[1]".repeat(n))),
        (150, |n| format!("x = {}y{};", "y ? (".repeat(n), ") : 1".repeat(n))),
    ];
    for (most, body) in bodies {
        let compile = |n| {
            let body = body(n);
            let text = format!("struct s {{ struct s *next; }}; int y; BEGIN {{ {body} }}");
            let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
            compiler.compile(Source::file(text.as_bytes()), &Machine)
        };
        for n in [most / 2, most] {
            if let Err(error) = compile(n) {
                panic!("{n} of {}: {error}", body(1));
            }
        }
        for n in (most..most * 4).step_by(most.div_ceil(8)) {
            if let Err(error) = compile(n) {
                let messages = ["nested too deeply", "type has more than 800 levels"];
                assert!(messages.contains(&&*error.message), "{}: {error}", body(1));
                break;
            }
        }
        assert!(compile(20_000).is_err(), "{}", body(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn spliced_programs(text in spliced()) {
        compile(text.as_bytes())?;
    }

    #[test]
    fn expressions(expression in expression()) {
        compile(format!("{DECLARATIONS} BEGIN {{ trace({expression}); {expression}; }}").as_bytes())?;
        compile(format!("{DECLARATIONS} BEGIN / {expression} / {{ @[{expression}] = sum({expression}); }}").as_bytes())?;
    }

    #[test]
    fn bytes(text: Vec<u8>) {
        compile(&text)?;
    }
}
