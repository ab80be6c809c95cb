//! Programs of every kind as hosts of their probes: position-independent or not, with a shared or static C library, glibc or
//! musl, with and without symbols, in all patch modes. Each is the example of `sdt-process`, built in this way and traced by
//! `dtrace`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cargo_sdt::internal::process::{self, clean_cargo_env};
use dtrace_consumer::client::FunctionSite;
use dtrace_consumer::functions::{Function, Functions};
use dtrace_consumer::{Address, Client, Protection, Transport};
use harness::{records, setup, workspace};
use object::{Object as _, ObjectKind, ObjectSection as _};

/// Cargo may have to build everything, on a slow machine.
const LIMIT: Duration = Duration::from_secs(1200);

const GNU: &str = "x86_64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

/// The options of a build of a program.
#[derive(Clone, Copy, Debug)]
struct Build {
    name: &'static str,
    /// cargo's options that select the target of the package.
    what: &'static [&'static str],
    target: &'static str,
    /// Flags for the last step of the build.
    flags: &'static [&'static str],
    patch: &'static str,
    kind: ObjectKind,
    is_static: bool,
    has_symbols: bool,
}

const PIE: Build = Build {
    name: "pie",
    what: &["--bin", "greeter"],
    target: GNU,
    flags: &[],
    patch: "",
    kind: ObjectKind::Dynamic,
    is_static: false,
    has_symbols: true,
};

impl Build {
    /// Builds it, and keeps the program, which the next build would overwrite.
    fn run(self) -> PathBuf {
        let folder = workspace::build_dir().join("processes");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        clean_cargo_env(&mut cargo).current_dir(workspace::root());
        // As if run by rustup's own cargo, which otherwise follows the toolchain files of packages.
        cargo.envs(workspace::settings());
        cargo.args(["rustc", "--quiet", "--package", "process-subject"]).args(self.what);
        cargo.args(["--target", self.target]).arg("--target-dir").arg(&folder);
        // The folder in which cargo finds the compiled macros.
        cargo.env("CARGO_BUILD_BUILD_DIR", workspace::root().join("target"));
        if !self.patch.is_empty() {
            // Cargo keeps crates that are compiled with other settings beside each other: the rest is not compiled again.
            cargo.env("SDT_PATCH", self.patch);
            cargo.args(["--config", "profile.dev.package.sdt-core.debug=1"]);
        }
        cargo.arg("--").args(self.flags);
        process::run(&mut cargo, LIMIT).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let file = match self.what {
            [_, program] => *program,
            _ => "libplugin.so",
        };
        let built = folder.join(self.target).join("debug").join(file);
        let programs = folder.join("programs");
        std::fs::create_dir_all(&programs).unwrap();
        let own = programs.join(self.name);
        std::fs::copy(built, &own).unwrap();
        own
    }

