//! One process traces another, as `dtrace -p` does.
#![cfg(target_os = "linux")]

mod borrowed;
mod constants;
mod consumer;
mod functions;
mod harm;
mod late;
mod program;
mod resident;
mod sampling;
mod stacks;
mod subject;
mod typed;
#[cfg(target_arch = "x86_64")]
mod windows;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use consumer::{Consumer, Read, Subject};
use sdt_process::{Config, Options, StartError};

/// Asserts that each record of each thread was read once.
fn assert_complete(read: &Read, threads: u64, times: u64) {
    assert_eq!(read.drops, 0);
    for thread in 0..threads {
        let seen: BTreeSet<_> = of_thread(read, thread).collect();
        assert_eq!(seen.len() as u64, times, "thread {thread}");
        assert_eq!(of_thread(read, thread).count() as u64, times, "thread {thread}");
    }
}

fn of_thread(read: &Read, thread: u64) -> impl Iterator<Item = u64> {
    read.records.iter().filter(move |(_, args)| args[0] == thread).map(|(_, args)| args[1])
}

/// Returns whether the subject sees nops at all its sites.
fn is_restored(subject: &mut Subject) -> bool {
    subject.ask("text").starts_with("true ")
}

#[test]
fn probes_are_listed() {
    let subject = Subject::new("jump");
    let mut consumer = Consumer::of(subject.id());
    let listed: BTreeSet<_> = consumer.list().into_iter().collect();
    // Probes whose sites are in one function have its name.
    let names = [
        "subject:subject:none:work",
        "subject:subject:process::subject::greet:greeted",
        "subject:subject:process::subject::more:more",
        "subject:subject:none:filled",
        "subject:subject:process::subject::obey:claimed",
        "subject:subject:process::subject::say:said",
        "subject:subject:process::subject::signals::on_signal:signalled",
    ];
    assert_eq!(listed, BTreeSet::from(names.map(str::to_owned)));
    assert_eq!(consumer.0.list("subject::*more:").unwrap().len(), 1);
    assert_eq!(consumer.0.list("subject::process??subject??more:").unwrap().len(), 1);
    // As in every kernel, BEGIN, END and ERROR have the first numbers, and timers the last.
    let own = consumer.0.list("dtrace:::").unwrap();
    let own: Vec<_> = own.iter().map(|of| (of.id, &*of.name)).collect();
    assert_eq!(own, [(1, "BEGIN"), (2, "END"), (3, "ERROR")]);
    let timers = consumer.0.list("profile:::").unwrap();
    assert_eq!((timers.len(), timers[0].id), (13, 11));
    let probe = consumer.probe("work");
    let listed = consumer.0.probe(probe).unwrap().unwrap();
    let types = consumer.0.describe(&listed).unwrap().unwrap().types;
    assert_eq!(types.iter().map(|of| &*of.native).collect::<Vec<_>>(), ["uint64_t", "uint64_t"]);
    let sites = consumer.0.sites(probe).unwrap();
    for function in ["4work", "5forks4fork", "4obey"] {
        let is_there = |of: &dtrace_consumer::client::Site| {
            of.function
                .as_ref()
                .is_some_and(|(name, _)| name.contains(&format!("subject{function}")))
        };
        assert_eq!(sites.iter().filter(|site| is_there(site)).count(), 1, "{sites:?}");
    }
    subject.end();
}

#[test]
fn every_hit_is_recorded() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        assert_eq!(subject.ask("enabled"), "false");
        let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
        assert_eq!(subject.ask("enabled"), "true");
        subject.say("fire 8 2000");
        let read = consumer.until(16_000);
        assert_eq!(subject.answer(), "16000");
        assert_complete(&read, 8, 2000);
        assert_eq!(consumer.rest().len(), 0);
        // BEGIN has fired, too.
        assert_eq!(subject.ask("counters"), "16001 0 0 0");
        let traps = subject.count("traps");
        // The test whether it is enabled is a site, too.
        assert_eq!(traps, if role == "trap" { 16_001 } else { 0 }, "{role}");
        consumer.0.close().unwrap();
        assert!(is_restored(&mut subject));
        let counters = subject.ask("counters");
        subject.ask("fire 2 100");
        assert_eq!(subject.ask("counters"), counters);
        subject.end();
    }
}

/// All threads wait for the only slot, and no hit is lost.
#[test]
fn threads_wait_for_slots() {
    let mut subject = Subject::new("jump 1");
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    subject.say("fire 16 500");
    let read = consumer.until(8_000);
    assert_eq!(subject.answer(), "8000");
    assert_complete(&read, 16, 500);
    assert_eq!(subject.ask("counters"), "8001 0 0 0");
    subject.end();
}

