//! Distributions: `quantize lquantize llquantize`, and what `agghist aggpack aggzoom` make of them and
//! of numbers (dt_consume.c).

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Llquantize, Lquantize, QUANTIZE_ZERO, quantize_value};
use dtrace_abi::option::OptionId;

use crate::render::aggregate::bar::Bars;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::loglinear;
use crate::render::data::cprintf::right;
use crate::render::data::error::Result;
use crate::render::data::view::View;

/// Writes the line above bars, with values in 16 columns, or with keys in a number of columns.
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

/// Returns the range of buckets that are shown: from one before the first that is not empty to one after the last.
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

/// Returns the labels and counts of the buckets that are shown; the counts are not normalized.
pub(in crate::render) fn buckets(entry: &Entry) -> Vec<(String, i64)> {
    let argument = entry.words.first().copied().unwrap_or(0) as u64;
    let arguments = || entry.words.get(1..).unwrap_or_default();
    let (buckets, labels, if_empty): (&[i64], Vec<String>, _) = match entry.action {
        Action::Lquantize => (arguments(), linear(Lquantize::decode(argument)), 0..=2),
        Action::Llquantize => {
            let buckets = arguments();
            (buckets, loglinear::labels(Llquantize::decode(argument), buckets.len()), 0..=1)
        }
        _ => {
            let labels = (0..entry.words.len()).map(|bin| quantize_value(bin).to_string());
            (&entry.words[..], labels.collect(), QUANTIZE_ZERO - 1..=QUANTIZE_ZERO + 1)
        }
    };
    // Buckets that the arguments do not define have no label, and are not shown.
    let shown = shown(buckets, if_empty);
    let all = labels.into_iter().zip(buckets.iter().copied()).enumerate();
    all.filter(|(bin, _)| shown.contains(bin)).map(|(_, bucket)| bucket).collect()
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

/// Returns the labels of the buckets of `lquantize`.
fn linear(arguments: Lquantize) -> Vec<String> {
    let Lquantize { base, step, levels } = arguments;
    let (base, step) = (i64::from(base), i64::from(step));
    let end = base + i64::from(levels) * step;
    let between = (0..i64::from(levels)).map(|level| (base + level * step).to_string());
    std::iter::once(format!("< {base}")).chain(between).chain([format!(">= {end}")]).collect()
}
