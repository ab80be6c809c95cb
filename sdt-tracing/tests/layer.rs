//! This program traces itself: one test, because all its threads share the probes.
#![cfg(target_os = "linux")]

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use dtrace_consumer::compiler::{Source, options::Options};
use dtrace_consumer::render::{Order, Output, Text};
use dtrace_consumer::trace::Running;
use dtrace_consumer::{Address, Client, Protection, Trace};
use tracing::subscriber::{self, Interest};
use tracing::{Metadata, Subscriber, debug, error, info, info_span, span, trace_span, warn};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The output of the program in D.
#[derive(Clone, Debug, Default)]
struct Shown(Arc<Mutex<String>>);

impl Output for Shown {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.write(text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(text));
        Ok(())
    }

    fn message(&mut self, text: &str) -> io::Result<()> {
        panic!("a message: {text}")
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        panic!("a listing: {text}")
    }

    fn perform(&mut self, _: &Order<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Enables a program in this process.
fn enabled(text: &str) -> Running {
    let line = Address::Process(std::process::id()).open(&Protection::Machine, || {}).unwrap();
    let mut options = Options::default();
    options.set("quiet", None).unwrap();
    options.set("strsize", Some("512")).unwrap();
    // In the order of time, not by CPU.
    options.set("temporal", None).unwrap();
    let mut trace = Trace::new(Client::connect(line).unwrap(), options, 0);
    let program = trace.compile(Source::line(text.as_bytes())).unwrap();
    assert_ne!(trace.enable(&program).unwrap(), 0);
    trace.go().unwrap()
}

/// Returns what a program prints while something is done.
fn traced(text: &str, done: impl FnOnce()) -> String {
    let mut running = enabled(text);
    done();
    running.stop().unwrap();
    let shown = Shown::default();
    let mut sink = Text::new(shown.clone());
    while !running.work(&mut sink).unwrap() {
        std::thread::sleep(running.pause());
    }
    running.finish(&mut sink).unwrap();
    shown.0.lock().unwrap().trim_end().to_owned()
}

/// Another layer, which wants errors only, and counts them.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<usize>>);

impl<S: Subscriber> Layer<S> for Errors {
    fn on_event(&self, _event: &tracing::Event<'_>, _context: Context<'_, S>) {
        *self.0.lock().unwrap() += 1;
    }
}

struct Only;

impl<S> tracing_subscriber::layer::Filter<S> for Only {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if *metadata.level() == tracing::Level::ERROR {
            Interest::always()
        } else {
            Interest::never()
        }
    }
}

/// A value whose `Debug` logs an event of its own.
struct Nested;

impl fmt::Debug for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug!(inside = true, "inner");
        f.write_str("nested")
    }
}

#[test]
fn events_and_spans_fire_probes() {
    let _traced = sdt_process::start().unwrap();
    let errors = Errors::default();
    let registry = Registry::default().with(errors.clone().with_filter(Only));
    subscriber::set_global_default(registry.with(sdt_tracing::layer())).unwrap();

    // Nothing is formatted while no probe is enabled.
    struct Never;
    impl fmt::Debug for Never {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted while disabled")
        }
    }
    let log_never = || info!(value = ?Never, "never");
    log_never();
    let before = info_span!("before", value = ?Never);

    let events = r#"tracing:::event /args.target != "other"/ {
        printf("%s|%s|%s|%s|%d\n", args.level, args.target, args.message, args.fields, args.span != 0); }"#;
    let shown = traced(events, || {
        warn!(order = 7, big = u64::MAX, less = -1, half = 0.5, ok = true, "order {} failed", 7);
        error!(cause = "a \"quoted\"\n\u{1F980}", "bad");
        info!(target: "other", "not shown");
        debug!(value = ?Nested, "outer");
        let _before = before.enter();
        info!("in a span of before");
        let _span = info_span!("seen").entered();
        info!("in a span");
    });
    let expected = concat!(
        "WARN|layer|order 7 failed|{\"order\":7,\"big\":18446744073709551615,\"less\":-1,\"half\":0.5,\"ok\":true}|0\n",
        "ERROR|layer|bad|{\"cause\":\"a \\\"quoted\\\"\\n\u{1F980}\"}|0\n",
        "DEBUG|layer|inner|{\"inside\":true}|0\n",
        "DEBUG|layer|outer|{\"value\":\"nested\"}|0\n",
        "INFO|layer|in a span of before|{}|0\n",
        "INFO|layer|in a span|{}|1",
    );
    assert_eq!(shown, expected);
    assert_eq!(*errors.0.lock().unwrap(), 1, "the other layer has its own filter");

    let spans = r#"
        tracing:::span-start {
            name[args.id] = args.name;
            printf("start %s %s %s %s\n", args.name, args.level, args.fields, args.parent ? name[args.parent] : "-");
        }
        tracing:::span-record { printf("record %s %s\n", name[args.id], args.fields); }
        tracing:::span-enter { printf("enter %s\n", args.name); }
        tracing:::span-exit { printf("exit %s\n", args.name); }
        tracing:::span-done { printf("done %s %s\n", args.name, name[args.id]); name[args.id] = 0; }"#;
    let shown = traced(spans, || {
        let outer = info_span!("outer", order = 7, status = tracing::field::Empty);
        let entered = outer.enter();
        drop(trace_span!("inner"));
        drop(entered);
        outer.record("status", 500);
        let again = outer.clone();
        std::thread::spawn(move || again.in_scope(|| {})).join().unwrap();
        drop(span!(parent: &outer, tracing::Level::WARN, "child"));
    });
    let expected = [
        "start outer INFO {\"order\":7} -",
        "enter outer",
        "start inner TRACE {} outer",
        "done inner inner",
        "exit outer",
        "record outer {\"status\":500}",
        "enter outer",
        "exit outer",
        "start child WARN {} outer",
        "done child child",
        "done outer outer",
    ];
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    // A span without its start shows nothing.
    assert_eq!(traced("tracing:::span-* { trace(probename); }", || before.in_scope(|| {})), "");

    // Every event of every thread is counted, and none after the end.
    let count = "tracing:::event { @[args.level, json(args.fields, \"thread\")] = count(); }";
    let shown = traced(count, || {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..1000).for_each(|_| info!(thread, "one")));
            }
        });
    });
    let counts = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let counts: Vec<_> = counts.filter(|fields| !fields.is_empty()).collect();
    assert_eq!(counts.len(), 4, "{shown}");
    for fields in counts {
        assert_eq!((fields[0], fields[2]), ("INFO", "1000"), "{shown}");
    }
    log_never();
}
