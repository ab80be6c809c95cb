//! Functions whose first or last instructions a jump overwrites.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use dtrace_abi::function::Window;
use dtrace_consumer::ClientError;
use dtrace_consumer::client::FunctionSite;
use dtrace_protocol::WhyNoFunction;

use crate::consumer::{self, Consumer, Subject};
use crate::functions::Program;
use crate::program::{run, table};

/// The bytes of a jump.
const JUMP: [u8; 5] = [0xe9, 0xcc, 0xcc, 0xcc, 0xcc];

/// The traced functions of `subject::windows`, and how often each round enters and leaves them.
const FUNCTIONS: [(&str, u64, u64); 7] = [
    // Also called by `subject_call`, and entered behind the jump by two others.
    ("subject_steps", 2, 4),
    ("subject_back", 1, 2),
    ("subject_relative", 1, 1),
    ("subject_call", 1, 1),
    ("subject_tail", 1, 1),
    ("subject_through", 1, 1),
    ("subject_loop", 1, 1),
];

/// A hit of a jump raises no signal. A thread that continues behind the beginning of a jump hits a breakpoint, and its result is right.
#[test]
fn jumps_record_each_hit_and_change_no_result() {
    let mut subject = Subject::new("jump");
    let program = Program::new();
    let text: String = FUNCTIONS
        .iter()
        .flat_map(|(name, ..)| ["entry", "return"].map(|which| (name, which)))
        .map(|(name, which)| {
            format!("pid$target:a.out:{name}:{which} {{ @[\"{name}:{which}\"] = sum(1); }}\n")
        })
        .collect();
    let mut traps = 0;
    let [shown, said] = run(&mut subject, &text, |subject| {
        let before = subject.count("traps");
        assert_eq!(subject.ask("doubled 1000"), "10000");
        traps = subject.count("traps") - before;
    });
    let counts = table(&shown);
    for (name, entries, returns) in FUNCTIONS {
        assert_eq!(counts[&*format!("{name}:entry")], 1000 * entries, "{name}: {shown}{said}");
        assert_eq!(counts[&*format!("{name}:return")], 1000 * returns, "{name}: {shown}{said}");
    }
    // Three functions continue behind the beginning of a jump, and the loop's entry has a breakpoint.
    assert_eq!(traps, 5000, "{said}");
    assert_eq!(said, "");
    assert!(program.is_text_of(subject.id()));
    assert_eq!(subject.ask("doubled 10"), "100");
    subject.end();
}

/// In trap mode, a site changes one byte of the text; in jump mode the five of its jump.
#[test]
fn sites_have_breakpoints_in_trap_mode() {
    let program = Program::new();
    let address = program.function(&["subject_steps"]).start;
    let original = program.code(address, 16);
    let text = "pid$target:a.out:subject_steps:entry { @[\"all\"] = sum(1); }";
    let mut jumping = Subject::new("jump");
    run(&mut jumping, text, |subject| {
        let changed = [&JUMP, &original[5..]].concat();
        assert_eq!(Program::text_of(subject.id(), address, 16), changed);
    });
    jumping.end();
    let mut subject = Subject::new("trap");
    let mut traps = 0;
    let [shown, said] = run(&mut subject, text, |subject| {
        let changed = [&[0xcc], &original[1..]].concat();
        assert_eq!(Program::text_of(subject.id(), address, 16), changed);
        let before = subject.count("traps");
        assert_eq!(subject.ask("doubled 100"), "1000");
        traps = subject.count("traps") - before;
    });
    assert_eq!(table(&shown)["all"], 200, "{said}");
    assert_eq!(traps, 200);
    subject.end();
}

/// A debugger of the thread that serves consumers. That thread gets no signals, so the debugger has nothing to do.
struct Debugger {
    /// The folder of the thread in `/proc`.
    thread: PathBuf,
    /// The kernel detaches when the thread ends that has attached.
    end: Option<Sender<()>>,
}