    /// Checks that the program is of the expected kind.
    fn check(self, program: &PathBuf) {
        let bytes = std::fs::read(program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let name = self.name;
        assert_eq!(file.kind(), self.kind, "{name}");
        assert_eq!(file.section_by_name(".interp").is_none(), self.is_static, "{name}");
        assert_eq!(file.symbols().next().is_some(), self.has_symbols, "{name}");
        let sites = file.section_by_name("sdt_sites").map_or(0, |sites| sites.size());
        assert_eq!(sites == 0, self.patch == "gate", "{name}: {sites}");
    }
}

/// A program that runs until this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Connects to a program that is starting.
fn reached(name: &str, program: &mut Running) -> Box<dyn Transport> {
    loop {
        match Address::Process(program.0.id()).open(&Protection::Machine, || {}) {
            Ok(line) => return line,
            Err(error) => {
                assert!(program.0.try_wait().unwrap().is_none(), "{name}: {error}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Enables a clause that records the arguments of a probe, and returns an argument of each hit, until there are at least five
/// hits. The caller has opened the client.
fn hits(client: &mut Client, probe: &str, argument: usize) -> Vec<u64> {
    assert_eq!(client.program(&records::program(probe)).unwrap(), 1, "{probe}");
    client.go().unwrap();
    let cpus = client.status().unwrap().cpus;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        std::thread::sleep(Duration::from_millis(20));
        for of_cpu in records::read(client, cpus).unwrap() {
            assert_eq!(of_cpu.drops, 0, "{probe}");
            seen.extend(
                of_cpu.records.iter().map(|record| (record.timestamp, record.args[argument])),
            );
        }
    }
    seen.sort_unstable();
    seen.into_iter().map(|(_, value)| value).collect()
}

/// Lists and traces a program: no hit is missed.
fn trace(build: Build, program: &PathBuf) {
    let name = build.name;
    let child = Command::new(program).stdin(Stdio::null()).spawn().unwrap();
    let mut program = Running(child);
    let line = reached(name, &mut program);
    let mut client = Client::connect(line).unwrap();
    let probes = client.list("hello:::greeted").unwrap();
    let [probe] = &probes[..] else { panic!("{name}: {probes:?}") };
    let function =
        if build.has_symbols && build.patch != "gate" { "greeter::main" } else { "none" };
    assert_eq!(probe.function, function, "{name}");
    let sites = client.sites(probe.id).unwrap();
    assert_eq!(sites.len(), usize::from(build.patch != "gate"), "{name}");
    for site in &sites {
        let function = site.function.as_ref().map(|(symbol, _)| symbol.contains("main"));
        assert_eq!(function, build.has_symbols.then_some(true), "{name}: {site:?}");
        assert!(site.in_reach, "{name}: {site:?}");
    }
    for round in 0..2 {
        client.open().unwrap();
        let seen = hits(&mut client, "hello:::greeted", 3);
        assert!(seen.is_sorted_by(|a, b| a + 1 == *b), "{name}, round {round}: {seen:?}");
        client.close().unwrap();
        client = Client::connect(
            Address::Process(program.0.id()).open(&Protection::Machine, || {}).unwrap(),
        )
        .unwrap();
        assert!(client.sites(probe.id).unwrap() == sites, "{name}: the nop is restored");
    }
}

/// Traces a function of Rust's standard library that the program calls between its greetings. Its site jumps in a program that is
/// position-independent, as the memory for detours is far below the program.
fn trace_function(build: Build, file: &Path) {
    let name = build.name;
    let functions = Functions::read(file).unwrap();
    let mut all = functions.all.iter();
    let is_sleep =
        |of: &&Function| of.name.module == "std" && of.name.function.ends_with("::sleep");
    let site = all.find(is_sleep).expect(name).entry.as_ref().unwrap();
    let original = site.code()[0];
    assert!(site.has_window(), "{name}: {site:?}");
    let child = Command::new(file).stdin(Stdio::null()).spawn().unwrap();
    let mut program = Running(child);
    let id = program.0.id();
    let mut client = Client::connect(reached(name, &mut program)).unwrap();
    client.open().unwrap();
    let wanted = FunctionSite {
        module: "a.out",
        function: "sleep",
        is_return: false,
        address: site.address,
        offset: 0,
        code: site.code(),
        window: site.window,
    };
    let build_id = functions.build_id.as_ref().unwrap();
    assert_eq!(client.functions(build_id, &[wanted]).unwrap(), [], "{name}");
    let start = match build.kind {
        ObjectKind::Executable => 0,
        _ => {
            let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
            let own = maps.lines().find(|line| line.ends_with(file.to_str().unwrap())).unwrap();
            u64::from_str_radix(own.split('-').next().unwrap(), 16).unwrap()
        }
    };
    let memory = File::open(format!("/proc/{id}/mem")).unwrap();
    let begins = || {
        let mut bytes = [0; 5];
        memory.read_exact_at(&mut bytes, start + site.address).unwrap();
        bytes
    };
    let before = begins();
    assert_eq!(before[0], original, "{name}");
    let nanoseconds = hits(&mut client, &format!("pid{id}:a.out:sleep:entry"), 1);
    assert!(nanoseconds.iter().all(|of| *of as u32 == 100_000_000), "{name}: {nanoseconds:?}");
    let [_, rest @ ..] = before;
    let changed = match build.kind {
        ObjectKind::Executable => [[0xcc].as_slice(), &rest].concat(),
        _ => [0xe9, 0xcc, 0xcc, 0xcc, 0xcc].to_vec(),
    };
    assert_eq!(begins().as_slice(), changed, "{name}");
    client.close().unwrap();
    assert_eq!(begins(), before, "{name}");
    assert!(program.0.try_wait().unwrap().is_none(), "{name}: it goes on");
}

fn runs(build: Build) {
    let program = build.run();
    build.check(&program);
    trace(build, &program);
    if build.has_symbols && build.patch != "gate" {
        trace_function(build, &program);
    }
}

/// One after the other, as they are built in one folder.
#[test]
fn programs_of_every_kind() {
    setup::target(MUSL).expect("the standard library for musl");
    runs(PIE);
    runs(Build {
        name: "at-one-place",
        flags: &["-Crelocation-model=static"],
        kind: ObjectKind::Executable,
        ..PIE
    });
    runs(Build { name: "stripped", flags: &["-Cstrip=symbols"], has_symbols: false, ..PIE });
    let own_libc = Build {
        name: "static-pie",
        flags: &["-Ctarget-feature=+crt-static"],
        is_static: true,
        ..PIE
    };
    runs(own_libc);
    runs(Build {
        name: "static",
        flags: &["-Ctarget-feature=+crt-static", "-Crelocation-model=static", "-Cstrip=symbols"],
        kind: ObjectKind::Executable,
        has_symbols: false,
        ..own_libc
    });
    runs(Build { name: "musl", target: MUSL, flags: &[], ..own_libc });
    runs(Build {
        name: "musl-stripped",
        target: MUSL,
        flags: &["-Crelocation-model=static", "-Cstrip=symbols"],
        kind: ObjectKind::Executable,
        has_symbols: false,
        ..own_libc
    });
    runs(Build { name: "optimised", flags: &["-Copt-level=3"], ..PIE });
    runs(Build { name: "gate", patch: "gate", ..PIE });
}

/// A traced library stays loaded when the program unloads it, because it contains the probe and the thread that serves consumers.
#[test]
fn a_library_that_is_traced_is_not_unloaded() {
    let library = Build { name: "libplugin.so", what: &["--lib"], ..PIE }.run();
    let loader = Build { name: "loader", what: &["--bin", "loader"], ..PIE }.run();
    let child = Command::new(loader).arg(library).stdin(Stdio::null()).spawn().unwrap();
    let mut program = Running(child);
    let mut client = Client::connect(reached("loader", &mut program)).unwrap();
    client.open().unwrap();
    let seen = hits(&mut client, "plugin:::called", 0);
    assert!(seen.is_sorted_by(|a, b| a + 1 == *b), "{seen:?}");
    client.close().unwrap();
    assert!(program.0.try_wait().unwrap().is_none(), "it goes on");
}
