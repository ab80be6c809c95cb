//! Declarations of modules: types, constants and translators, separate for each module.

mod common;

use common::Machine;
use dtrace_abi::dif::Opcode;
use dtrace_abi::stability::Attribute;
use dtrace_abi::{Platform, System};
use dtrace_compiler::declared::processes;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Difo, Program};
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::{Compiler, Source};

/// Two versions of a shop, and a module with invalid declarations.
struct Shops;

impl Surroundings for Shops {
    fn probes(&self, description: &Description) -> Matches {
        if description.provider != "shop" {
            return Machine.probes(description);
        }
        let module = match &*description.module {
            "" => "shop1".into(),
            module => module.to_owned(),
        };
        let argument = |native: &str, translated: &str, mapping| Argument {
            name: String::new(),
            native: native.into(),
            translated: translated.into(),
            mapping,
            obstacle: None,
        };
        let arguments = vec![
            argument("struct sale *", "", 0),
            argument("struct sale *", "saleinfo_t *", 0),
            argument("enum outcome", "", 1),
        ];
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        Matches::One(ProbeInfo::new(module, attributes, arguments))
    }
}

const OLD: &str = "provider\tshop\nstruct\tstruct sale\t16\t8\n\
    field\tcents\t0\t4\t0 0 0\tuint32_t\nfield\tnext\t8\t8\t0 0 0\tstruct sale *\n\
    enum\tenum outcome\nconstant\tOUTCOME_SOLD\t0\nconstant\tOUTCOME_REFUSED\t1\n\
    text\ttypedef struct saleinfo { uint64_t amount; } saleinfo_t;\n\
    text\ttranslator saleinfo_t < struct sale *S > {\n\
    text\t\tamount = S->cents;\n\
    text\t};\n";

const NEW: &str = "provider\tshop\nstruct\tstruct sale\t24\t8\n\
    field\tname\t0\t8\t8 0 0\tchar\nfield\tlocks\t8\t6\t3 2 0\tuint8_t\n\
    field\tnear\t14\t2\t0 0 0\tuint16_t\nfield\tcents\t16\t8\t0 0 0\tuint64_t\n\
    enum\tenum outcome\nconstant\tOUTCOME_SOLD\t0\nconstant\tOUTCOME_REFUSED\t7\n\
    text\ttypedef struct saleinfo { uint64_t amount; char first; } saleinfo_t;\n\
    text\ttranslator saleinfo_t < struct sale *S > { amount = S->cents * 2; first = S->name[0]; };\n";

fn compiler() -> Compiler {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    compiler.built_in("kernel", &processes(), &Shops);
    compiler.module("shop1", OLD.as_bytes(), &Shops);
    compiler.module("shop2", NEW.as_bytes(), &Shops);
    compiler
}

fn compile(text: &str) -> Result<Program, String> {
    let compiled = compiler().compile(Source::file(text.as_bytes()), &Shops);
    compiled.map_err(|error| error.with_tag())
}

fn difo(text: &str) -> Difo {
    let program = compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    program.ecbs[0].actions[0].difo.clone().unwrap()
}

fn has(difo: &Difo, opcode: Opcode) -> bool {
    difo.code.iter().any(|instr| instr.opcode() == Some(opcode))
}

#[test]
fn arguments_are_those_of_their_module() {
    let old = difo("shop:shop1::sale { trace(args[0]->next->cents); }");
    assert!(has(&old, Opcode::Lduw) && old.returns.size == 4);
    let new = difo("shop:shop2::sale { trace(args[0]->cents); }");
    assert!(has(&new, Opcode::Ldx) && new.integers.contains(&16) && new.returns.size == 8);
    difo("shop:shop2::sale { trace(args[0]->locks[2][1] + args[0]->near); }");
    difo("shop:shop2::sale { print(*args[0]); }");
    let missing = compile("shop:shop1::sale { trace(args[0]->near); }").unwrap_err();
    assert!(missing.ends_with("near is not a member of struct sale"), "{missing}");
}

