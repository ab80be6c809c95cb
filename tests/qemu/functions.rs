//! The provider `fbt`: consumers trace the functions of the kernel, and leave its text as it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cargo_sdt::internal::arch::Arch;
use clap::Parser;
use dtrace_consumer::client::FunctionSite;
use dtrace_consumer::consume::{self, Workload, WorkloadError};
use dtrace_consumer::functions::{Functions, Site};
use dtrace_consumer::render::Kept;
use dtrace_consumer::{ClientError, Interrupt, cli};
use dtrace_protocol::WhyNoFunction;
use harness::session::Session;
use harness::workspace;
use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSection, elf};
use sdt_protocol::Called;
use xtask::cmd::torture::{function_failures, random_seed};

use crate::bench::{boot, kernel_file, on_every_architecture};
use crate::machine::Machine;

on_every_architecture!(
    functions_are_listed,
    counts_are_those_of_the_functions,
    calls_are_shown_as_they_are_nested,
    other_files_are_refused,
    false_sites_are_refused,
    a_connection_that_ends_leaves_the_text,
    all_functions_are_tortured,
);

const CPUS: u32 = 4;
/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Arguments {
    #[command(flatten)]
    dtrace: cli::DtraceArgs,
}

/// Calls the counted functions once, while dtrace traces.
struct Calls<'a> {
    session: &'a mut Session,
    rounds: u32,
    hash: u64,
    called: Called,
}

impl Workload for Calls<'_> {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        self.hash = self.session.hash_text()?;
        self.called = self.session.call(self.rounds)?;
        Ok(false)
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// The output of dtrace, and what it traced.
struct Traced {
    /// The error with which it ended.
    error: Option<String>,
    out: String,
    messages: String,
    called: Called,
    /// The hash of the kernel's text meanwhile.
    hash: u64,
}

/// Runs dtrace with this file of the kernel. Meanwhile each CPU calls so many counted functions.
fn dtrace(session: &mut Session, file: &Path, rounds: u32, args: &[&str]) -> Traced {
    let kernel = ["--kernel", file.to_str().unwrap()];
    let parsed = Arguments::try_parse_from([&kernel, args].concat()).unwrap();
    let job = parsed.dtrace.job().unwrap().unwrap();
    let client = session.connect().unwrap();
    let mut calls = Calls { session, rounds, hash: 0, called: Called::default() };
    let mut output = Kept::default();
    let ended = consume::run(client, &job, &Interrupt::new(), &mut calls, &mut output);
    let Calls { called, hash, .. } = calls;
    let error = ended.err().map(|error| error.to_string());
    let out = String::from_utf8(output.out).unwrap();
    Traced { error, out, messages: output.err, called, hash }
}

/// Checks that no function is traced, and that the text has this hash.
fn check_untraced(session: &mut Session, hash: u64) {
    assert_eq!(session.list("fbt:::").unwrap(), []);
    assert_eq!(session.hash_text().unwrap(), hash);
}

fn functions_are_listed(arch: Arch) {
    let mut session = boot(arch, 1);
    let hash = session.hash_text().unwrap();
    let listed = dtrace(&mut session, kernel_file(arch), 0, &["-l", "-P", "fbt"]);
    assert_eq!(listed.error, None);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(lines.len() > 1000, "{}", lines.len());
    for name in ["entry", "return"] {
        let end = format!(" stand_in_kernel stand_in_kernel::counted::recursive::<3> {name}");
        assert!(lines.iter().any(|line| line.ends_with(&end)), "{end}: {}", listed.out);
    }
    // Functions that the breakpoint handler executes are not listed either.
    let is_framework = |line: &&&str| line.split_whitespace().nth(2) == Some("sdt_framework");
    assert_eq!(lines.iter().find(is_framework), None);
    check_untraced(&mut session, hash);
}

/// The description of the counted functions: `stand_in_kernel::counted::leaf::<3>`, and so on.
const COUNTED: &str = "fbt:stand_in_kernel:stand_in_kernel??counted??[lbtr]*???[0-9]?:";

