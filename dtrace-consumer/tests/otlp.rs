//! `dtrace --otlp`, with a stand-in of a collector and this test program as the process.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message as _;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    /// Requests.
    pub telemetry {
        /// A request was answered after a time.
        fn done(path: &str, status: u16, took: i64);
    }
}

/// The requests that a collector received: their paths and bodies.
type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Reads a request, and answers it with a status.
fn answer(line: TcpStream, status: &str, received: &Received) -> std::io::Result<()> {
    let mut line = BufReader::new(line);
    let (mut path, mut length, mut kind) = (String::new(), 0, String::new());
    loop {
        let mut header = String::new();
        line.read_line(&mut header)?;
        let header = header.trim_end();
        if let Some(target) = header.strip_prefix("POST ") {
            path = target.split(' ').next().unwrap_or_default().to_owned();
        }
        match header.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value)) {
            Some((name, value)) if name == "content-length" => length = value.parse().unwrap(),
            Some((name, value)) if name == "content-type" => kind = value.to_owned(),
            _ => {}
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    line.read_exact(&mut body)?;
    assert_eq!(kind, "application/x-protobuf");
    if status.starts_with("200") {
        received.lock().unwrap().push((path, body));
    }
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    line.get_mut().write_all(head.as_bytes())
}

/// Starts a collector that refuses the first requests. Returns its URL and what it receives.
fn collector(refused: usize) -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = Received::default();
    let theirs = received.clone();
    std::thread::spawn(move || {
        for (number, line) in listener.incoming().enumerate() {
            let status = if number < refused { "503 Service Unavailable" } else { "200 OK" };
            answer(line.unwrap(), status, &theirs).unwrap();
        }
    });
    (url, received)
}

/// Runs dtrace with this process while it fires its probe.
fn dtrace(arguments: &[&str]) -> Output {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    static TRACED: std::sync::OnceLock<sdt_process::Process> = std::sync::OnceLock::new();
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    TRACED.get_or_init(|| sdt_process::Options::new().start().unwrap());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                sdt_probe!(telemetry::done, "/cart", 200, 7);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        command.env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
        command.args(["-p", &std::process::id().to_string()]).args(arguments);
        let output = command.output().unwrap();
        ended.store(true, Ordering::Release);
        output
    })
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns attributes as text.
fn attributes(all: &[KeyValue]) -> Vec<String> {
    let value = |of: &KeyValue| match of.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => format!("{}={text}", of.key),
        Some(Value::IntValue(number)) => format!("{}:{number}", of.key),
        value => panic!("{value:?}"),
    };
    all.iter().map(value).collect()
}

/// Returns the metrics in the last request, by name.
fn metrics(received: &Received) -> BTreeMap<String, Metric> {
    let received = received.lock().unwrap();
    let (_, body) = received.iter().rfind(|(path, _)| path == "/v1/metrics").expect("metrics");
    let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
    let [of_process] = &request.resource_metrics[..] else { panic!("{request:?}") };
    let resource = attributes(&of_process.resource.as_ref().unwrap().attributes);
    assert_eq!(resource, ["deployment.environment.name=test", "service.name=dtrace"]);
    let metrics = of_process.scope_metrics.iter().flat_map(|scope| scope.metrics.clone());
    metrics.map(|metric| (metric.name.clone(), metric)).collect()
}

