//! Parts of the language that no recorded program shows: arguments of probes, symbols, libraries, several programs of
//! one compiler, stability, suggestions.

mod common;

use common::Machine;
use dtrace_abi::action::{Action, LibAction};
use dtrace_abi::aggregation::{Llquantize, Lquantize};
use dtrace_abi::dif::{Instr, Opcode};
use dtrace_abi::stability::Attribute;
use dtrace_abi::{ErrTag, Platform};
use dtrace_compiler::libraries::Library;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Difo, Ecb, Program};
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings, Symbol,
};
use dtrace_compiler::types::{TypeId, Types};
use dtrace_compiler::{Compiler, Error, Source, Specifies};

/// A kernel with a probe that has arguments, and with symbols.
struct Kernel;

impl Surroundings for Kernel {
    fn probes(&self, description: &Description) -> Matches {
        let argument = |native: &str, translated: &str, mapping| Argument {
            name: String::new(),
            native: native.into(),
            translated: translated.into(),
            mapping,
            obstacle: None,
        };
        if description.provider != "proc" {
            return Machine.probes(description);
        }
        let arguments = vec![
            argument("char *", "", 0),
            argument("uint8_t", "", 2),
            argument("struct raw *", "info_t *", 1),
            argument("struct raw *", "other_t", 1),
            argument("userland char *", "", 3),
        ];
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        let info = ProbeInfo::new(String::new(), attributes, arguments);
        if description.name.contains('*') { Matches::Several(info) } else { Matches::One(info) }
    }

    fn probe(&self, id: u32) -> Option<Description> {
        if id != 17 {
            return Machine.probe(id);
        }
        let [provider, module, function, name] =
            ["proc", "m", "<[u8] as Bytes<*const T>>::serve", "serve"].map(String::from);
        Some(Description { id, provider, module, function, name })
    }

