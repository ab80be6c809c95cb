//! Changes that would end the process, hang it or let others in are refused, and the consumer gets the reason.

use std::fs;

use dtrace_consumer::ClientError;

use crate::consumer::{self, Consumer, Subject};
use crate::is_restored;
use crate::program::{run, table};

/// Enables a probe in a process that refuses, and returns the reason. The process goes on, and nothing has changed.
fn refusal(subject: &mut Subject) -> String {
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    let reason = refused(&mut consumer);
    assert!(is_restored(subject), "{reason}");
    assert_eq!(subject.ask("fire 2 100"), "200");
    reason
}

/// Returns the reason for which a consumer cannot enable a probe.
fn refused(consumer: &mut Consumer) -> String {
    match consumer.0.program(&consumer::program("subject:::work")).unwrap_err() {
        ClientError::Gone(reason) => {
            assert!(
                reason.starts_with("subject:::work cannot be enabled or disabled: "),
                "{reason}"
            );
            reason
        }
        other => panic!("{other}"),
    }
}

/// Returns whether a process can be traced and is as before afterwards.
fn is_traced(subject: &mut Subject) -> bool {
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    assert_eq!(subject.ask("fire 2 100"), "200");
    let seen = consumer.until(200).records.len();
    consumer.0.close().unwrap();
    seen == 200 && is_restored(subject)
}

/// Makes the subject fork, ends the child, and returns the child's report.
fn forked(subject: &mut Subject) -> String {
    let answer = subject.ask("fork");
    let child: i32 = answer.split(' ').nth(1).unwrap().parse().unwrap();
    // SAFETY: sends a signal to the child, which still exists as it has not been waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    answer
}

fn assert_no_page_is_writable_and_executable(subject: &Subject) {
    let maps = fs::read_to_string(format!("/proc/{}/maps", subject.id())).unwrap();
    assert!(!maps.is_empty() && !maps.contains(" rwx"), "{maps}");
}

/// Sites stay as they are if a breakpoint would end the process.
#[test]
fn threads_and_handlers_that_cannot_take_a_breakpoint_are_respected() {
    for role in ["jump", "trap", "jump-panics"] {
        for (obstacle, why) in [
            ("block", "blocks SIGTRAP, and a breakpoint in it would end the process"),
            ("handle", "another handler of SIGTRAP has replaced"),
            ("mask", "the handler of signal 12 blocks SIGTRAP"),
        ] {
            let mut subject = Subject::new(role);
            assert!(is_traced(&mut subject));
            subject.ask(obstacle);
            // A closed standard error does not end the process either.
            subject.ask("deaf");
            let reason = refusal(&mut subject);
            assert!(reason.contains(why), "{reason}");
            if obstacle == "mask" {
                assert_eq!(subject.ask("masked 100"), "100");
            }
            subject.end();
        }
    }
}

/// A debugger restores the first byte of the site when it removes its breakpoint, so the bytes after it must not have changed
/// meanwhile.
#[cfg(target_arch = "x86_64")]
#[test]
fn breakpoints_of_a_debugger_are_respected() {
    use std::os::unix::fs::FileExt as _;

    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    let probe = consumer.probe("work");
    let site = consumer.0.sites(probe).unwrap()[0].address;
    // SAFETY: becomes the debugger of a child, which changes nothing in this process.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, subject.id().cast_signed(), 0, 0) };
    assert_eq!(seized, 0, "{}", std::io::Error::last_os_error());
    let path = format!("/proc/{}/mem", subject.id());
    let memory = fs::File::options().read(true).write(true).open(path).unwrap();
    let insert = || {
        let mut kept = [0];
        memory.read_exact_at(&mut kept, site).unwrap();
        memory.write_all_at(&[0xcc], site).unwrap();
        kept
    };
    let kept = insert();
    let reason = refused(&mut consumer);
    assert!(reason.contains("a debugger has a breakpoint at a site"), "{reason}");
    memory.write_all_at(&kept, site).unwrap();
    assert!(is_traced(&mut subject));
    // The probe stays enabled, and its site becomes a nop at the next change of the probe.
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    let kept = insert();
    consumer.0.close().ok();
    memory.write_all_at(&kept, site).unwrap();
    assert_eq!(subject.ask("fire 2 100"), "200");
    assert!(is_traced(&mut subject));
    subject.end();
}

/// A filter that is installed after the start may forbid anything. Each of these calls would end the process.
#[test]
fn an_unknown_filter_ends_nothing() {
    for call in
        ["membarrier", "process_vm_readv", "sigaltstack", "rt_sigaction", "openat", "pwrite64"]
    {
        let mut subject = Subject::new("jump");
        assert_eq!(subject.ask(&format!("deny {call} kill")), "denied");
        let mut consumer = Consumer::of(subject.id());
        consumer.0.open().unwrap();
        let reason = refused(&mut consumer);
        assert!(reason.contains("a seccomp filter was installed"), "{call}: {reason}");
        if call == "sigaltstack" {
            // Rust's standard library makes this call at the beginning of a thread.
            continue;
        }
        assert_eq!(subject.ask("fire 2 100"), "200", "{call}");
    }
}

