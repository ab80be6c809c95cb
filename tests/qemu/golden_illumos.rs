//! Compares our results with those of illumos's own krtld, `sdt` and `dtrace.c` for the same modules: see
//! `golden/illumos/README.md`.
#![cfg(target_arch = "x86_64")]

use harness::workspace;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use dtrace_consumer::client::{Detail, Probe};
use harness::session::{Session, SessionError};
use sdt_protocol::Exec;

use crate::bench::name;
use crate::golden::{masked, without_names};
use crate::illumos::{boot_illumos, good};
use crate::illumos_stress::O2;

/// A module's name and file.
type File = (String, Vec<u8>);

/// A module, and its companion if it has one, as they were when illumos listed them: with rustc's names.
fn built_files(package: &str, route: Route) -> Vec<PathBuf> {
    let module = Module {
        package: package.into(),
        os: Os::Illumos,
        route,
        raw_symbols: true,
        ..workspace::example(Arch::X86_64)
    };
    let companion = module.companion();
    let both = std::iter::once(module).chain(companion);
    both.map(|module| module.build(None).expect("it can be built")).collect()
}

fn built(package: &str, route: Route) -> Vec<File> {
    built_files(package, route).iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> File {
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    (name, std::fs::read(file).unwrap())
}

fn c(module: &str) -> Vec<File> {
    vec![(module.into(), good(module))]
}

#[test]
fn the_example() {
    replay("example", built("kmod-example", Route::Native));
}

#[test]
fn the_example_with_a_provider_of_its_own() {
    replay("example-provider", built("kmod-example", Route::Provider));
}

#[test]
fn the_test_module() {
    replay("test", built("kmod-test", Route::Native));
}

#[test]
fn the_test_module_with_providers_of_its_own() {
    replay("test-provider", built("kmod-test", Route::Provider));
}

#[test]
fn the_stress_module() {
    let file = O2.build().expect("it can be built");
    replay("stress", vec![read(&file)]);
}

#[test]
fn modules_in_c() {
    replay("c-example", c("proc_example"));
    replay("c-many", c("many"));
    replay("c-own", c("own"));
    replay("c-tail", c("tail"));
}

#[test]
fn what_is_refused() {
    let mut files = built("kmod-example", Route::Provider);
    files.extend(c("own"));
    replay("refusals", files);
}

/// For the example, our output equals that of dtrace(8) for illumos's answers.
#[test]
fn listings_of_the_command() {
    for (golden, route) in [("example", Route::Native), ("example-provider", Route::Provider)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["dtrace", "--os", "illumos", "-l", "-v", "-P", "proc"]);
        for file in built_files("kmod-example", route) {
            command.arg("--module").arg(file);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let listed = String::from_utf8(output.stdout).unwrap();
        // The probes that existed before differ, and so do ids.
        let expected = recorded(&format!("{golden}.list"));
        assert_eq!(masked(&without_names(&demangled(&listed))), masked(&expected), "{golden}");
    }
}

fn recorded(name: &str) -> String {
    let folder = workspace::root().join("tests/qemu/golden/illumos");
    let file: PathBuf = folder.join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Repeats a recording step by step, and compares the results.
fn replay(name: &str, files: Vec<File>) {
    let golden = recorded(&format!("{name}.txt"));
    let mut replay = Replay {
        session: boot_illumos(1),
        files: files.into_iter().collect(),
        consumer: None,
        shown: 0,
        console: 0,
    };
    replay.console = replay.session.wire.console().count();
    let mut text = String::new();
    for step in golden.lines().filter_map(|line| line.strip_prefix("> ")) {
        writeln!(text, "> {step}").unwrap();
        let said = replay.step(step);
        let console = replay.new_on_console();
        for line in console.iter().map(|line| format!("console: {line}")).chain(said) {
            writeln!(text, "  {line}").unwrap();
        }
    }
    let (text, golden) = (sorted(&text), sorted(&golden));
    for (number, (said, expected)) in (1..).zip(text.lines().zip(golden.lines())) {
        assert_eq!(said, expected, "{name}, line {number}");
    }
    assert_eq!(text, golden, "{name}");
}

/// Returns a transcript in which each listing is sorted by name. illumos lists probes in the order of their functions in the
/// file, which depends on the compiler.
fn sorted(transcript: &str) -> String {
    let (mut sorted, mut listing) = (String::new(), Vec::<String>::new());
    let mut is_listing = false;
    for line in transcript.lines() {
        if line.starts_with("> ") {
            listing.sort();
            sorted.extend(listing.drain(..));
            is_listing = ["> list", "> types", "> attrs"].iter().any(|step| line.starts_with(step));
        }
        // The details of a probe are indented below it.
        match listing.last_mut() {
            Some(last) if line.starts_with("    ") => writeln!(last, "{line}").unwrap(),
            _ if is_listing && line.starts_with("  ") => listing.push(format!("{line}\n")),
            _ => writeln!(sorted, "{line}").unwrap(),
        }
    }
    listing.sort();
    sorted.extend(listing);
    sorted
}

struct Replay {
    session: Session,
    files: HashMap<String, Vec<u8>>,
    /// The open consumer. At most one is open at a time.
    consumer: Option<u32>,
    /// Arguments that are shown of a record.
    shown: usize,
    /// Lines on the console so far.
    console: usize,
}

impl Replay {
    fn step(&mut self, step: &str) -> Vec<String> {
        let mut words = step.split(' ');
        let (step, operand) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match step {
            "load" => {
                let image = self.files[operand].clone();
                vec![outcome(self.session.kldload(operand, image))]
            }
            "unload" => vec![outcome(self.session.kldunload(operand))],
            "list" => self.list(operand).iter().map(line).collect(),
            "types" => self.details(operand, types),
            "attrs" => self.details(operand, provider),
            "open" => {
                self.consumer = Some(self.session.open().unwrap());
                Vec::new()
            }
            "enable" => {
                let shown = words.next().and_then(|word| word.strip_prefix("args="));
                self.shown = shown.expect("how many").parse().unwrap();
                let consumer = self.session.open().unwrap();
                self.consumer = Some(consumer);
                let matched = self.session.enable(consumer, name(operand)).unwrap();
                self.session.go(consumer).unwrap();
                vec![format!("matched {matched}")]
            }
            "exec" => {
                let exec = Exec { pid: 0, path: "/bin/ls".into() };
                let execs = vec![exec; operand.parse().unwrap()];
                self.session.exec(&execs).unwrap();
                Vec::new()
            }
            "records" => self.records(),
            "close" => {
                self.session.close(self.consumer.take().expect("it is open")).unwrap();
                Vec::new()
            }
            other => panic!("there is no step {other}"),
        }
    }

    fn list(&mut self, spec: &str) -> Vec<Probe> {
        let spec = if spec.is_empty() { "*:::" } else { spec };
        let mut probes = self.session.list(name(spec)).unwrap();
        // DTrace's own, and those of a module that was not loaded.
        probes.retain(|probe| !["dtrace", "profile"].contains(&&*probe.provider));
        probes
    }

    fn details(&mut self, spec: &str, show: fn(&Probe, &Detail) -> Vec<String>) -> Vec<String> {
        let mut blocks: Vec<Vec<String>> = Vec::new();
        for probe in self.list(spec) {
            let block = show(&probe, &self.session.describe(probe.id).unwrap());
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        blocks.concat()
    }

    fn records(&mut self) -> Vec<String> {
        let consumer = self.consumer.expect("it is open");
        self.session.stop(consumer).unwrap();
        let probes: HashMap<u32, String> =
            self.list("").iter().map(|probe| (probe.id, line(probe))).collect();
        let mut lines = Vec::new();
        for (_, records) in std::mem::take(&mut self.session.records) {
            for record in records.records {
                let mut shown = probes[&record.probe].clone();
                let args = record.args.iter().take(self.shown);
                args.for_each(|&arg| write!(shown, " {}", number(arg)).unwrap());
                lines.push(shown);
            }
        }
        lines
    }

    fn new_on_console(&mut self) -> Vec<String> {
        let lines = self.session.wire.console().skip(self.console);
        let lines: Vec<_> = lines.collect();
        self.console += lines.len();
        lines
    }
}

fn line(probe: &Probe) -> String {
    let Probe { provider, module, function, name, .. } = probe;
    let function = demangled(function).replace(".constprop.0", "");
    format!("{provider}:{module}:{function}:{name}")
}

/// Demangles names, and removes the hashes of crates.
fn demangled(text: &str) -> String {
    let word = |word: &str| match rustc_demangle::try_demangle(word) {
        Ok(name) => format!("{name:#}"),
        Err(_) => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn outcome(result: Result<(), SessionError>) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(SessionError::Refused(refusal)) => match refusal.errno {
            2 => "ENOENT".into(),
            16 => "EBUSY".into(),
            22 => "EINVAL".into(),
            other => other.to_string(),
        },
        Err(error) => panic!("{error}"),
    }
}

fn types(probe: &Probe, detail: &Detail) -> Vec<String> {
    let mut lines = vec![line(probe)];
    for (index, of) in detail.types.iter().enumerate() {
        let translated = of.translated.iter().map(|to| format!(" => {to}")).collect::<String>();
        lines.push(format!("  args[{index}]: {}{translated}", of.native));
    }
    if detail.types.is_empty() {
        lines.push("  none".into());
    }
    lines
}

fn provider(probe: &Probe, detail: &Detail) -> Vec<String> {
    const STABILITY: [&str; 8] = [
        "Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard",
    ];
    const CLASS: [&str; 6] = ["Unknown", "CPU", "Platform", "Group", "ISA", "Common"];
    let mut lines = vec![format!("{}, privileges {:#x}", probe.provider, detail.privileges)];
    let parts = ["provider", "module", "function", "name", "args"];
    for (part, triple) in parts.into_iter().zip(detail.provider) {
        let [name, data, class] = triple.map(usize::from);
        lines.push(format!("  {part} {}/{}/{}", STABILITY[name], STABILITY[data], CLASS[class]));
    }
    lines
}

/// Returns a small number of either sign as text, and `*` for any other: those are addresses, which differ between machines.
fn number(arg: u64) -> String {
    let arg = arg.cast_signed();
    if (-0x1000..=0xffff).contains(&arg) { arg.to_string() } else { "*".into() }
}
