//! Measures the cost of an event: without a subscriber, with this crate's layer, and with a subscriber that formats text and
//! discards it. All rows are measured in turn; each line is the median of the rounds, in nanoseconds.
//!
//! `cargo run --release -p sdt-tracing --example cost`

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use dtrace_consumer::compiler::{Source, options::Options};
use dtrace_consumer::{Address, Client, Protection, Trace};
use tracing::{Dispatch, dispatcher, info, info_span};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

const ROUNDS: usize = 101;
const CALLS: u64 = 2_000;

/// A function to measure, and the subscribers to measure it with.
struct Case {
    name: &'static str,
    work: fn(u64),
    subscribers: Vec<(&'static str, Dispatch)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let process = sdt_process::start()?;
    let none = || ("no subscriber", Dispatch::none());
    let layer = |name| (name, Dispatch::new(Registry::default().with(sdt_tracing::layer())));
    let text = || {
        let text = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        ("a subscriber that writes text", Dispatch::new(text))
    };
    let work: [(_, fn(u64)); 2] = [
        ("event with two fields", |number| info!(number, customer = "ada", "order placed")),
        ("span with two fields", |number| {
            drop(info_span!("handle", number, customer = "ada").entered())
        }),
    ];

    println!("no probe enabled");
    for (name, work) in work {
        let subscribers = vec![none(), layer("the layer"), text()];
        measure(&Case { name, work, subscribers });
    }
    println!("\ntracing:::event, tracing:::span-done {{ @ = count(); }}");
    let line = Address::Process(std::process::id()).open(&Protection::Machine, || {})?;
    let mut trace = Trace::new(Client::connect(line)?, Options::default(), 0);
    let program = Source::line(b"tracing:::event, tracing:::span-done { @ = count(); }");
    let program = trace.compile(program)?;
    trace.enable(&program)?;
    let _running = trace.go()?;
    let before = process.counters().hits;
    for (name, work) in work {
        measure(&Case { name, work, subscribers: vec![layer("the layer"), text()] });
    }
    let hits = process.counters().hits - before;
    // Each call of a work function fires one probe while the layer is the subscriber. `BEGIN` and timers are hits, too.
    assert!(hits >= 2 * ROUNDS as u64 * CALLS, "{hits} hits");
    Ok(())
}

/// Prints a line for each subscriber.
fn measure(case: &Case) {
    let mut times = vec![Vec::new(); case.subscribers.len()];
    for _ in 0..ROUNDS {
        for ((_, dispatch), times) in case.subscribers.iter().zip(&mut times) {
            dispatcher::with_default(dispatch, || {
                let start = Instant::now();
                (0..CALLS).for_each(|number| (case.work)(black_box(number)));
                times.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
            });
        }
    }
    for ((name, _), times) in case.subscribers.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{:24} {name:32} {:8.1}", case.name, times[ROUNDS / 2]);
    }
}