/// Probes are enabled and disabled while all threads hit their sites, in both modes.
#[test]
fn text_changes_under_load() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        subject.ask("busy 4");
        for round in 0..30 {
            let mut consumer = Consumer::enabling(subject.id(), "subject:::");
            if round % 5 == 0 {
                assert_ne!(consumer.until(100).records.len(), 0);
                assert_eq!(subject.ask("enabled"), "true");
            }
            consumer.0.close().unwrap();
        }
        let worked = subject.count("calm");
        assert!(is_restored(&mut subject));
        assert_ne!(worked, 0);
        let counters = subject.ask("counters");
        assert!(counters.ends_with(" 0 0 0"), "{counters}");
        subject.end();
    }
}

/// A consumer whose connection is lost in the middle of tracing leaves nothing behind.
#[test]
fn a_lost_connection_leaves_nothing() {
    let mut subject = Subject::new("jump");
    subject.ask("busy 2");
    for _ in 0..20 {
        let is_lost = Arc::new(AtomicBool::new(false));
        let line = consumer::line(subject.id()).unwrap();
        let line = consumer::Losing { line, is_lost: is_lost.clone() };
        let mut client = dtrace_consumer::Client::connect(line).unwrap();
        client.open().unwrap();
        client.program(&consumer::program("subject:::work")).unwrap();
        client.go().unwrap();
        // The requests that the client makes when it is dropped are lost.
        is_lost.store(true, Ordering::Relaxed);
    }
    let mut consumer = Consumer::enabling(subject.id(), "subject:::more");
    consumer.until(10);
    consumer.0.close().unwrap();
    subject.ask("calm");
    while !is_restored(&mut subject) {
        std::thread::yield_now();
    }
    subject.end();
}

/// Signals interrupt a thread anywhere: outside of hits, in a hit, in the handler of breakpoints.
#[test]
fn hits_in_signal_handlers_are_recorded() {
    for role in ["jump", "trap"] {
        let mut subject = Subject::new(role);
        let mut consumer = Consumer::enabling(subject.id(), "subject:::");
        let (work, signalled) = (consumer.probe("work"), consumer.probe("signalled"));
        subject.say("signals 3000");
        let mut read = Read::default();
        let count =
            |read: &Read, probe| read.records.iter().filter(|of| of.0 == probe).count() as u64;
        // The thread does not wait for this consumer.
        while count(&read, signalled) + read.drops < 3000 {
            let seen = (count(&read, signalled), read.drops);
            assert!(consumer.take(&mut read, std::time::Duration::from_secs(60)), "{seen:?}");
        }
        let answer = subject.answer();
        let mut rest = consumer.rest();
        read.records.append(&mut rest.records);
        read.drops += rest.drops;
        let seen = [work, signalled].map(|probe| count(&read, probe));
        let (worked, signals) = answer.split_once(' ').unwrap();
        let fired = [worked, signals].map(|times| times.parse::<u64>().unwrap());
        let all = fired[0] + fired[1];
        assert_eq!(seen[0] + seen[1] + read.drops, all, "{role}: {seen:?} of {fired:?}");
        assert!(read.drops != 0 || seen == fired, "{role}: {seen:?} of {fired:?}");
        assert_eq!(subject.ask("counters"), format!("{} 0 0 0", all + 1), "{role}");
        subject.end();
    }
}

#[test]
fn other_breakpoints_are_passed_on() {
    let mut subject = Subject::new("trap");
    assert_eq!(subject.ask("breakpoint"), "2");
    let consumer = Consumer::enabling(subject.id(), "subject:::");
    assert_eq!(subject.ask("breakpoint"), "4");
    subject.ask("fire 1 10");
    assert_eq!((subject.ask("breakpoint"), subject.count("traps")), ("6".to_owned(), 10));
    drop(consumer);
    subject.end();
}

#[test]
fn a_child_is_not_traced_until_it_starts() {
    for busy in ["busy 4", "enabled"] {
        let mut subject = Subject::new("trap");
        let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
        subject.ask(busy);
        subject.say("fork");
        let answer = subject.answer();
        let words: Vec<_> = answer.split(' ').collect();
        let [_, child, rest @ ..] = &words[..] else { panic!("{answer}") };
        assert_eq!(rest, ["restored=true", "enabled=false", "Ok(\"started\")"], "{answer}");
        // The child has its own socket, and reads its commands from the pipe that it shares with its parent.
        let child = child.parse().unwrap();
        assert_eq!(Consumer::of(child).list().len(), 7);
        let mut in_child = Consumer::enabling(child, "subject:::more");
        assert_eq!(in_child.rest().len(), 0);
        in_child.0.close().unwrap();
        // The parent is traced as before.
        assert!(subject.folder.path().join(format!("sdt/{}", subject.id())).exists());
        assert_eq!(consumer.list().len(), 7);
        let mut second = Consumer::of(subject.id());
        assert_eq!(second.list().len(), 7);
        if busy != "enabled" {
            let some = consumer.until(1000);
            assert!(some.records.iter().all(|(_, args)| args[0] != 77), "a hit of the child's");
        }
        // SAFETY: sends a signal to the child, which still exists as it has not been waited for.
        unsafe { libc::kill(child as i32, libc::SIGKILL) };
    }
}

