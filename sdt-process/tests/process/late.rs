//! Functions of libraries that the process loads while it is traced.
#![cfg(target_arch = "x86_64")]

use std::path::{Path, PathBuf};
use std::process::Command;

use dtrace_consumer::job::Mode;
use tempfile::TempDir;

use crate::consumer::{Consumer, Subject};
use crate::program::{Early, error_of, table};

/// A folder for compiled libraries.
struct Libraries(TempDir);

impl Libraries {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Compiles the library with these options. Replaces a file of the same name.
    fn compile(&self, name: &str, options: &[&str]) -> PathBuf {
        let (path, new) = (self.0.path().join(name), self.0.path().join("new"));
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compiler = Command::new(rustc);
        compiler.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=late"]);
        compiler.args(["-Clink-arg=-Wl,--build-id", "--check-cfg=cfg(other)"]).args(options);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/late/library.rs");
        assert!(compiler.arg("-o").arg(&new).arg(source).status().unwrap().success());
        std::fs::rename(new, &path).unwrap();
        path
    }
}

fn ask(subject: &mut Subject, command: &str, library: &Path) -> String {
    subject.ask(&format!("{command} {}", library.display()))
}

/// Returns the number of probes that a description matches. Sends no functions.
fn probes(subject: &Subject, description: &str) -> usize {
    Consumer::of(subject.id()).0.list(description).unwrap().len()
}

/// The sum of the results of the library's function for 1 to 100.
const SUM: &str = "10100";

#[test]
fn libraries_that_are_loaded_later_are_traced() {
    let libraries = Libraries::new();
    let [late, later] = [("liblate.so", "-Copt-level=0"), ("liblater.so", "-Copt-level=1")]
        .map(|(name, level)| libraries.compile(name, &[level]));
    let copy = libraries.0.path().join("libcopy-of-late.so");
    std::fs::copy(&late, &copy).unwrap();
    let mut subject = Subject::new("jump");
    let text =
        "pid$target:liblate.so:run:entry { @[\"entries\"] = sum(1); @[\"sum\"] = sum(arg0); }
        pid$target:lib*late*.so:run:return { @[probemod] = sum(arg1); }";
    let mut early = Early::start(&subject, text);
    early.until(|_| true);
    assert_eq!(probes(&subject, "pid*:::"), 0);
    ask(&mut subject, "load", &late);
    early.until(|_| probes(&subject, "pid*:liblate.so:run:") == 2);
    assert_eq!(ask(&mut subject, "run 100", &late), SUM);
    ask(&mut subject, "load", &later);
    early.until(|_| probes(&subject, "pid*:liblater.so:run:return") == 1);
    assert_eq!(ask(&mut subject, "run 100", &later), SUM);
    ask(&mut subject, "load", &copy);
    let why = "libcopy-of-late.so: not traced: its build ID is that of another loaded file";
    early.until(|said| said.contains(why));
    assert_eq!(ask(&mut subject, "run 100", &copy), SUM);
    let [shown, said] = early.end();
    let counts = table(&shown);
    let sums = ["entries", "sum", "liblate.so", "liblater.so"].map(|key| counts.get(key).copied());
    assert_eq!(sums, [100, 5050, 10100, 10100].map(Some), "{shown}{said}");
    assert_eq!(probes(&subject, "pid*:::"), 0);
    assert_eq!(ask(&mut subject, "run 100", &late), SUM);
    subject.end();
}

/// A library that no consumer traces is unloaded when the program closes it, and the file may be replaced. A library that is traced stays.
#[test]
fn traced_libraries_are_not_unloaded() {
    let libraries = Libraries::new();
    let late = libraries.compile("liblate.so", &[]);
    let mut subject = Subject::new("jump");
    let text = "pid$target:liblate.so:other:entry, pid$target:liblate.so:run:return { @[probefunc] = sum(arg1); }";
    ask(&mut subject, "load", &late);
    let early = Early::start(&subject, "pid$target:liblate.so:other:entry {}");
    assert_eq!(ask(&mut subject, "close", &late), "false");
    drop(early);
    libraries.compile("liblate.so", &["--cfg=other"]);
    let mut early = Early::start(&subject, text);
    ask(&mut subject, "load", &late);
    early.until(|_| probes(&subject, "pid*:liblate.so::") == 1);
    assert_eq!(ask(&mut subject, "run 100", &late), "15150");
    assert_eq!(ask(&mut subject, "close", &late), "true");
    ask(&mut subject, "load", &late);
    assert_eq!(ask(&mut subject, "run 100", &late), "15150");
    let [shown, said] = early.end();
    assert_eq!((table(&shown)["run"], &*said), (30300, ""), "{shown}");
    assert_eq!(ask(&mut subject, "close", &late), "true");
    subject.end();
}

/// A clause with types is compiled for the functions that exist. It does not read other arguments of functions that appear later.
#[test]
fn later_functions_have_the_types_of_the_clause() {
    let libraries = Libraries::new();
    let first = libraries.compile("libfirst.so", &["-g"]);
    let other = libraries.compile("libother.so", &["-g", "--cfg=other"]);
    let same = libraries.compile("libsame.so", &["-g", "-Copt-level=1"]);
    let mut subject = Subject::new("jump");
    ask(&mut subject, "load", &first);
    let mut early =
        Early::start(&subject, "pid$target:lib*:run:entry { @[probemod] = sum(args.n); }");
    ask(&mut subject, "load", &other);
    early.until(|said| said.contains("run: not traced: a program that uses arguments by type"));
    ask(&mut subject, "load", &same);
    early.until(|_| probes(&subject, "pid*:libsame.so:run:entry") == 1);
    for library in [&first, &other, &same] {
        ask(&mut subject, "run 100", library);
    }
    let [shown, _] = early.end();
    let counts: Vec<_> = table(&shown).into_iter().collect();
    assert_eq!(counts, [("libfirst.so", 5050), ("libsame.so", 5050)]);
    subject.end();
}

#[test]
fn libraries_that_are_not_loaded_are_reported() {
    let subject = Subject::new("jump");
    let why = error_of(&subject, "pid$target:libplugin.so:run:entry {}", Mode::Trace);
    assert!(why.contains("does not match any probes"), "{why}");
    // The dynamic linker is mapped, too.
    let why = error_of(&subject, "pid$target:ld-*::entry", Mode::List);
    assert!(why.contains("it is a function of the dynamic linker"), "{why}");
    subject.end();
}
