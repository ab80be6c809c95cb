//! Exports aggregations as metrics and records as logs to an OpenTelemetry collector, by OTLP over HTTP.

mod logs;
mod metrics;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use dtrace_abi::option::OptionId;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use crate::render::aggregate::label::LabelValue;
use crate::render::aggregate::store::Aggregations;
use crate::render::data::error::Result;
use crate::render::data::view::View;
use crate::render::sink::recorded::Recorded;
use crate::render::sink::{Datum, Firing, Sink};
use crate::render::unit::Units;

/// The time limit of an export. Kernels receive no request meanwhile, and close a session after 30 s without one.
const LIMIT: Duration = Duration::from_secs(5);
/// The maximum number of records that wait for the collector.
const WAITING: usize = 10_000;

/// Why the URL of a collector is refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: the URL of a collector has the form http://HOST:PORT; for a collector behind TLS, run one on this machine that forwards"
)]
pub struct EndpointError(String);

/// Sends all aggregations of each kernel to a collector each time they are read, and the records since then.
pub struct Otlp {
    agent: ureq::Agent,
    /// The URL of the collector without a path.
    endpoint: String,
    units: Units,
    /// Attributes of the resource that all data belong to.
    resource: Vec<KeyValue>,
    /// Reports failed exports.
    say: Box<dyn Fn(&str)>,
    began: u64,
    /// When data were last sent.
    sent: Instant,
    /// The last metrics of each kernel that are not sent yet.
    metrics: BTreeMap<Option<String>, ScopeMetrics>,
    /// The records of each kernel that are not sent yet.
    logs: BTreeMap<Option<String>, Vec<LogRecord>>,
    /// The number of records that are not sent yet.
    waiting: usize,
    /// Records that were discarded because too many were waiting.
    discarded: u64,
    /// Whether the last export failed.
    failed: bool,
    recorded: Recorded,
}

impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Otlp").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Returns the nanoseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

fn text(text: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text.into())) }
}

fn attribute(key: impl Into<String>, value: &LabelValue) -> KeyValue {
    let value = match value {
        LabelValue::Number(number) => AnyValue { value: Some(Value::IntValue(*number)) },
        LabelValue::Text(value) => text(value),
    };
    KeyValue { key: key.into(), value: Some(value), ..KeyValue::default() }
}

/// Returns the attributes of all data from the environment variables that OpenTelemetry's libraries read.
fn environment(get: impl Fn(&str) -> Option<String>) -> Vec<KeyValue> {
    let pairs = get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let pairs = pairs.split(',').filter_map(|pair| pair.split_once('='));
    let mut all: BTreeMap<String, String> =
        pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect();
    if let Some(name) = get("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        all.insert("service.name".to_owned(), name);
    }
    all.entry("service.name".to_owned()).or_insert_with(|| "dtrace".to_owned());
    all.into_iter().map(|(key, value)| attribute(key, &LabelValue::Text(value))).collect()
}

impl Otlp {
    /// Creates an exporter to the collector at a URL such as `http://localhost:4318`. `OTEL_SERVICE_NAME` and
    /// `OTEL_RESOURCE_ATTRIBUTES` of the environment become attributes of all data. `say` reports failed exports, once for each
    /// series of failures: the trace continues.
    ///
    /// # Errors
    /// The URL does not begin with `http://`, or has a path.
    pub fn new(
        endpoint: &str,
        units: Units,
        say: impl Fn(&str) + 'static,
    ) -> std::result::Result<Self, EndpointError> {
        let endpoint = endpoint.trim_end_matches('/');
        let host = endpoint.strip_prefix("http://").filter(|host| !host.is_empty());
        if host.is_none_or(|host| host.contains(['/', '?', '#'])) {
            return Err(EndpointError(endpoint.to_owned()));
        }
        let config = ureq::Agent::config_builder().timeout_global(Some(LIMIT)).build();
        Ok(Self {
            agent: config.into(),
            endpoint: endpoint.to_owned(),
            units,
            resource: environment(|name| std::env::var(name).ok()),
            say: Box::new(say),
            began: now(),
            sent: Instant::now(),
            metrics: BTreeMap::new(),
            logs: BTreeMap::new(),
            waiting: 0,
            discarded: 0,
            failed: false,
            recorded: Recorded::default(),
        })
    }

    /// Returns the resource of a kernel's data.
    fn resource(&self, host: Option<&str>) -> Resource {
        let mut attributes = self.resource.clone();
        let host = host.map(|host| LabelValue::Text(host.to_owned()));
        attributes.extend(host.map(|host| attribute("service.instance.id", &host)));
        Resource { attributes, ..Resource::default() }
    }

    fn scope() -> InstrumentationScope {
        InstrumentationScope {
            name: "dtrace".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        }
    }

    /// Sends a request, and returns the collector's answer.
    fn post<A: Message + Default>(
        &self,
        path: &str,
        request: &impl Message,
    ) -> std::result::Result<A, String> {
        let url = format!("{}{path}", self.endpoint);
        let failed = |error: &dyn std::fmt::Display| format!("failed to export to {url}: {error}");
        let post = self.agent.post(&url).content_type("application/x-protobuf");
        let mut answer = post.send(&request.encode_to_vec()[..]).map_err(|error| failed(&error))?;
        let answer = answer.body_mut().read_to_vec().map_err(|error| failed(&error))?;
        A::decode(&answer[..]).map_err(|error| failed(&error))
    }