/// A fork while tracing ends makes a child whose sites are all nops.
#[test]
fn children_of_a_process_that_ends_are_not_traced() {
    let mut subject = Subject::new("trap");
    for round in 0..40 {
        let mut consumer = Some(Consumer::enabling(subject.id(), "subject:::"));
        subject.say("forks");
        // The end waits two seconds for a consumer that stays.
        if round % 10 != 0 {
            consumer = None;
        }
        assert_eq!(subject.answer(), "true 0");
        drop(consumer);
        assert_eq!(subject.ask("start"), "started");
    }
    subject.end();
}

/// A thread that enables a probe holds locks: the worker thread, or one of the program. It can fork nevertheless, and so can another
/// thread, however long the enabling takes.
#[test]
fn children_are_made_where_a_probe_is_enabled() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("limit 300"), "limited");
    assert_eq!(subject.ask("forking"), "forking");
    let mut consumer = Consumer::enabling(subject.id(), "forking:::");
    assert_eq!(subject.ask("second"), "second");
    assert_eq!(subject.ask("children"), "[0, 0]");
    for command in ["beside", "beside 300", "barely", "heir"] {
        assert_eq!(subject.ask(command), "0", "{command}");
    }
    consumer.0.close().unwrap();
    assert!(is_restored(&mut subject));
    subject.end();
}

/// A probe that another thread makes at run time is either complete or not started in the child.
#[test]
fn children_can_start_while_others_make_probes() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("makers 20"), "20");
    subject.end();
}

#[test]
fn a_new_program_takes_the_socket_over() {
    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    let first = subject.ask("exec");
    assert!(first.starts_with(&format!("{} Ok(", subject.id())), "{first}");
    assert!(consumer.0.list("").is_err(), "the connection has ended");
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    assert_eq!(subject.ask("fire 1 10"), "10");
    assert_eq!(consumer.until(10).records.len(), 10);
    subject.end();
}

#[test]
fn it_ends_and_begins_again() {
    let mut subject = Subject::new("jump");
    let socket = subject.folder.path().join(format!("sdt/{}", subject.id()));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    assert_eq!(
        subject.ask("start"),
        "sdt_process is already started in this process; start it once, and keep the Process that start() returns"
    );
    for _ in 0..3 {
        let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
        assert_eq!(subject.ask("stop"), "stopped");
        assert!(!socket.exists() && is_restored(&mut subject));
        assert!(consumer.0.list("").is_err(), "the connection has ended");
        assert_eq!(subject.ask("fire 1 10"), "10");
        assert!(consumer::line(subject.id()).is_err());
        assert_eq!(subject.ask("start"), "started");
    }
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    assert_eq!(subject.ask("fire 1 10"), "10");
    assert_eq!(consumer.until(10).records.len(), 10);
    subject.end();
}

/// A program that the process enables itself ends with it, and does not exist in a child.
#[test]
fn an_unclaimed_program_ends_with_the_process() {
    let mut subject = Subject::new("trap");
    let dof = program::anonymous(&subject, "subject:::work { @ = count(); } tick-10ms { n++; }");
    for _ in 0..3 {
        // The third is the clause of ERROR.
        assert_eq!(subject.ask(&format!("enable {dof}")), "Ok(3)");
        assert!(!is_restored(&mut subject));
        assert_eq!(subject.ask("fire 1 10"), "10");
        let answer = subject.ask("fork");
        let words: Vec<_> = answer.split(' ').collect();
        let [_, child, rest @ ..] = &words[..] else { panic!("{answer}") };
        assert_eq!(rest, ["restored=true", "enabled=false", "Ok(\"started\")"], "{answer}");
        // SAFETY: sends a signal to the child, which still exists as it has not been waited for.
        unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
        assert_eq!(subject.ask("stop"), "stopped");
        assert!(is_restored(&mut subject));
        assert_eq!(subject.ask("start"), "started");
    }
    subject.end();
}

