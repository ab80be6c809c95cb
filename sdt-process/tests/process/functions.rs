//! The provider `pidN`: functions of a process that declares no probe for them.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use dtrace_abi::function;
use dtrace_consumer::ClientError;
use dtrace_consumer::client::FunctionSite;
use dtrace_protocol::WhyNoFunction;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use sdt_core::site::ENCODING;

use crate::consumer::{Consumer, Subject};
use crate::program::{messages, run, start, table};

/// The description of a function of `subject::functions`.
fn probe(function: &str, name: &str) -> String {
    format!("pid$target:a.out:process??subject??functions??{function}:{name}")
}

/// The file of this program, from which the tests read its text and its build ID.
pub struct Program {
    bytes: Vec<u8>,
}

impl Program {
    pub fn new() -> Self {
        Self { bytes: std::fs::read("/proc/self/exe").unwrap() }
    }

    fn file(&self) -> object::File<'_> {
        object::File::parse(&*self.bytes).unwrap()
    }

    pub fn build_id(&self) -> Vec<u8> {
        self.file().build_id().unwrap().unwrap().to_vec()
    }

    /// Returns the range of addresses of the function whose symbol contains these texts.
    pub fn function(&self, parts: &[&str]) -> Range<u64> {
        let file = self.file();
        let all = file.symbols().filter(|of| {
            let name = of.name().unwrap();
            of.size() > 0 && parts.iter().all(|part| name.contains(part))
        });
        let of = all.min_by_key(|of| of.name().unwrap().len()).expect("no such function");
        of.address()..of.address() + of.size()
    }

    /// Returns some bytes of the text.
    pub fn code(&self, address: u64, length: usize) -> Vec<u8> {
        let file = self.file();
        let text = file.section_by_name(".text").unwrap();
        text.data_range(address, length as u64).unwrap().unwrap().to_vec()
    }

    /// Returns some bytes of the text of a process that executes this program.
    pub fn text_of(process: u32, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        memory.read_exact_at(&mut bytes, Self::loaded(process) + address).unwrap();
        bytes
    }

    /// Returns the instruction at an address.
    pub fn instruction(&self, address: u64) -> Vec<u8> {
        let code = self.code(address, function::MAX_LEN);
        let length = if cfg!(target_arch = "x86_64") {
            function::x86_64::decode(&code).map(|of| of.length.into())
        } else if cfg!(target_arch = "aarch64") {
            Some(function::aarch64::LEN)
        } else {
            function::riscv64::decode(&code).map(|of| of.length.into())
        };
        code[..length.unwrap()].to_vec()
    }

    /// Stores a byte in the text of a process that executes this program.
    pub fn store(process: u32, address: u64, byte: u8) {
        let memory = File::options().write(true).open(format!("/proc/{process}/mem")).unwrap();
        memory.write_all_at(&[byte], Self::loaded(process) + address).unwrap();
    }

    /// Returns the address at which the file of this program begins in the memory of a process.
    fn loaded(process: u32) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let own = std::fs::read_link(format!("/proc/{process}/exe")).unwrap();
        let first = maps.lines().find(|line| line.ends_with(own.to_str().unwrap())).unwrap();
        u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap()
    }

    /// Returns whether the text of a process that executes this program is that of the file.
    pub fn is_text_of(&self, process: u32) -> bool {
        let file = self.file();
        let text = file.section_by_name(".text").unwrap();
        Self::text_of(process, text.address(), text.size() as usize) == text.data().unwrap()
    }
}

