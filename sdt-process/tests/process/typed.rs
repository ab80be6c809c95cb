//! Typed arguments of functions, from the debug information of a library that the subject loads.
#![cfg(target_arch = "x86_64")]

mod structs;

use std::path::{Path, PathBuf};
use std::process::Command;

use dtrace_consumer::job::Mode;
use tempfile::TempDir;

use crate::consumer::Subject;
use crate::program::{arguments, error_of, refused, run};

/// Code without optimisation, and with it.
const LEVELS: [&str; 2] = ["0", "2"];

/// A compiled library, and a subject that has loaded it.
struct Library {
    _folder: TempDir,
    path: PathBuf,
    subject: Subject,
}

impl Library {
    /// Compiles the library in Rust with these options.
    fn rust(options: &[&str]) -> Self {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compiler = Command::new(rustc);
        compiler.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=typed"]);
        compiler.args(["-Clink-arg=-Wl,--build-id", "-Awarnings"]).args(options);
        Self::new(compiler, "typed/library.rs")
    }

    /// Compiles the library in C with these options; `None` without a compiler.
    fn c(options: &[&str]) -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            eprintln!("skipped: there is no cc");
            return None;
        }
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wl,--build-id"]).args(options);
        Some(Self::new(compiler, "typed/library.c"))
    }

    fn new(mut compiler: Command, source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libtyped.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process").join(source);
        assert!(compiler.arg("-o").arg(&path).arg(source).status().unwrap().success());
        let mut library = Self { _folder: folder, path, subject: Subject::new("jump") };
        library.drive();
        library
    }

    fn drive(&mut self) -> String {
        let command = format!("drive {}", self.path.display());
        self.subject.ask(&command)
    }

    /// Returns the output of a program while all functions are called once.
    fn run(&mut self, text: &str) -> String {
        let command = format!("drive {}", self.path.display());
        let [shown, said] = run(&mut self.subject, &filled(text), |subject| {
            subject.ask(&command);
        });
        assert_eq!(said, "", "{text}");
        shown.trim().to_owned()
    }

    /// Returns the messages of a program while all functions are called once.
    fn said(&mut self, text: &str) -> String {
        let command = format!("drive {}", self.path.display());
        let [_, said] = run(&mut self.subject, &filled(text), |subject| {
            subject.ask(&command);
        });
        said
    }

    fn refused(&self, text: &str) -> String {
        refused(&self.subject, &filled(text))
    }

    fn arguments(&self, function: &str) -> Vec<String> {
        arguments(&self.subject, &filled(function))
    }
}

/// Returns a program with the description of a function in place of `FUNCTION@`.
fn filled(text: &str) -> String {
    let words = text.split_inclusive('@');
    words
        .map(|part| match part.strip_suffix('@') {
            Some(function) => {
                let (before, function) =
                    function.rsplit_once(' ').map_or(("", function), |(before, of)| (before, of));
                format!("{before} pid$target:libtyped.so:{function}")
            }
            None => part.to_owned(),
        })
        .collect()
}

/// Runs a test for the library in Rust, without and with optimisation.
fn at_each_level(test: impl Fn(&mut Library, &str)) {
    for level in LEVELS {
        let mut library = Library::rust(&["-g", &format!("-Copt-level={level}")]);
        test(&mut library, level);
        library.subject.end();
    }
}

#[test]
fn numbers_have_their_types() {
    at_each_level(|library, level| {
        let shown = library.run(
            r#"*numbers@:entry { printf("%d %d %d %d %d %d, ", args[0], args[1], args[2], args[3], args[4], args[5]);
                printf("%d %d %d %d %d %d", args.tiny, args.small, args.medium, args.large, args.is_new, args.letter); }"#,
        );
        let all = "200 -300 4000000000 -5 1 120";
        assert_eq!(shown, format!("{all}, {all}"), "{level}");
        let types = ["tiny: uint8_t", "small: int16_t", "medium: uint32_t", "large: int64_t"];
        let types = [&types[..], &["is_new: _Bool", "letter: uint32_t"]].concat();
        assert_eq!(library.arguments("*numbers@:entry"), types, "{level}");
        // Signs count: the kernel passes all 64 bits of a register.
        let shown = library.run("*numbers@:entry /args.small < 0 && args.large < 0/ { trace(1); }");
        assert_eq!(shown, "1", "{level}");
    });
}

