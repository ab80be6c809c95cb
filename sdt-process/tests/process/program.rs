//! Programs in D, compiled here as `dtrace -p` does it, and run in the subject.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dtrace_consumer::client::CHANNEL;
use dtrace_consumer::compiler::Source;
use dtrace_consumer::compiler::Specifies;
use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::compiler::program::Program;
use dtrace_consumer::consume::{self, Target, Workload, WorkloadError};
use dtrace_consumer::job::{self, Job, Mode};
use dtrace_consumer::render::{Order, Output, Text};
use dtrace_consumer::trace::{Running, TraceError};
use dtrace_consumer::{Client, ClientError, DtraceError, Interrupt, Trace};

use crate::consumer::{self, Subject};

/// The output of a program, and the messages of dtrace(1) on standard error.
#[derive(Clone, Debug, Default)]
struct Shown(Arc<Mutex<[String; 2]>>);

impl Shown {
    fn add(&self, which: usize, text: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[which].push_str(&String::from_utf8_lossy(text));
        Ok(())
    }
}

impl Output for Shown {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.add(0, text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.add(0, text)
    }

    fn message(&mut self, text: &str) -> io::Result<()> {
        self.add(1, text.as_bytes())
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        self.add(1, text.as_bytes())
    }

    fn perform(&mut self, _: &Order<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects to a subject, and compiles a program for it.
fn compile(subject: &Subject, text: &str) -> Result<(Trace, Program), TraceError> {
    compile_with(Options::default(), subject, text)
}

fn compile_with(
    mut options: Options,
    subject: &Subject,
    text: &str,
) -> Result<(Trace, Program), TraceError> {
    let client = Client::connect(consumer::line(subject.id()).unwrap()).unwrap();
    options.set("quiet", None).unwrap();
    options.set("bufsize", Some("1m")).unwrap();
    options.set("aggsize", Some("256k")).unwrap();
    options.set("aggsortkey", None).unwrap();
    let mut trace = Trace::new(client, options, i64::from(subject.id()));
    trace.set_process(subject.id());
    let program = trace.compile(Source::line(text.as_bytes()))?;
    Ok((trace, program))
}

/// Starts a program.
pub fn start(subject: &Subject, text: &str) -> Running {
    let (mut trace, program) = compile(subject, text).unwrap();
    assert_ne!(trace.enable(&program).unwrap(), 0);
    trace.go().unwrap()
}

/// A running program whose probes may appear later, as with `dtrace -Z`.
pub struct Early {
    running: Running,
    shown: Shown,
    sink: Text<Shown>,
}

impl Early {
    pub fn start(subject: &Subject, text: &str) -> Self {
        let mut options = Options::default();
        options.set("zdefs", None).unwrap();
        let (mut trace, program) = compile_with(options, subject, text).unwrap();
        trace.enable(&program).unwrap();
        let shown = Shown::default();
        let sink = Text::new(shown.clone());
        Self { running: trace.go().unwrap(), shown, sink }
    }

    /// Works until a condition of the messages is true.
    pub fn until(&mut self, mut is_reached: impl FnMut(&str) -> bool) {
        let begin = Instant::now();
        loop {
            assert!(!self.running.work(&mut self.sink).unwrap());
            for message in self.running.kernel().process_messages() {
                self.shown.message(&message).unwrap();
            }
            let said = self.shown.0.lock().unwrap()[1].clone();
            if is_reached(&said) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{said}");
            std::thread::sleep(self.running.pause());
        }
    }

    /// Stops the program. Returns its output, and its messages.
    pub fn end(mut self) -> [String; 2] {
        self.running.stop().unwrap();
        let [shown, said] = all(self.running);
        let [before, said_before] = std::mem::take(&mut *self.shown.0.lock().unwrap());
        [before + &shown, said_before + &said]
    }
}

/// Returns the error of a program that cannot be enabled.
pub fn messages(subject: &Subject, text: &str) -> String {
    let enabled = compile(subject, text).and_then(|(mut trace, program)| trace.enable(&program));
    enabled.unwrap_err().to_string()
}

/// Returns the error of a program that cannot be compiled.
pub fn refused(subject: &Subject, text: &str) -> String {
    match compile(subject, text) {
        Err(TraceError::Program(error)) => error.to_string(),
        other => panic!("{text}: {other:?}"),
    }
}

/// A workload that does nothing.
struct Idle;

impl Workload for Idle {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        Ok(true)
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(1)
    }
}

/// Returns the error with which dtrace(1) ends, with its hints in further lines, or with `-l` what it prints on standard error.
pub fn error_of(subject: &Subject, text: &str, mode: Mode) -> String {
    let client = Client::connect(consumer::line(subject.id()).unwrap()).unwrap();
    let target = Target { name: None, client, process: Some(subject.id()) };
    let programs = vec![job::Text::Line(text.to_owned(), Specifies::Name)];
    let job = Job { programs, mode, target: i64::from(subject.id()), ..Job::default() };
    let mut shown = Shown::default();
    match consume::run_all(vec![target], &job, &Interrupt::new(), &mut Idle, &mut shown) {
        Err(error) => {
            let hints = error.hints().into_iter();
            hints.fold(error.to_string(), |text, hint| format!("{text}\n{hint}"))
        }
        Ok(_) => std::mem::take(&mut shown.0.lock().unwrap()[1]),
    }
}

/// Returns the arguments of the probes that a description matches, as `-l -v` shows them, and why they are unknown.
pub fn arguments(subject: &Subject, description: &str) -> Vec<String> {
    let (mut trace, program) = compile(subject, &format!("{description} {{}}")).unwrap();
    let probes = trace.kernel().list(&program.ecbs[0].probe).unwrap();
    assert!(!probes.is_empty(), "{description}");
    let mut all = Vec::new();
    for probe in &probes {
        let detail = trace.detail(probe).unwrap().unwrap();
        all.extend(detail.untyped);
        for of in detail.types {
            let ty = of.translated.unwrap_or(of.native);
            let name = of.name.unwrap_or_default();
            all.push(match of.obstacle {
                Some(why) => format!("{name}: {why}"),
                None => format!("{name}: {ty}"),
            });
        }
    }
    all
}

/// Runs a program while the subject does something, and stops it unless it ends by itself. Returns its output and its messages.
pub fn run(subject: &mut Subject, text: &str, during: impl FnOnce(&mut Subject)) -> [String; 2] {
    let (mut trace, program) = compile(subject, text).unwrap();
    assert_ne!(trace.enable(&program).unwrap(), 0);
    let complaints = trace.kernel().function_complaints().join("\n");
    let mut running = trace.go().unwrap();
    during(subject);
    if !text.contains("exit(") {
        running.stop().unwrap();
    }
    let [shown, said] = all(running);
    [shown, complaints + &said]
}

/// Returns the output of a program until it ends, and its messages.
fn all(mut running: Running) -> [String; 2] {
    let shown = Shown::default();
    let mut sink = Text::new(shown.clone());
    while !running.work(&mut sink).unwrap() {
        std::thread::sleep(running.pause());
    }
    running.finish(&mut sink).unwrap();
    std::mem::take(&mut *shown.0.lock().unwrap())
}

/// Returns the DOF of `-A` in hexadecimal digits.
pub fn anonymous(subject: &Subject, text: &str) -> String {
    let client = Client::connect(consumer::line(subject.id()).unwrap()).unwrap();
    let mut trace = Trace::new(client, Options::default(), i64::from(subject.id()));
    let program = trace.compile(Source::line(text.as_bytes())).unwrap();
    let dof = trace.anonymous(std::iter::once(&program)).unwrap();
    dof.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the current output of a program that the process has enabled itself, and its messages.
pub fn claimed(subject: &Subject) -> [String; 2] {
    let client = Client::connect(consumer::line(subject.id()).unwrap()).unwrap();
    let mut trace = Trace::new(client, Options::default(), i64::from(subject.id()));
    trace.claim().unwrap();
    let mut running = trace.go().unwrap();
    running.stop().unwrap();
    all(running)
}

/// Returns the keys and numbers of the lines of an aggregation.
pub fn table(text: &str) -> BTreeMap<&str, u64> {
    text.lines()
        .filter_map(|line| line.trim().rsplit_once(char::is_whitespace))
        .map(|(key, count)| (key.trim(), count.parse().unwrap()))
        .collect()
}

#[test]
fn strings_and_what_is_known_of_the_process() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        let text = r#"
            BEGIN { printf("begin %d\n", pid); }
            subject:::greeted /arg1 % 2 == 0/ {
                printf("%s %s %d %d\n", stringof(arg0), copyinstr(arg0), arg1, pid == $target);
            }
            subject:::greeted /arg1 == 0/ {
                printf("%s %d %d\n", probefunc, uid, tid != 0 && errno == 0);
                printf("%d\n", walltimestamp > 1500000000000000000);
            }
            END { printf("end\n"); }"#;
        let [shown, said] = run(&mut subject, text, |subject| {
            subject.ask("greet 4");
        });
        let id = subject.id();
        // SAFETY: returns a number and changes nothing.
        let uid = unsafe { libc::getuid() };
        let lines: Vec<_> = shown.trim_end().lines().collect();
        assert_eq!(lines[0], format!("begin {id}"), "{shown}{said}");
        assert_eq!(lines[1], "world world 0 1");
        assert!(lines[2].starts_with(&format!("process::subject::greet {uid} ")), "{shown}");
        assert_eq!(lines[3..], ["1", "world world 2 1", "end"], "{shown}");
        subject.end();
    }
}

