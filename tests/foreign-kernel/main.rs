//! A kernel outside of this project as a host: it is built from commonly used crates, and traced by `dtrace` over its serial
//! line.

mod machine;

use std::collections::BTreeMap;

use machine::{Dtrace, Machine, kernel};

/// Returns the CPU and the probe's name in the line of each hit, with the number of such lines.
fn hits(lines: &[String]) -> BTreeMap<(usize, String), u64> {
    let mut hits = BTreeMap::new();
    for line in lines {
        let [cpu, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        if let (Ok(cpu), Some(name)) = (cpu.parse(), name.strip_prefix("none:")) {
            *hits.entry((cpu, name.to_owned())).or_default() += 1;
        }
    }
    hits
}

/// Makes both CPUs send this number of letters while `dtrace` traces them, and compares the hits with the counts of the CPUs.
fn all_are_seen(machine: &mut Machine, letters: u64) {
    let before = machine.counts();
    let mut dtrace = Dtrace::start(machine, "512k", "letters:::", 2);
    machine.send(letters);
    let after = machine.idle();
    let expected: BTreeMap<_, _> = after
        .iter()
        .zip(&before)
        .enumerate()
        .flat_map(|(cpu, (after, before))| {
            [
                ((cpu, "sent".to_owned()), after.sent - before.sent),
                ((cpu, "received".to_owned()), after.received - before.received),
            ]
        })
        .collect();
    let sum: u64 = expected.values().sum();
    assert_eq!(sum, 4 * letters, "{after:?}");
    dtrace.lines(sum as usize);
    assert_eq!(hits(&dtrace.end()), expected);
}

/// Boots the kernel with sites of this mode, and traces it.
fn is_traced(mode: &str) {
    let kernel = kernel(mode);
    let mut machine = Machine::boot(&kernel);
    assert_eq!(machine.changed_text(&kernel), 0);

    let listed = machine.list();
    for probe in
        ["letters            kernel                              none sent", "tick", "received"]
    {
        assert!(listed.contains(probe), "{listed}");
    }
    all_are_seen(&mut machine, 1500);

    // A program in D reads memory of the kernel, and uses a timer.
    machine.send(u64::MAX);
    let both = r#"letters:::received { seen[substr(args[0], 0, 10)] = 1; }
        tick-10ms /seen["from CPU 0"] && seen["from CPU 1"]/ { printf("both"); exit(0); }"#;
    assert_eq!(machine.run(both), ("both\n".into(), String::new()));
    let everywhere = "profile-97 { seen[cpu] = arg0; } tick-10ms /seen[0] && seen[1]/ { printf(\"%d\", \
        seen[0] > 0x200000); exit(0); }";
    assert_eq!(machine.run(everywhere), ("1\n".into(), String::new()));
    let (shown, said) = machine.run("BEGIN { trace(*(int *)0x1ffffe); } BEGIN { exit(0); }");
    assert!(shown.trim().is_empty() && said.contains("invalid address (0x1ffffe)"), "{said}");

    // Several consumers, one after the other, enable probes, see hits of both CPUs, and disable the probes, while both CPUs work
    // at full speed.
    for round in 0..8 {
        // Of the timers, only the two requested ones exist.
        let probes = [("letters:::", 2), ("letters:::sent", 1), (":::", 8), ("clock:::tick", 1)];
        let (probes, matched) = probes[round % probes.len()];
        let mut dtrace = Dtrace::start(&machine, "32k", probes, matched);
        dtrace.lines(40);
        if round == 0 {
            assert_ne!(machine.changed_text(&kernel), 0, "enabled sites are other text");
        }
        dtrace.end();
    }
    // A serial line does not report the end of a connection. Probes stay enabled until the next consumer connects.
    Dtrace::start(&machine, "32k", "letters:::", 2).kill();
    assert_ne!(
        machine.changed_text(&kernel),
        0,
        "the kernel has not noticed that the consumer is gone"
    );
    machine.list();
    assert_eq!(machine.changed_text(&kernel), 0, "the dead one's sites are nops");
    for _ in 0..32 {
        machine.send(0);
        machine.idle();
        machine.send(u64::MAX);
    }
    machine.send(0);
    machine.idle();

    // The kernel's own shell can trace, too.
    machine.type_in("-n letters:::sent");
    assert_eq!(machine.printed(), "dtrace: description 'letters:::sent' matched 1 probe");
    assert_eq!(machine.printed(), "CPU     ID                    FUNCTION:NAME");
    let before = machine.counts();
    machine.send(1);
    let mut to: Vec<_> = [0; 2].map(|_| machine.printed()).into();
    to.sort_unstable();
    for (cpu, line) in to.iter().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        // The number of the probe depends on the linker. The last word is the length of the letter, which depends on the numbers
        // in it.
        let [from, _, name, sent_to, _] = words[..] else { panic!("{line}") };
        let expected = (cpu.to_string(), "none:sent", (1 - cpu).to_string());
        assert_eq!((from.to_owned(), name, sent_to.to_owned()), expected);
    }
    machine.type_in("stop");
    assert_eq!(machine.idle().map(|cpu| cpu.sent), before.map(|cpu| cpu.sent + 1));

    assert_eq!(machine.changed_text(&kernel), 0, "all sites are nops again");
    all_are_seen(&mut machine, 500);
    assert_eq!(machine.changed_text(&kernel), 0);
}

#[test]
fn by_breakpoints() {
    is_traced("trap");
}

#[test]
fn by_jumps() {
    is_traced("jump");
}

#[test]
fn little_of_it_is_for_tracing() {
    let lines = |file: &str| {
        let file = harness::workspace::root().join("tests/foreign-kernel/kernel/src").join(file);
        let text = std::fs::read_to_string(file).expect("it is there");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        (text.lines().count(), text.lines().filter(is_code).count())
    };
    let files = ["main.rs", "boot.rs", "machine.rs", "letters.rs", "shell.rs"];
    let kernel: usize = files.iter().map(|file| lines(file).1).sum();
    // These numbers are in the guide.
    assert_eq!((kernel, lines("tracing.rs")), (299, (80, 51)));
}
