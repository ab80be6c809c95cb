use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::syntax::*;

/// A context with the types that D brings with it, and two arguments.
struct Plain {
    file: bool,
    arguments: Vec<String>,
}

impl Plain {
    fn new() -> Self {
        Self {
            file: true,
            arguments: ["prog", "42", "hello", "0x10", "-5"].map(String::from).to_vec(),
        }
    }
}

impl Context for Plain {
    fn is_type(&self, name: &str) -> bool {
        ["int8_t", "int64_t", "uint8_t", "uint32_t", "uint64_t", "size_t", "uint_t", "id_t"]
            .contains(&name)
    }

    fn is_name(&self, name: &str) -> bool {
        ["id", "pid", "timestamp"].contains(&name)
    }

    fn arguments(&self) -> &[String] {
        &self.arguments
    }

    fn default_arguments(&self) -> bool {
        false
    }

    fn macro_variable(&self, name: &str) -> Option<i64> {
        (name == "pid").then_some(123)
    }

    fn is_file(&self) -> bool {
        self.file
    }

    fn prefer_probes(&self) -> bool {
        false
    }
}

fn tree(source: &str) -> Program {
    let parsed = parse(source.as_bytes(), &Plain::new());
    assert_eq!(parsed.error, None, "{source}");
    parsed.program
}

fn error(source: &str) -> (u32, String) {
    let error = parse(source.as_bytes(), &Plain::new()).error.expect(source);
    (error.place.unwrap().line, error.message)
}

/// The tree of the first statement's expression, every operator in parentheses.
fn expression(source: &str) -> String {
    fn show(expr: &Expr, out: &mut String) {
        match &expr.kind {
            ExprKind::Binary(op, left, right) => group(out, op.text(), &[left, right]),
            ExprKind::Assign(op, left, right) => {
                group(out, &format!("{}=", op.map_or("", BinaryOp::text)), &[left, right]);
            }
            ExprKind::Unary(op, operand) => group(out, op.text(), &[operand]),
            ExprKind::Ternary(test, yes, no) => group(out, "?", &[test, yes, no]),
            ExprKind::Arrow(base, name) => {
                show(base, out);
                write!(out, "->{name}").unwrap();
            }
            ExprKind::Cast(ty, value) => {
                group(out, &format!("as {}", ty.to_string().trim()), &[value])
            }
            _ => write!(out, "{expr}").unwrap(),
        }
    }
    fn group(out: &mut String, op: &str, operands: &[&Expr]) {
        write!(out, "({op}").unwrap();
        for operand in operands {
            out.push(' ');
            show(operand, out);
        }
        out.push(')');
    }
    let program = tree(&format!("BEGIN {{ {source}; }}"));
    let ItemKind::Clause(clause) = &program.items[0].kind else { panic!("{program:?}") };
    let StmtKind::Expr(expr) = &clause.body.as_ref().unwrap()[0].kind else {
        panic!("{program:?}")
    };
    let mut out = String::new();
    show(expr, &mut out);
    out
}

#[test]
fn operators_bind_as_in_c_with_xor_between() {
    assert_eq!(expression("a + b * c - d"), "(- (+ a (* b c)) d)");
    assert_eq!(
        expression("a || b ^^ c && d | e ^ f & g"),
        "(|| a (^^ b (&& c (| d (^ e (& f g))))))"
    );
    assert_eq!(expression("a = b += c ? d : e ? f : g"), "(= a (+= b (? c d (? e f g))))");
    assert_eq!(expression("a < b == c << d"), "(== (< a b) (<< c d))");
    assert_eq!(expression("-a->b++ + !*c"), "(+ (- (++ a->b)) (! (* c)))");
    assert_eq!(expression("a, b = c, d"), "(, (, a (= b c)) d)");
    assert_eq!(expression("(size_t)a + (b)(c)"), "(+ (as size_t a) b(c))");
    assert_eq!(expression("sizeof (a)->b"), "(sizeof a->b)");
}

