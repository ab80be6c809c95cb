//! Shows distributions of `quantize`, `lquantize` and `llquantize`, and the forms that the options `agghist`, `aggpack`
//! and `aggzoom` select (dt_consume.c).

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Llquantize, Lquantize, QUANTIZE_ZERO, quantize_value};
use dtrace_abi::option::OptionId;

use crate::render::aggregate::bar::Bars;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::loglinear;
use crate::render::data::cprintf::right;
use crate::render::data::error::Result;
use crate::render::data::view::View;

/// Writes the heading above bars. With `key_columns`, the heading is for keys in this number of columns; otherwise for
/// values in 16 columns.
pub(in crate::render) fn header(out: &mut Vec<u8>, key_columns: Option<usize>) {
    out.push(b'\n');
    let (width, title) = match key_columns {
        Some(columns) => (columns, "key"),
        None => (16, "value"),
    };
    right(out, width, title);
    out.extend_from_slice(b"  ------------- Distribution ------------- count    \n");
}

/// Writes the label before the bar of a bucket.
fn label(out: &mut Vec<u8>, text: &str) {
    right(out, 16, text);
    out.push(b' ');
}

/// Returns the range of buckets to show: from one before the first non-empty bucket to one after the last.
fn shown(
    buckets: &[i64],
    if_empty: std::ops::RangeInclusive<usize>,
) -> std::ops::RangeInclusive<usize> {
    let filled = |count: &i64| *count != 0;
    let last = buckets.len().saturating_sub(1);
    match (buckets.iter().position(filled), buckets.iter().rposition(filled)) {
        (Some(from), Some(to)) => from.saturating_sub(1)..=(to + 1).min(last),
        _ => *if_empty.start()..=*if_empty.end().min(&last),
    }
}

/// A bucket of a distribution: the number of values from the lowest to the highest, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The lowest value; `i64::MIN` if the bucket has no lower bound.
    pub lowest: i64,
    /// The highest value; `i64::MAX` if the bucket has no upper bound.
    pub highest: i64,
    /// The number of values, not normalized.
    pub count: i64,
}

/// Returns the lowest values of all buckets except the first one, in order.
fn bounds(entry: &Entry) -> Vec<i64> {
    let argument = entry.words.first().copied().unwrap_or(0) as u64;
    match entry.action {
        Action::Lquantize => {
            let Lquantize { base, step, levels } = Lquantize::decode(argument);
            let (base, step) = (i64::from(base), i64::from(step));
            (0..=i64::from(levels)).map(|level| base + level * step).collect()
        }
        Action::Llquantize => loglinear::bounds(Llquantize::decode(argument), entry.words.len()),
        _ => (1..entry.words.len())
            .map(|bin| match bin {
                // A negative bucket is named after its highest value.
                0..=QUANTIZE_ZERO => quantize_value(bin - 1) + 1,
                _ => quantize_value(bin),
            })
            .collect(),
    }
}

impl Entry {
    /// Returns the buckets of a distribution in order, also those without values. A number has no buckets.
    pub fn buckets(&self) -> Vec<Bucket> {
        let counts = match self.action {
            Action::Quantize => &self.words[..],
            // The arguments are before the buckets.
            Action::Lquantize | Action::Llquantize => self.words.get(1..).unwrap_or_default(),
            _ => return Vec::new(),
        };
        let bounds = bounds(self);
        let lowest = std::iter::once(i64::MIN).chain(bounds.iter().copied());
        let highest = bounds.iter().map(|bound| bound.saturating_sub(1)).chain([i64::MAX]);
        let bounds = lowest.zip(highest);
        let bucket = |((lowest, highest), &count)| Bucket { lowest, highest, count };
        bounds.zip(counts).map(bucket).collect()
    }
}

/// Returns the label of a bucket of an action.
pub(in crate::render) fn bucket_label(action: Action, bucket: &Bucket) -> String {
    match (action, *bucket) {
        (Action::Quantize, Bucket { highest: ..=-1, .. }) => bucket.highest.to_string(),
        (Action::Quantize, _) => bucket.lowest.to_string(),
        (_, Bucket { lowest: i64::MIN, .. }) => format!("< {}", bucket.highest.saturating_add(1)),
        (_, Bucket { highest: i64::MAX, .. }) => format!(">= {}", bucket.lowest),
        _ => bucket.lowest.to_string(),
    }
}

/// Returns the labels and counts of the buckets that are shown; the counts are not normalized.
pub(in crate::render) fn buckets(entry: &Entry) -> Vec<(String, i64)> {
    let buckets = entry.buckets();
    let counts: Vec<i64> = buckets.iter().map(|bucket| bucket.count).collect();
    let if_empty = match entry.action {
        Action::Lquantize => 0..=2,
        Action::Llquantize => 0..=1,
        _ => QUANTIZE_ZERO - 1..=QUANTIZE_ZERO + 1,
    };
    // Buckets that the arguments do not define do not exist, and are not shown.
    let shown = buckets.get(shown(&counts, if_empty)).unwrap_or_default();
    shown.iter().map(|bucket| (bucket_label(entry.action, bucket), bucket.count)).collect()
}

/// Writes a distribution as bars.
pub(in crate::render) fn show(out: &mut Vec<u8>, view: &View<'_>, entry: &Entry) -> Result {
    let buckets = buckets(entry);
    let counts: Vec<i64> = buckets.iter().map(|(_, count)| *count).collect();
    let bars = Bars::of(&counts, view.is_set(OptionId::Aggzoom));
    header(out, None);
    for (text, count) in &buckets {
        label(out, text);
        bars.show(out, view, *count, entry.normal);
    }
    Ok(())
}
