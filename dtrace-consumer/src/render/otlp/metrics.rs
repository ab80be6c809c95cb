//! Aggregations as metrics.

use std::collections::BTreeMap;

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::QUANTIZE_ZERO;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::store::Aggregations;
use crate::render::data::view::View;
use crate::render::unit::{Unit, Units};

/// All values are cumulative: they cover the time since the beginning of the trace.
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// The attributes and times of a data point.
struct Point {
    attributes: Vec<KeyValue>,
    began: u64,
    now: u64,
}

/// Returns the metrics of a kernel: one for each aggregation, with a data point for each tuple of keys.
pub(super) fn all(
    aggregations: &Aggregations,
    view: &View<'_>,
    units: &Units,
    began: u64,
    now: u64,
) -> Vec<Metric> {
    let mut metrics: BTreeMap<&str, Metric> = BTreeMap::new();
    for entry in aggregations.entries() {
        let metric = metrics.entry(entry.name()).or_insert_with(|| Metric {
            name: entry.name().to_owned(),
            unit: units.of(&entry.description.name).map_or_else(String::new, unit),
            data: Some(empty(entry.action)),
            ..Metric::default()
        });
        let labels = entry.labels(view);
        let attributes = labels.into_iter().map(|label| super::attribute(label.name, &label.value));
        let point = Point { attributes: attributes.collect(), began, now };
        match &mut metric.data {
            Some(Data::Sum(sum)) => sum.data_points.push(number(entry, point)),
            Some(Data::Gauge(gauge)) => gauge.data_points.push(number(entry, point)),
            Some(Data::Histogram(of)) => of.data_points.push(histogram(entry, point)),
            Some(Data::ExponentialHistogram(of)) => of.data_points.push(exponential(entry, point)),
            _ => {}
        }
    }
    metrics.into_values().collect()
}

/// Returns an empty metric of the kind for the values of an action.
fn empty(action: Action) -> Data {
    match action {
        Action::Quantize => Data::ExponentialHistogram(ExponentialHistogram {
            aggregation_temporality: CUMULATIVE,
            ..ExponentialHistogram::default()
        }),
        Action::Lquantize | Action::Llquantize => Data::Histogram(Histogram {
            aggregation_temporality: CUMULATIVE,
            ..Histogram::default()
        }),
        Action::Count | Action::Sum => Data::Sum(Sum {
            aggregation_temporality: CUMULATIVE,
            is_monotonic: action == Action::Count,
            ..Sum::default()
        }),
        _ => Data::Gauge(Gauge::default()),
    }
}

/// Returns a unit as UCUM writes it.
fn unit(unit: Unit) -> String {
    match unit {
        Unit::Microseconds => "us".to_owned(),
        Unit::Bytes => "By".to_owned(),
        // UCUM writes other units as annotations in braces.
        Unit::Other(name) => format!("{{{name}}}"),
        unit => unit.to_string(),
    }
}

fn number(entry: &Entry, Point { attributes, began, now }: Point) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: began,
        time_unix_nano: now,
        value: entry.number().map(Value::AsInt),
        ..NumberDataPoint::default()
    }
}

/// Converts a count from the kernel to the unsigned type of the protocol. The kernel is not trusted: a negative count becomes 0.
fn positive(count: i64) -> u64 {
    count.try_into().unwrap_or(0)
}

/// Returns a distribution with explicit bounds: the highest values of all buckets except the last one.
fn histogram(entry: &Entry, Point { attributes, began, now }: Point) -> HistogramDataPoint {
    let buckets = entry.buckets();
    let counts: Vec<u64> = buckets.iter().map(|bucket| positive(bucket.count)).collect();
    let bounded = buckets.iter().take(buckets.len().saturating_sub(1));
    HistogramDataPoint {
        attributes,
        start_time_unix_nano: began,
        time_unix_nano: now,
        count: counts.iter().fold(0, |sum, count| sum.saturating_add(*count)),
        explicit_bounds: bounded.map(|bucket| bucket.highest as f64).collect(),
        bucket_counts: counts,
        ..HistogramDataPoint::default()
    }
}

/// Returns the buckets of powers of two, without the empty ones at both ends.
fn powers<'a>(counts: impl Iterator<Item = &'a i64>) -> Option<Buckets> {
    let counts: Vec<u64> = counts.map(|count| positive(*count)).collect();
    let first = counts.iter().position(|count| *count != 0)?;
    let last = counts.iter().rposition(|count| *count != 0)?;
    let offset = i32::try_from(first).ok()?;
    Some(Buckets { offset, bucket_counts: counts.get(first..=last)?.to_vec() })
}

/// Returns a `quantize` as an exponential histogram of scale 0, whose bounds are the powers of two, too.
fn exponential(
    entry: &Entry,
    Point { attributes, began, now }: Point,
) -> ExponentialHistogramDataPoint {
    let words = &entry.words;
    let (below, above) = words.split_at(words.len().min(QUANTIZE_ZERO));
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: began,
        time_unix_nano: now,
        count: words.iter().fold(0, |sum, count| sum.saturating_add(positive(*count))),
        zero_count: above.first().map_or(0, |count| positive(*count)),
        positive: powers(above.iter().skip(1)),
        negative: powers(below.iter().rev()),
        ..ExponentialHistogramDataPoint::default()
    }
}