/// When `start` returns, the worker thread has made the calls that threads begin with.
#[test]
fn a_filter_can_be_installed_right_after_the_start() {
    for _ in 0..10 {
        let mut subject = Subject::new("jump-denied");
        let mut consumer = Consumer::of(subject.id());
        consumer.0.open().unwrap();
        assert!(refused(&mut consumer).contains("a seccomp filter was installed"));
        assert_eq!(subject.ask("errno"), "true");
    }
}

/// The end of tracing makes no system call that an unknown filter may forbid.
#[test]
fn a_process_in_an_unknown_sandbox_ends_as_without_tracing() {
    for call in ["clock_nanosleep", "close", "futex", "madvise", "munmap", "sigaltstack", "unlink"]
    {
        let mut subject = Subject::new("jump");
        assert_eq!(subject.ask(&format!("deny {call} kill")), "denied");
        subject.say("exit");
        subject.end();
    }
    // A filter that the program has declared does not prevent the end.
    for (role, call, stays) in [("jump", "unlink", true), ("jump-allowed", "pwrite64", false)] {
        let mut subject = Subject::new(role);
        let socket = subject.folder.path().join(format!("sdt/{}", subject.id()));
        assert_eq!(subject.ask(&format!("deny {call} kill")), "denied");
        assert_eq!(subject.ask("stop"), "stopped");
        assert_eq!(socket.exists(), stays, "{role}");
        subject.end();
    }
}

/// A child with an unknown filter keeps its sites as they are, as a call of this crate could end it.
#[test]
fn a_child_in_a_sandbox_is_left_alone() {
    let mut subject = Subject::new("jump");
    let _consumer = Consumer::enabling(subject.id(), "subject:::work");
    assert_eq!(subject.ask("deny pwrite64 kill"), "denied");
    let answer = forked(&mut subject);
    assert!(
        answer.contains(
            "restored=false enabled=true Err(\"this process cannot be traced: it was forked"
        ),
        "{answer}"
    );
}

/// The process declares wrongly that its filter allows tracing. Calls that fail do not end it.
#[test]
fn calls_that_fail_are_reported() {
    for (call, why) in [
        ("membarrier", "membarrier(2) failed: Operation not permitted"),
        ("openat", "/proc/self cannot be read, so whether a thread blocks SIGTRAP is unknown"),
        ("pwrite64", "text cannot be written: Operation not permitted"),
    ] {
        for mode in ["jump", "trap"] {
            let mut subject = Subject::new(&format!("{mode}-allowed"));
            assert!(is_traced(&mut subject));
            let traced = Consumer::enabling(subject.id(), "subject:::more");
            assert_eq!(subject.ask(&format!("deny {call} errno")), "denied");
            let mut consumer = Consumer::of(subject.id());
            consumer.0.open().unwrap();
            let reason = refused(&mut consumer);
            assert!(reason.contains(why), "{reason}");
            // The other probe cannot be disabled either: its hits are unclaimed.
            drop(traced);
            assert_eq!(subject.ask("fire 2 100"), "200");
            assert_eq!(subject.ask("spans 10"), "done");
        }
    }
    // If `process_vm_readv` fails, a read by a program in D ends with a fault. If `sigaltstack` fails, the hit is counted as
    // stray.
    let mut subject = Subject::new("jump-allowed");
    assert_eq!(subject.ask("deny process_vm_readv errno"), "denied");
    let [shown, said] =
        run(&mut subject, "subject:::greeted { trace(stringof(arg0)); }", |subject| {
            subject.ask("greet 3");
        });
    assert_eq!((shown.trim(), said.matches("invalid address").count()), ("", 3), "{said}");
    assert_eq!(subject.ask("deny sigaltstack errno"), "denied");
    let mut consumer = Consumer::enabling(subject.id(), "subject:::greeted");
    let before = subject.ask("counters");
    subject.ask("greet 3");
    let after = subject.ask("counters");
    let stray = |counters: &str| counters.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(stray(&after) - stray(&before), 3, "{before}, {after}");
    assert_eq!(consumer.rest().len(), 0);
}