impl Debugger {
    fn attach(process: u32) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let is_server = |path: &PathBuf| {
            std::fs::read_to_string(path.join("comm")).unwrap().trim() == "sdt-process"
        };
        let path = tasks.map(|task| task.unwrap().path()).find(is_server).unwrap();
        let thread: libc::pid_t = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let (end, is_over) = channel();
        let (attached, is_attached) = channel();
        std::thread::spawn(move || {
            let nothing = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: becomes the debugger of a child's thread, which changes nothing in this process.
            let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, nothing, nothing) };
            let error = (result != 0).then(std::io::Error::last_os_error);
            attached.send(error).unwrap();
            is_over.recv().ok();
        });
        assert!(is_attached.recv().unwrap().is_none());
        Self { thread: path, end: Some(end) }
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        self.end.take();
        let status = || std::fs::read_to_string(self.thread.join("status")).unwrap();
        while !status().contains("TracerPid:\t0\n") {
            std::thread::yield_now();
        }
    }
}

/// A debugger that deletes a breakpoint stores the byte that it has saved. If it had saved that before a jump was made, the byte would be in the
/// middle of the jump.
#[test]
fn no_jump_is_made_while_a_debugger_is_attached() {
    let program = Program::new();
    let address = program.function(&["subject_steps"]).start;
    let original = program.code(address, 16);
    let mut subject = Subject::new("jump");
    let id = subject.id();
    let begins = |changed: &[u8]| {
        let changed = [changed, &original[changed.len()..]].concat();
        assert_eq!(Program::text_of(id, address, 16), changed);
    };
    let debugger = Debugger::attach(id);
    let text = "pid$target:a.out:subject_steps:entry { @[\"all\"] = sum(1); }";
    let [shown, said] = run(&mut subject, text, |subject| {
        begins(&[0xcc]);
        assert_eq!(subject.ask("doubled 100"), "1000");
        drop(debugger);
        // The next change of any function makes the jump.
        run(subject, "pid$target:a.out:subject_back:entry { n++; }", |_| begins(&JUMP));
        assert_eq!(subject.ask("doubled 100"), "1000");
    });
    assert_eq!(table(&shown)["all"], 400, "{said}");
    assert!(program.is_text_of(id));
    subject.end();
}

/// If a debugger has a breakpoint at a jump, it has saved the first byte of the jump. Stored over the function's own text, that byte would be a
/// jump to anywhere.
#[test]
fn no_jump_is_removed_while_a_debugger_is_attached() {
    let program = Program::new();
    let address = program.function(&["subject_steps"]).start;
    let original = program.code(address, 16);
    let mut subject = Subject::new("jump");
    let id = subject.id();
    let mut consumer = Consumer::of(id);
    consumer.0.open().unwrap();
    let window = Some(Window { before: 0, after: 7 });
    assert_eq!(send(&mut consumer, &program, "subject_steps", 0, window), None);
    let spec = format!("pid{id}:a.out:subject_steps:entry");
    assert_eq!(consumer.0.program(&consumer::program(&spec)).unwrap(), 1);
    assert_eq!(Program::text_of(id, address, 5), JUMP);
    let debugger = Debugger::attach(id);
    Program::store(id, address, 0xcc);
    let why = consumer.0.close().unwrap_err().to_string();
    assert!(why.contains("a debugger is attached, so jumps stay"), "{why}");
    Program::store(id, address, JUMP[0]);
    assert_eq!(Program::text_of(id, address, 5), JUMP);
    assert_eq!(subject.ask("doubled 100"), "1000");
    drop(debugger);
    // The next change of any function removes the jump.
    run(&mut subject, "pid$target:a.out:subject_back:entry { n++; }", |_| {
        assert_eq!(Program::text_of(id, address, 16), original);
    });
    assert!(program.is_text_of(id));
    subject.end();
}

/// A jump that stays because of a debugger does not keep other functions from being traced.
#[test]
fn other_functions_are_traced_while_a_jump_stays() {
    let program = Program::new();
    let address = program.function(&["subject_steps"]).start;
    let mut subject = Subject::new("jump");
    let id = subject.id();
    let mut consumer = Consumer::of(id);
    consumer.0.open().unwrap();
    let window = Some(Window { before: 0, after: 7 });
    assert_eq!(send(&mut consumer, &program, "subject_steps", 0, window), None);
    let spec = format!("pid{id}:a.out:subject_steps:entry");
    assert_eq!(consumer.0.program(&consumer::program(&spec)).unwrap(), 1);
    let debugger = Debugger::attach(id);
    let why = consumer.0.close().unwrap_err().to_string();
    assert!(why.contains("a debugger is attached, so jumps stay"), "{why}");
    assert_eq!(Program::text_of(id, address, 5), JUMP);
    let text = "pid$target:a.out:subject_back:entry { @[\"all\"] = sum(1); }";
    let [shown, said] = run(&mut subject, text, |subject| {
        assert_eq!(subject.ask("doubled 100"), "1000");
    });
    assert_eq!((table(&shown)["all"], &*said), (100, ""));
    assert_eq!(Program::text_of(id, address, 5), JUMP);
    drop(debugger);
    run(&mut subject, text, |_| {});
    assert!(program.is_text_of(id));
    subject.end();
}

