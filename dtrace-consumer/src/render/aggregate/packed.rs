//! `aggpack`: a distribution on one line, a character for each bucket.

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Lquantize, QUANTIZE_BUCKETS, QUANTIZE_ZERO, quantize_value};
use dtrace_abi::option::OptionId;
use dtrace_compiler::options::Encoding;

use crate::render::aggregate::bar;
use crate::render::aggregate::entry::Entry;
use crate::render::data::cprintf::Spec;
use crate::render::data::cprintf::right;
use crate::render::data::view::View;

/// Returns the number of columns for the lowest or highest value, which stand at the ends of the line.
fn columns(value: i64) -> usize {
    let mut columns = 1 + usize::from(value < 0);
    let mut power = 10_i64;
    while value.saturating_abs() > power {
        columns += 1;
        let Some(next) = power.checked_mul(10) else { break };
        power = next;
    }
    columns.max(4)
}

/// Returns the first and the last bucket of a `quantize` to show. `first` and `last` are the outermost buckets that are
/// non-empty in any element.
fn quantized(first: usize, last: usize) -> (usize, usize) {
    let before = if first != 0 && first != QUANTIZE_ZERO { first - 1 } else { first };
    (before, (last + 1).min(QUANTIZE_BUCKETS - 1))
}

/// Writes the heading above the lines, for keys in this number of columns.
pub(in crate::render) fn header(
    out: &mut Vec<u8>,
    action: Action,
    key_columns: usize,
    (first, last): (usize, usize),
) {
    let (min, max, buckets) = if action == Action::Quantize {
        let (first, last) = quantized(first, last);
        (columns(quantize_value(first)), columns(quantize_value(last)), last + 1 - first)
    } else {
        (7, 8, last + 1 - first)
    };
    out.push(b'\n');
    right(out, key_columns, if key_columns > 0 { "key" } else { "" });
    out.push(b' ');
    right(out, min, "min");
    out.extend_from_slice(b" .");
    out.resize(out.len() + buckets, b'-');
    out.extend_from_slice(b". ");
    Spec { left: true, width: max, ..Spec::default() }.string(out, b"max");
    out.extend_from_slice(b" | count\n");
}

/// Writes the line of an element.
pub(in crate::render) fn show(
    out: &mut Vec<u8>,
    view: &View<'_>,
    entry: &Entry,
    (first, last): (usize, usize),
) {
    let left = Spec { left: true, ..Spec::default() };
    let (buckets, max) = if entry.action == Action::Quantize {
        let (first, last) = quantized(first, last);
        let (min, max) = (quantize_value(first), quantize_value(last));
        out.push(b' ');
        right(out, columns(min), &min.to_string());
        let max = (columns(max), max.to_string());
        (entry.words.get(first..=last).unwrap_or_default(), max)
    } else {
        let arguments = Lquantize::decode(entry.words.first().copied().unwrap_or(0) as u64);
        let base = i64::from(arguments.base);
        right(out, 8, &format!("< {base}"));
        let end = base + i64::from(arguments.levels) * i64::from(arguments.step);
        (entry.words.get(1..).unwrap_or_default(), (8, format!(">= {end}")))
    };
    out.extend_from_slice(b" :");
    let total = bar::total(buckets, view.is_set(OptionId::Aggzoom));
    let ascii = is_ascii(view);
    let line: String = buckets.iter().map(|&count| block(ascii, count, total)).collect();
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b": ");
    Spec { width: max.0, ..left }.string(out, max.1.as_bytes());
    let count: i128 = buckets.iter().map(|&count| i128::from(count)).sum();
    out.extend_from_slice(format!(" | {count}\n").as_bytes());
}

/// Returns whether only ASCII may be printed: the user has chosen it, or the type of the terminal requires it.
fn is_ascii(view: &View<'_>) -> bool {
    match view.encoding() {
        Some(encoding) => encoding == Encoding::Ascii,
        None => std::env::var("TERM")
            .is_ok_and(|term| matches!(term.as_str(), "sun" | "sun-color" | "dumb")),
    }
}

/// Returns the character for a bucket: the larger the count, the fuller the character.
fn block(ascii: bool, count: i64, total: f64) -> char {
    let level = |levels: usize| {
        let top = (levels - 1) as f64;
        let level = count.unsigned_abs() as f64 * top / total + 0.5;
        if level.is_finite() { (level as usize).min(levels - 1) } else { 0 }
    };
    const NEGATIVE: [char; 6] = ['v', 'v', 'v', 'v', 'V', 'V'];
    const ASCII: [char; 8] = ['_', '_', 'x', 'x', 'x', 'x', 'X', 'X'];
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match (count, ascii) {
        (0, _) => ' ',
        (..0, _) => NEGATIVE[level(NEGATIVE.len())],
        (_, true) => ASCII[level(ASCII.len())],
        (_, false) => BLOCKS[level(BLOCKS.len())],
    }
}