#[test]
fn texts_and_slices() {
    at_each_level(|library, level| {
        let shown = library.run(
            r#"*texts@:entry { printf("%s %d %s %d %d %d", args.path, args.path.len, args[2], args[3], args.words[2],
                args.words.len); }"#,
        );
        assert_eq!(shown, "/cart 5 ab 2 9 3", "{level}");
    });
}

#[test]
fn references_newtypes_enums_and_wide_numbers() {
    at_each_level(|library, level| {
        let shown = library.run(
            r#"*others@:entry { printf("%d %d %d %d %d;", *args.count, args.id, args.colour, args.wide.low, args.wide.high); }"#,
        );
        assert_eq!(shown, "42 17 0 2 3;42 17 1 2 3;", "{level}");
    });
}

/// A value that no register holds has no value in D, at any level.
#[test]
fn arguments_outside_of_registers_have_no_value() {
    at_each_level(|library, level| {
        assert_eq!(library.run(r"*seven@:entry { trace(args.f); }"), "6", "{level}");
        let why = library.refused("*seven@:entry { trace(args.seventh); }");
        assert!(why.contains("args.seventh has no value: "), "{level}: {why}");
        let why = library.refused("*seven@:entry { trace(args[6]); }");
        assert!(why.contains("args.seventh (args[6]) has no value: "), "{level}: {why}");
        assert_eq!(library.run("*large@:entry { trace(args.first); }"), "1", "{level}");
        for name in ["value", "ratio"] {
            let why = library.refused(&format!("*large@:entry {{ trace(args.{name}); }}"));
            assert!(why.contains(&format!("args.{name} has no value: ")), "{level}: {why}");
        }
        let why = library.refused("*large@:entry { trace(args.frist); }");
        assert!(why.contains(":entry has no argument frist, only first, value, ratio"), "{why}");
    });
}