/// Buffers are read when they are half full, long before the time of `switchrate`.
#[test]
fn buffers_are_read_before_they_are_full() {
    const ROUNDS: usize = 20;
    let mut subject = Subject::new("jump");
    // A buffer has room for 2730 records of 24 bytes.
    let text = r#"
        #pragma D option bufsize=64k
        #pragma D option switchrate=1hour
        #pragma D option bufresize=manual
        subject:::work { printf("%d\n", arg1); }"#;
    let mut running = start(&subject, text);
    let shown = Shown::default();
    let mut sink = Text::new(shown.clone());
    for _ in 0..ROUNDS {
        // A buffer that is less than half full has room for these.
        assert_eq!(subject.ask("fire 1 1000"), "1000");
        // Each call of `work` requests the status only.
        for _ in 0..3 {
            std::thread::sleep(running.pause());
            assert!(!running.work(&mut sink).unwrap());
        }
    }
    let count = |shown: &str| shown.lines().filter(|line| !line.is_empty()).count();
    let early = count(&shown.0.lock().unwrap()[0]);
    assert!(early > 0, "no buffer was read early");
    running.stop().unwrap();
    let [rest, said] = all(running);
    assert_eq!((early + count(&rest), &*said), (ROUNDS * 1000, ""));
    subject.end();
}

