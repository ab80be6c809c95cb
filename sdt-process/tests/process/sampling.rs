//! `profile-N` samples what threads execute.

use std::os::unix::process::ExitStatusExt as _;

use dtrace_consumer::ClientError;

use crate::consumer::{self, Consumer, Subject};
use crate::program::{run, table};

/// Returns the reason for which a process cannot be sampled.
fn refused(subject: &Subject) -> String {
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    match consumer.0.program(&consumer::program("profile:::profile-97")).unwrap_err() {
        ClientError::Gone(reason) => {
            assert!(reason.starts_with("profile-N cannot be enabled: "), "{reason}");
            reason
        }
        other => panic!("{other}"),
    }
}

/// Returns the numbers in the last lines of an aggregation whose keys end with these names.
fn counts<const COUNT: usize>(shown: &str, names: [&str; COUNT]) -> [u64; COUNT] {
    let table = table(shown);
    names.map(|name| table.iter().filter(|(key, _)| key.ends_with(name)).map(|(_, n)| n).sum())
}

/// Two functions take 3 : 1 of the time, and nothing else takes much.
#[test]
fn samples_are_in_proportion_to_the_time() {
    let mut subject = Subject::new("jump");
    let text = "profile-199 { @[sym(arg1)] = count(); }";
    let [shown, said] = run(&mut subject, text, |subject| {
        assert_eq!(subject.ask("burn 2 2000"), "done");
    });
    let [hot, warm] = counts(&shown, ["::hot", "::warm"]);
    let all: u64 = table(&shown).values().sum();
    // 4 s at 199 Hz. The kernel's own clock may be as slow as 100 Hz.
    assert!((200..1200).contains(&all), "{shown}{said}");
    assert!(hot > 2 * warm && hot < 4 * warm + warm / 2, "{shown}");
    assert!(10 * (hot + warm) > 9 * all, "{shown}");
    assert_eq!(said, "");
    assert_eq!(subject.ask("timers"), "0");
    assert_eq!(subject.ask("counters").split_once(' ').unwrap().1, "0 0 0");
    subject.end();
}

/// D programs see the state of the interrupted thread.
#[test]
fn a_sample_belongs_to_the_interrupted_thread() {
    let mut subject = Subject::new("jump");
    let text = r#"
        profile-199 /arg0 == 0 && arg1 == caller && pid == $target/ {
            self->samples++; @most[tid] = max(self->samples); @all[tid] = count();
        }
        profile-199 { this->wrong = arg0 != 0 || arg1 != caller || pid != $target; @wrong = sum(this->wrong); }
        END { printa("%d %@d %@d\n", @most, @all); printa("wrong %@d\n", @wrong); }"#;
    let [shown, said] = run(&mut subject, text, |subject| {
        assert_eq!(subject.ask("burn 2 500"), "done");
    });
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split(' ').collect()).collect();
    let threads: Vec<_> = lines.iter().filter(|line| line.len() == 3).collect();
    assert!(threads.len() >= 2, "{shown}{said}");
    assert!(threads.iter().all(|line| line[1] == line[2]), "{shown}");
    assert!(shown.contains("wrong 0"), "{shown}");
    subject.end();
}

/// Each thread gets a timer some time after it begins.
#[test]
fn threads_that_begin_later_are_sampled() {
    let mut subject = Subject::new("jump");
    let text = "profile-199 { @[tid] = count(); }";
    let [shown, said] = run(&mut subject, text, |subject| {
        assert_eq!(subject.ask("short 50"), "done");
        assert_eq!(subject.ask("burn 3 1000"), "done");
    });
    assert!(table(&shown).values().filter(|count| **count > 10).count() >= 3, "{shown}{said}");
    assert_eq!(subject.ask("timers"), "0");
    subject.end();
}

/// The threads of a program receive none of the signals, also those that wait for all signals.
#[test]
fn the_program_receives_no_sample() {
    let mut subject = Subject::new("jump");
    let mut got = (String::new(), String::new());
    let [shown, _] = run(&mut subject, "profile-199 { @[sym(arg1)] = count(); }", |subject| {
        got = (subject.ask("wait-for-signals 1000"), subject.ask("burn 1 200"));
    });
    assert_eq!(got.0, "0");
    assert_ne!(counts(&shown, ["::hot"]), [0], "the other thread is sampled: {shown}");
    subject.end();
}

