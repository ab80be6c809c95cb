//! A kernel's aggregations for Prometheus: `prometheus ADDRESS LISTEN 'CLAUSES'`, for example
//! `prometheus unix:/run/kernel.sock 127.0.0.1:9100 'shop:::request-done { @requests[args.path] = count(); }'`.
//!
//! A key that is an argument of the probe becomes a label with its name: `requests{path="/cart"} 12`. Other keys are `key0` and so on.
//! No text is parsed: what has been aggregated comes as Rust's own values.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use dtrace_consumer::compiler::Source;
use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::render::{Argument, Entry, Sink};
use dtrace_consumer::{Address, Client, Protection, Running, Trace};

/// Records are of no interest here.
struct Nothing;

impl Sink for Nothing {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, listen, clauses] = &arguments[..] else {
        return Err("usage: prometheus ADDRESS LISTEN CLAUSES".into());
    };
    let address: Address = address.parse()?;
    let line = address.open(&Protection::Machine, || {})?;
    let mut trace = Trace::new(Client::connect(line)?, Options::default(), 0);
    let program = trace.compile(Source::line(clauses.as_bytes()))?;
    trace.enable(&program)?;
    let mut running = trace.go()?;
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    while !running.work(&mut Nothing)? {
        while let Ok((mut line, _)) = listener.accept() {
            line.set_nonblocking(false)?;
            // Every request gets the same answer. An error means that the client has closed the connection.
            let _ = line.read(&mut [0; 4096]);
            let body = page(&running);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
            let _ = write!(line, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
        std::thread::sleep(running.pause());
    }
    running.finish(&mut Nothing)?;
    Ok(())
}

/// All that has one value, a line for each tuple of keys.
fn page(running: &Running) -> String {
    running.aggregations().entries().filter_map(line).collect()
}

fn line(entry: &Entry) -> Option<String> {
    let keys: Vec<String> = entry
        .keys()
        .enumerate()
        .map(|(index, key)| format!("{}={:?}", label(index, &key), text(&key)))
        .collect();
    let name = match entry.description.name.as_str() {
        // The one without a name.
        "" | "_" => "dtrace",
        name => name,
    };
    Some(format!("{name}{{{}}} {}\n", keys.join(","), entry.number()?))
}

/// The name of a key's label: that of the probe's argument, if the key is one.
fn label(index: usize, key: &Argument<'_>) -> String {
    key.name.map_or_else(|| format!("key{index}"), |name| name.replace('.', "_"))
}

/// A key as a label: a number, or a string.
fn text(key: &Argument<'_>) -> String {
    let number = match *key.data {
        [a] => Some(i64::from(a as i8)),
        [a, b] => Some(i16::from_le_bytes([a, b]).into()),
        [a, b, c, d] => Some(i32::from_le_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Some(i64::from_le_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    };
    let string = || key.data.split(|&byte| byte == 0).next().unwrap_or_default();
    number
        .map_or_else(|| String::from_utf8_lossy(string()).into_owned(), |number| number.to_string())
}