#[test]
fn all_threads_count_together() {
    let mut subject = Subject::new("jump");
    let text = r#"
        subject:::work { @[execname] = count(); @threads[tid] = count(); }
        subject:::work /arg1 < 1000/ { @some["some"] = sum(1); }"#;
    let [shown, said] = run(&mut subject, text, |subject| {
        assert_eq!(subject.ask("fire 8 2000"), "16000");
    });
    let table = table(&shown);
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    assert_eq!(table.get(program), Some(&16_000), "{shown}{said}");
    assert_eq!(table.get("some"), Some(&8_000), "{shown}{said}");
    assert_eq!(table.values().filter(|count| **count == 2000).count(), 8, "{shown}");
    assert_eq!(table.len(), 10, "{shown}");
    assert_eq!(subject.ask("counters").split_once(' ').unwrap().1, "0 0 0");
    subject.end();
}

/// No probe of the program is hit: only the timer can end the trace.
#[test]
fn timers_fire() {
    let mut subject = Subject::new("jump");
    let text = r#"
        int beats;
        tick-10ms { beats++; }
        tick-10ms /beats >= 5/ { printf("%d %d", beats, cpu); exit(0); }"#;
    let [shown, said] = run(&mut subject, text, |_| {});
    assert!(shown.starts_with("5 0"), "{shown}{said}");
    let text = "tick-200us { beats++; } tick-200us /beats == 100/ { printf(\"done\"); exit(0); }";
    let [shown, said] = run(&mut subject, &format!("int beats; {text}"), |_| {});
    assert_eq!(shown.trim(), "done", "{said}");
    subject.end();
}

#[test]
fn the_function_that_fired_is_on_top() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        let text =
            r#"subject:::greeted { stack(1); sym(caller); printf("%d\n", stackdepth > 0); }"#;
        let [shown, said] = run(&mut subject, text, |subject| {
            subject.ask("greet 1");
        });
        let lines: Vec<_> = shown.split_whitespace().collect();
        assert_eq!(lines.len(), 3, "{shown}{said}");
        assert!(lines[0].contains("`process::subject::greet+0x"), "{shown}");
        assert!(lines[1].ends_with("`process::subject::greet"), "{shown}");
        assert_eq!(lines[2], "1");
        subject.end();
    }
}

/// Returns how often the kernel copies memory for a hit, and the output.
pub(crate) fn copies_for(subject: &mut Subject, text: &str, hit: &str) -> (u64, String) {
    let mut copies = 0;
    let [shown, said] = run(subject, text, |subject| {
        let before = subject.count("copies");
        subject.ask(hit);
        copies = subject.count("copies") - before;
    });
    assert_eq!(said, "", "{shown}");
    (copies, shown)
}