/// The signal from another process has its default action, as without sampling.
#[test]
fn a_signal_of_others_has_its_default_action() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("handlers"), "");
    let consumer = Consumer::enabling(subject.id(), "profile:::profile-97");
    assert_ne!(subject.ask("timers"), "0");
    let signal: i32 = subject.ask("handlers").parse().unwrap();
    drop(consumer);
    // SAFETY: sends a signal to a child of this process.
    unsafe { libc::kill(subject.id().cast_signed(), signal) };
    assert_eq!(subject.wait().signal(), Some(signal));
}

#[test]
fn a_program_that_handles_all_signals_is_not_sampled() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("handle-all"), "handled");
    assert!(refused(&subject).contains("handles all real-time signals"));
    assert_eq!((subject.ask("timers"), subject.ask("received")), ("0".into(), "0".into()));
    subject.end();
}

/// The program replaces the handler of the signal. Then it receives no signals of this crate's timers, and all threads count as
/// not sampled.
#[test]
fn a_program_that_replaces_the_handler_is_not_sampled_any_more() {
    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::enabling(subject.id(), "profile:::profile-97");
    assert_ne!(subject.ask("timers"), "0");
    assert_eq!(subject.ask("handle-all"), "handled");
    while subject.ask("timers") != "0" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // The threads of the test and of the harness.
    assert_eq!(consumer.0.status().unwrap().unsampled_threads, 2);
    let received = subject.ask("received");
    subject.ask("burn 1 200");
    assert_eq!(subject.ask("received"), received);
    drop(consumer);
    assert!(refused(&subject).contains("has replaced the handler of signal"));
    subject.end();
}

/// `dtrace` prints that threads are not sampled.
#[test]
fn threads_that_block_the_signal_are_counted() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("block"), "blocked");
    let mut consumer = Consumer::enabling(subject.id(), "profile:::profile-97");
    assert_eq!(consumer.0.status().unwrap().unsampled_threads, 1);
    assert_ne!(subject.ask("timers"), "0");
    drop(consumer);
    subject.end();
}

/// The filter of a thread may end the process for a system call of a hit, unless the program declares that it does not.
#[test]
fn threads_with_filters_of_their_own_are_not_sampled() {
    for (role, expected) in [("jump", 1), ("jump-allowed", 0)] {
        let mut subject = Subject::new(role);
        assert_eq!(subject.ask("filtered"), "filtered");
        let mut consumer = Consumer::enabling(subject.id(), "profile:::profile-97");
        assert_eq!(consumer.0.status().unwrap().unsampled_threads, expected, "{role}");
        drop(consumer);
        subject.end();
    }
}

/// The child has neither timers nor samples, also if it forks while the parent works.
#[test]
fn a_child_is_not_sampled() {
    let mut subject = Subject::new("jump");
    let _consumer = Consumer::enabling(subject.id(), "profile:::profile-997");
    subject.ask("busy 2");
    let answer = subject.ask("fork");
    let child: i32 = answer.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(answer.contains("started"), "{answer}");
    assert_eq!(timers(child), 0);
    // SAFETY: sends a signal to the child, which still exists as it has not been waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert_eq!(subject.ask("forks"), "true 0");
    subject.ask("calm");
    subject.end();
}

/// Returns the number of timers of a process.
fn timers(process: i32) -> usize {
    std::fs::read_to_string(format!("/proc/{process}/timers")).unwrap().matches("ID:").count()
}

/// A program that is executed gets no signal of its predecessor.
#[test]
fn a_program_that_is_executed_is_not_sampled() {
    let mut subject = Subject::new("jump");
    let _consumer = Consumer::enabling(subject.id(), "profile:::profile-4999");
    subject.ask("busy 2");
    assert!(subject.ask("exec").contains("Ok("));
    assert_eq!(subject.ask("timers"), "0");
    assert_eq!(subject.ask("burn 1 200"), "done");
    subject.end();
}