fn counts_are_those_of_the_functions(arch: Arch) {
    let mut session = boot(arch, CPUS);
    let hash = session.hash_text().unwrap();
    // For `leaf::<3>`, the test also compares the argument and the result.
    let program = format!(
        "{COUNTED}entry {{ @e[probefunc] = count(); }}
        {COUNTED}return {{ @r[probefunc] = count(); }}
        fbt::*counted??leaf*3?:entry {{ self->word = (uint64_t)arg0; self->inside = 1; }}
        fbt::*counted??leaf*3?:return /self->inside/ {{
            @x[((self->word << 7 | self->word >> 57) ^ 3) == (uint64_t)arg1 ? \"right\" : \"wrong\"] = count();
            self->inside = 0;
        }}
        END {{
            printa(\"entry %s %@d\\n\", @e); printa(\"return %s %@d\\n\", @r);
            printa(\"result %s %@d\\n\", @x);
        }}"
    );
    let traced = dtrace(&mut session, kernel_file(arch), 500, &["-q", "-n", &program]);
    assert_eq!(traced.error, None, "{}", traced.messages);
    assert_ne!(traced.hash, hash, "the text has breakpoints");
    let mut counts: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for line in traced.out.lines().filter(|line| !line.is_empty()) {
        let [what, name, count] = *line.split(' ').collect::<Vec<_>>() else { panic!("{line}") };
        counts.entry(what).or_default().insert(name, count.parse().unwrap());
    }
    let Called { functions, wrong } = &traced.called;
    assert_eq!((functions.len(), *wrong), (50, 0));
    let called: BTreeMap<&str, u64> = functions.iter().map(|of| (&*of.name, of.calls)).collect();
    assert!(called.values().all(|calls| *calls > 0), "{called:?}");
    assert_eq!(counts["entry"], called, "{}", traced.messages);
    assert_eq!(counts["return"], called, "{}", traced.messages);
    let leaf = called["stand_in_kernel::counted::leaf::<3>"];
    assert_eq!(counts["result"], BTreeMap::from([("right", leaf)]));
    check_untraced(&mut session, hash);
}

/// The script of docs/d.md that prints a call graph with durations, for the counted functions.
fn call_graph() -> String {
    let guide = std::fs::read_to_string(workspace::root().join("docs/d.md")).unwrap();
    let section = guide.split_once("### The call graph of a kernel\n").expect("a section").1;
    let script = section.split_once("```d\n").unwrap().1.split_once("```").unwrap().0;
    let own = script.replace("fbt::*exec*:", COUNTED);
    assert_eq!(own.matches(COUNTED).count(), 2, "{script}");
    own
}

fn calls_are_shown_as_they_are_nested(arch: Arch) {
    let mut session = boot(arch, 1);
    let args = ["-F", "-n", &call_graph()];
    let traced = dtrace(&mut session, kernel_file(arch), 40, &args);
    assert_eq!(traced.error, None);
    let mut open: Vec<&str> = Vec::new();
    let (mut deepest, mut entries) = (0, 0);
    for line in traced.out.lines().filter(|line| line.contains("counted::")) {
        let (before, name) = line.split_once("stand_in_kernel::").unwrap();
        // The number of the CPU, and two columns.
        let indent = before.len() - "  0  -> ".len();
        if before.ends_with("-> ") {
            assert_eq!(indent, 2 * open.len(), "{}", traced.out);
            open.push(name.split_whitespace().next().unwrap());
            deepest = deepest.max(open.len());
            entries += 1;
        } else {
            assert!(before.ends_with("<- "), "{line}");
            let mut words = name.split_whitespace();
            assert_eq!(open.pop(), words.next(), "{}", traced.out);
            assert_eq!(indent, 2 * open.len(), "{}", traced.out);
            let time: u64 = words.next().expect("a time").parse().unwrap();
            assert!(time < 1_000_000_000 && words.next() == Some("ns"), "{line}");
        }
    }
    assert_eq!(open, [""; 0], "{}", traced.out);
    // The recursion has eight calls at most.
    assert!((3..=8).contains(&deepest), "{}", traced.out);
    assert_eq!(entries, traced.called.functions.iter().map(|of| of.calls).sum::<u64>());
}

/// Changes bytes of a copy of the kernel's file.
fn changed(file: &Path, change: impl FnOnce(&mut [u8])) -> tempfile::NamedTempFile {
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    let copy = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&copy, bytes).unwrap();
    copy
}

fn other_files_are_refused(arch: Arch) {
    let mut session = boot(arch, 1);
    let hash = session.hash_text().unwrap();
    let file = kernel_file(arch);
    let bytes = std::fs::read(file).unwrap();
    let elf = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
    let note = elf.section_by_name(".note.gnu.build-id").unwrap().file_range().unwrap();
    let last = (note.0 + note.1 - 1) as usize;
    let rebuilt = changed(file, |bytes| bytes[last] ^= 1);
    // The type of the section of symbols is at offset 4 of its header.
    let header = elf.elf_header();
    let (start, size) = (header.e_shoff(LittleEndian), header.e_shentsize(LittleEndian));
    let sections = header.section_headers(LittleEndian, &*bytes).unwrap();
    let symbols = sections.iter().position(|of| of.sh_type.get(LittleEndian) == elf::SHT_SYMTAB);
    let kind = start as usize + symbols.unwrap() * usize::from(size) + 4;
    let stripped = changed(file, |bytes| bytes[kind..kind + 4].fill(0));
    let unnamed = changed(file, |bytes| bytes[note.0 as usize + 8] ^= 1);
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&text, "fn main() {}\n").unwrap();
    // A file of a module that the kernel has not loaded.
    let module = ["--kernel", rebuilt.path().to_str().unwrap(), "-l", "-P", "fbt"];
    let refused = dtrace(&mut session, file, 0, &module);
    let error = refused.error.unwrap();
    assert!(error.contains(": the kernel has loaded no module with its build ID, "), "{error}");
    for (file, why) in [
        (&rebuilt, "the file is not that of the running kernel: its build ID is "),
        (&stripped, "the file has no symbols"),
        (&unnamed, "the file has no build ID, so it cannot be compared with the running kernel; "),
        (&text, "not an ELF file"),
    ] {
        let traced = dtrace(&mut session, file.path(), 1, &["-n", "fbt:::entry"]);
        let error = traced.error.expect("it is refused");
        let place = format!("--kernel {}: ", file.path().display());
        assert!(error.starts_with(&place) && error.contains(why), "{error}");
        assert_eq!(traced.out, "");
        check_untraced(&mut session, hash);
    }
}

fn false_sites_are_refused(arch: Arch) {
    let mut session = boot(arch, 1);
    let hash = session.hash_text().unwrap();
    let functions = Functions::read(kernel_file(arch)).unwrap();
    let build_id = functions.build_id.clone().unwrap();
    let counted = functions
        .all
        .iter()
        .filter(|of| of.name.function.starts_with("stand_in_kernel::counted::"));
    let sites: Vec<Site> = counted
        .flat_map(|of| of.entry.iter().chain(of.returns.iter().flatten()).cloned())
        .collect();
    let mut client = session.connect().unwrap();
    client.open().unwrap();
    let handler = client.function_text().unwrap().handlers[0];
    let mut send = |address: u64, code: &[u8]| {
        let (module, function) = ("m", "f");
        let (is_return, window) = (false, None);
        let site = FunctionSite { module, function, is_return, address, offset: 0, code, window };
        client.functions(&build_id, &[site]).unwrap().first().map(|(_, why)| *why)
    };
    let first = &sites[0];
    // The bytes of another instruction with the same length.
    let other = sites
        .iter()
        .find(|site| site.code().len() == first.code().len() && site.code() != first.code());
    assert_eq!(send(first.address, other.unwrap().code()), Some(WhyNoFunction::Bytes));
    assert_eq!(send(first.address, &[0xff; 4]), Some(WhyNoFunction::Instruction));
    assert_eq!(send(first.address, &[]), Some(WhyNoFunction::Instruction));
    assert_eq!(send(0x1000, first.code()), Some(WhyNoFunction::Address));
    assert_eq!(send(handler, first.code()), Some(WhyNoFunction::Address));
    assert_eq!(send(u64::MAX - 3, first.code()), Some(WhyNoFunction::Address));
    // Inside another site. An aarch64 instruction has to be aligned.
    let long = sites.iter().find(|site| site.code().len() > 2).expect("not all are short");
    assert_eq!(send(long.address, long.code()), None);
    let (inside, ret, why): (_, &[u8], _) = match arch {
        Arch::X86_64 => (1, &[0xc3], WhyNoFunction::Overlap),
        Arch::Riscv64 => (2, &[0x82, 0x80], WhyNoFunction::Overlap),
        Arch::Aarch64 => (2, &[0xc0, 0x03, 0x5f, 0xd6], WhyNoFunction::Instruction),
    };
    assert_eq!(send(long.address + inside, ret), Some(why));
    assert_eq!(session.list("fbt:::").unwrap().len(), 1);
    let refused = client.functions(b"another", &[]);
    assert_eq!(refused.map_err(|error| error.to_string()), Ok(Vec::new()), "nothing is sent");
    let site = FunctionSite {
        module: "m",
        function: "g",
        is_return: false,
        address: first.address,
        offset: 0,
        code: first.code(),
        window: None,
    };
    let Err(ClientError::Refused { message, .. }) = client.functions(b"another", &[site]) else {
        panic!("it is accepted");
    };
    assert_eq!(message, "the build ID of the file is not that of the running kernel");
    client.close().unwrap();
    check_untraced(&mut session, hash);
}

/// Kills consumers while they send functions, and while these are enabled.
fn a_connection_that_ends_leaves_the_text(arch: Arch) {
    let machine = Machine::with(&["--arch", arch.name(), "--bare"], &[] as &[&Path]);
    let mut session = Session::attach(&machine.socket()).unwrap();
    let hash = session.hash_text().unwrap();
    let start = || -> Command {
        let file = kernel_file(arch).to_str().unwrap();
        let mut command = machine.dtrace(&["--kernel", file, "-qn", "fbt::: { @ = count(); }"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let deadline = Instant::now() + PATIENCE;
    for probes in [1, 500, 1000] {
        let mut child = start().spawn().unwrap();
        while session.list("fbt:::").unwrap().len() < probes {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while !session.list("fbt:::").unwrap().is_empty() {
            assert!(Instant::now() < deadline, "the probes are still there");
        }
        assert_eq!(session.hash_text().unwrap(), hash);
    }
    // When it is enabled, the text differs.
    let mut child = start().spawn().unwrap();
    while session.hash_text().unwrap() == hash {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while session.hash_text().unwrap() != hash {
        assert!(Instant::now() < deadline, "the text is not restored");
    }
    check_untraced(&mut session, hash);
}

/// A short torture; `cargo xtask torture --functions` is the long one.
fn all_functions_are_tortured(arch: Arch) {
    const TRANSITIONS: u64 = 20;
    let seed = random_seed();
    println!("seed {seed}");
    let mut session = boot(arch, CPUS);
    let hash = session.hash_text().unwrap();
    let result = session.torture_functions(kernel_file(arch), seed, TRANSITIONS, |_| {});
    let result = result.expect("the kernel goes on");
    assert_eq!(function_failures(&result, TRANSITIONS), [""; 0], "seed {seed}: {result:#?}");
    assert!(result.probes > 1000 && result.breakpoints > result.entries, "{result:#?}");
    check_untraced(&mut session, hash);
}