/// The frames of a stack are read by loads, or a kilobyte at once, and the thunk is searched for once in a hit.
#[test]
fn a_stack_takes_at_most_one_copy_for_a_frame() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        for times in 1..4 {
            let asks = "%d ".repeat(times) + &", stackdepth".repeat(times);
            let (formats, values) = asks.split_once(',').unwrap();
            let text = format!("subject:::greeted {{ printf(\"{formats}\",{values}); }}");
            let (copies, shown) = copies_for(&mut subject, &text, "greet 1");
            let depths: Vec<u64> =
                shown.split_whitespace().map(|depth| depth.parse().unwrap()).collect();
            assert_eq!(depths.len(), times, "{shown}");
            assert!(depths[0] > 0 && depths.iter().all(|depth| *depth == depths[0]), "{shown}");
            // One copy for each frame, and perhaps one for the end of the chain.
            assert!(copies <= times as u64 * (depths[0] + 1), "{copies} for {shown}");
        }
        subject.end();
    }
}

/// A probe made at run time has no stack, and none is searched for, even if its hit interrupts that of a site.
#[test]
fn probes_made_at_run_time_have_no_stack() {
    let asks = r#"printf("%d %d %x %x %d;", stackdepth, ustackdepth, (long)caller, (long)ucaller, tid);
        stack(); ustack();"#;
    let words = |shown: &str| shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut subject = Subject::new("jump");
    let tid = subject.count("script");
    let line = format!("script:::line {{ {asks} }}");
    let (copies, shown) = copies_for(&mut subject, &line, "line 2");
    assert_eq!((words(&shown), copies), (format!("0 0 0 0 {tid}; 0 0 0 0 {tid};"), 0));
    // In the middle of a hit of a site in the same thread.
    let text = format!("{line} subject:::greeted {{ p = copyinstr(arg0); printf(\"%d;\", tid); }}");
    assert_eq!(subject.ask("interrupt 12"), "once");
    let (_, shown) = copies_for(&mut subject, &text, "greet 1");
    let mut seen: Vec<_> = shown.split_inclusive(';').map(words).collect();
    seen.sort();
    assert_eq!(seen, ["", &*format!("0 0 0 0 {tid};"), &*format!("{tid};")], "{shown}");
    // A site that interrupts the hit of such a probe has a stack, and the interrupted hit has none.
    let text = format!(
        "script:::line {{ p = copyinstr(arg0); {asks} }}
        subject:::signalled {{ printf(\"%d %d;\", stackdepth > 0, tid); stack(1); }}"
    );
    assert_eq!(subject.ask("interrupt 10"), "once");
    let (_, shown) = copies_for(&mut subject, &text, "line 1");
    assert!(shown.contains("signals::on_signal+0x"), "{shown}");
    assert!(shown.contains(&format!("1 {tid};")), "{shown}");
    assert!(shown.contains(&format!("0 0 0 0 {tid};")), "{shown}");
    subject.end();
}

#[test]
fn errno_is_what_it_was() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        // The first clause makes a system call fail.
        let text = r#"subject:::greeted { trace(*(int *)8); } subject:::greeted { printf("%d", (int)errno); }"#;
        let [shown, said] = run(&mut subject, text, |subject| {
            assert_eq!(subject.ask("errno"), "true");
        });
        assert_eq!(shown.trim(), "77", "{said}");
        subject.end();
    }
}

/// Each bad address, read in each way, ends its clause with a fault, and the process goes on.
#[test]
fn bad_addresses_are_faults() {
    let mut subject = Subject::new("jump");
    let text = r#"
        ERROR { @[arg4] = count(); }
        subject:::greeted { trace(*(int *)0); }
        subject:::greeted { trace(*(long *)0xffff800000000000); }
        subject:::greeted { trace(stringof(arg1 + 1)); }
        subject:::greeted { trace(copyinstr(8)); }
        subject:::greeted { printf("good\n"); }"#;
    let [shown, said] = run(&mut subject, text, |subject| {
        subject.ask("greet 3");
        assert_eq!(subject.ask("errno"), "true");
    });
    assert_eq!(shown.matches("good").count(), 4, "{shown}");
    assert_eq!(said.matches("invalid address").count(), 16, "{said}");
    // 1 is DTRACEFLT_BADADDR.
    assert_eq!(table(shown.trim_start_matches("good\n")).get("1"), Some(&16), "{shown}");
    assert_eq!(subject.ask("fire 1 10"), "10");
    subject.end();
}

#[test]
fn threads_have_variables_of_their_own() {
    let mut subject = Subject::new("jump");
    let text = r#"
        subject:::work { self->t = timestamp; self->n = arg1; }
        subject:::more /self->t/ {
            @[self->n == arg0 ? "own" : "others"] = count();
            @spent["time"] = quantize(timestamp - self->t);
            self->t = 0; self->n = 0;
        }
        subject:::more /self->t/ { @["left"] = count(); }"#;
    let [shown, said] = run(&mut subject, text, |subject| {
        subject.ask("spans 3000");
    });
    let own: Vec<_> = shown.lines().map(str::trim).filter(|line| line.starts_with("o")).collect();
    let words: Vec<Vec<_>> = own.iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words, [["own", "6000"]], "{shown}{said}");
    assert!(!shown.contains("left") && shown.contains("Distribution"), "{shown}");
    subject.end();
}