#[test]
fn arguments_are_integers_names_or_strings() {
    assert_eq!(expression("$1 + $2"), "(+ 42 hello)");
    assert_eq!(expression("$$1"), "\"42\"");
    assert_eq!(expression("$3"), "0x10");
    assert_eq!(expression("$4"), "(- 5)");
    assert_eq!(expression("$pid"), "123");
    let parsed = parse(b"BEGIN { trace($3); }", &Plain::new());
    assert_eq!(parsed.used_arguments, [false, false, false, true, false]);
}

#[test]
fn names_of_types_are_types_unless_used_as_variables() {
    assert_eq!(expression("id_t = 1"), "(= id_t 1)");
    assert_eq!(expression("(id_t)x"), "(as id_t x)");
    let program = tree("typedef int foo; foo x; foo * y; BEGIN { trace((foo)1); }");
    assert_eq!(program.items.len(), 4);
    let ItemKind::Decl(specs, _) = &program.items[2].kind else { panic!("{program:?}") };
    assert_eq!(specs.specs, [Spec::Name("foo".into())]);
    assert_eq!(error("BEGIN { trace((bar)1); }"), (1, "syntax error near \"1\"".into()));
}

#[test]
fn errors_are_libdtraces() {
    for (source, line, message) in [
        ("BEGIN exit(0)", 1, "expected predicate and/or actions following probe description"),
        ("BEGIN { trace(1) exit(0); }", 1, "syntax error near \"exit\""),
        ("BEGIN\n{ trace(1)\n", 3, "syntax error near end of input"),
        ("BEGIN / / { }", 1, "syntax error near \"/\""),
        ("BEGIN { a = 1 + ; }", 1, "syntax error near \";\""),
        ("BEGIN { trace(\"a\n\"); }", 1, "newline encountered in string literal"),
        ("BEGIN { trace(1.5); }", 1, "floating-point constants are not permitted"),
        ("BEGIN { trace(089); }", 1, "constant 089 contains invalid digit 8"),
        ("BEGIN { trace('abcdefghi'); }", 1, "character constant is too long"),
        ("BEGIN { ) }", 1, "extra ) in input stream"),
        ("BEGIN / (1 / { }", 1, "closing ) expected in predicate before /"),
        ("BEGIN /1/", 1, "expected actions { } following probe description and predicate"),
        ("BEGIN { trace($9); }", 1, "macro argument $9 is not defined"),
        ("BEGIN { trace($nosuch); }", 1, "macro variable $nosuch is not defined"),
        ("/* /* */ BEGIN { }", 1, "/* encountered inside a comment"),
        ("BEGIN { a + b = c; }", 1, "syntax error near \"=\""),
        ("BEGIN;", 1, "syntax error near \";\""),
    ] {
        assert_eq!(error(source), (line, message.into()), "{source}");
    }
}

#[test]
fn probes_alone_are_a_program_but_not_a_file() {
    let context = Plain { file: false, ..Plain::new() };
    let parsed = parse(b"BEGIN, END", &context);
    assert_eq!((parsed.error, parsed.program.items.len()), (None, 1));
}

#[test]
fn depth_is_limited() {
    for nest in ["(", "-", "!(int)", "{ if (1) ", "a[", "f("] {
        let source = format!("BEGIN {{ x = {}", nest.repeat(100_000));
        assert!(parse(source.as_bytes(), &Plain::new()).error.is_some());
    }
    for source in [
        format!("BEGIN {{ x = y{}; }}", "->z".repeat(100_000)),
        format!("int {}x;", "*".repeat(100_000)),
        format!("int {}x;", "(".repeat(100_000)),
        "struct a { ".repeat(100_000),
        format!("BEGIN {{ {} }}", "if (1) ".repeat(100_000)),
    ] {
        let error = parse(source.as_bytes(), &Plain::new()).error.unwrap();
        assert_eq!(error.message, "nested too deeply");
    }
    // A long chain is not nested, but its tree is deep.
    let source = format!("BEGIN {{ x = 1{}; }}", " + 1".repeat(100_000));
    assert!(parse(source.as_bytes(), &Plain::new()).error.is_some());
}