#[test]
fn constants_are_known_everywhere() {
    for (module, value) in [("shop1", 1), ("shop2", 7)] {
        let text = format!("shop:{module}::sale {{ trace(OUTCOME_REFUSED + 0); }}");
        assert!(difo(&text).integers.contains(&value), "{module}");
        compile(&format!("shop:{module}::sale /args[2] == OUTCOME_REFUSED/ {{ trace(1); }}"))
            .unwrap();
    }
    // If the clause is not for a probe of one of the modules, the name of the first module takes precedence.
    assert!(difo("BEGIN { trace(OUTCOME_REFUSED); }").integers.contains(&1));
    compile("BEGIN { OUTCOME_REFUSED = 3; trace(OUTCOME_REFUSED); }").unwrap();
    compile("int OUTCOME_SOLD; struct sale { int x; }; BEGIN { trace(((struct sale *)arg0)->x); }")
        .unwrap();
}

#[test]
fn translators_come_with_the_probe() {
    let old = difo("shop:shop1::sale { trace(args[1]->amount); }");
    assert!(!has(&old, Opcode::Mul));
    let new = difo("shop:shop2::sale { trace(args[1]->amount); }");
    assert!(has(&new, Opcode::Mul));
    difo("shop:shop2::sale { trace(xlate <saleinfo_t>(args[0]).first); }");
    difo("shop:shop2::sale { trace(((struct sale *)arg0)->near); }");
    difo("BEGIN { trace(((shop2`saleinfo_t *)arg0)->first); }");
    difo("BEGIN { trace(((struct shop2`sale *)arg0)->near); }");
    assert!(compile("shop:shop1::sale { trace(xlate <saleinfo_t>(args[0]).first); }").is_err());
}

#[test]
fn what_is_wrong_is_said_of_its_own_probes() {
    let mut compiler = compiler();
    compiler.module("broken", b"text\t\ntext\ttranslator nosuch_t < int x > { };\n", &Shops);
    compiler.module("odd", b"struct\tstruct x; BEGIN {}\t1\t1\n", &Shops);
    compiler.module(
        "endless",
        b"struct\tstruct x\t8\t8\nfield\tx\t0\t8\t0 0 0\tstruct x\n",
        &Shops,
    );
    let mut wrong = |text: &str| {
        compiler.compile(Source::line(text.as_bytes()), &Shops).err().map(|e| e.to_string())
    };
    assert_eq!(wrong("shop:shop1::sale { trace(args[0]->cents); }"), None);
    assert_eq!(wrong("BEGIN { trace(1); }"), None);
    assert_eq!(
        wrong("shop:broken::sale { trace(1); }").unwrap(),
        "\"broken\", line 2: syntax error near \"nosuch_t\""
    );
    assert_eq!(
        wrong("shop:odd::sale { trace(1); }").unwrap(),
        "module odd: line 1 of its declarations, \"struct\\tstruct x; BEGIN {}\\t1\\t1\", has an unknown \
         form: build it with the sdt-core of this release"
    );
    assert_eq!(
        wrong("shop:endless::sale { trace(1); }").unwrap(),
        "module endless: struct x contains itself by value: correct its implementation of `CType`"
    );
}

#[test]
fn a_module_only_declares() {
    let refused = |text: &str, message: &str| {
        let declared: String = text.lines().map(|line| format!("text\t{line}\n")).collect();
        let mut compiler = compiler();
        let before = compiler.options().clone();
        compiler.module("bold", declared.as_bytes(), &Shops);
        assert_eq!(*compiler.options(), before, "{text}");
        let error = compiler.compile(Source::line(b"shop:bold::sale { trace(1); }"), &Shops);
        assert_eq!(error.unwrap_err().with_tag(), message, "{text}");
        // The other declarations of the module are not usable either.
        let program = Source::line(b"BEGIN { trace(sizeof (bold_t)); }");
        assert!(compiler.compile(program, &Shops).is_err(), "{text}");
    };
    let control = "the declarations of a module may not contain control lines, such as #pragma";
    for line in [
        "#pragma D option destructive",
        "#pragma D option pspec",
        "# pragma D attributes Stable/Stable/Common bold_t",
        "#pragma D depends_on provider shop",
        "#pragma once",
        "#line 7 \"other.d\"",
        "#error",
    ] {
        let message = format!("[D_PRAGCTL_INVAL] \"bold\", line 2: {control}");
        refused(&format!("typedef int bold_t;\n{line}\n"), &message);
    }
    let clause = "the declarations of a module may not contain clauses";
    for line in
        ["BEGIN { system(\"x\"); }", "shop:::sale", "7 { trace(1); }", "END /arg0/ { exit(1); }"]
    {
        let message = format!("[D_SYNTAX] \"bold\", line 2: {clause}");
        refused(&format!("typedef int bold_t;\n{line}\n"), &message);
    }
}