/// Tracing makes no other system calls than those that the documentation lists, and those of the standard library: any other call would
/// end the process.
#[test]
fn the_documented_calls_suffice() {
    for mode in ["jump", "trap"] {
        let mut subject = Subject::new(&format!("{mode}-allowed"));
        assert_eq!(subject.ask("sandbox"), "sandboxed");
        assert!(is_traced(&mut subject));
        let text = r#"
            BEGIN { n = 0; }
            subject:::greeted {
                printf("%s %d %d\n", stringof(arg0), tid != 0, ppid != 0);
                @[probefunc, uid, gid, execname] = count(); @s[stack()] = count(); self->t = vtimestamp;
                @w = max(walltimestamp); trace(ustackdepth); sym(caller);
            }
            subject:::greeted { trace(*(int *)8); }
            subject:::signalled { @signals = count(); }
            profile-199 { @profile[stack()] = count(); }
            tick-10ms { n++; }"#;
        let [shown, said] = run(&mut subject, text, |subject| {
            subject.ask("greet 4");
            subject.ask("signals 20");
            subject.ask("fire 4 50");
            subject.ask("burn 2 100");
        });
        assert_eq!(shown.matches("world 1 1").count(), 4, "{shown}{said}");
        if cfg!(target_arch = "x86_64") {
            let text = "pid$target:a.out:process??subject??functions??twice:entry, pid$target:libc.so*:malloc:entry { @[probefunc] = count(); }";
            let [shown, said] = run(&mut subject, text, |subject| {
                subject.ask("calls 10");
            });
            assert!(shown.contains("twice") && shown.contains("malloc"), "{shown}{said}");
        }
        let mut listing = Consumer::of(subject.id());
        assert_eq!(listing.list().len(), 7);
        let probe = listing.probe("work");
        assert_ne!(listing.0.sites(probe).unwrap().len(), 0);
        drop(listing);
        assert_eq!(subject.ask("forks"), "true 0");
        subject.end();
    }
}

/// Text is not changed if no descriptor is left, and no page is made writable instead.
#[test]
fn a_process_without_descriptors_is_left_alone() {
    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    let mut traced = Consumer::enabling(subject.id(), "subject:::more");
    assert_eq!(subject.ask("full"), "full");
    let reason = refused(&mut consumer);
    assert!(reason.contains("Too many open files"), "{reason}");
    assert_no_page_is_writable_and_executable(&subject);
    // Enabled probes are still recorded.
    assert_eq!(subject.ask("spans 10"), "done");
    assert_eq!(traced.until(20).records.len(), 20);
    // The probe cannot be disabled either, and its hits are unclaimed.
    assert!(matches!(traced.0.close(), Err(ClientError::Gone(_))));
    assert_eq!(subject.ask("spans 10"), "done");
    assert_no_page_is_writable_and_executable(&subject);
}

/// If no memory may become executable, text is written through a file, or not at all.
#[test]
fn memory_that_may_not_become_executable_does_not() {
    let mut subject = Subject::new("jump");
    if subject.ask("mdwe") != "true" {
        eprintln!("this kernel has no PR_SET_MDWE: not tried");
        return;
    }
    if cfg!(target_arch = "x86_64") {
        assert!(is_traced(&mut subject));
    } else {
        assert!(refusal(&mut subject).contains("text cannot be written"));
    }
    assert_no_page_is_writable_and_executable(&subject);
    subject.end();
}

/// A process that is not dumpable cannot open its own memory.
#[test]
fn a_process_that_cannot_be_dumped_is_left_alone() {
    let mut subject = Subject::new("jump");
    assert!(is_traced(&mut subject));
    assert_eq!(subject.ask("undump"), "undumpable");
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    if cfg!(target_arch = "x86_64") {
        let reason = refused(&mut consumer);
        assert!(reason.contains("text cannot be written: Permission denied"), "{reason}");
    }
    assert_no_page_is_writable_and_executable(&subject);
    assert_eq!(subject.ask("fire 2 100"), "200");
}

