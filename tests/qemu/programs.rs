//! D programs on the probes of the example, the test module and OPTE. Compares their output with that of the real dtrace(1) of
//! FreeBSD 13: see `golden/programs/README.md`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::FreeBsd;
use harness::workspace;

use crate::golden::without_ours;
use crate::machine::Machine;

/// Machines at a time: each takes one CPU.
const AT_ONCE: usize = 2;

/// The first line of a program: its options, and the actions of the test while it runs.
struct Header<'a> {
    options: Vec<&'a str>,
    /// The action: `fire PATH...` fires the probes of the example, `exec PATH...` executes images, `sleep SECONDS` waits.
    action: &'a str,
    operands: Vec<&'a str>,
}

impl<'a> Header<'a> {
    fn of(program: &'a str) -> Self {
        let line = program.lines().next().unwrap_or_default();
        let inside = line.strip_prefix("/* ").and_then(|line| line.strip_suffix(" */"));
        let (options, action) = inside.and_then(|line| line.split_once("| ")).expect("a header");
        let (action, operands) = action.split_once(' ').expect("an action and its operands");
        let words = |text: &'a str| text.split_whitespace().collect();
        Self { options: words(options), action, operands: words(operands) }
    }
}

fn folder() -> PathBuf {
    workspace::root().join("tests/qemu/golden/programs")
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let programs = files.filter(|file| file.extension().is_some_and(|of| of == "d"));
    let mut names: Vec<_> =
        programs.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn print_what_they_print_on_freebsd_13() {
    all("13");
}

#[test]
fn print_what_they_print_on_freebsd_15() {
    all("15");
}

fn all(release: &str) {
    let version: FreeBsd = release.parse().unwrap();
    let built = |package: &str| {
        let of = workspace::example(Arch::X86_64);
        let module = Module { package: package.into(), freebsd: version, ..of };
        module.build(None).unwrap_or_else(|error| panic!("{package}: {error}"))
    };
    let modules = [built("kmod-example"), built("kmod-test")];
    let opte = [built("opte")];
    let names = names();
    assert!(names.len() >= 50, "{names:?}");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                // One machine for each set of modules, booted for the first program that needs it.
                let mut machines = [None, None];
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_opte = name.starts_with("opte-");
                    let modules: &[PathBuf] = if is_opte { &opte } else { &modules };
                    let machine = machines[usize::from(is_opte)].get_or_insert_with(|| {
                        Machine::with(&["--freebsd", release, "--cpus", "1"], modules)
                    });
                    let (said, expected) = (run(name, machine), golden(name, release));
                    if said != expected {
                        let difference = format!("{name}:\n{said}\n--- expected\n{expected}");
                        wrong.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), names.len(), wrong.join("\n"));
}

/// Returns the output of a program in the stand-in kernel.
fn run(name: &str, machine: &Machine) -> String {
    let file = folder().join(format!("{name}.d"));
    let program = std::fs::read_to_string(&file).unwrap();
    let header = Header::of(&program);
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("dtrace").arg("--socket").arg(machine.socket());
    command.args(&header.options).arg("-s").arg(&file);
    match header.action {
        "fire" => {
            let fire = |path| format!(" proc_example.fire={path}");
            let all: String = header.operands.iter().map(fire).collect();
            command.arg("-c").arg(format!("sysctl{all}"));
        }
        "exec" => {
            let line = |(pid, path)| format!("{pid} execve(\"{path}\", [\"x\"], 0x1) = 0\n");
            let log_lines: String = (100..).zip(&header.operands).map(line).collect();
            std::fs::write(log.path(), log_lines).unwrap();
            command.arg("--workload").arg(log.path());
        }
        "sleep" => _ = command.arg("-c").arg(format!("sleep {}", header.operands[0])),
        other => panic!("{name}: there is no action {other}"),
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let status = output.status.code().expect("it ends by itself");
    comparable(&format!("{status}\n{out}--- err\n{}", without_ours(&err)), &file)
}

/// Returns the recorded output of a program.
fn golden(name: &str, release: &str) -> String {
    let of_release = folder().join(format!("{name}.{release}.out"));
    let common = folder().join(format!("{name}.out"));
    let file = if of_release.exists() { of_release } else { common };
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    comparable(&text, &folder().join(format!("{name}.d")))
}

/// Removes the parts of an output that differ from run to run: ids, offsets in functions, and the path of the program.
fn comparable(text: &str, program: &Path) -> String {
    let text = text.replace(program.to_str().unwrap(), "PROGRAM");
    let text =
        text.replace(&format!("programs/{}", program.file_name().unwrap().display()), "PROGRAM");
    let lines = text.split_inclusive('\n');
    lines.map(|line| without_offset(&without_ids(line))).collect()
}

/// Returns a line without the CPU and the probe's id at its start or in an error.
fn without_ids(line: &str) -> String {
    let number = |text: &str| text.trim().bytes().all(|byte| byte.is_ascii_digit());
    if let Some((cpu, id, rest)) =
        line.get(..3).zip(line.get(3..10)).zip(line.get(10..)).map(|((a, b), c)| (a, b, c))
        && number(cpu)
        && number(id)
        && rest.starts_with(' ')
        && rest.contains(':')
    {
        return format!("CPU ID{rest}");
    }
    let Some((before, rest)) = line.split_once("(ID ") else { return line.into() };
    format!("{before}(ID {}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Returns a line without an offset in a function.
fn without_offset(line: &str) -> String {
    let Some((before, rest)) = line.split_once("+0x") else { return line.into() };
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    format!("{before}+{}", without_offset(behind))
}