/// Returns declarations of nested structs, unions, arrays or names, one line for each level.
fn levels(count: u32, level: impl Fn(u32) -> String) -> String {
    (1..=count).map(|n| format!("text\t{}\n", level(n))).collect()
}

#[test]
fn types_within_each_other_are_read_in_one_pass() {
    let union = |n: u32| format!("union u{n} {{ union u{} a, b; }};", n - 1);
    let text = format!("text\tunion u0 {{ int x; }};\n{}", levels(60, union));
    let structs: String = (1..=60)
        .map(|n| {
            let of = format!("union v{}", n - 1);
            let field = |name| format!("field\t{name}\t0\t4\t0 0 0\t{of}\n");
            format!("union\tunion v{n}\t4\t4\n{}{}", field("a"), field("b"))
        })
        .collect();
    let first = "union\tunion v0\t4\t4\nfield\tx\t0\t4\t0 0 0\tint\n";
    // A typedef of a typedef does not count as a level.
    let names = levels(5_000, |n| match n {
        1 => "typedef union u60 t1;".into(),
        _ => format!("typedef t{} t{n};", n - 1),
    });
    let mut compiler = compiler();
    compiler.module("deep", format!("{first}{structs}{text}{names}").as_bytes(), &Shops);
    let program = "shop:deep::sale { print(*(union u60 *)arg0); print(*(t5000 *)arg0);
        trace(sizeof (union u60) + sizeof (union v60)); }";
    let program = compiler.compile(Source::line(program.as_bytes()), &Shops).unwrap();
    assert_eq!(program.ecbs[0].actions.len(), 3);
    for union in ["union u60", "union v60", "t5000"] {
        let ty = compiler.types().clone().lookup(union).unwrap();
        assert_eq!(compiler.types().of_printed(&compiler.types().printed(ty)), Ok(ty));
    }
}

#[test]
fn types_have_a_limit_of_levels() {
    const MANY: u32 = 4_000;
    let deep = |text: &str| {
        let error = fault(text);
        assert!(error.ends_with("type has more than 800 levels"), "{error}");
    };
    deep(&levels(MANY, |n| match n {
        1 => "typedef int a1[1];".into(),
        _ => format!("typedef a{} a{n}[1];", n - 1),
    }));
    deep(&levels(MANY, |n| match n {
        1 => "typedef int *p1;".into(),
        _ => format!("typedef p{} *p{n};", n - 1),
    }));
    deep(&levels(MANY, |n| match n {
        1 => "struct s1 { int x; };".into(),
        _ => format!("struct s{n} {{ struct s{} x; }};", n - 1),
    }));
    let struct_of = |n| match n {
        1 => "struct s1 { int x; };".into(),
        _ => format!("struct s{n} {{ struct s{} x; }};", n - 1),
    };
    let mut compiler = compiler();
    compiler.module("shop1", levels(800, struct_of).as_bytes(), &Shops);
    let program = Source::line(b"shop:shop1::sale { print(*(struct s800 *)arg0); }");
    compiler.compile(program, &Shops).unwrap();
    // A type that is mentioned first and defined later counts as well.
    deep(&levels(MANY, |n| match n {
        1 => "struct s1 { int x; };".into(),
        _ => format!("struct s{n}; typedef struct s{n} t{n}[1]; struct s{n} {{ t{} x; }};", n - 1)
            .replace("t1 x", "struct s1 x"),
    }));
    let inlines = fault(&levels(MANY, |n| match n {
        1 => "inline int i1 = pid;".into(),
        _ => format!("inline int i{n} = i{};", n - 1),
    }));
    assert!(inlines.ends_with("a chain of more than 256 inlines"), "{inlines}");
    // The compiler reads structs in the order of their tags, so the test uses an ascending and a descending order.
    for tag in [|n: u32| n, |n: u32| MANY - n] {
        let structs: String = (1..=MANY)
            .map(|n| {
                let ty = if n == 1 { "int".into() } else { format!("struct s{:06}", tag(n - 1)) };
                format!("struct\tstruct s{:06}\t4\t4\nfield\tx\t0\t4\t0 0 0\t{ty}\n", tag(n))
            })
            .collect();
        let error = fault(&structs);
        assert!(error.contains("more than 256 levels of structs, arrays or pointers"), "{error}");
    }
    let stars = "*".repeat(1 << 20);
    let error = fault(&format!("struct\tstruct a\t8\t8\nfield\tx\t0\t8\t0 0 0\tint {stars}\n"));
    assert!(error.contains("more than 256 levels of structs, arrays or pointers"), "{error}");
    assert_eq!(
        Compiler::new(Platform::Freebsd, Options::default()).types().clone().lookup(&stars),
        None
    );
}