/// A handler that interrupts a hit is counted, too, and has its own thread-local variables.
#[test]
fn signal_handlers_count() {
    let mut subject = Subject::new("jump");
    let text = "subject:::signalled { @[\"signals\"] = count(); self->x = stringof(execname); } \
                subject:::work { self->x = execname; @[\"work\"] = count(); }";
    let mut answer = String::new();
    let [shown, said] = run(&mut subject, text, |subject| answer = subject.ask("signals 2000"));
    let table = table(&shown);
    let counts = [table.get("work"), table.get("signals")].map(|count| count.unwrap_or(&0));
    assert_eq!(format!("{} {}", counts[0], counts[1]), answer, "{shown}{said}");
    subject.end();
}

/// No program in D overflows an alternate stack: on a stack that is too small, hits are counted and not recorded.
#[test]
fn small_alternate_stacks_are_not_overflown() {
    let text = r#"subject:::signalled {
        @q[probename, stringof(execname)] = quantize(arg0); @s[stack()] = count();
        printf("%s %s %d\n", probename, execname, arg0);
        self->x = arg0; trace(strjoin(probename, execname)); trace(ustackdepth); @c = count(); }"#;
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        let mut counters = [String::new(), String::new()];
        let [shown, said] = run(&mut subject, text, |subject| {
            // The stack that Rust's standard library gives every thread.
            // SAFETY: returns a number and changes nothing.
            let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
            let usual = least.max(libc::SIGSTKSZ);
            assert_eq!(subject.ask(&format!("alternate {usual} 10")), "done");
            counters[0] = subject.ask("counters");
            assert_eq!(subject.ask("alternate 131072 7"), "done");
            counters[1] = subject.ask("counters");
        });
        // BEGIN has fired, too.
        assert_eq!(counters, ["1 0 0 10", "8 0 0 10"], "{role}");
        assert_eq!(shown.matches("signalled process-").count(), 7, "{shown}{said}");
        subject.end();
    }
}

/// The process stops answering after dtrace has fetched its records, and the user interrupts dtrace.
struct UntilMute<'a> {
    subject: &'a mut Subject,
    interrupt: &'a Interrupt,
    is_lost: Arc<AtomicBool>,
    has_worked: bool,
}

impl Workload for UntilMute<'_> {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        if std::mem::replace(&mut self.has_worked, true) {
            self.is_lost.store(true, Ordering::Relaxed);
            self.interrupt.raise();
        } else {
            assert_eq!(self.subject.ask("fire 1 123"), "123");
        }
        Ok(true)
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    fn exit_message(&self) -> Option<String> {
        Some("has exited".into())
    }
}

#[test]
fn records_are_printed_when_a_process_stops_answering() {
    let mut subject = Subject::new("jump");
    let is_lost = Arc::new(AtomicBool::new(false));
    let line = consumer::line(subject.id()).unwrap();
    let line = consumer::Losing { line, is_lost: Arc::clone(&is_lost) };
    let client = Client::greet(line, CHANNEL, Duration::from_secs(30)).unwrap();
    let text = "subject:::work { @ = count(); }".to_owned();
    let programs = vec![job::Text::Line(text, Specifies::Name)];
    let (job, interrupt) = (Job { programs, ..Job::default() }, Interrupt::new());
    let (subject, has_worked) = (&mut subject, false);
    let mut until = UntilMute { subject, interrupt: &interrupt, is_lost, has_worked };
    let mut shown = Shown::default();
    let error = consume::run(client, &job, &interrupt, &mut until, &mut shown).unwrap_err();
    let DtraceError::Silent(error) = error else { panic!("{error}") };
    assert!(matches!(*error, DtraceError::Client(ClientError::NoAnswer { .. })), "{error}");
    let [printed, said] = std::mem::take(&mut *shown.0.lock().unwrap());
    assert_eq!(printed.trim(), "123", "{said}");
}