#[test]
fn lines_are_renamed() {
    let parsed = parse(b"# 10 \"foo.d\"\nBEGIN { ( }\n", &Plain::new());
    let error = parsed.error.unwrap();
    assert_eq!((error.place.unwrap().line, error.file.as_deref()), (10, Some("foo.d")));
}

#[test]
fn what_came_before_an_error_is_kept() {
    let parsed = parse(b"int x; BEGIN { trace(1); trace(2) trace(3); }", &Plain::new());
    let ItemKind::Clause(clause) = &parsed.program.items[1].kind else { panic!("{parsed:?}") };
    assert_eq!(clause.body.as_ref().unwrap().len(), 2);
    assert_eq!(parsed.error.unwrap().message, "syntax error near \"trace\"");
}

fn same_again(source: &str) {
    let first = parse(source.as_bytes(), &Plain::new());
    if first.error.is_some() {
        return;
    }
    let printed = first.program.to_string();
    let second = parse(printed.as_bytes(), &Plain::new());
    assert_eq!(second.error, None, "{source}\n{printed}");
    assert_eq!(second.program, first.program, "{source}\n{printed}");
}

#[test]
fn printed_programs_are_the_same_programs() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/oracle");
    let mut whole = 0;
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "d") {
            let source = std::fs::read(&path).unwrap();
            let source = String::from_utf8_lossy(&source);
            whole += usize::from(parse(source.as_bytes(), &Plain::new()).error.is_none());
            same_again(&source);
        }
    }
    assert!(whole > 200, "{whole}");
    same_again(
        "struct s { int a:3; unsigned :0; struct { char *p[4]; } *q; } *(*f)(int, char *, ...), g[2][3];
         union u; enum e { A, B = 1 + 2 }; typedef enum e e_t; string m[string, int]; self int t; this e_t l;
         inline int twice[int x] = x * 2;
         translator struct s < struct t *I > { a = I->b; };
         provider foo { probe bar(int a, char *b) : (int a); probe baz(void); };
         #pragma D option quiet
         #pragma D attributes Stable/Stable/Common foo
         a:b::c-d, 17, tick-1s / x == 1 && !(self->t) / { if (x) y++; else { z--; } @[1, \"a\"] = count(); @_; }
         END { x = a ? b : (c, d); p = &q->r; stringof(p); offsetof(struct s, a); xlate <struct s>(x).a; }",
    );
}

/// The words of the generated programs.
fn words() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(
        proptest::sample::select(vec![
            "BEGIN",
            "END",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "/",
            "x",
            "y",
            "trace",
            "self",
            "this",
            "->",
            ".",
            "=",
            "==",
            "+",
            "-",
            "*",
            "++",
            "&",
            "!",
            "~",
            "?",
            ":",
            ",",
            ";",
            "1",
            "0x10u",
            "0",
            "\"s\"",
            "'c'",
            "@a",
            "@",
            "int",
            "struct",
            "s",
            "typedef",
            "inline",
            "translator",
            "<",
            ">",
            "if",
            "else",
            "sizeof",
            "size_t",
            "string",
            "enum",
            "long",
            "unsigned",
            "xlate",
            "offsetof",
            "provider",
            "probe",
            "$1",
            "\n",
            "#pragma D option quiet\n",
            "count",
            "stringof",
            "||",
            "^^",
            "<<=",
            "...",
        ]),
        0..60,
    )
}

proptest! {
    #[test]
    fn any_bytes_are_read(source: Vec<u8>) {
        let parsed = parse(&source, &Plain::new());
        if let Some(error) = parsed.error {
            prop_assert!(error.place.is_some());
        }
    }

    #[test]
    fn any_words_are_read_and_printed(words in words()) {
        same_again(&words.join(" "));
        same_again(&format!("BEGIN {{ {} }}", words.join(" ")));
    }
}