#[test]
fn a_struct_is_no_member_of_itself() {
    for text in [
        "struct s { int a; struct s x; };",
        "union s { int a; union s x; int b; };",
        "struct s { int a; struct s x[2]; };",
        "struct s; typedef struct s t[2]; struct s { int a; t x; };",
        "struct s { int a; struct { int b; struct s x; } c; };",
    ] {
        let error = fault(&format!("text\t{text}\n"));
        assert!(error.contains("incomplete struct/union/enum"), "{text}: {error}");
    }
}

#[test]
fn processes_have_their_info() {
    for (member, size) in [("pr_psargs", 256), ("pr_fname", 256), ("pr_pid", 4)] {
        let difo = difo(&format!("BEGIN {{ trace(curpsinfo->{member}); }}"));
        assert_eq!(difo.returns.size, size, "{member}");
    }
    difo("BEGIN { trace(curlwpsinfo->pr_lwpid); }");
    for name in ["chip", "lgrp", "pset", "curcpu->cpu_id"] {
        assert_eq!(difo(&format!("BEGIN {{ trace({name}); }}")).returns.size, 4, "{name}");
    }
    assert_eq!(difo("BEGIN { trace(cwd); }").returns.size, 256);
    // A program may use these names for its own variables, as with all names of libraries.
    compile("BEGIN { root = 1; self->chip = root; this->cwd = execname; trace(this->cwd); }")
        .unwrap();
    // A program may define its own types and translators of these names, as FreeBSD's psinfo.d does.
    compile(
        "typedef struct psinfo { int pr_own; } psinfo_t; struct proc { int x; };
        translator psinfo_t < struct proc *P > { pr_own = P->x; };
        inline psinfo_t *curpsinfo = xlate <psinfo_t *>((struct proc *)curthread);
        BEGIN { trace(curpsinfo->pr_own); }",
    )
    .unwrap();
    assert!(
        compile("struct proc; BEGIN { trace(xlate <psinfo_t *>((struct proc *)0)->pr_pid); }")
            .unwrap_err()
            .starts_with("[D_XLATE_NONE]")
    );
}

/// Programs can use the members of IPv6 addresses under all their names.
#[test]
fn addresses_are_known_beside_processes() {
    for (member, size) in
        [("s6_addr[15]", 1), ("__u6_addr.__u6_addr16[3]", 2), ("in6_u.u6_addr32[1]", 4)]
    {
        let difo = difo(&format!("BEGIN {{ trace(((struct in6_addr *)arg0)->{member}); }}"));
        assert_eq!(difo.returns.size, size, "{member}");
    }
    let mut options = Options::default();
    options.no_libraries = true;
    let mut compiler = Compiler::new(Platform::Freebsd, options);
    compiler.built_in("kernel", &processes(), &Shops);
    compiler.compile(Source::line(b"shop:kernel::sale { trace(1); }"), &Shops).unwrap();
}

/// The first error in the declarations of a module is reported when a program names a probe of the module.
fn fault(declared: &str) -> String {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    compiler.module("shop1", declared.as_bytes(), &Shops);
    let program = Source::line(b"shop:shop1::sale { trace(1); }");
    compiler.compile(program, &Shops).unwrap_err().to_string()
}

