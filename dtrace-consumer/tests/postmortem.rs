//! `dtrace --core` on the core of a process that was aborted while tracing, on the core of a stopped process, and on
//! files that are not cores.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dtrace_abi::postmortem::SESSION;
use object::elf;
use object::write::elf::{FileHeader, ProgramHeader, Writer};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use sdt_core::{sdt_probe, sdt_provider};

/// The environment variable that makes this program the process that is dumped. Its value is the number of rounds of each thread
/// between two pauses.
const ROLE: &str = "SDT_POSTMORTEM_SUBJECT";
const THREADS: u64 = 4;
/// The number of rounds that each thread traces first, so that the rings wrap around.
const ENOUGH: u64 = 2000;
/// Whether rounds are traced.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// The number of threads that have traced [`ENOUGH`] rounds.
static REACHED: AtomicU64 = AtomicU64::new(0);

sdt_provider! {
    /// The work of the traced process.
    pub itself {
        /// A thread begins a round: the number of the thread, and the number of the round.
        fn round(thread: u64, times: u64);
    }
}

/// Runs as the subject: its threads loop until the test makes it abort.
#[test]
fn subject() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let rounds: u64 = role.parse().unwrap();
    let all = Rlimit { current: None, maximum: None };
    // If the system does not allow cores, none is written.
    let _ = setrlimit(Resource::Core, all);
    let _traced = sdt_process::Options::new().module(c"subject".to_owned()).start().unwrap();
    for thread in 0..THREADS {
        std::thread::spawn(move || {
            let mut traced = 0;
            for times in 0_u64.. {
                traced += u64::from(COUNTS.load(Ordering::Relaxed));
                if traced == ENOUGH && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == THREADS {
                    println!("> traced");
                }
                sdt_probe!(itself::round, thread, times);
                if times % rounds == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
    println!("> started");
    let mut lines = std::io::stdin().lines();
    if lines.next().is_some() {
        COUNTS.store(true, Ordering::Relaxed);
    }
    if lines.next().is_some() {
        std::process::abort();
    }
}

/// A subject, and the dtrace that traces it.
struct Traced {
    subject: Child,
    dtrace: Child,
    folder: tempfile::TempDir,
}

impl Traced {
    /// Starts a subject that traces this number of rounds without a pause, and dtrace with these options and this program.
    fn new(rounds: u64, options: &[&str], text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut subject = Command::new(std::env::current_exe().unwrap())
            .args(["subject", "--exact", "--nocapture"])
            .env(ROLE, rounds.to_string())
            .env("XDG_RUNTIME_DIR", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(subject.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("> started")).unwrap().unwrap();
        let mut dtrace = Command::new(env!("CARGO_BIN_EXE_dtrace"))
            .args(["-p", &subject.id().to_string()])
            .args(options)
            .args(["-n", text])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The first line of dtrace's messages reports that tracing has begun; the test ignores the other lines.
        let mut said = BufReader::new(dtrace.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("matched 1 probe"), "{line}");
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        writeln!(subject.stdin.as_mut().unwrap(), "it is traced").unwrap();
        lines.find(|line| line.as_ref().unwrap().contains("> traced")).unwrap().unwrap();
        Self { subject, dtrace, folder }
    }

    /// Makes the subject abort, and returns the core, if the kernel has written one to the folder.
    fn abort(&mut self) -> Option<PathBuf> {
        writeln!(self.subject.stdin.as_mut().unwrap(), "abort").unwrap();
        let status = self.subject.wait().unwrap();
        assert!(!status.success());
        self.dtrace.wait().unwrap();
        let mut files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        files.find(|file| file.file_name().unwrap().to_string_lossy().starts_with("core"))
    }

    /// Stops the subject, and writes a core of its memory, as gcore(1) does.
    fn core(&self) -> PathBuf {
        let id = self.subject.id();
        kill_process(Pid::from_child(&self.subject), Signal::STOP).unwrap();
        let status = format!("/proc/{id}/status");
        while !fs::read_to_string(&status).unwrap().contains("State:\tT") {
            std::thread::sleep(Duration::from_millis(5));
        }
        let file = self.folder.path().join("stopped");
        write_core(id, &file);
        file
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        for child in [&mut self.dtrace, &mut self.subject] {
            // Kills the process if it has not ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Writes an ELF core of all memory of a process that it can write to.
fn write_core(id: u32, file: &Path) {
    let memory = File::open(format!("/proc/{id}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    let mut parts = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        let mut bytes = vec![0; (to - from) as usize];
        if memory.read_exact_at(&mut bytes, from).is_ok() {
            parts.push((from, bytes));
        }
    }
    let mut all = Vec::new();
    let mut writer = Writer::new(object::Endianness::Little, true, &mut all);
    writer.reserve_file_header();
    writer.reserve_program_headers(parts.len() as u32);
    let places: Vec<_> =
        parts.iter().map(|(_, bytes)| writer.reserve(bytes.len() as u64, 4096)).collect();
    writer
        .write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_CORE,
            e_machine: elf::EM_X86_64,
            e_entry: 0,
            e_flags: elf::FileFlags(0),
        })
        .unwrap();
    writer.write_align_program_headers();
    for ((at, bytes), offset) in parts.iter().zip(&places) {
        writer.write_program_header(&ProgramHeader {
            p_type: elf::PT_LOAD,
            p_flags: elf::PF_R | elf::PF_W,
            p_offset: *offset,
            p_vaddr: *at,
            p_paddr: 0,
            p_filesz: bytes.len() as u64,
            p_memsz: bytes.len() as u64,
            p_align: 4096,
        });
    }
    for ((_, bytes), offset) in parts.iter().zip(&places) {
        writer.pad_until(*offset);
        writer.write(bytes);
    }
    fs::write(file, all).unwrap();
}

/// Runs dtrace on a dump; returns its output, its messages and its status.
fn read(file: &Path, options: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let output = command.arg("--core").arg(file).args(options).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// Returns the printed rounds of each thread, in the order of the output.
fn rounds(shown: &str) -> BTreeMap<u64, Vec<u64>> {
    let mut all: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in shown.lines() {
        if let Some((thread, times)) = line.strip_prefix("round ").and_then(|of| of.split_once(' '))
        {
            all.entry(thread.parse().unwrap()).or_default().push(times.parse().unwrap());
        }
    }
    all
}

const TEXT: &str = "itself:::round { printf(\"round %d %d\\n\", args.thread, args.times); @[args.thread] = max(args.times); }";

/// Asserts that the output contains the last rounds of each thread, each once and in order, up to the round that was
/// aggregated last. The round in progress may be missing, and other threads may have overwritten the last records of a
/// thread.
fn assert_last_moments(shown: &str, said: &str) {
    let rounds = rounds(shown);
    let greatest: BTreeMap<u64, u64> = shown
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::parse);
            Some((words.next()?.ok()?, words.next()?.ok()?))
        })
        .collect();
    assert_eq!(greatest.len() as u64, THREADS, "{said}");
    let mut latest = 0;
    for (thread, times) in &rounds {
        assert!(times.is_sorted_by(|one, next| one < next), "thread {thread}: {times:?}");
        let (last, greatest) = (times[times.len() - 1], greatest[thread]);
        assert!(last <= greatest, "{last} {greatest}");
        latest += u64::from(last + 1 >= greatest);
    }
    assert_ne!(latest, 0, "{greatest:?}: {said}");
    let all: usize = rounds.values().map(Vec::len).sum();
    assert!(all > 400, "{all}: {said}; {greatest:?}");
}

#[test]
fn an_aborted_process_tells_its_last_moments() {
    let options = ["-x", "bufpolicy=ring", "-b", "16k"];
    let mut traced = Traced::new(512, &options, TEXT);
    let own = traced.core();
    let (shown, said, status) = read(&own, &["-q"]);
    assert_last_moments(&shown, &said);
    assert_eq!((&*said, status), ("", Some(0)));
    let (_, said, _) = read(&own, &[]);
    assert!(said.starts_with("dtrace: consumer 1: ") && said.ends_with("buffer policy ring\n"));
    let (listed, _, status) = read(&own, &["-l"]);
    let names: Vec<_> =
        listed.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!((names, status), (vec!["NAME", "ERROR", "round"], Some(0)));
    let refused = "dtrace: --core reads the records of programs that were enabled before the dump: it takes no programs\n";
    assert_eq!(read(&own, &["-n", "BEGIN"]), (String::new(), refused.into(), Some(1)));

    kill_process(Pid::from_child(&traced.subject), Signal::CONT).unwrap();
    match traced.abort() {
        Some(core) => {
            let (shown, said, status) = read(&core, &["-q"]);
            assert_last_moments(&shown, &said);
            assert_eq!(status, Some(0), "{said}");
        }
        None => {
            eprintln!("the system keeps cores elsewhere, or none: not tried with one of its own")
        }
    }
    cut_files_say_so(&own);
}

/// If any part of a dump is missing, dtrace prints only correct records, or a message with the reason why there are
/// none.
fn cut_files_say_so(core: &Path) {
    let length = fs::metadata(core).unwrap().len();
    let file = File::options().write(true).open(core).unwrap();
    let mut nothing = 0;
    for part in [960, 700, 500, 300, 200, 100, 80, 50, 20, 10, 5, 2, 1, 0] {
        file.set_len(length * part / 1000).unwrap();
        let (shown, said, status) = read(core, &["-q"]);
        if status == Some(0) {
            for times in rounds(&shown).values() {
                assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
            }
            continue;
        }
        nothing += 1;
        assert!(said.starts_with(&format!("dtrace: {}: ", core.display())), "{said}");
        assert_eq!((said.lines().count(), &*shown, status), (1, "", Some(1)), "{said}");
    }
    assert_ne!(nothing, 0, "an empty file has nothing");
}

/// With other policies, a dump contains the records that were not read yet.
#[test]
fn what_was_not_taken_yet_is_there() {
    let fill = ["-x", "bufpolicy=fill", "-b", "4m"];
    for options in [fill, ["-x", "switchrate=1h", "-b", "4m"]] {
        // The program for the policy `fill` has no aggregation.
        let text = if options == fill {
            TEXT.split_once("@").unwrap().0.to_owned() + "}"
        } else {
            TEXT.into()
        };
        let traced = Traced::new(4, &options, &text);
        let (shown, said, status) = read(&traced.core(), &["-q"]);
        let rounds = rounds(&shown);
        assert_eq!((&*said, rounds.len() as u64, status), ("", THREADS, Some(0)));
        for times in rounds.values() {
            // With `fill`, the dump contains all records; otherwise the last ones of both buffers. Between these, some are missing if
            // the first one was full before it was read.
            let gaps = times.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
            assert!(gaps <= usize::from(options != fill), "{gaps} gaps");
            assert!(times.is_sorted());
        }
    }
}

/// The program was traced with `-w`; `dtrace --core` shows its effects and performs none.
#[test]
fn effects_in_a_dump_are_shown_and_not_performed() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let path = made.display();
    let text = format!(
        "itself:::round /arg1 % 64 == 0/ {{
            system(\"touch %s\", \"{path}\"); freopen(\"{path}\"); ftruncate(); setopt(\"quiet\", \"1\");
            @a[arg0] = count(); clear(@a); trunc(@a); normalize(@a, 3); denormalize(@a); printa(@a);
        }}"
    );
    let options = ["-w", "-x", "bufpolicy=ring", "-b", "64k"];
    let traced = Traced::new(512, &options, &text);
    let core = traced.core();
    let output = folder.path().join("out");
    fs::write(&output, "before\n").unwrap();
    // dtrace reads rings at the end of a trace, and this one has not ended.
    assert!(!made.exists());
    for quiet in [&[][..], &["-q"]] {
        let to = ["-w", "-o", output.to_str().unwrap()];
        let (_, said, status) = read(&core, &[&to[..], quiet].concat());
        assert_eq!(status, Some(0), "{said}");
        for name in ["system", "freopen", "ftruncate", "setopt"] {
            let not_done =
                format!("dtrace: {name}( ) not performed: another run compiled the program");
            assert_eq!(said.matches(&not_done).count(), 1, "{said}");
        }
        let shown = fs::read_to_string(&output).unwrap();
        assert!(shown.starts_with("before\n"), "{shown}");
        for call in [
            format!("system(\"touch {path}\")"),
            format!("freopen(\"{path}\")"),
            "ftruncate()".into(),
        ] {
            assert!(shown.contains(&format!("{call} (not performed)\n")), "{call}: {shown}");
        }
        // The `setopt` of the traced program did not make this run quiet.
        assert!(shown.contains("FUNCTION:NAME"), "{shown}");
    }
    assert!(!made.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The data of one consumer is damaged, that of another is still readable.
#[test]
fn a_damaged_consumer_does_not_hide_another() {
    let options = ["-x", "bufpolicy=ring", "-b", "16k"];
    let traced = Traced::new(512, &options, TEXT);
    let mut other = Command::new(env!("CARGO_BIN_EXE_dtrace"))
        .args(["-p", &traced.subject.id().to_string(), "-x", "bufpolicy=ring", "-n", TEXT])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(other.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("matched 1 probe"), "{line}");
    let core = traced.core();
    let _ = other.kill();
    let _ = other.wait();
    let (_, said, status) = read(&core, &[]);
    assert_eq!((said.matches("buffer policy ring").count(), status), (2, Some(0)), "{said}");
    // A session begins with its tag and its consumer's number.
    let damage = |number: u32| {
        let mut bytes = fs::read(&core).unwrap();
        let begin = [SESSION.to_le_bytes(), number.to_le_bytes()].concat();
        let places: Vec<_> = (0..bytes.len() - 16)
            .step_by(8)
            .filter(|at| bytes[*at..].starts_with(&begin))
            .collect();
        assert_ne!(places, []);
        places.into_iter().for_each(|at| bytes[at + 8] ^= 1);
        fs::write(&core, bytes).unwrap();
    };
    damage(2);
    let (shown, said, status) = read(&core, &["-q"]);
    assert_eq!(said, "dtrace: the session of consumer 2 is not at its recorded address\n");
    assert_eq!((rounds(&shown).is_empty(), status), (false, Some(0)));
    damage(1);
    let (shown, said, status) = read(&core, &["-q"]);
    assert!(
        said.contains("cannot be read: the session of consumer 1 is not at its recorded address"),
        "{said}"
    );
    assert_eq!((&*shown, status), ("", Some(1)));
}

#[test]
fn what_is_no_dump_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let own = std::env::current_exe().unwrap();
    let error = |what: &str| {
        let (shown, said, status) = read(&file, &[]);
        assert_eq!((&*shown, status), ("", Some(1)));
        let expected = format!("dtrace: {}: {what}", file.display());
        assert!(said.starts_with(&expected), "{said}");
    };
    error("No such file or directory");
    let none = "no sdt-framework found in this dump";
    fs::write(&file, "").unwrap();
    error(none);
    fs::write(&file, "no dump").unwrap();
    error(none);
    fs::write(&file, b"\x7fELF\x02\x01\x01").unwrap();
    error("the ELF file is damaged or truncated: ");
    fs::write(&file, b"KDUMP   \x06\0\0\0").unwrap();
    error("the dump is compressed (kdump)");
    fs::copy(own, &file).unwrap();
    error("this ELF file is not a core");
}