/// A program in D that reads a missing page does not block: the thread that hits the probe may be the one that fills the page.
#[test]
fn a_read_does_not_wait_for_a_page() {
    let mut subject = Subject::new("jump");
    let mut answer = String::new();
    let text =
        "subject:::filled { trace(*(int *)arg0); } subject:::filled { @[\"filled\"] = count(); }
        subject:::greeted { printf(\"%s\", stringof(arg0)); }";
    let [shown, said] = run(&mut subject, text, |subject| {
        answer = subject.ask("filled 20");
        subject.ask("greet 1");
    });
    if answer.starts_with("not possible") {
        eprintln!("userfaultfd: {answer}: not tried");
        return;
    }
    assert_eq!(answer, "20");
    assert_eq!(said.matches("invalid address").count(), 20, "{said}");
    assert!(shown.contains("world") && shown.contains(" 20"), "{shown}{said}");
    // A fork does not wait either.
    assert!(forked(&mut subject).contains("restored=true"));
}

/// Memory that was part of an ordinary stack, and becomes an alternate one, is not overflown.
#[test]
fn stacks_that_become_alternate_ones_are_not_overflown() {
    // Hits on the stack before that are recorded.
    let text = "subject:::work { n++; } subject:::signalled { @q[probename] = quantize(arg0); @s[stack()] = count();
        printf(\"%s %d\", strjoin(probename, execname), arg0); }";
    // SAFETY: returns a number and changes nothing.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    for kind in ["reused", "disarmed"] {
        // The program's own frames overflow the smallest stack before any hit.
        for (more, is_enough_to_count) in [(0, false), (1024, false), (3072, true)] {
            let mut subject = Subject::new("jump");
            let mut below = 0;
            let [shown, said] = run(&mut subject, text, |subject| {
                below = subject.count(&format!("{kind} {}", least.max(2048) + more));
            });
            assert_eq!(shown.trim(), "", "{kind}, {more}: {said}");
            assert!(below == 0 || !is_enough_to_count, "{kind}, {more}: {below}");
            assert_ne!(subject.ask("counters").rsplit(' ').next(), Some("0"), "{kind}, {more}");
            subject.end();
        }
    }
}

/// Hits outside of an alternate stack just before a signal prove nothing about the hits of the handler: also if the stack was replaced
/// meanwhile, if another coroutine runs, and if a handler does not return.
#[test]
fn hits_outside_of_an_alternate_stack_prove_nothing_about_a_handler() {
    const AUTODISARM: u64 = 1 << 31;
    // SAFETY: returns a number and changes nothing.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    let bytes = least.max(libc::SIGSTKSZ);
    for (role, flags, how, recorded, stray) in [
        ("jump", 0, "switches", "work 21", "20"),
        // The last handler runs on an ordinary stack: the one before has not returned, so the alternate stack is still disarmed.
        ("jump", AUTODISARM, "switches", "signalled 1 work 29", "19"),
        // The handler of breakpoints would overwrite the frames of a handler that does not run.
        ("trap", 0, "", "work 16", "16"),
    ] {
        let mut subject = Subject::new(role);
        let text = "subject:::work, subject:::signalled { @[probename] = count(); }";
        let [shown, said] = run(&mut subject, text, |subject| {
            assert_eq!(subject.ask(&format!("around {bytes} {flags} {how}")), "done");
        });
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let counters = subject.ask("counters");
        assert_eq!(shown, recorded, "{role}, {flags:#x}: {counters}: {said}");
        assert_eq!(counters.rsplit(' ').next(), Some(stray), "{role}, {flags:#x}: {counters}");
        subject.end();
    }
}

/// A hit seldom asks the kernel for the alternate stack.
#[test]
fn most_hits_make_no_system_call() {
    let mut subject = Subject::new("jump");
    let mut queries = 0;
    let [shown, said] = run(&mut subject, "subject:::work { @ = count(); }", |subject| {
        queries = subject.count("queries 10000");
    });
    assert_eq!(shown.trim(), "10000", "{said}");
    if has_marks() {
        assert!(queries < 5000, "{queries}");
    } else {
        eprintln!("glibc before 2.35, or Linux from 6.19: each hit asks the kernel");
        assert_eq!(queries, 10000);
    }
    subject.end();
}

/// Returns whether the C library registers areas for restartable sequences, and the kernel is one of those that use them at each signal.
fn has_marks() -> bool {
    // SAFETY: the C library has a variable of this type, or none.
    let size =
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>().as_ref() };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    size.is_some_and(|size| *size != 0) && version < (6, 19)
}

/// A process in a user namespace, in which the user who started it is root.
#[test]
fn a_process_in_a_user_namespace_is_traced() {
    let Some(mut subject) = Subject::in_user_namespace("jump") else {
        eprintln!("user namespaces are not possible here: not tried");
        return;
    };
    assert!(is_traced(&mut subject));
    let [shown, said] = run(&mut subject, "BEGIN { printf(\"%d\", uid); exit(0); }", |_| {});
    assert_eq!(shown.trim(), "0", "{said}");
    subject.end();
}

/// A consumer outside of the namespace has the number 0 in it.
#[test]
fn a_process_in_a_pid_namespace_is_traced() {
    let Some(mut subject) = Subject::in_pid_namespace("jump") else {
        eprintln!("pid namespaces are not possible here: not tried");
        return;
    };
    assert!(is_traced(&mut subject));
    // `$target` is the number that the process has in its namespace.
    if cfg!(target_arch = "x86_64") {
        let twice = "pid$target:a.out:process??subject??functions??twice:entry";
        let text = format!("{twice} /pid == $target/ {{ @[\"entries\"] = sum(1); }}");
        let [shown, said] = run(&mut subject, &text, |subject| {
            assert!(subject.ask("calls 10").starts_with("40 "));
        });
        assert_eq!(table(&shown)["entries"], 40, "{shown}{said}");
    }
    subject.end();
}