/// The clause uses vector registers, and the C library's functions for strings.
#[test]
fn all_registers_are_kept() {
    let mut subject = Subject::new("jump");
    let clause = "@[strjoin(probefunc, execname), ustackdepth] = count(); self->n++;";
    let text = format!(
        "pid$target:a.out:subject_kept:entry, pid$target:a.out:subject_kept:return {{ {clause} }}"
    );
    let mut traps = 0;
    let [shown, said] = run(&mut subject, &text, |subject| {
        let before = subject.count("traps");
        assert_eq!(subject.ask("kept 3000"), "3000");
        traps = subject.count("traps") - before;
    });
    assert!(shown.contains("6000"), "{shown}{said}");
    assert_eq!(traps, 0);
    subject.end();
}

/// Sends the entry of a function, or the instruction at this offset in it, with this window. Returns why it is refused.
fn send(
    consumer: &mut Consumer,
    program: &Program,
    function: &str,
    offset: u64,
    window: Option<Window>,
) -> Option<WhyNoFunction> {
    try_send(consumer, program, function, offset, window).unwrap()
}

fn try_send(
    consumer: &mut Consumer,
    program: &Program,
    function: &str,
    offset: u64,
    window: Option<Window>,
) -> Result<Option<WhyNoFunction>, ClientError> {
    let address = program.function(&[function]).start + offset;
    let length = dtrace_abi::function::x86_64::decode(&program.code(address, 15)).unwrap().length;
    let code = program.code(address, length.into());
    let (module, is_return) = ("a.out", false);
    let name = format!("{function}{}", if offset == 0 { "" } else { "_inside" });
    let function = &*name;
    let offset = offset as u32;
    let site = FunctionSite { module, function, is_return, address, offset, code: &code, window };
    let refused = consumer.0.functions(&program.build_id(), &[site])?;
    Ok(refused.first().map(|(_, why)| *why))
}

/// A consumer claims windows into which the function jumps, or which are no windows.
#[test]
fn false_windows_change_no_result() {
    let program = Program::new();
    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    for (function, before, after) in [
        // The loop begins in the window.
        ("subject_loop", 0, 4),
        // The window ends in an instruction, is too long, or begins before the function.
        ("subject_steps", 0, 5),
        ("subject_back", 0, 255),
        ("subject_tail", 3, 1),
    ] {
        let window = Some(Window { before, after });
        assert_eq!(send(&mut consumer, &program, function, 0, window), None, "{function}");
    }
    let names = ["subject_loop", "subject_steps", "subject_back", "subject_tail"];
    let text: String = names
        .map(|name| format!("pid$target:a.out:{name}:entry {{ @[\"{name}\"] = sum(1); }}"))
        .concat();
    let [shown, said] = run(&mut subject, &text, |subject| {
        assert_eq!(subject.ask("doubled 100"), "1000");
    });
    let counts = table(&shown);
    assert_eq!(names.map(|name| counts[name]), [100, 200, 100, 100], "{shown}{said}");
    drop(consumer);
    subject.end();
}

