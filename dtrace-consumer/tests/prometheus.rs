//! The example `prometheus`, with the command in its documentation and this test program as the process.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sdt_core::{sdt_probe, sdt_provider};

#[allow(dead_code, reason = "the program's own beginning")]
#[path = "../examples/prometheus.rs"]
mod prometheus;

sdt_provider! {
    /// The probes of the example `shop`.
    pub shop {
        /// A request has arrived.
        fn request_start(id: u64, path: &str);
        /// A request was answered, with a status of HTTP.
        fn request_done(id: u64, path: &str, status: u16);
    }
}

/// Returns the arguments of the command in the documentation of the example.
fn documented() -> Vec<String> {
    let example = include_str!("../examples/prometheus.rs");
    let command = example.lines().find_map(|line| line.split_once("--example prometheus -- "));
    let (_, command) = command.expect("a command");
    let (words, program) = command.trim_end_matches('\'').split_once(" '").unwrap();
    words.split(' ').chain([program]).map(str::to_owned).collect()
}

fn page(at: SocketAddr) -> String {
    let mut line = TcpStream::connect(at).unwrap();
    line.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    body.to_owned()
}

/// Returns the value of a sample.
fn value(page: &str, sample: &str) -> Option<u64> {
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn the_documented_command_serves_counters_and_histograms() {
    let traced = sdt_process::Options::new().start().unwrap();
    let mut arguments = documented();
    assert_eq!(arguments[0], "process:4242");
    arguments[0] = format!("process:{}", std::process::id());
    arguments[1] = "127.0.0.1:0".into();
    // A request with the status 599 ends the trace at the end of the test.
    arguments[2] += " shop:::request-done /args.status == 599/ { exit(0); }";
    let (send, receive) = mpsc::channel();
    let serves = std::thread::spawn(move || {
        let listening = |at| send.send(at).unwrap();
        prometheus::serve(&arguments, listening).map_err(|error| error.to_string())
    });
    let at = receive.recv_timeout(Duration::from_secs(60)).expect("it listens");
    let request = |id: u64, path: &str, status: u16| {
        sdt_probe!(shop::request_start, id, path);
        sdt_probe!(shop::request_done, id, path, status);
    };
    for id in 1..=12 {
        request(id, "/cart", 200);
    }
    request(13, "/a\"\\\n", 404);
    let cart = "requests{path=\"/cart\",status=\"200\"}";
    let mut served = page(at);
    while value(&served, cart) != Some(12) {
        std::thread::sleep(Duration::from_millis(50));
        served = page(at);
    }
    assert_eq!(value(&served, r#"requests{path="/a\"\\\n",status="404"}"#), Some(1), "{served}");
    assert!(served.contains("# TYPE requests counter\n"), "{served}");
    let histogram = served.split("# TYPE latency_us histogram\n").nth(1).unwrap();
    let histogram = histogram.split("# TYPE").next().unwrap();
    let buckets = histogram.lines().filter_map(|line| {
        let (_, bucket) = line.split_once("latency_us_bucket{path=\"/cart\",le=\"")?;
        let (le, count) = bucket.split_once("\"} ")?;
        Some((le.to_owned(), count.parse::<u64>().unwrap()))
    });
    let buckets: Vec<(String, u64)> = buckets.collect();
    let (all, bounded) = buckets.split_last().unwrap();
    assert_eq!(*all, ("+Inf".into(), 12), "{served}");
    assert!(!bounded.is_empty() && bounded.is_sorted_by(|left, right| left.1 <= right.1));
    // The highest values of the buckets: one less than a power of two.
    let is_highest = |le: &str| (le.parse::<u64>().unwrap() + 1).is_power_of_two();
    assert!(bounded.iter().all(|(le, _)| is_highest(le)), "{served}");
    assert_eq!(value(&served, "latency_us_count{path=\"/cart\"}"), Some(12), "{served}");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                request(14, "/", 599);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let result = serves.join();
        ended.store(true, Ordering::Release);
        assert_eq!(result.unwrap(), Ok(()));
    });
    drop(traced);
}