    fn send_metrics(&mut self) -> std::result::Result<(), String> {
        if self.metrics.is_empty() {
            return Ok(());
        }
        let all = self.metrics.iter().map(|(host, metrics)| ResourceMetrics {
            resource: Some(self.resource(host.as_deref())),
            scope_metrics: vec![metrics.clone()],
            ..ResourceMetrics::default()
        });
        let request = ExportMetricsServiceRequest { resource_metrics: all.collect() };
        let answer: ExportMetricsServiceResponse = self.post("/v1/metrics", &request)?;
        self.metrics.clear();
        match answer.partial_success.filter(|partial| partial.rejected_data_points != 0) {
            Some(partial) => Err(format!(
                "{} rejected {} values: {}",
                self.endpoint, partial.rejected_data_points, partial.error_message
            )),
            None => Ok(()),
        }
    }

    fn send_logs(&mut self) -> std::result::Result<(), String> {
        if self.logs.is_empty() {
            return Ok(());
        }
        let all = self.logs.iter().map(|(host, records)| ResourceLogs {
            resource: Some(self.resource(host.as_deref())),
            scope_logs: vec![ScopeLogs {
                scope: Some(Self::scope()),
                log_records: records.clone(),
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        });
        let request = ExportLogsServiceRequest { resource_logs: all.collect() };
        let answer: ExportLogsServiceResponse = self.post("/v1/logs", &request)?;
        self.logs.clear();
        self.waiting = 0;
        match answer.partial_success.filter(|partial| partial.rejected_log_records != 0) {
            Some(partial) => Err(format!(
                "{} rejected {} records: {}",
                self.endpoint, partial.rejected_log_records, partial.error_message
            )),
            None => Ok(()),
        }
    }

    /// Sends all waiting data. If the collector does not accept data, they are sent again with the next export.
    fn send(&mut self) {
        self.sent = Instant::now();
        // If metrics cannot be sent, records are not sent either.
        let sent = self.send_metrics().and_then(|()| self.send_logs());
        if let Err(error) = &sent
            && !self.failed
        {
            (self.say)(&format!("{error}; the trace continues\n"));
        }
        self.failed = sent.is_err();
        if sent.is_ok() && self.discarded != 0 {
            let discarded = std::mem::take(&mut self.discarded);
            (self.say)(&format!(
                "{discarded} records were not exported: more than {WAITING} waited for the collector\n"
            ));
        }
    }
}

impl Sink for Otlp {
    fn begin(&mut self, _: &Firing<'_>, _: &View<'_>) -> Result {
        self.recorded.clear();
        Ok(())
    }

    fn datum(&mut self, _: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        self.recorded.add(datum, view)
    }

    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        if self.recorded.is_empty() {
            return Ok(());
        }
        if self.waiting == WAITING {
            self.discarded += 1;
            return Ok(());
        }
        self.waiting += 1;
        let record = logs::record(firing, &self.recorded);
        self.logs.entry(view.host.map(str::to_owned)).or_default().push(record);
        Ok(())
    }

    fn sample(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        let metrics = metrics::all(aggregations, view, &self.units, self.began, now());
        if !metrics.is_empty() {
            let scope = Some(Self::scope());
            let metrics = ScopeMetrics { scope, metrics, ..ScopeMetrics::default() };
            self.metrics.insert(view.host.map(str::to_owned), metrics);
        }
        let rate = view.options.number(OptionId::Aggrate).unwrap_or_default();
        if self.sent.elapsed() >= Duration::from_nanos(rate.try_into().unwrap_or_default()) {
            self.send();
        }
        Ok(())
    }

    fn complete(&mut self, _: &Aggregations, _: &View<'_>) -> Result {
        // `complete` has already added the last samples of all kernels to the waiting data.
        self.send();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let new = |endpoint: &str| Otlp::new(endpoint, Units::default(), |_| {});
        assert_eq!(new("http://localhost:4318/").unwrap().endpoint, "http://localhost:4318");
        for endpoint in ["https://collector", "localhost:4318", "http://", "http://a/v1/metrics"] {
            assert!(new(endpoint).is_err(), "{endpoint}");
        }
    }

    #[test]
    fn attributes_of_the_environment() {
        let of = |name: Option<&str>, attributes: Option<&str>| {
            let all = environment(|variable| match variable {
                "OTEL_SERVICE_NAME" => name.map(str::to_owned),
                _ => attributes.map(str::to_owned),
            });
            let pair = |of: KeyValue| match of.value.and_then(|value| value.value) {
                Some(Value::StringValue(value)) => format!("{}={value}", of.key),
                value => panic!("{value:?}"),
            };
            all.into_iter().map(pair).collect::<Vec<_>>()
        };
        assert_eq!(of(None, None), ["service.name=dtrace"]);
        assert_eq!(of(None, Some("a=1,service.name=x")), ["a=1", "service.name=x"]);
        assert_eq!(of(Some("shop"), Some("service.name=x")), ["service.name=shop"]);
    }
}
