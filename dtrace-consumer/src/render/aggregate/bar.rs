//! Bars of forty columns.

use dtrace_compiler::options::Encoding;

use crate::render::aggregate::ZOOM;
use crate::render::data::cprintf::Spec;
use crate::render::data::view::View;

/// Columns of a full bar.
const COLUMNS: usize = 40;

/// The scale of bars.
#[derive(Clone, Copy, Debug)]
pub(in crate::render) struct Bars {
    /// The value of a full bar.
    pub total: f64,
    /// Whether some value is positive.
    pub positives: bool,
    /// Whether some value is negative.
    pub negatives: bool,
}

/// Returns the value of a full bar: the sum of all values, or with `aggzoom` a little more than the largest.
pub(super) fn total(values: &[i64], zoom: bool) -> f64 {
    let heights = values.iter().map(|value| value.unsigned_abs() as f64);
    if zoom { heights.fold(0.0, f64::max) * (1.0 / ZOOM) } else { heights.sum() }
}

/// Returns the number of filled cells of a bar.
fn cells(value: i64, cells: usize, total: f64) -> f64 {
    let cells = cells as f64;
    let height = value.unsigned_abs() as f64 * cells / total;
    // If all values are zero, `total` is zero and the height is not a number: the bar is empty.
    if height.is_finite() { height.min(cells) } else { 0.0 }
}

impl Bars {
    /// Returns the scale for the buckets of one distribution.
    pub fn of(buckets: &[i64], zoom: bool) -> Self {
        Self {
            total: total(buckets, zoom),
            positives: buckets.iter().any(|&count| count > 0),
            negatives: buckets.iter().any(|&count| count < 0),
        }
    }

    /// Writes a bar, and after it the value, divided by `normal`.
    pub fn show(&self, out: &mut Vec<u8>, view: &View<'_>, value: i64, normal: i64) {
        let begin = out.len();
        self.bar(out, view, value);
        if view.color {
            let bar = out.split_off(begin);
            colored(out, &bar);
        }
        out.push(b' ');
        Spec::wide(-9).signed(out, value.checked_div(normal).unwrap_or(0));
        out.push(b'\n');
    }

    fn bar(&self, out: &mut Vec<u8>, view: &View<'_>, value: i64) {
        let mut fill = |count: usize, byte: u8| out.resize(out.len() + count, byte);
        let whole = |columns| (cells(value, columns, self.total) + 0.5) as usize;
        match (self.positives, self.negatives) {
            (true, false) if view.encoding() == Some(Encoding::Utf8) => {
                fill(1, b'|');
                blocks(out, cells(value, COLUMNS, self.total));
            }
            (positives, false) => {
                let depth = if positives { whole(COLUMNS) } else { 0 };
                fill(1, b'|');
                fill(depth, b'@');
                fill(COLUMNS - depth, b' ');
            }
            (false, true) => {
                let depth = whole(COLUMNS);
                fill(COLUMNS - depth, b' ');
                fill(depth, b'@');
                fill(1, b'|');
            }
            // Some values are positive and some negative: half of the columns are for each sign.
            (true, true) => {
                const HALF: usize = COLUMNS / 2;
                let depth = whole(HALF);
                let (left, right) = if value <= 0 { (depth, 0) } else { (0, depth) };
                fill(HALF - left, b' ');
                fill(left, b'@');
                fill(1, b'|');
                fill(right, b'@');
                fill(HALF - right, b' ');
            }
        }
    }
}

/// Writes a bar with its filled part in colour.
fn colored(out: &mut Vec<u8>, bar: &[u8]) {
    let is_full = |byte: &u8| !matches!(byte, b' ' | b'|');
    for part in bar.chunk_by(|left, right| is_full(left) == is_full(right)) {
        let full = part.first().is_some_and(is_full);
        out.extend_from_slice(if full { b"\x1b[36m" } else { b"" });
        out.extend_from_slice(part);
        out.extend_from_slice(if full { b"\x1b[0m" } else { b"" });
    }
}

/// Writes a bar of block elements, with a resolution of an eighth of a column.
fn blocks(out: &mut Vec<u8>, height: f64) {
    let whole = height as usize;
    let eighths = ((height - whole as f64) * 8.0) as u32;
    let mut bar = "\u{2588}".repeat(whole);
    if let (1.., Some(block)) = (eighths, char::from_u32(0x2590 - eighths)) {
        bar.push(block);
    }
    let columns = whole + usize::from(eighths > 0);
    bar.push_str(&" ".repeat(COLUMNS - columns.min(COLUMNS)));
    out.extend_from_slice(bar.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_has_a_colour() {
        let mut out = Vec::new();
        colored(&mut out, b"|@@@  ");
        assert_eq!(out, b"|\x1b[36m@@@\x1b[0m  ");
    }
}
