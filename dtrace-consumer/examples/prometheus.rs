//! Serves the aggregations of a kernel or process to Prometheus. The arguments are the address of the kernel or process, in the
//! form of `dtrace --connect`, the address to listen at, and a program in D:
//!
//! ```sh
//! cargo run --example prometheus -- process:4242 127.0.0.1:9464 'shop:::request-start { start[args.id] = timestamp; } shop:::request-done { @requests[args.path, args.status] = count(); } shop:::request-done /start[args.id]/ { @latency_us[args.path] = quantize((timestamp - start[args.id]) / 1000); start[args.id] = 0; }'
//! curl http://127.0.0.1:9464/metrics
//! ```
//!
//! An aggregation is a metric with its name. A key that is an argument of the probe is a label with the argument's name; other
//! keys are `key0`, `key1` and so on, by their position among all keys: `requests{path="/cart",status="200"} 12`.
//!
//! | aggregation | metric |
//! |---|---|
//! | `count` | a counter |
//! | `quantize`, `lquantize`, `llquantize` | a histogram, from the first to the last bucket with values. D does not keep the sum of the values, so there is no `_sum` |
//! | `sum`, `min`, `max`, `avg`, `stddev` | a gauge |

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use dtrace_abi::action::Action;
use dtrace_consumer::compiler::Source;
use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::render::{Aggregations, Entry, Label, Sink, View};
use dtrace_consumer::{Address, Client, Protection, Trace};

/// Ignores records: only aggregations are served.
struct Nothing;

impl Sink for Nothing {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve(&std::env::args().skip(1).collect::<Vec<_>>(), |_| {})
}

/// Traces and serves until the program or the traced side ends. Calls `listening` with the address once Prometheus can connect.
pub fn serve(
    arguments: &[String],
    listening: impl FnOnce(SocketAddr),
) -> Result<(), Box<dyn std::error::Error>> {
    let [address, listen, program] = arguments else {
        return Err("usage: prometheus ADDRESS LISTEN PROGRAM".into());
    };
    let address: Address = address.parse()?;
    let line = address.open(&Protection::Machine, || {})?;
    let mut trace = Trace::new(Client::connect(line)?, Options::default(), 0);
    let program = trace.compile(Source::line(program.as_bytes()))?;
    trace.enable(&program)?;
    let mut running = trace.go()?;
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    listening(listener.local_addr()?);
    while !running.work(&mut Nothing)? {
        while let Ok((mut line, _)) = listener.accept() {
            line.set_nonblocking(false)?;
            // Every request gets the same answer. An error means that the client has closed the connection.
            let _ = line.read(&mut [0; 4096]);
            let body = running.view(page);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
            let _ = write!(line, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
        std::thread::sleep(running.pause());
    }
    running.finish(&mut Nothing)?;
    Ok(())
}

/// Returns all metrics, each with its type and its samples.
fn page(aggregations: &Aggregations, view: &View<'_>) -> String {
    let mut metrics: BTreeMap<&str, (&str, String)> = BTreeMap::new();
    for entry in aggregations.entries() {
        let (_, samples) =
            metrics.entry(entry.name()).or_insert_with(|| (kind(entry), String::new()));
        let labels: Vec<String> = entry.labels(view).iter().map(label).collect();
        match entry.number() {
            Some(number) => samples.push_str(&sample(entry.name(), &labels, number)),
            None => samples.push_str(&histogram(entry, &labels)),
        }
    }
    let metric = |(name, (kind, samples))| format!("# TYPE {name} {kind}\n{samples}");
    metrics.into_iter().map(metric).collect()
}

/// Returns the type of a metric.
fn kind(entry: &Entry) -> &'static str {
    match entry.action {
        Action::Count => "counter",
        Action::Quantize | Action::Lquantize | Action::Llquantize => "histogram",
        _ => "gauge",
    }
}

fn label(label: &Label) -> String {
    let value = label.value.to_string();
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{}=\"{value}\"", label.name)
}

fn sample(name: &str, labels: &[String], number: i64) -> String {
    match labels.is_empty() {
        true => format!("{name} {number}\n"),
        false => format!("{name}{{{}}} {number}\n", labels.join(",")),
    }
}

/// Returns the samples of a distribution: for each bucket, the number of values up to its highest one.
fn histogram(entry: &Entry, labels: &[String]) -> String {
    let (bucket, count) = (format!("{}_bucket", entry.name()), format!("{}_count", entry.name()));
    let buckets = entry.buckets();
    let last = buckets.iter().rposition(|bucket| bucket.count != 0).unwrap_or(0);
    let (mut samples, mut sum) = (String::new(), 0_i64);
    let mut up_to = |le: String, sum| {
        let le = [labels, &[format!("le=\"{le}\"")]].concat();
        samples.push_str(&sample(&bucket, &le, sum));
    };
    for bucket in buckets.iter().take(last + 1) {
        sum = sum.saturating_add(bucket.count);
        if sum != 0 && bucket.highest != i64::MAX {
            up_to(bucket.highest.to_string(), sum);
        }
    }
    up_to("+Inf".to_owned(), sum);
    samples + &sample(&count, labels, sum)
}