/// A consumer that is killed leaves no timers.
#[test]
fn timers_end_with_the_connection() {
    let mut subject = Subject::new("jump");
    let consumer = Consumer::enabling(subject.id(), "profile:::profile-97");
    assert_ne!(subject.ask("timers"), "0");
    // No request is sent, as when the kernel closes the descriptors of a killed process.
    drop(consumer);
    while subject.ask("timers") != "0" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    subject.end();
}

/// Rates are enabled and disabled while threads work, fire probes, begin and end.
#[test]
fn sampling_begins_and_ends_under_load() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        subject.ask("busy 3");
        subject.say("short 60");
        for round in 0..40 {
            let mut consumer = Consumer::of(subject.id());
            consumer.0.open().unwrap();
            let spec = if round % 2 == 0 { "profile-4999" } else { "profile-1999" };
            let text = format!("profile:::{spec}, subject:::work");
            assert_ne!(consumer.0.program(&consumer::program(&text)).unwrap(), 0);
            consumer.0.go().unwrap();
            consumer.until(20);
            consumer.0.close().unwrap();
        }
        assert_eq!(subject.answer(), "done");
        subject.ask("calm");
        assert_eq!(subject.ask("timers"), "0");
        let counters = subject.ask("counters");
        let [_, reentered, unknown, _] =
            counters.split(' ').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((reentered, unknown), ("0", "0"), "{counters}");
        subject.end();
    }
}

/// A process whose sandbox forbids timers is not sampled, and the consumer gets the reason: the unknown filter, or, if the
/// program declared that the filter allows tracing, the error of the system call.
#[test]
fn a_sandbox_without_timers_is_not_sampled() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("deny timer_create kill"), "denied");
    assert!(refused(&subject).contains("a seccomp filter was installed"));
    subject.end();
    let mut subject = Subject::new("jump-allowed");
    assert_eq!(subject.ask("deny timer_create errno"), "denied");
    let reason = refused(&subject);
    assert!(reason.contains("timer_create(2) failed for thread"), "{reason}");
    assert_eq!(subject.ask("fire 2 100"), "200");
    subject.end();
    let subject = Subject::new("jump-denied-timers");
    let reason = refused(&subject);
    assert!(reason.contains("when sdt_process was started: Operation not permitted"), "{reason}");
    subject.end();
}

/// All threads of a large program get timers.
#[test]
fn many_threads_are_sampled() {
    let mut subject = Subject::new("jump");
    subject.ask("parked 300");
    let mut consumer = Consumer::enabling(subject.id(), "profile:::profile-97");
    // Also those of the test and of the harness.
    assert_eq!((subject.count("timers"), consumer.0.status().unwrap().unsampled_threads), (302, 0));
    subject.ask("calm");
    drop(consumer);
    subject.end();
}

/// A call that waits sleeps, so samples come before or after it. Older kernels send the signal during the call.
#[test]
#[cfg(target_arch = "x86_64")]
fn calls_are_not_interrupted() {
    let mut subject = Subject::new("jump");
    let mut interrupted = String::new();
    let [shown, _] = run(&mut subject, "profile-199 { @[sym(arg1)] = count(); }", |subject| {
        interrupted = subject.ask("interrupted 1000");
    });
    assert_eq!(interrupted, "0");
    assert_ne!(counts(&shown, ["::hot"]), [0], "{shown}");
    subject.end();
}

/// `threadname` is the name that the program has set, also in a sample.
#[test]
fn threads_have_names() {
    let mut subject = Subject::new("jump");
    let text = r#"
        subject:::work { @[threadname, strlen(threadname)] = count(); }
        profile-199 /threadname == "a-thread-with-a"/ { @samples = count(); }
        END { printa("%s %d %@d\n", @); printa("samples %@d\n", @samples); }"#;
    let [shown, said] = run(&mut subject, text, |subject| {
        assert_eq!(subject.ask("named 500"), "done");
    });
    assert!(shown.contains("a-thread-with-a 15 1\n"), "{shown}{said}");
    let samples = shown.lines().find_map(|line| line.strip_prefix("samples ")).unwrap();
    assert!(samples.parse::<u64>().unwrap() > 10, "{shown}");
    subject.end();
}