/// Memory that a program has freed is used again before a consumer has claimed the program: there is room for some dozens at a time.
#[test]
fn an_unclaimed_program_has_room_for_its_variables() {
    let mut subject = Subject::new("jump");
    let text = "#pragma D option quiet\n#pragma D option dynvarsize=4096\n
        subject:::work { a[arg1] = 1; } subject:::work /a[arg1]/ { @ = count(); a[arg1] = 0; }";
    let dof = program::anonymous(&subject, text);
    assert_eq!(subject.ask(&format!("enable {dof}")), "Ok(3)");
    for _ in 0..200 {
        assert_eq!(subject.ask("fire 1 8"), "8");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let [shown, said] = program::claimed(&subject);
    let counted: u64 = shown.trim().parse().unwrap_or_else(|_| panic!("{shown}{said}"));
    assert!(counted > 200, "{shown}{said}");
    subject.end();
}

/// The greatest number of consumers is connected. The next one gets the reason, and the others are not affected.
#[test]
fn there_is_an_end_to_consumers() {
    let mut subject = Subject::new("jump");
    let mut consumers: Vec<_> =
        (0..3).map(|_| Consumer::enabling(subject.id(), "subject:::work")).collect();
    let line = consumer::line(subject.id()).unwrap();
    let refused = dtrace_consumer::Client::connect(line).unwrap_err().to_string();
    let why = "3 consumers trace this process, which is the limit; stop one of them";
    assert_eq!(refused, why);
    assert_eq!(subject.ask("fire 2 50"), "100");
    for consumer in &mut consumers {
        assert_eq!(consumer.until(100).records.len(), 100);
    }
    // BEGIN has fired for each of them.
    assert_eq!(subject.ask("counters"), "103 0 0 0");
    drop(consumers);
    while !is_restored(&mut subject) {
        std::thread::yield_now();
    }
    subject.end();
}

/// The end of tracing does not wait for a hit that does not end. The worker thread completes it later.
#[test]
fn a_hit_that_does_not_end_does_not_delay_the_end_of_tracing() {
    let mut subject = Subject::new("jump");
    assert_eq!(subject.ask("limit 120"), "limited");
    let socket = subject.folder.path().join(format!("sdt/{}", subject.id()));
    let dof = program::anonymous(&subject, "subject:::greeted { p = copyinstr(arg0); }");
    assert_eq!(subject.ask(&format!("enable {dof}")), "Ok(2)");
    assert_eq!(subject.ask("hold"), "held");
    assert_eq!(subject.ask("stop"), "stopped");
    assert_eq!(subject.ask("release"), "1");
    while socket.exists() || !is_restored(&mut subject) {
        std::thread::yield_now();
    }
    while subject.ask("start") != "started" {
        std::thread::yield_now();
    }
    let mut consumer = Consumer::enabling(subject.id(), "subject:::work");
    assert_eq!(subject.ask("fire 1 10"), "10");
    assert_eq!(consumer.until(10).records.len(), 10);
    subject.end();
}

/// A thread that is cancelled in the middle of a hit completes it first.
#[test]
fn a_thread_that_is_cancelled_ends_its_hit() {
    let mut subject = Subject::new("jump 1");
    let text = "subject:::greeted { p = copyinstr(arg0); } subject:::work { @ = count(); }";
    let dof = program::anonymous(&subject, text);
    assert_eq!(subject.ask(&format!("enable {dof}")), "Ok(3)");
    assert_eq!(subject.ask("hold"), "held");
    assert_eq!(subject.ask("cancel"), "true");
    // The thread found no slot.
    assert!(subject.ask("counters").ends_with(" 1"));
    assert_eq!(subject.ask("release"), "1");
    assert_eq!(subject.ask("fire 2 100"), "200");
    subject.end();
}

/// `start` fails if there is too little memory for the configuration.
#[test]
fn too_much_is_an_error() {
    let good = sdt_process::Config::DEFAULT;
    let options = [
        Options::new().slots(usize::MAX),
        Options::new().slots(1 << 50),
        Options::new().config(Config { buffer: usize::MAX, ..good }),
        Options::new().config(Config { buffer: 1 << 50, ..good }),
    ];
    for options in options {
        let error = options.start().unwrap_err();
        assert!(matches!(error, StartError::Memory { .. }), "{error}");
    }
    let many = [
        Config { consumers: usize::MAX, ..good },
        Config { ecbs: usize::MAX / 2, ..good },
        Config { probes: usize::MAX, ..good },
    ];
    for config in many {
        let error = Options::new().config(config).start().unwrap_err();
        assert!(matches!(error, StartError::Config(_)), "{error}");
    }
}