#[test]
fn a_struct_that_contains_itself_is_refused_by_all_of_its_names() {
    let own = |name: &str, inner: &str| {
        fault(&format!("struct\t{name}\t8\t8\nfield\tself\t0\t8\t0 0 0\t{inner}\n"))
    };
    for (name, inner) in
        [("a_t", "a_t"), ("a_t", "struct a_t"), ("a_t", "struct  a_t"), ("struct a", "struct a")]
    {
        let error = own(name, inner);
        assert!(error.contains("contains itself"), "{name}, {inner}: {error}");
    }
    let error = fault(
        "struct\ta_t\t8\t8\nfield\tb\t0\t8\t0 0 0\tstruct b_t\n\
         struct\tb_t\t8\t8\nfield\ta\t0\t8\t0 0 0\tstruct a_t\n",
    );
    assert!(error.contains("contains itself"), "{error}");
}

#[test]
fn arrays_have_three_dimensions_at_most() {
    let line = "field\tx\t0\t1\t1 1 1 1\tuint8_t";
    let error = fault(&format!("struct\tstruct a\t1\t1\n{line}\n"));
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn processes_are_declared_without_a_fault() {
    compile("shop:kernel::sale { trace(1); }").unwrap();
}

#[test]
fn a_path_is_a_function() {
    let program = compile("shop:shop1:shop::serve:sale { trace(args[0]->cents); }").unwrap();
    let probe = &program.ecbs[0].probe;
    assert_eq!((&*probe.module, &*probe.function, &*probe.name), ("shop1", "shop::serve", "sale"));
    assert!(compile("shop:shop1:shop:serve:sale { trace(1); }").is_err());
}

#[test]
fn numbers_of_the_system_have_names() {
    let value = |system, declared: &str, text: &str, options| {
        let mut compiler = Compiler::new(Platform::Freebsd, options);
        compiler.module("shop1", declared.as_bytes(), &Shops);
        compiler.constants("system", system);
        let program = compiler.compile(Source::line(text.as_bytes()), &Shops);
        let program = program.map_err(|error| error.to_string())?;
        let integers = &program.ecbs[0].actions[0].difo.as_ref().unwrap().integers;
        // Without the shift that extends the sign.
        Ok::<Vec<u64>, String>(integers.iter().copied().filter(|value| *value != 32).collect())
    };
    let plain = |system, text: &str| value(system, "", text, Options::default());
    assert_eq!(plain(System::Linux, "BEGIN { trace(EAGAIN); }"), Ok(vec![11]));
    assert_eq!(plain(System::Freebsd, "BEGIN { trace(EAGAIN); }"), Ok(vec![35]));
    assert_eq!(plain(System::Freebsd, "BEGIN { trace(EAGAIN + SIGKILL); }"), Ok(vec![35, 9]));
    assert_eq!(
        plain(System::Illumos, "BEGIN { trace(O_CREAT | O_TRUNC); }"),
        Ok(vec![0x100, 0x200])
    );
    assert_eq!(plain(System::Other, "BEGIN { trace(IPPROTO_TCP); }"), Ok(vec![6]));
    let unknown = plain(System::Other, "BEGIN { trace(EAGAIN); }").unwrap_err();
    assert!(unknown.contains("failed to resolve EAGAIN"), "{unknown}");
    // A module's names take precedence, and a program can use the names for its own variables.
    let own = "enum\tenum fate\nconstant\tEAGAIN\t77\n";
    let text = "BEGIN { trace(EAGAIN); }";
    assert_eq!(value(System::Linux, own, text, Options::default()), Ok(vec![77]));
    assert_eq!(
        plain(System::Linux, "inline int EAGAIN = 99; BEGIN { trace(EAGAIN); }"),
        Ok(vec![99])
    );
    plain(System::Linux, "BEGIN { self->EAGAIN = 1; this->SIGKILL = 2; trace(this->SIGKILL); }")
        .unwrap();
    plain(System::Linux, "int ENOENT; BEGIN { ENOENT = 3; trace(ENOENT); }").unwrap();
    let mut options = Options::default();
    options.no_libraries = true;
    assert!(value(System::Linux, "", text, options).is_err());
}