    fn symbol(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<Symbol> {
        let module = module.unwrap_or("kernel");
        (module == "kernel" && name == "hz").then(|| Symbol {
            module: module.into(),
            name: name.into(),
            address: 0xffff_ffff_8000_1000,
            size: 4,
            ty: types.lookup("int"),
        })
    }

    fn type_named(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<TypeId> {
        (module == Some("kernel") && name == "ticks_t").then(|| {
            let int = types.lookup("int").unwrap();
            types.typedef("ticks_t", int)
        })
    }

    fn has(&self, class: &str, name: &str) -> bool {
        (class, name) == ("provider", "proc")
    }
}

fn compiler() -> Compiler {
    Compiler::new(Platform::Freebsd, Options::default())
}

fn compile(text: &str) -> Result<Program, Box<Error>> {
    compiler().compile(Source::file(text.as_bytes()), &Kernel)
}

fn message(text: &str) -> String {
    compile(text).expect_err(text).with_tag()
}

#[test]
fn names_are_those_of_the_version() {
    assert_eq!(
        message("int strstr; BEGIN { trace(1); }"),
        "[D_DECL_IDRED] line 1: built-in identifier redeclared: strstr"
    );
    clause("#pragma D option version=1.0\nint strstr; BEGIN { trace(1); }");
    let mut compiler = compiler();
    let library = b"#pragma D binding \"1.5\" late\ninline int late = 5;
        struct in { int a; }; struct out { int b; };
        #pragma D binding \"1.5\" translator\ntranslator struct out < struct in *I > { b = I->a; };";
    compiler.library("/lib/late.d", library, &Kernel).unwrap();
    let mut late = |text: &str| {
        let result = compiler.compile(Source::file(text.as_bytes()), &Kernel);
        result.map_err(|error| error.with_tag())
    };
    let uses = "BEGIN { trace(late); trace(xlate<struct out>((struct in *)0).b); }";
    late(uses).unwrap();
    late(&format!("#pragma D option version=1.5\n{uses}")).unwrap();
    assert_eq!(
        late(&format!("#pragma D option version=1.4\n{uses}")).unwrap_err(),
        "[D_IDENT_UNDEF] line 2: failed to resolve late: Unknown variable name"
    );
    assert_eq!(
        late("#pragma D option version=1.4\nBEGIN { xlate<struct out>((struct in *)0).b; }")
            .unwrap_err(),
        "[D_XLATE_NONE] line 2: cannot translate from \"struct in *\" to \"struct out\""
    );
    assert_eq!(
        late("#pragma D option version=1.4\n#pragma D option version=1.5\nBEGIN {}").unwrap_err(),
        "[D_PRAGMA_OPTSET] line 2: failed to set option 'version' to '1.5': Requested version conflicts with earlier setting"
    );
}

#[test]
fn types_of_programs_have_a_module_too() {
    let ecb = clause(
        "typedef struct pair { int a; int b; } pair_t;
        BEGIN { trace(((D`pair_t *)arg0)->b + sizeof (D`pair_t) + sizeof (struct D`pair)); }",
    );
    assert!(opcodes(ecb.actions[0].difo.as_ref().unwrap()).contains(&Opcode::Ldsw));
}

#[test]
fn only_libraries_depend_on_libraries() {
    assert_eq!(
        message("#pragma D depends_on library net.d\nBEGIN { trace(1); }"),
        "[D_PRAGMA_DEPEND] line 1: main program may not explicitly depend on a library"
    );
}

#[test]
fn an_argument_may_be_passed_twice() {
    compile(
        "provider p { probe place(int i, int j) : (int j, int i, int i); }; BEGIN { trace(1); }",
    )
    .unwrap();
    assert_eq!(
        message("provider p { probe place(int i, int i); }; BEGIN { trace(1); }"),
        "[D_DECL_PROTO_FORM] line 1: parameter is already declared in probe input prototype: i, parameter #2"
    );
}

/// Compiles a program that has one clause, and returns the clause.
fn clause(text: &str) -> Ecb {
    let mut program = compile(text).unwrap();
    assert_eq!(program.ecbs.len(), 1);
    program.ecbs.remove(0)
}

fn opcodes(difo: &Difo) -> Vec<Opcode> {
    difo.code.iter().filter_map(|instr| instr.opcode()).collect()
}

#[test]
fn arguments_are_mapped_and_cut() {
    let ecb = clause("proc:::exec { trace(args[1]); }");
    let difo = ecb.actions[0].difo.as_ref().unwrap();
    // Loads the third argument of the probe, and keeps eight of its 64 bits.
    assert_eq!(difo.integers, [2, 56]);
    assert_eq!(
        opcodes(difo),
        [Opcode::Setx, Opcode::Ldga, Opcode::Setx, Opcode::Sll, Opcode::Srl, Opcode::Ret]
    );
    assert!(difo.variables.is_empty());
    assert_eq!(difo.returns.size, 1);
}

const INFO: &str = "struct raw { int a; int b; }; typedef struct info { int x; string s; } info_t;
    translator info_t < struct raw *R > { x = R->b; s = \"s\"; };";

#[test]
fn arguments_are_translated() {
    let ecb = clause(&format!("{INFO} proc:::exec {{ trace(args[2]->x); }}"));
    let difo = ecb.actions[0].difo.as_ref().unwrap();
    assert_eq!(difo.code[..2], [Instr::setx(0, 1), Instr::three(Opcode::Ldga, 0, 1, 1)]);
    assert!(opcodes(difo).contains(&Opcode::Ldsw));
    assert_eq!(
        message(&format!("{INFO} proc:::exec {{ trace(args[2]->y); }}")),
        "[D_XLATE_NOCONV] line 2: translator does not define conversion for member: y"
    );
    assert_eq!(
        message(&format!(
            "{INFO} typedef struct other {{ int z; }} other_t; proc:::exec {{ trace(args[3]); }}"
        )),
        "[D_ARGS_XLATOR] line 2: translator for args[3] from struct raw * to other_t is not defined"
    );
    assert_eq!(
        message("proc:::exec { trace(args[2]); }"),
        "[D_ARGS_TYPE] line 1: failed to resolve translated type for args[2]"
    );
}

#[test]
fn arguments_of_processes_are_read_from_them() {
    let loads = |text: &str| opcodes(clause(text).actions[0].difo.as_ref().unwrap());
    assert!(loads("proc:::exec { trace(*args[0]); }").contains(&Opcode::Ldsb));
    assert!(loads("proc:::exec { trace(*args[4]); }").contains(&Opcode::Uldsb));
    let by_variable = clause("proc:::exec { this->p = args[4]; trace(this->p[3]); }");
    assert!(opcodes(by_variable.actions[1].difo.as_ref().unwrap()).contains(&Opcode::Uldsb));
}

#[test]
fn several_probes_are_one_only_if_their_arguments_are_stable() {
    assert_eq!(
        message("proc:::e* { trace(args[0]); }"),
        "[D_ARGS_MULTI] line 1: args[ ] may not be referenced because probe description proc:::e* matches an unstable set of probes"
    );
}

#[test]
fn symbols_and_types_of_modules() {
    let ecb = clause("BEGIN { trace(`hz); }");
    let difo = ecb.actions[0].difo.as_ref().unwrap();
    assert_eq!(difo.integers, [0xffff_ffff_8000_1000]);
    assert_eq!(opcodes(difo), [Opcode::Setx, Opcode::Ldsw, Opcode::Ret]);
    let ecb = clause("BEGIN { trace(&kernel`hz); }");
    assert_eq!(opcodes(ecb.actions[0].difo.as_ref().unwrap()), [Opcode::Setx, Opcode::Ret]);
    assert_eq!(
        message("BEGIN { trace(`nosuch); }"),
        "[D_IDENT_UNDEF] line 1: failed to resolve `nosuch: Unknown symbol name"
    );
    let ecb = clause("BEGIN { trace((kernel`ticks_t)pid); }");
    assert_eq!(ecb.actions[0].difo.as_ref().unwrap().returns.size, 4);
}

#[test]
fn programs_of_one_compiler_know_each_other() {
    let mut compiler = compiler();
    let mut run = |text: &str| compiler.compile(Source::line(text.as_bytes()), &Kernel);
    run("BEGIN { x = 1; @a[pid] = count(); }").unwrap();
    run("END { trace(x); printa(@a); }").unwrap();
    assert_eq!(run("END { x = \"s\"; }").unwrap_err().tag, Some(ErrTag::OpIncompat));
    // A refused program leaves no variables behind.
    run("END { y = 1; nosuch; }").unwrap_err();
    assert_eq!(
        run("END { trace(y); }").unwrap_err().message,
        "failed to resolve y: Unknown variable name"
    );
    run("END { y = \"s\"; trace(y); }").unwrap();
    let aggregations = compiler.aggregations();
    assert_eq!(aggregations[&1].name, "a");
    assert_eq!(aggregations[&1].function, Some(Action::Count));
}

#[test]
fn libraries_declare_and_their_errors_name_them() {
    let mut compiler = compiler();
    let library =
        b"#pragma D depends_on provider proc\n#pragma D binding \"1.0\" five\ninline int five = 5;";
    compiler.library("/lib/five.d", library, &Kernel).unwrap();
    let program = compiler.compile(Source::file(b"BEGIN { trace(five); }"), &Kernel).unwrap();
    assert_eq!(program.ecbs[0].actions[0].difo.as_ref().unwrap().integers, [5]);
    let error = compiler.library("/lib/bad.d", b"\ninline nosuch x = 5;", &Kernel).unwrap_err();
    assert_eq!(error.to_string(), "\"/lib/bad.d\", line 2: syntax error near \"nosuch\"");
    let error =
        compiler.library("/lib/io.d", b"#pragma D depends_on provider io\n", &Kernel).unwrap_err();
    assert_eq!(
        error.with_tag(),
        "[D_PRAGMA_DEPEND] \"/lib/io.d\", line 1: program requires provider io"
    );
}

#[test]
fn libraries_are_read_in_order() {
    let library = |name, text: &'static str| Library { name, text: text.as_bytes() };
    let libraries = [
        library("/lib/a.d", "#pragma D depends_on library b.d\ninline int two = one + 1;"),
        library("/lib/b.d", "inline int one = 1;"),
        library("/lib/io.d", "#pragma D depends_on provider io\ninline int io = 3;"),
        library("/lib/z.d", "#pragma D depends_on library io.d\ninline int z = io;"),
    ];
    let mut compiler = compiler();
    let left_out = compiler.libraries(&libraries, &Kernel).unwrap();
    let texts: Vec<String> = left_out.iter().map(|error| error.to_string()).collect();
    assert_eq!(
        texts,
        [
            "\"/lib/io.d\", line 1: program requires provider io",
            "\"/lib/z.d\", line 1: program requires library io.d"
        ]
    );
    let program = compiler.compile(Source::file(b"BEGIN { trace(two); }"), &Kernel).unwrap();
    assert_eq!(program.ecbs[0].actions[0].difo.as_ref().unwrap().integers, [2]);
}

#[test]
fn a_line_has_no_numbers_but_says_where() {
    let mut compiler = compiler();
    let mut error = |text: &str| {
        compiler.compile(Source::line(text.as_bytes()), &Kernel).unwrap_err().to_string()
    };
    assert_eq!(
        error("BEGIN { trace(nosuch); }"),
        "in action list: failed to resolve nosuch: Unknown variable name"
    );
    assert_eq!(
        error("BEGIN / \"a\" / { }"),
        "in predicate: predicate result must be of scalar type"
    );
    assert_eq!(error("BEGIN { trace( }"), "syntax error near \"}\"");
}

#[test]
fn parts_of_descriptions() {
    let describe = |text: &str, specifies| {
        let arguments = ["prog".to_string(), "exec".into()];
        let source = Source { specifies, arguments: &arguments, ..Source::line(text.as_bytes()) };
        let mut options = Options::default();
        options.no_probes = true;
        // A description refers to its arguments as well.
        options.unused_arguments = !text.contains("$1");
        let program = Compiler::new(Platform::Freebsd, options).compile(source, &Kernel);
        program.map(|program| program.ecbs[0].probe.to_string()).map_err(|error| error.message)
    };
    assert_eq!(describe("a:b{}", Specifies::Name).unwrap(), "::a:b");
    assert_eq!(describe("proc{}", Specifies::Provider).unwrap(), "proc:::");
    assert_eq!(describe("proc:kernel{}", Specifies::Module).unwrap(), "proc:kernel::");
    assert_eq!(describe("proc:::$1-x{}", Specifies::Name).unwrap(), "proc:::exec-x");
    assert_eq!(
        describe("a:b:c:d:e{}", Specifies::Name).unwrap_err(),
        "invalid probe description \"a:b:c:d:e\": Overspecified probe description"
    );
    assert_eq!(
        describe("a:$7{}", Specifies::Name).unwrap_err(),
        "invalid probe description \"a:$7\": Undefined macro variable in probe description"
    );
    assert_eq!(
        describe("17{}", Specifies::Provider).unwrap_err(),
        "probe identifier 17 not permitted when specifying providers"
    );
}

/// Kernels ignore the number of a probe: the program contains the names of the probe, and characters such as `*` in them are
/// literal.
#[test]
fn a_probe_by_its_number_has_its_names() {
    let probe = |text| compile(text).unwrap().ecbs[0].probe.clone();
    let begin = probe("1 { }");
    assert_eq!((begin.id, begin.provider.as_str(), begin.name.as_str()), (1, "dtrace", "BEGIN"));
    let serve = probe("17 { }");
    assert_eq!(serve.function, r"<\[u8] as Bytes<\*const T>>::serve");
    assert_eq!(
        message("18 { }"),
        "[D_PDESC_INVAL] line 1: invalid probe identifier 18: Unknown probe identifier"
    );
}

/// Returns the texts that the kernel stores for a clause.
fn texts(clause: &str) -> Vec<String> {
    let program = compile(&format!("BEGIN {{ {clause} }}")).unwrap();
    let texts = program.ecbs[0].statements.iter().filter_map(|statement| statement.text.as_ref());
    texts.map(|text| String::from_utf8(text.clone()).unwrap()).collect()
}

/// As in libdtrace (`dt_printf_validate`), counts are unsigned and other aggregations are signed.
#[test]
fn conversions_of_aggregations() {
    let conversions = "printa(\"%@d %@i %@u %@x %d\", @a);";
    let counts = texts(&format!("@a[1] = count(); {conversions}"));
    assert_eq!(counts, ["%@llu %@lli %@llu %@llx %i"]);
    for function in ["sum(1)", "min(1)", "max(1)", "avg(1)"] {
        let others = texts(&format!("@a[1] = {function}; {conversions}"));
        assert_eq!(others, ["%@lli %@lli %@llu %@llx %i"], "{function}");
    }
    let several = texts("@a[1] = count(); @b[1] = sum(-1); printa(\"%@d %@d\", @a, @b);");
    assert_eq!(several, ["%@lli %@lli"]);
}

/// The numbers of libdtrace's intrinsic types (`_dtrace_intrinsics_64`, dt_open.c), which begin with `void` as 1.
#[test]
fn print_says_which_type_it_is() {
    let types = [("char", 4), ("short", 5), ("int", 6), ("long", 7), ("unsigned int", 16)];
    for (name, number) in types {
        let [text] = &texts(&format!("print(*({name} *)0x1000);"))[..] else { panic!("{name}") };
        assert!(text.starts_with(&format!("D`{number}`")), "{text}");
        assert!(text.ends_with(&format!("`{name}")), "{text}");
    }
}

#[test]
fn actions_of_the_consumers() {
    let ecb =
        clause("BEGIN { @a = sum(1); normalize(@a, 5); trunc(@a); clear(@a); setopt(\"quiet\"); }");
    let library: Vec<_> =
        ecb.actions.iter().filter(|act| act.kind == Action::LibAct).map(|act| act.arg).collect();
    let [normalize, trunc, clear, setopt] =
        [LibAction::Normalize, LibAction::Trunc, LibAction::Clear, LibAction::Setopt]
            .map(|a| u64::from(a.number()));
    assert_eq!(library, [normalize, normalize, trunc, trunc, clear, setopt, setopt]);
    let counts: Vec<_> = ecb.statements.iter().map(|statement| statement.actions).collect();
    assert_eq!(counts, [2, 2, 2, 1, 2]);
}

#[test]
fn arguments_of_distributions() {
    let ecb = clause(
        "BEGIN { @a = lquantize(pid, -10, 100, 5); @b[1, stack(4)] = llquantize(pid, 10, 0, 6, 20, 3); }",
    );
    let acts: Vec<_> = ecb.actions.iter().filter(|act| act.kind.is_aggregation()).collect();
    assert_eq!(Lquantize::decode(acts[0].arg), Lquantize { base: -10, step: 5, levels: 22 });
    assert_eq!(
        Llquantize::decode(acts[1].arg),
        Llquantize { factor: 10, low: 0, high: 6, steps: 20 }
    );
    // The actions: the variable, two keys, and the increment.
    assert_eq!((acts[0].keys, acts[1].keys), (1, 4));
    assert_eq!(ecb.actions[4].kind, Action::Stack);
    assert_eq!(ecb.actions[4].arg, 4);
    for (second, tag) in [
        ("lquantize(pid, -11, 100, 5)", "D_LQUANT_MATCHBASE"),
        ("lquantize(pid, -10, 110, 5)", "D_LQUANT_MATCHLIM"),
        ("lquantize(pid, -10, 100, 10)", "D_LQUANT_MATCHSTEP"),
        ("lquantize(pid, 0, 10, 20)", "D_LQUANT_STEPLARGE"),
    ] {
        let text = format!("BEGIN {{ @a = lquantize(pid, -10, 100, 5); @a = {second}; }}");
        assert_eq!(compile(&text).unwrap_err().tag.unwrap().name(), tag);
    }
    for (arguments, tag) in [
        ("1, 0, 6, 20", "D_LLQUANT_FACTORSMALL"),
        ("10, 6, 6, 20", "D_LLQUANT_MAGRANGE"),
        ("10, 0, 6, 5", "D_LLQUANT_FACTORNSTEPS"),
        ("10, 0, 6, 30", "D_LLQUANT_FACTOREVEN"),
        ("10, 0, 100, 10", "D_LLQUANT_MAGTOOBIG"),
    ] {
        let text = format!("BEGIN {{ @a = llquantize(pid, {arguments}); }}");
        assert_eq!(compile(&text).unwrap_err().tag.unwrap().name(), tag);
    }
}

#[test]
fn stability_is_that_of_what_is_used() {
    let ecb = clause("BEGIN { trace(1); }");
    assert_eq!(ecb.statements[0].probe_attr, Attribute::UNSTABLE);
    assert_eq!(ecb.statements[0].attr, Attribute::DEFAULT);
    let ecb = clause("BEGIN { trace(`hz); }");
    assert_eq!(ecb.statements[0].attr, Attribute::PRIVATE);
    let mut options = Options::default();
    options.set("amin", Some("Evolving/Evolving/Common")).unwrap();
    let mut compiler = Compiler::new(Platform::Freebsd, options);
    let error =
        compiler.compile(Source::file(b"proc:::exec { trace(`hz); }"), &Kernel).unwrap_err();
    assert_eq!(
        error.with_tag(),
        "[D_ATTR_MIN] line 1: attributes for symbol kernel`hz (Private/Private/Unknown) are less than predefined minimum"
    );
}

#[test]
fn a_name_one_letter_off_is_suggested() {
    let hint = |text: &str| compile(text).unwrap_err().hint;
    assert_eq!(hint("BEGIN { trace(probenme); }").as_deref(), Some("did you mean probename?"));
    assert_eq!(hint("BEGIN { prinft(\"a\"); }").as_deref(), Some("did you mean printf?"));
    assert_eq!(
        hint("struct s { int count; }; struct s x; BEGIN { trace(x.cuont); }").as_deref(),
        Some("did you mean count?")
    );
    assert_eq!(hint("BEGIN { trace(nosuch); }"), None);
}

#[test]
fn an_option_that_is_refused_gets_a_hint() {
    let hint = |text: &str| compile(text).unwrap_err().hint;
    let values = hint("#pragma D option bufpolicy=foo\nBEGIN");
    assert_eq!(values.as_deref(), Some("bufpolicy takes switch, fill or ring"));
    let name = hint("#pragma D option strszie=8\nBEGIN");
    assert_eq!(name.as_deref(), Some("did you mean strsize?"));
}

#[test]
fn errors_point_into_their_line() {
    let text = "BEGIN\n{\n\ttrace(1 + \"a\" * 2);\n}\n";
    let error = compile(text).unwrap_err();
    assert_eq!(error.frame(text.as_bytes()).unwrap(), "\ttrace(1 + \"a\" * 2);\n\t          ^");
}

#[test]
fn inlines_are_bound_where_they_are_called() {
    let ecb = clause(
        "inline int sub[int a, int b] = a - b; inline int swap[int a, int b] = sub[b, a]; BEGIN { trace(swap[pid, ppid]); }",
    );
    let difo = ecb.actions[0].difo.as_ref().unwrap();
    let loads: Vec<_> = difo
        .code
        .iter()
        .filter(|i| i.opcode() == Some(Opcode::Ldgs))
        .map(|i| i.operand())
        .collect();
    // ppid - pid
    assert_eq!(loads, [0x11d, 0x116]);
}

#[test]
fn a_platform_has_its_own_subroutines() {
    let text = b"BEGIN { trace(json(\"{}\", \"a\")); }";
    let call = |platform| {
        let program = Compiler::new(platform, Options::default())
            .compile(Source::file(text), &Kernel)
            .unwrap();
        let difo = program.ecbs[0].actions[0].difo.clone().unwrap();
        difo.code.iter().find(|i| i.opcode() == Some(Opcode::Call)).unwrap().operand()
    };
    assert_eq!((call(Platform::Freebsd), call(Platform::Illumos)), (52, 47));
    let error = Compiler::new(Platform::Illumos, Options::default())
        .compile(Source::file(b"BEGIN { trace(memstr((void *)0, 'a', 3)); }"), &Kernel)
        .unwrap_err();
    assert_eq!(error.to_string(), "line 1: memstr( ) is not available on this platform");
}

#[test]
fn redeclarations_say_what_there_was() {
    assert_eq!(
        message("int x; string x; BEGIN { }"),
        "[D_DECL_IDRED] line 1: identifier redeclared: x\n\t current: scalar string\n\tprevious: scalar int"
    );
    assert_eq!(
        message("int m[int, int]; int m[int]; BEGIN { }"),
        "[D_DECL_IDRED] line 1: identifier redeclared: m\n\t current: associative array of int, tuple length 1\n\tprevious: associative array of int, tuple length 2"
    );
    assert_eq!(
        message("BEGIN { @a = count(); @a = sum(1); }"),
        "[D_AGG_REDEF] line 1: aggregation redefined: @a\n\t current: @a = sum( )\n\tprevious: @a = count( ) : line 1"
    );
    assert_eq!(
        message("int pid; BEGIN { }"),
        "[D_DECL_IDRED] line 1: built-in identifier redeclared: pid"
    );
}

#[test]
fn types_that_kernels_have_everywhere_are_known() {
    let load = |text: &str| clause(text).actions[0].difo.as_ref().unwrap().returns.size;
    assert_eq!(load("BEGIN { trace(uid); }"), 4);
    assert_eq!(load("BEGIN { trace(sizeof (struct in6_addr) == sizeof (in6_addr_t)); }"), 4);
    assert_eq!(load("BEGIN { trace(((struct in6_addr *)arg0)->in6_u.u6_addr16[3]); }"), 2);
    assert_eq!(load("BEGIN { trace(((struct in6_addr *)arg0)->__u6_addr.__u6_addr32[1]); }"), 4);
    assert_eq!(load("BEGIN { trace((genunix`dev_t)1); }"), 8);
    assert_eq!(load("BEGIN { trace(mutex_owned((struct mtx *)arg0)); }"), 4);
    clause("ERROR /arg4 == DTRACEFLT_BADADDR/ { trace(AF_INET6 + ARPHRD_ETHER); }");
    // A program may declare these types itself; its own declaration takes precedence.
    assert_eq!(load("typedef unsigned short uid_t; BEGIN { trace((uid_t)1); }"), 2);
    assert_eq!(
        load("typedef unsigned uint; typedef long long quad_t; BEGIN { trace((quad_t)1); }"),
        8
    );
    assert_eq!(
        load("struct in_addr { char c; }; BEGIN { trace(((struct in_addr *)arg0)->c); }"),
        1
    );
    clause("int AF_INET; BEGIN { AF_INET = 3; }");
    let without = "#pragma D option nolibs\nBEGIN { trace(uid); }";
    assert_eq!(
        message(without),
        "[D_UNKNOWN] line 2: failed to resolve type uid_t for identifier uid: Unknown type name"
    );
}

#[test]
fn inlines_with_parameters_are_called_too() {
    let text = "inline int twice[int x] = x + x; BEGIN { trace(twice(arg0)); trace(twice[arg0]); }";
    let ecb = clause(text);
    let code = |at: usize| ecb.actions[at].difo.as_ref().unwrap().code.clone();
    assert_eq!(code(0), code(1));
    clause("BEGIN { trace(link_ntop(ARPHRD_ETHER, (void *)arg0)); }");
    assert_eq!(
        message("BEGIN { link_ntop(1); }"),
        "[D_PROTO_LEN] line 1: link_ntop[ ] prototype mismatch: 1 key passed, 2 expected"
    );
    assert_eq!(
        message("BEGIN { none(1); }"),
        "[D_FUNC_UNDEF] line 1: undefined function name: none"
    );
}

#[test]
fn keys_wait_where_registers_are_few() {
    clause("BEGIN { a[1, 2, 3] = 1; trace(a[1, a[3, a[3, a[3, a[3, 2, 1], 1], 1], 1], 3]); }");
    let error = compile("BEGIN { a[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] = 0; }").unwrap_err();
    assert_eq!(error.message, "Insufficient tuple registers to generate code");
    // Expressions with side effects keep their order.
    assert_eq!(
        message("BEGIN { a[x++, x++, x++, x++, x++, x++, x++, x++] = 0; }"),
        "[D_NOREG] line 1: Insufficient registers to generate code"
    );
}

#[test]
fn dynamic_variables_that_are_structs_can_be_taken_away() {
    let declare = "struct s { int a; }; struct s a[int]; self struct s t; struct s g;";
    clause(&format!("{declare} BEGIN {{ a[1] = 0; self->t = 0; }}"));
    for wrong in ["g = 0", "a[1] = 1", "self->t = arg0"] {
        let error = message(&format!("{declare} BEGIN {{ {wrong}; }}"));
        assert!(error.starts_with("[D_OP_INCOMPAT]"), "{error}");
    }
}

#[test]
fn sizes_of_scratch_space_and_frames_have_limits() {
    let set = "#pragma D option scratchsize=64\n#pragma D option maxframes=5\n";
    assert_eq!(
        message(&format!("{set}BEGIN {{ alloca(65); }}")),
        "[D_ALLOCA_SIZE] line 3: alloca( ) size (65) is larger than scratchsize (64)"
    );
    let difo = |text: &str| clause(text).actions[0].difo.clone().unwrap();
    let limited = difo(&format!("{set}BEGIN {{ alloca(arg0); }}"));
    assert!(limited.integers.contains(&64), "{limited:?}");
    assert!(!difo("BEGIN { alloca(arg0); }").integers.contains(&64));
    let frames = |text: &str| clause(&format!("{set}BEGIN {{ {text}; }}")).actions[0].arg;
    assert_eq!((frames("stack()"), frames("stack(3)"), frames("stack(50)")), (5, 3, 5));
    assert_eq!(clause("BEGIN { stack(); }").actions[0].arg, 0);
}

#[test]
fn actions_of_others_are_named() {
    assert_eq!(
        message("BEGIN { return(1, 2); }"),
        "[D_PROTO_LEN] line 1: return( ) prototype mismatch: 2 args passed, 1 expected"
    );
    assert!(message("BEGIN { return(1); }").starts_with("[D_FUNC_UNDEF] line 1: return( )"));
    assert_eq!(message("BEGIN { return; }"), "[D_SYNTAX] line 1: syntax error near \"return\"");
    assert_eq!(
        message("BEGIN { inet_ntoa6((in6_addr_t *)arg0, arg1); }"),
        "[D_PROTO_ARG] line 1: inet_ntoa6( ) argument #2 must be an integer constant"
    );
}

#[test]
fn types_have_sizes_that_numbers_hold() {
    let big = "[D_DECL_ARRBIG] line 1: array dimension too big";
    assert_eq!(message("BEGIN { trace(sizeof (int[65536][65536][65536])); }"), big);
    assert_eq!(message("struct s { int a[4294967295][4294967295]; };"), big);
    let members = |count| (0..count).map(|at| format!("char m{at}[65536][65536][32768];"));
    let record = |count| format!("struct s {{ {} }};", members(count).collect::<String>());
    assert_eq!(message(&record(3)), "[D_DECL_ARRBIG] line 1: struct s is too large");
    clause(&format!("{} BEGIN {{ trace(sizeof (struct s)); }}", record(2)));
}

#[test]
fn a_long_chain_of_typedefs_is_no_long_way() {
    let mut text = "typedef short t0;".to_owned();
    (0..20_000).for_each(|at| text.push_str(&format!("typedef t{at} t{};", at + 1)));
    text.push_str("BEGIN { trace((t20000)1); }");
    assert_eq!(clause(&text).actions[0].difo.as_ref().unwrap().returns.size, 2);
}

#[test]
fn messages_are_those_of_libdtrace() {
    let undeclared = "BEGIN { @a += count(); }";
    assert_eq!(
        message(undeclared),
        "[D_VAR_UNDEF] line 1: a has not yet been declared or assigned"
    );
    assert_eq!(
        message("BEGIN { trace(nosuchmod`sym); }"),
        "[D_IDENT_UNDEF] line 1: failed to resolve nosuchmod`sym: Unknown module name"
    );
    assert_eq!(
        message("struct a { int b; }; BEGIN { trace(offsetof(struct a, q)); }"),
        "[D_UNKNOWN] line 1: failed to determine offset of q: Invalid member name"
    );
}

/// The error does not name the last line of the file.
#[test]
fn missing_registers_name_the_line_of_the_expression() {
    let text = "BEGIN { x = 0; }\nBEGIN {\n\ta[x++, x++, x++, x++, x++, x++, x++, x++] = 0;\n}\nEND\n{\n\ttrace(x);\n}\n";
    assert_eq!(message(text), "[D_NOREG] line 3: Insufficient registers to generate code");
}

/// The compiler rejects the same orders of actions as libdtrace, with the same tags.
#[test]
fn actions_that_may_not_follow_each_other() {
    for (body, tag) in [
        ("commit(1); commit(1);", "D_COMM_COMM"),
        ("trace(1); commit(1);", "D_COMM_DREC"),
        ("commit(1); trace(1);", "D_DREC_COMM"),
        ("commit(1); @[1] = count();", "D_AGG_COMM"),
        ("speculate(1); speculate(1);", "D_SPEC_SPEC"),
        ("commit(1); speculate(1);", "D_SPEC_COMM"),
        ("trace(1); speculate(1);", "D_SPEC_DREC"),
        ("speculate(1); @[1] = count();", "D_AGG_SPEC"),
        ("speculate(1); exit(0);", "D_EXIT_SPEC"),
        ("speculate(1); trace(1); stop();", "D_ACT_SPEC"),
    ] {
        let message = message(&format!("BEGIN {{ x = 1; {body} x = 2; }}"));
        assert!(message.starts_with(&format!("[{tag}] ")), "{body}: {message}");
    }
    clause("BEGIN { speculate(1); trace(1); trace(2); }");
    clause("BEGIN { @[1] = count(); trace(1); }");
}

#[test]
fn long_clauses_and_long_expressions_are_compiled() {
    let terms = vec!["x == 1"; 700].join(" || ");
    let ecb = clause(&format!("int x; BEGIN /{terms}/ {{ trace(1); }}"));
    assert!(ecb.predicate.unwrap().code.len() > 700);
    let ecb = clause(&format!("BEGIN {{ {} }}", "trace(1); ".repeat(2000)));
    assert_eq!(ecb.actions.len(), 2000);
    // Each statement has its own sections in the DOF.
    let program = compile(&format!("BEGIN {{ {} }}", "trace(1); ".repeat(30_000))).unwrap();
    let error = dtrace_compiler::dof::program(&program, &Options::default()).unwrap_err();
    assert!(
        error.to_string().ends_with("split it into several programs, each with its own -n or -s")
    );
}