#[test]
fn entries_and_returns_are_counted_exactly() {
    let mut subject = Subject::new("jump");
    let (entry, returns) = (probe("twice", "entry"), probe("twice", "return"));
    let low = "pid$target:a.out:subject_low:entry";
    let text = format!(
        "{low} {{ @[\"low\"] = sum(1); }} {entry} {{ @[\"entries\"] = sum(1); @[\"sum\"] = sum(arg0); }}
         {returns} {{ @[\"returns\"] = sum(1); @[\"results\"] = sum(arg1); @[\"late\"] = sum(arg0 > 0); }}"
    );
    let [shown, said] = run(&mut subject, &text, |subject| {
        assert_eq!(subject.ask("calls 1000"), "4000 4000");
    });
    let sum = 4 * 1000 * 1001 / 2;
    let counts = table(&shown);
    for (key, expected) in [
        ("entries", 4000),
        ("sum", sum),
        ("returns", 4000),
        ("results", 2 * sum),
        ("late", 4000),
        ("low", 4000),
    ] {
        assert_eq!(counts.get(key), Some(&expected), "{shown}{said}");
    }
    assert_eq!(said, "");
    assert!(Program::new().is_text_of(subject.id()));
    // Nothing was dropped, and later calls are not traced.
    assert_eq!(subject.ask("calls 10"), "40 4040");
    subject.end();
}

/// A function that panics is left by unwinding, and not by a return.
#[test]
fn entries_are_returns_and_unwindings() {
    let mut subject = Subject::new("jump");
    let (entry, returns) = (probe("deep", "entry"), probe("deep", "return"));
    let text = format!(
        "{entry} {{ @[\"entries\"] = count(); }} {returns} {{ @[\"returns\"] = count(); }}"
    );
    let [shown, said] = run(&mut subject, &text, |subject| {
        assert_eq!(subject.ask("unwound 20"), "10");
    });
    let counts = table(&shown);
    // A call of `deep` with n has n + 1 entries. If n is odd, it panics, and none of its activations returns.
    let entries = |n: &u64| n + 1;
    assert_eq!(counts["entries"], (0..20).map(|n| entries(&n)).sum::<u64>(), "{shown}{said}");
    let even = (0..20).filter(|n| n % 2 == 0);
    assert_eq!(counts["returns"], even.map(|n| entries(&n)).sum::<u64>(), "{shown}{said}");
    subject.end();
}

#[test]
fn the_stack_begins_with_the_function_and_its_caller() {
    let mut subject = Subject::new("jump");
    for name in ["entry", "return"] {
        let text = format!("{} {{ @[ustack(2)] = count(); }}", probe("twice", name));
        let [shown, said] = run(&mut subject, &text, |subject| {
            subject.ask("calls 1");
        });
        let frames: Vec<_> = shown.split_whitespace().collect();
        assert!(frames[0].contains("functions::twice"), "{shown}{said}");
        assert!(frames[1].contains("functions::calls"), "{shown}{said}");
    }
    subject.end();
}

/// Threads and programs are started and ended with all signals blocked: a breakpoint there would end the process.
#[test]
fn tracing_the_c_library_ends_nothing() {
    let mut subject = Subject::new("jump");
    for name in ["entry", "return"] {
        let text = format!("pid$target:libc.so*::{name} {{ @[probefunc] = count(); }}");
        let mut good = 0;
        let [shown, said] = run(&mut subject, &text, |subject| {
            good = subject.count("spawned 50");
        });
        assert_eq!(good, 50, "{shown}{said}");
        assert!(table(&shown).get("malloc").is_some_and(|count| *count >= 50), "{shown}{said}");
        assert!(shown.contains(" calloc ") && !shown.contains("free"), "{shown}");
        assert!(
            said.contains("not traced: the host excludes it: its breakpoint handler may call it")
        );
    }
    subject.end();
}

/// The handler and everything that it calls is excluded, so all other functions can be traced at once.
#[test]
fn tracing_all_functions_ends_nothing() {
    trace_all("jump-many");
}

/// The recording of a sample hits no breakpoint. Its signal would overwrite the frame of the sample's.
#[test]
fn breakpoints_at_all_functions_end_nothing() {
    trace_all("trap-many");
}

/// Traces all functions of a subject with this role.
fn trace_all(role: &str) {
    let mut subject = Subject::new(role);
    let of = |name| {
        let crates = ["std", "process??subject"];
        crates.map(|of| format!("pid$target:a.out:*{of}*:{name}")).join(", ")
    };
    let text = &format!(
        "{}, {} {{ @[\"hits\"] = sum(1); @[\"frames\"] = sum(ustackdepth); }}
         profile-997 {{ @[\"samples\"] = sum(1); @[\"frames\"] = sum(ustackdepth); }}",
        of("entry"),
        of("return")
    );
    let [shown, said] = run(&mut subject, text, |subject| {
        assert!(subject.ask("calls 5000").starts_with("20000 "));
        assert_eq!(subject.ask("unwound 4"), "2");
        assert_eq!(subject.ask("spawned 3"), "3");
        assert_eq!(subject.ask("signals 20").split(' ').count(), 2);
    });
    let counts = table(&shown);
    assert!(counts["hits"] > 1000 && counts["samples"] > 0, "{shown}{said}");
    assert!(!said.contains("no room"), "{said}");
    assert!(Program::new().is_text_of(subject.id()));
    subject.end();
}

/// Text changes under load, consumers disappear, and children are made.
#[test]
fn text_is_restored_at_each_end() {
    let program = Program::new();
    let mut subject = Subject::new("jump");
    subject.ask("calling");
    let text = format!("{}, {} {{ n++; }}", probe("twice", "entry"), probe("twice", "return"));
    for round in 0..8 {
        let running = start(&subject, &text);
        assert!(!program.is_text_of(subject.id()), "{round}");
        if round == 3 {
            let answer = subject.ask("fork");
            let child = answer.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(program.is_text_of(child), "{answer}");
            // SAFETY: sends a signal to the child, which still exists as it has not been waited for.
            unsafe { libc::kill(child.cast_signed(), libc::SIGKILL) };
        }
        // The consumer closes the connection without a request.
        drop(running);
        let is_restored = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            program.is_text_of(subject.id())
        });
        assert!(is_restored, "{round}");
    }
    assert_eq!(subject.ask("called"), "0");
    subject.end();
}

/// The process checks the sites that a consumer sends.
#[test]
fn false_sites_are_refused() {
    let program = Program::new();
    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    let text = consumer.0.function_text().unwrap();
    assert_eq!(text.build_id, program.build_id());
    assert!(consumer.0.knows_functions(&text.build_id).unwrap());
    assert!(!consumer.0.knows_functions(b"another").unwrap());
    let mut why = |build_id: &[u8], address: u64, code: &[u8]| {
        let (module, function) = ("a.out", "f");
        let is_return = false;
        let window = None;
        let site = FunctionSite { module, function, is_return, address, offset: 0, code, window };
        consumer.0.functions(build_id, &[site]).map(|refused| refused.first().map(|(_, why)| *why))
    };
    let twice = program.function(&["subject", "functions", "twice"]);
    let first = program.instruction(twice.start);
    // A return, and a system call.
    let (other, unknown) = if cfg!(target_arch = "x86_64") {
        (&[0xc3][..], &[0x0f, 0x05][..])
    } else if cfg!(target_arch = "aarch64") {
        (&[0xc0, 0x03, 0x5f, 0xd6][..], &[0x01, 0x00, 0x00, 0xd4][..])
    } else {
        (&[0x82, 0x80][..], &[0x73, 0x00, 0x00, 0x00][..])
    };
    let id = program.build_id();
    // Functions that are excluded: the handler of SIGTRAP, a function of `sdt_framework`, and one of `core`. Then addresses
    // outside of the text.
    for parts in
        [&["sdt_process", "on_trap"][..], &["sdt_framework", "function_hit"], &["core", "memchr"]]
    {
        let address = program.function(parts).start;
        let code = ENCODING.nop.as_bytes();
        assert_eq!(why(&id, address, code).unwrap(), Some(WhyNoFunction::Address), "{parts:?}");
    }
    let file = program.file();
    let variables = file.section_by_name(".data").unwrap().address().next_multiple_of(8);
    for address in [variables, u64::MAX - 3, 1 << 62] {
        assert_eq!(
            why(&id, address, &first).unwrap(),
            Some(WhyNoFunction::Address),
            "{address:#x}"
        );
    }
    // Refused are bytes that differ from the text, bytes that are no supported instruction, and the build ID of another program.
    assert_eq!(why(&id, twice.start, other).unwrap(), Some(WhyNoFunction::Bytes));
    assert_eq!(why(&id, twice.start, unknown).unwrap(), Some(WhyNoFunction::Instruction));
    assert!(matches!(why(b"another", twice.start, &first), Err(ClientError::Refused { .. })));
    assert_eq!(why(&id, twice.start, &first).unwrap(), None);
    assert!(program.is_text_of(subject.id()), "nothing is enabled");
    assert!(subject.ask("calls 10").starts_with("40 "));
    subject.end();
}

/// A signal handler on a small alternate stack calls traced functions: the hits are counted, and not recorded.
#[test]
fn small_alternate_stacks_are_not_overflown() {
    let mut subject = Subject::new("jump");
    let text = "pid$target:a.out:process??subject??signals??on_signal:entry { @ = count(); }";
    let mut counters = [String::new(), String::new()];
    let [shown, said] = run(&mut subject, text, |subject| {
        // SAFETY: returns a number and changes nothing.
        let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        // Two frames of signals: that of the handler, and that of the breakpoint.
        let room = 2 * least.max(libc::SIGSTKSZ);
        assert_eq!(subject.ask(&format!("alternate {room} 10")), "done");
        counters[0] = subject.ask("counters");
        assert_eq!(subject.ask("alternate 131072 7"), "done");
        counters[1] = subject.ask("counters");
    });
    // BEGIN has fired, too.
    assert_eq!(counters, ["1 0 0 10", "8 0 0 10"], "{shown}{said}");
    assert_eq!(shown.trim(), "7", "{said}");
    subject.end();
}

/// A breakpoint in a thread that blocks SIGTRAP would end the process.
#[test]
fn obstacles_are_reported() {
    let mut subject = Subject::new("jump");
    subject.ask("block");
    let said = messages(&subject, &format!("{} {{}}", probe("twice", "entry")));
    assert!(said.contains("functions cannot be traced: thread "), "{said}");
    assert!(said.contains("blocks SIGTRAP"), "{said}");
    assert!(subject.ask("calls 10").starts_with("40 "));
    subject.end();
}

/// The program has a breakpoint of its own, in text whose functions are traced.
#[test]
fn breakpoints_of_the_program_are_passed_on() {
    let mut subject = Subject::new("jump");
    let [shown, said] =
        run(&mut subject, &format!("{} {{ @ = count(); }}", probe("twice", "entry")), |subject| {
            assert_eq!(subject.ask("breakpoint"), "2");
            assert_eq!(subject.ask("calls 10"), "40 40");
            assert_eq!(subject.ask("breakpoint"), "4");
        });
    assert_eq!(shown.trim(), "40", "{said}");
    subject.end();
}

/// The clause uses the C library's functions for strings, which may use vectors.
#[cfg(not(target_arch = "x86_64"))]
#[test]
fn all_registers_are_kept() {
    let mut subject = Subject::new("jump");
    let clause = "@[strjoin(probefunc, execname)] = count(); @depth = sum(ustackdepth);";
    let text = format!(
        "pid$target:a.out:subject_kept:entry, pid$target:a.out:subject_kept:return {{ {clause} }}"
    );
    let mut kept = String::new();
    let [shown, said] = run(&mut subject, &text, |subject| kept = subject.ask("registers 1000"));
    eprintln!("registers and the size of vectors: {kept}");
    assert!(kept.starts_with("1000 "), "{kept}");
    assert!(shown.contains("2000"), "{shown}{said}");
    subject.end();
}

/// A consumer that sends more sites than there is room for gets the reason.
#[test]
fn too_many_functions_are_reported() {
    let mut subject = Subject::new("jump-few");
    let [_, said] = run(&mut subject, "pid$target:a.out:*subject*:entry { n++; }", |subject| {
        assert!(subject.ask("calls 10").starts_with("40 "));
    });
    assert!(said.contains("not traced: there is no room for more sites"), "{said}");
    assert!(Program::new().is_text_of(subject.id()));
    subject.end();
}