#[test]
fn aggregations_are_metrics() {
    let (url, received) = collector(0);
    let program = "BEGIN { i = 0; } \
        telemetry:::done { @requests[args.path, args.status] = count(); @took_us = quantize(args.took); } \
        telemetry:::done /i == 0/ { @sum = sum(-4); @max = max(9); \
            @sizes = lquantize(-1, 0, 30, 10); @sizes = lquantize(10, 0, 30, 10); @sizes = lquantize(99, 0, 30, 10); \
            @all = quantize(0); @all = quantize(1); @all = quantize(5); @all = quantize(7); @all = quantize(-6); @all = quantize(-1); } \
        telemetry:::done /i++ == 19/ { exit(0); }";
    let output = dtrace(&["-q", "--otlp", &url, "--unit", "sizes=B", "-n", program]);
    assert!(output.status.success(), "{}", message(&output));
    let metrics = metrics(&received);
    let data = |name: &str| metrics[name].data.clone().unwrap();
    let Data::Sum(requests) = data("requests") else { panic!("{metrics:?}") };
    assert!(requests.is_monotonic && requests.aggregation_temporality == 2);
    let [point] = &requests.data_points[..] else { panic!("{requests:?}") };
    assert_eq!(attributes(&point.attributes), ["path=/cart", "status:200"]);
    let Some(number_data_point::Value::AsInt(count @ 20..)) = point.value else {
        panic!("{point:?}")
    };
    assert!(0 < point.start_time_unix_nano && point.start_time_unix_nano < point.time_unix_nano);

    // All values are 7: in [4, 8).
    let Data::ExponentialHistogram(took) = data("took_us") else { panic!("{metrics:?}") };
    let point = &took.data_points[0];
    let bucket = |offset, counts: &[u64]| Some(Buckets { offset, bucket_counts: counts.to_vec() });
    assert_eq!((point.scale, point.zero_count, point.count), (0, 0, count as u64));
    assert_eq!((&point.positive, &point.negative), (&bucket(2, &[count as u64]), &None));
    assert_eq!((took.aggregation_temporality, &*metrics["took_us"].unit), (2, "us"));

    // 0; 1 in [1, 2), 5 and 7 in [4, 8); -1 in (-2, -1], -6 in (-8, -4].
    let Data::ExponentialHistogram(all) = data("all") else { panic!("{metrics:?}") };
    let point = &all.data_points[0];
    assert_eq!((point.scale, point.zero_count, point.count, point.sum), (0, 1, 6, None));
    assert_eq!(point.positive, bucket(0, &[1, 0, 2]));
    assert_eq!(point.negative, bucket(0, &[1, 0, 1]));

    let Data::Histogram(sizes) = data("sizes") else { panic!("{metrics:?}") };
    let point = &sizes.data_points[0];
    assert_eq!(point.explicit_bounds, [-1.0, 9.0, 19.0, 29.0]);
    assert_eq!((&point.bucket_counts[..], point.count), (&[1, 0, 1, 0, 1][..], 3));
    assert_eq!(metrics["sizes"].unit, "By");

    let Data::Sum(sum) = data("sum") else { panic!("{metrics:?}") };
    let value = sum.data_points[0].value;
    assert_eq!((sum.is_monotonic, value), (false, Some(number_data_point::Value::AsInt(-4))));
    let Data::Gauge(max) = data("max") else { panic!("{metrics:?}") };
    assert_eq!(max.data_points[0].value, Some(number_data_point::Value::AsInt(9)));
}

#[test]
fn records_are_logs_and_wait_for_the_collector() {
    // The collector refuses the first request for metrics, so dtrace does not send the records with that export either.
    let (url, received) = collector(1);
    let program = "telemetry:::done { @ = count(); printf(\"%s took %d\\n\", args.path, args.took); } \
        tick-300ms /i++ == 2/ { exit(0); }";
    let arguments = ["-q", "-x", "aggrate=200ms", "-x", "switchrate=50ms"];
    let output = dtrace(&[&arguments[..], &["--otlp", &url, "-n", program]].concat());
    assert!(output.status.success(), "{}", message(&output));
    assert!(output.stdout.starts_with(b"/cart took 7\n"));
    let failed = format!("dtrace: failed to export to {url}/v1/metrics: ");
    let failures: Vec<String> = message(&output).lines().map(str::to_owned).collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].starts_with(&failed) && failures[0].ends_with("; the trace continues"));
    let received = received.lock().unwrap();
    let logs = received.iter().filter(|(path, _)| path == "/v1/logs").flat_map(|(_, body)| {
        let request = ExportLogsServiceRequest::decode(&body[..]).unwrap();
        let scopes = request.resource_logs.into_iter().flat_map(|of| of.scope_logs);
        scopes.flat_map(|scope| scope.log_records)
    });
    let logs: Vec<_> = logs.collect();
    // Each printed line is a record, also those before the collector answered.
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| *line == b"/cart took 7");
    assert_eq!(logs.len(), lines.count());
    let of = &logs[0];
    let body = of.body.as_ref().and_then(|body| body.value.as_ref());
    assert_eq!(body, Some(&Value::StringValue("/cart took 7".into())));
    assert_eq!(of.event_name, "telemetry.done");
    let attributes = attributes(&of.attributes);
    assert!(
        attributes[0].starts_with("dtrace.probe=telemetry:") && attributes[0].ends_with(":done")
    );
    assert_eq!(attributes[3..], ["path=/cart", "took:7"], "{attributes:?}");
}

#[test]
fn urls_that_cannot_be_used_are_refused() {
    let output = dtrace(&["--otlp", "https://collector:4318", "-n", "BEGIN"]);
    assert_eq!(output.status.code(), Some(1));
    let said = message(&output);
    assert!(
        said.contains("https://collector:4318: ") && said.contains("http://HOST:PORT"),
        "{said}"
    );
}