/// A site without a window does not jump, though its instruction is as long as a jump. That holds also if another consumer sends the site with
/// a window, before or after.
#[test]
fn sites_without_a_window_have_breakpoints() {
    let program = Program::new();
    let address = program.function(&["subject_kept"]).start;
    let original = program.code(address, 5);
    let breakpoint = [&[0xcc], &original[1..]].concat();
    let mut subject = Subject::new("jump");
    let refuse = |subject: &Subject| {
        let mut consumer = Consumer::of(subject.id());
        consumer.0.open().unwrap();
        assert_eq!(send(&mut consumer, &program, "subject_kept", 0, None), None);
        consumer
    };
    let text = "pid$target:a.out:subject_kept:entry { @[\"all\"] = sum(1); }";
    for is_before in [true, false] {
        let mut consumer = None;
        let mut traps = 0;
        if is_before {
            consumer = Some(refuse(&subject));
        }
        let [shown, said] = run(&mut subject, text, |subject| {
            if !is_before {
                assert_eq!(Program::text_of(subject.id(), address, 5), JUMP);
                consumer = Some(refuse(subject));
            }
            assert_eq!(Program::text_of(subject.id(), address, 5), breakpoint);
            let before = subject.count("traps");
            assert_eq!(subject.ask("kept 300"), "300");
            traps = subject.count("traps") - before;
        });
        assert_eq!((table(&shown)["all"], traps), (300, 300), "{said}");
        drop(consumer);
        while !Consumer::of(subject.id()).0.list("pid*:::").unwrap().is_empty() {
            std::thread::yield_now();
        }
        assert!(program.is_text_of(subject.id()));
    }
    subject.end();
}

/// Returns a consumer that has sent the second instruction of `subject_steps`, which a jump at its entry overwrites, and enabled it.
fn inside(process: u32, program: &Program) -> Consumer {
    let mut consumer = Consumer::of(process);
    consumer.0.open().unwrap();
    assert_eq!(send(&mut consumer, program, "subject_steps", 1, None), None);
    let spec = format!("pid{process}:a.out:subject_steps_inside:entry");
    assert_eq!(consumer.0.program(&consumer::program(&spec)).unwrap(), 1);
    consumer.0.go().unwrap();
    consumer
}

/// A consumer sends a site in the middle of another consumer's jump: the jump becomes a breakpoint, and both sites are hit.
#[test]
fn sites_in_a_jump_of_another_consumer_are_accepted() {
    let program = Program::new();
    let mut subject = Subject::new("jump");
    let id = subject.id();
    let address = program.function(&["subject_steps"]).start;
    let original = program.code(address, 8);
    let text = "pid$target:a.out:subject_steps:entry { @[\"all\"] = sum(1); }";
    let with = |breakpoints: &[usize]| {
        let mut bytes = original.clone();
        breakpoints.iter().for_each(|at| bytes[*at] = 0xcc);
        bytes
    };
    for is_inside_first in [false, true] {
        let mut early = is_inside_first.then(|| inside(id, &program));
        let mut late = None;
        let [shown, said] = run(&mut subject, text, |subject| {
            if early.is_none() {
                assert_eq!(Program::text_of(id, address, 5), JUMP);
                late = Some(inside(id, &program));
            }
            assert_eq!(Program::text_of(id, address, 8), with(&[0, 1]));
            assert_eq!(subject.ask("doubled 100"), "1000");
            let consumer = late.as_mut().or(early.as_mut()).unwrap();
            // Also entered by `subject_steps_second`.
            assert_eq!(consumer.until(300).len(), 300);
            if let Some(consumer) = late.take() {
                drop(consumer);
                while Program::text_of(id, address, 8) != with(&[0]) {
                    std::thread::yield_now();
                }
                assert_eq!(subject.ask("doubled 100"), "1000");
            }
        });
        let calls = if is_inside_first { 200 } else { 400 };
        assert_eq!(table(&shown)["all"], calls, "{said}");
        if early.is_some() {
            assert_eq!(Program::text_of(id, address, 8), with(&[1]));
            assert_eq!(subject.ask("doubled 100"), "1000");
        }
        drop(early);
        while !program.is_text_of(id) {
            std::thread::yield_now();
        }
    }
    // Without the other site, there is a jump again.
    run(&mut subject, text, |_| assert_eq!(Program::text_of(id, address, 5), JUMP));
    assert!(program.is_text_of(id));
    subject.end();
}

/// A consumer sends a site in the middle of another consumer's jump, and closes. Its site does not stay because the byte of the jump looks like
/// its breakpoint.
#[test]
fn sites_in_a_jump_of_another_consumer_are_forgotten() {
    let program = Program::new();
    let mut subject = Subject::new("jump");
    let id = subject.id();
    let address = program.function(&["subject_steps"]).start;
    let text = "pid$target:a.out:subject_steps:entry { n++; }";
    for _ in 0..2 {
        run(&mut subject, text, |_| {
            assert_eq!(Program::text_of(id, address, 5), JUMP);
            let mut other = Consumer::of(id);
            other.0.open().unwrap();
            assert_eq!(send(&mut other, &program, "subject_steps", 1, None), None);
            let breakpoint = [&[0xcc], &program.code(address, 5)[1..]].concat();
            assert_eq!(Program::text_of(id, address, 5), breakpoint);
            other.0.close().unwrap();
        });
        assert!(program.is_text_of(id));
    }
    subject.end();
}

