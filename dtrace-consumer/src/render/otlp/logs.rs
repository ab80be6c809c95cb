//! Records as logs.

use opentelemetry_proto::tonic::logs::v1::LogRecord;

use crate::render::aggregate::label::LabelValue;
use crate::render::sink::Firing;
use crate::render::sink::recorded::Recorded;

/// Returns a record as an entry of a log: its text, and as attributes the probe, the CPU, the kernel's time, and the arguments by
/// name. The time of the event is the time of its arrival, because the kernel's clock can differ from the clock of this machine.
pub(super) fn record(firing: &Firing<'_>, recorded: &Recorded) -> LogRecord {
    let probe = firing.probe;
    let number = |number: u64| LabelValue::Number(number.try_into().unwrap_or(i64::MAX));
    let name = [&*probe.provider, &probe.module, &probe.function, &probe.name].join(":");
    let own = [
        ("dtrace.probe", LabelValue::Text(name)),
        ("dtrace.cpu", number(firing.cpu.into())),
        ("dtrace.timestamp", number(firing.time)),
    ];
    let own = own.iter().map(|(key, value)| super::attribute(*key, value));
    let variables = recorded.variables().iter();
    let variables = variables.map(|(key, value)| super::attribute(format!("dtrace.{key}"), value));
    let named = recorded.named().iter().map(|(key, value)| super::attribute(key, value));
    LogRecord {
        observed_time_unix_nano: super::now(),
        event_name: format!("{}.{}", probe.provider, probe.name),
        body: Some(super::text(recorded.text())),
        attributes: own.chain(variables).chain(named).collect(),
        ..LogRecord::default()
    }
}