#[test]
fn results_of_one_register_are_typed() {
    at_each_level(|library, level| {
        let shown = library.run(r#"*numbers@:return { printf("%d", args[1]); }"#);
        assert_eq!(shown, "-300", "{level}");
        assert_eq!(library.run("*texts@:return { trace(args[1]); }"), "5", "{level}");
        let shown = library.run(r#"*others@:return { printf("%d ", args[1]); }"#);
        assert_eq!(shown, "0 1", "{level}");
        assert_eq!(library.arguments("*nothing@:return"), [": uint64_t"], "{level}");
        let why = library.refused("*pair@:return { trace(args[1]); }");
        assert!(why.contains("args[1] has no value: "), "{level}: {why}");
        let why = library.refused("*nothing@:return { trace(args[1]); }");
        assert!(why.contains("index 1 is out of range"), "{level}: {why}");
    });
}

/// The optimiser removes a parameter and the result, and the next parameter moves to another register. dtrace follows.
#[test]
fn changed_calling_conventions_are_followed() {
    at_each_level(|library, level| {
        assert_eq!(library.run("*shifted@:entry { trace(args.second); }"), "11", "{level}");
        let first = "*shifted@:entry { printf(\"%d\", args.first); }";
        let result = "*shifted@:return { printf(\"%d\", args[1]); }";
        if level == "0" {
            assert_eq!(library.run(first), "-7");
            assert_eq!(library.run(result), "-7");
            return;
        }
        let why = library.refused(first);
        assert!(
            why.contains("args.first has no value: the debug information has no location"),
            "{why}"
        );
        let why = library.refused(result);
        assert!(why.contains("args[1] has no value: the compiler has changed how"), "{why}");
    });
}

/// A clause for several functions takes an argument from its place in each of them.
#[test]
fn several_functions_have_their_own_arguments() {
    at_each_level(|library, level| {
        let shown =
            library.run(r#"typed??f*@:entry { printf("%s %d;", probefunc, args.common); }"#);
        assert_eq!(shown, "typed::first 21;typed::fourth 22;", "{level}");
        let why = library.refused("typed??f*@:entry { trace(args[0]); }");
        assert!(why.contains("matches an unstable set of probes"), "{why}");
        let why = library.refused("typed??f*@:entry { trace(args.path); }");
        assert!(why.contains("these probes have no argument path: pid"), "{why}");
        assert!(why.contains(":libtyped.so:typed::first:entry, pid"), "{why}");
    });
}

/// The instances of a generic function are one probe.
#[test]
fn instances_with_different_arguments_are_refused() {
    at_each_level(|library, level| {
        let why = library.refused("*generic@:entry { trace(args.times); }");
        assert!(
            why.contains("several functions have this name, with different arguments"),
            "{level}: {why}"
        );
        let why = library.refused("*generic@:entry { trace(args[1]); }");
        assert!(why.contains("args[1] has no type: several functions"), "{level}: {why}");
    });
}

#[test]
fn without_debug_information_arguments_have_no_types() {
    for options in [&[][..], &["-g", "-Cstrip=debuginfo"]] {
        let library = Library::rust(options);
        // The library of Rust itself may have some.
        let reason = "the file has no debug information";
        let why = library.refused("*numbers@:entry { trace(args.tiny); }");
        assert!(why.contains(&format!(":entry has no argument tiny: {reason}")), "{why}");
        let why = library.refused("*numbers@:entry { trace(args[0]); }");
        assert!(why.contains(&format!("args[0] has no type: {reason}")), "{why}");
        assert!(library.arguments("*numbers@:entry")[0].starts_with(reason));
        // The registers are there without types.
        let mut library = library;
        assert_eq!(library.run("*numbers@:entry { trace((uint8_t)arg0); }"), "200");
        library.subject.end();
    }
}

#[test]
fn functions_in_c() {
    for level in ["-O0", "-O2"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let Some(mut library) = Library::c(&[level, version]) else { return };
            let what = format!("{level} {version}");
            let shown = library.run(
                r#"named@:entry { printf("%d %s %d %d", args.count, stringof(args.name), args.flag, args.port); }
                   named@:return { printf(" %d;", args[1]); }
                   sized@:entry { printf("%d %d %d", args.size, *args.numbers, args.difference); }
                   sized@:return { printf(" %d", args[1] == NULL); }"#,
            );
            assert_eq!(shown, "5 somebody 250 8080 -5;5 -6 -5 1", "{what}");
            let types =
                ["count: int", "name: char *", "flag: unsigned char", "port: unsigned short"];
            let types = [&types[..], &["at: struct point *"]].concat();
            assert_eq!(library.arguments("named@:entry"), types, "{what}");
            library.subject.end();
        }
    }
}

#[test]
fn similar_functions_are_suggested() {
    let library = Library::rust(&[]);
    let id = library.subject.id();
    let error = |function: &str, mode| {
        error_of(&library.subject, &format!("pid$target:libtyped.so:{function}"), mode)
    };
    for (function, other) in [
        ("numbers:entry", "typed::numbers:entry"),
        ("typed??nubmers:return", "typed::numbers:return"),
        ("drvie:entry", "drive:entry"),
    ] {
        let unmatched = format!("pid{id}:libtyped.so:{function}");
        let suggested = format!("did you mean pid{id}:libtyped.so:{other}?");
        let shown = error(function, Mode::Trace);
        let expected =
            format!("probe description {unmatched} does not match any probes\n{suggested}");
        assert!(shown.ends_with(&expected), "{shown}");
        let listed = error(function, Mode::List);
        let expected = format!(
            "failed to match {unmatched}: No probe matches description\nhint: {suggested}\n"
        );
        assert_eq!(listed, expected);
        // The suggestion is a description.
        let matches = error(other, Mode::List);
        assert_eq!(matches, "", "{other}");
    }
    for other in ["*nothing_like_it*:entry", "nothing_like_it:entry", "numbers:4"] {
        let shown = error(other, Mode::Trace);
        assert!(!shown.contains("did you mean"), "{shown}");
    }
    library.subject.end();
}
