//! Slices and tracks of `--perfetto`. The traced process is this test program itself.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sdt_core::{sdt_probe, sdt_provider};
use serde_json::Value;

sdt_provider! {
    /// Work that begins and ends.
    pub work {
        /// A query begins.
        fn query_start(id: u64, table: &str);
        /// A query has ended.
        fn query_done(id: u64);
        /// A packet is sent.
        fn sent(seq: u32);
        /// A packet has arrived.
        fn received(seq: u32, bytes: u16);
        /// The round is over.
        fn over(round: u32);
    }
}

/// One round: two queries that overlap, a packet in between, and an end of a query that has not begun.
fn round() {
    sdt_probe!(work::query_start, 1, "users");
    sdt_probe!(work::query_start, 2, "carts");
    sdt_probe!(work::sent, 9);
    sdt_probe!(work::query_done, 1);
    sdt_probe!(work::received, 9, 300);
    sdt_probe!(work::query_done, 2);
    sdt_probe!(work::query_done, 3);
    sdt_probe!(work::over, 0);
}

/// Returns the events of a program that begins with the first round and ends with it.
fn events(clauses: &str, arguments: &[&str]) -> Vec<Value> {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    static TRACED: OnceLock<sdt_process::Process> = OnceLock::new();
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    TRACED.get_or_init(|| sdt_process::Options::new().start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timeline.json");
    // The first round that it sees may have begun before.
    let program = format!("{clauses} work:::over /rounds++ == 1/ {{ exit(0); }}");
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                round();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        command.args(["-p", &std::process::id().to_string(), "-q", "-n", &program]);
        let output = command.args(arguments).arg("--perfetto").arg(&file).output().unwrap();
        ended.store(true, Ordering::Release);
        output
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let timeline = std::fs::read(file).unwrap();
    let timeline: Value = serde_json::from_slice(&timeline).unwrap();
    timeline["traceEvents"].as_array().unwrap().clone()
}

/// Returns the events of a phase, each as its name, its id if it has one, and its arguments.
fn of_phase(events: &[Value], phase: &str) -> Vec<String> {
    let of = events.iter().filter(|event| event["ph"] == phase);
    of.map(|event| format!("{} {} {}", event["name"], event["id"], event["args"])).collect()
}

#[test]
fn pairs_with_an_id_are_slices_that_may_overlap() {
    let program = "work:::query-start { trace(args.id); trace(args.table); } \
        work:::query-done { printf(\"%d\\n\", args.id); }";
    let events = events(program, &[]);
    let begins = of_phase(&events, "b");
    let users = r#""query" "query 1" {"id":1,"output":"1 users","table":"users"}"#;
    let carts = r#""query" "query 2" {"id":2,"output":"2 carts","table":"carts"}"#;
    assert!(begins.iter().any(|begin| begin == users), "{events:?}");
    assert!(begins.iter().any(|begin| begin == carts), "{events:?}");
    let ends = of_phase(&events, "e");
    // Each slice has one end, and an end without a beginning is not drawn.
    assert_eq!((begins.len(), ends.len()), (begins.len(), begins.len()), "{events:?}");
    assert!(ends.iter().all(|end| !end.contains("query 3")), "{events:?}");
    let events_of = of_phase(&events, "i");
    let third = |event: &&String| {
        event.contains("query-done\"") && event.ends_with("{\"id\":3,\"output\":\"3\"}")
    };
    assert!(events_of.iter().any(|event| third(&event)), "{events:?}");
    // Begins are before ends.
    let time = |phase: &str| {
        let of = events.iter().find(|event| event["ph"] == phase && event["id"] == "query 1");
        of.and_then(|event| event["ts"].as_f64()).unwrap()
    };
    assert!(time("b") < time("e"));
}

#[test]
fn the_user_names_other_pairs() {
    let program = "work:::sent { trace(args.seq); } work:::received { printf(\"%d %d\", args.bytes, args.seq); }";
    let events = events(program, &["--slice", "sent,work:::received,seq"]);
    let begins = of_phase(&events, "b");
    assert!(begins.contains(&r#""sent" "sent 9" {"output":"9","seq":9}"#.to_owned()), "{events:?}");
    let ends = of_phase(&events, "e");
    assert_eq!(ends[0], r#""sent" "sent 9" {"bytes":300,"output":"300 9","seq":9}"#);
}

#[test]
fn pairs_without_an_id_are_slices_of_their_thread() {
    let program = "work:::sent, work:::received { trace(tid); trace(pid); trace(execname); }";
    let events = events(program, &["--slice", "sent,received"]);
    let begin = events.iter().find(|event| event["ph"] == "B").unwrap();
    let end = events.iter().find(|event| event["ph"] == "E").unwrap();
    assert_eq!((&begin["name"], &begin["tid"]), (&"sent".into(), &end["tid"]));
    assert_eq!(begin["pid"], std::process::id());
    assert_eq!(begin["tid"], begin["args"]["tid"]);
    let named = |kind: &str| {
        let named =
            events.iter().find(|event| event["name"] == kind && event["pid"] == begin["pid"]);
        named.map(|event| event["args"]["name"].clone()).unwrap()
    };
    assert_eq!(named("process_name"), begin["args"]["execname"]);
    assert_eq!(named("thread_name"), format!("thread {}", begin["tid"]));
    assert!(of_phase(&events, "b").is_empty());
}

#[test]
fn wrong_rules_are_refused() {
    for rule in ["sent", "a:b:c:d:e,done"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        command.args(["-n", "BEGIN", "--perfetto", "x", "--slice", rule]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("a rule for slices is START,DONE") && said.contains(rule), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}
