//! Typical first programs: runs each program of `seeds/` on this process, which does a known amount of work, and
//! compares the output with the file beside it.
#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use sdt_core::arg::CType;
use sdt_core::{sdt_probe, sdt_provider};

/// A struct with fields.
#[derive(CType)]
#[repr(C)]
#[c_name = "packet_t"]
pub struct Packet {
    length: u32,
    protocol: u16,
    flags: [u8; 2],
    name: [c_char; 8],
}

sdt_provider! {
    /// The probes that the programs use.
    pub field {
        /// The number of bytes read, or -1.
        fn read_return(bytes: i64);
        /// Memory is allocated.
        fn malloc(bytes: u64);
        /// A request has arrived.
        fn request(text: &CStr);
        /// A file is opened.
        fn open(path: &CStr);
        /// A packet has arrived.
        fn packet(packet: &super::Packet);
        /// A task begins.
        fn begin(which: i32);
        /// A task completes a step.
        fn step(which: i32);
        /// A task ends, with an error or 0.
        fn end(which: i32, error: i32);
        /// There is no more work.
        fn done();
    }
}

/// Does the work on one CPU, because records of speculations on several CPUs could be printed in another order.
#[inline(never)]
fn work() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).unwrap();
    for bytes in [1_i64, 3, 512, 512, 700, 4096, 5000, -1, 65536] {
        sdt_probe!(field::read_return, bytes);
    }
    for bytes in [16_u64, 16, 24, 24, 24, 255, 1000, 1500, 20_000] {
        sdt_probe!(field::malloc, bytes);
    }
    for text in [c"{\"ok\": {\"val\": 42}}", c"{\"ok\": {\"val\": \"yes\"}}", c"{\"no\": 1}"] {
        sdt_probe!(field::request, text);
    }
    sdt_probe!(field::open, c"/etc/motd");
    let name = [b'e', b't', b'h', b'0', 0, 0, 0, 0].map(|byte| byte as c_char);
    let packet = Packet { length: 60, protocol: 0x800, flags: [1, 2], name };
    sdt_probe!(field::packet, &packet);
    for (which, error) in [(1, 0), (2, 5), (3, 0), (4, 28)] {
        sdt_probe!(field::begin, which);
        sdt_probe!(field::step, which * 10);
        sdt_probe!(field::end, which, error);
    }
    sdt_probe!(field::done);
}

/// A program that prints a line when tracing has begun, and ends the trace when the work is done.
const FRAME: &str = "BEGIN { printf(\"ready\\n\"); } field:::done { exit(0); }";

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds")
}

/// Returns the complete output of a program.
fn printed(seed: &Path, options: &[&str]) -> String {
    let id = std::process::id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.args(["-q", "-x", "switchrate=20ms", "-p", &id]).args(options);
    command.arg("-n").arg(FRAME).arg("-s").arg(seed);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    if line == "ready\n" {
        work();
    }
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((&*line, &*said, output.status.code()), ("ready\n", "", Some(0)), "{seed:?}");
    rest
}

#[test]
fn each_prints_what_is_beside_it() {
    let _traced = sdt_process::Options::new().module(c"seeds".to_owned()).start().unwrap();
    let mut programs: Vec<PathBuf> =
        fs::read_dir(seeds()).unwrap().map(|entry| entry.unwrap().path()).collect();
    programs.retain(|path| path.extension().is_some_and(|extension| extension == "d"));
    programs.sort();
    assert_eq!(programs.len(), 11, "{programs:?}");
    for seed in &programs {
        let name = seed.file_stem().unwrap().to_str().unwrap();
        if name == "stacks" {
            let folder = tempfile::tempdir().unwrap();
            let picture = folder.path().join("flames.svg");
            let text = printed(seed, &["--flamegraph", picture.to_str().unwrap()]);
            assert_eq!(text.lines().filter(|line| line.trim() == "9").count(), 1, "{text}");
            let svg = fs::read_to_string(picture).unwrap();
            assert!(svg.starts_with("<?xml") && svg.contains("<svg"), "{svg}");
            continue;
        }
        let out = seed.with_extension("out");
        // This program has a name of its own each time that it is built.
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        let text = printed(seed, &[]).replace(program, "PROGRAM");
        assert_eq!(text, fs::read_to_string(&out).unwrap(), "{name}");
    }
}