/// While a debugger is attached, jumps stay, also those of closed consumers. The sites in them stay, too, until the next change without a debugger.
#[test]
fn sites_in_a_jump_that_stays_are_removed_with_it() {
    let program = Program::new();
    let address = program.function(&["subject_steps"]).start;
    let mut subject = Subject::new("jump-few");
    let id = subject.id();
    let mut last = Consumer::of(id);
    last.0.open().unwrap();
    let room = last.0.function_text().unwrap().left;
    let mut jumps = Consumer::of(id);
    jumps.0.open().unwrap();
    let window = Some(Window { before: 0, after: 7 });
    assert_eq!(send(&mut jumps, &program, "subject_steps", 0, window), None);
    let spec = format!("pid{id}:a.out:subject_steps:entry");
    assert_eq!(jumps.0.program(&consumer::program(&spec)).unwrap(), 1);
    assert_eq!(Program::text_of(id, address, 5), JUMP);
    let debugger = Debugger::attach(id);
    let mut inside = Consumer::of(id);
    inside.0.open().unwrap();
    let why = try_send(&mut inside, &program, "subject_steps", 1, None).unwrap_err().to_string();
    assert!(why.contains("a debugger is attached, so jumps stay"), "{why}");
    drop((inside, jumps));
    while !last.0.list("pid*:::").unwrap().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(Program::text_of(id, address, 5), JUMP);
    assert_eq!(last.0.function_text().unwrap().left, room - 2);
    assert_eq!(subject.ask("doubled 100"), "1000");
    drop(debugger);
    assert_eq!(send(&mut last, &program, "subject_back", 0, None), None);
    assert_eq!(last.0.function_text().unwrap().left, room - 1);
    assert!(program.is_text_of(id));
    drop(last);
    subject.end();
}

/// Two consumers add and remove sites in each other's jumps while threads execute them.
#[test]
fn sites_of_two_consumers_change_under_load() {
    let program = Program::new();
    let mut subject = Subject::new("jump");
    let id = subject.id();
    subject.ask("doubling");
    let text = "pid$target:a.out:subject_steps:, pid$target:a.out:subject_back: { n++; }";
    for round in 0..4 {
        let early = (round % 2 == 0).then(|| inside(id, &program));
        let mut late = None;
        let [_, said] = run(&mut subject, text, |_| {
            for _ in 0..2 {
                drop(late.take());
                late = Some(inside(id, &program));
            }
        });
        assert_eq!(said, "", "{round}");
        drop((early, late));
    }
    assert_eq!(subject.ask("doubled-wrong"), "0");
    while !program.is_text_of(id) {
        std::thread::yield_now();
    }
    subject.end();
}

/// Jumps come and go while threads execute the instructions that they overwrite.
#[test]
fn windows_change_under_load() {
    let mut subject = Subject::new("jump");
    let program = Program::new();
    subject.ask("doubling");
    for round in 0..10 {
        let text = "pid$target:a.out:subject_*: { n++; }";
        let [_, said] = run(&mut subject, text, |_| {});
        assert_eq!(said, "", "{round}");
    }
    assert_eq!(subject.ask("doubled-wrong"), "0");
    assert!(program.is_text_of(subject.id()));
    subject.end();
}

/// An instruction of a function: its offset, its length, and how often each round executes it.
type Executed = (u64, u64, u64);

/// Functions and their instructions.
const INSTRUCTIONS: [(&str, &[Executed]); 3] = [
    ("subject_steps", &[(0, 1, 2), (1, 3, 3), (4, 4, 4), (8, 1, 4), (9, 1, 4)]),
    ("subject_back", &[(0, 4, 1), (4, 1, 1), (5, 3, 1), (8, 3, 1), (11, 1, 2), (12, 1, 2)]),
    ("subject_call", &[(0, 1, 1), (1, 5, 1), (6, 1, 1), (7, 1, 1)]),
];

/// Sends a random instruction with a random window of whole instructions.
///
/// `texts` are address and text of the functions.
fn send_random(
    consumer: &mut Consumer,
    build_id: &[u8],
    texts: &[(u64, Vec<u8>)],
    random: &mut fastrand::Rng,
) {
    let which = random.usize(..INSTRUCTIONS.len());
    let ((name, instructions), (function, text)) = (INSTRUCTIONS[which], &texts[which]);
    let site = random.usize(..instructions.len());
    let (first, last) = (random.usize(..=site), random.usize(site..instructions.len()));
    let [(start, ..), (offset, length, _), (other, others, _)] =
        [first, site, last].map(|at| instructions[at]);
    let window =
        Window { before: (offset - start) as u8, after: (other + others - offset - length) as u8 };
    let site = FunctionSite {
        module: "a.out",
        function: &format!("{name}+{offset}"),
        is_return: random.bool(),
        address: function + offset,
        offset: offset as u32,
        code: &text[offset as usize..(offset + length) as usize],
        window: Some(window).filter(|_| random.u8(..5) != 0),
    };
    let refused = consumer.0.functions(build_id, &[site]).unwrap();
    // A function that calls another one there is not emulated.
    assert!(refused.iter().all(|(_, why)| *why == WhyNoFunction::Instruction), "{refused:?}");
}

/// Two consumers send any instructions with any windows, enable and close them: each execution is recorded once, whether the sites jump, have
/// breakpoints, or share their address.
#[test]
fn random_sites_record_each_execution() {
    let mut random = fastrand::Rng::with_seed(1);
    let program = Program::new();
    let build_id = program.build_id();
    let texts = INSTRUCTIONS.map(|(name, instructions)| {
        let start = program.function(&[name]).start;
        let length = instructions.iter().map(|(_, length, _)| *length as usize).sum();
        (start, program.code(start, length))
    });
    let mut subject = Subject::new("jump");
    let id = subject.id();
    let mut consumers: [Option<(Consumer, bool)>; 2] = [None, None];
    let (mut jumps, mut compared) = (0, 0);
    for round in 0..200 {
        let consumer = &mut consumers[random.usize(..2)];
        match (consumer.as_mut(), random.u8(..8)) {
            (None, _) => {
                let mut new = Consumer::of(id);
                new.0.open().unwrap();
                *consumer = Some((new, false));
            }
            (Some(_), 0..2) => *consumer = None,
            (Some((consumer, is_enabled @ false)), 2..5) => {
                let spec = consumer::program(&format!("pid{id}:a.out:subject_*:"));
                // It may match no probe yet.
                consumer.0.program(&spec).unwrap();
                consumer.0.go().unwrap();
                *is_enabled = true;
            }
            (Some((consumer, _)), _) => send_random(consumer, &build_id, &texts, &mut random),
        }
        for (start, text) in &texts {
            let text = Program::text_of(id, *start, text.len());
            jumps += text.windows(JUMP.len()).filter(|at| *at == JUMP).count();
        }
        let probes = Consumer::of(id).0.list("pid*:::").unwrap();
        for (consumer, _) in consumers.iter_mut().flatten().filter(|(_, is_enabled)| *is_enabled) {
            consumer.rest();
        }
        assert_eq!(subject.ask("doubled 3"), "30", "{round}");
        for (consumer, _) in consumers.iter_mut().flatten().filter(|(_, is_enabled)| *is_enabled) {
            let read = consumer.rest();
            assert_eq!(read.drops, 0);
            for probe in &probes {
                let (name, offset) = probe.function.split_once('+').unwrap();
                let (_, all) = INSTRUCTIONS.iter().find(|(of, _)| *of == name).unwrap();
                let offset: u64 = offset.parse().unwrap();
                let (.., times) = all.iter().find(|(of, ..)| *of == offset).unwrap();
                let found = read.records.iter().filter(|(of, _)| *of == probe.id).count() as u64;
                assert_eq!(found, 3 * times, "{round}: {}:{}", probe.function, probe.name);
                compared += 1;
            }
        }
    }
    assert!(jumps > 10 && compared > 500, "{jumps} {compared}");
    drop(consumers);
    while !program.is_text_of(id) {
        std::thread::yield_now();
    }
    subject.end();
}
