//! Heat maps: a distribution over time.

use std::collections::BTreeMap;

use plotters::prelude::*;

use super::PictureError;
use crate::render::aggregate::distribution;
use crate::render::aggregate::entry::Entry;

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (960, 480);

/// A distribution at several times: a column for each, a row for each bucket, the darker the more was
/// added to the bucket since the time before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatMap {
    /// By order of the buckets: what each is called.
    labels: BTreeMap<i128, String>,
    /// The counts of the last sample.
    last: BTreeMap<i128, i64>,
    /// Times in nanoseconds, and what came to each bucket.
    columns: Vec<(u64, BTreeMap<i128, i64>)>,
}

/// Returns the position of a bucket: its value, or just below or above all others.
fn position(label: &str) -> i128 {
    let (text, beside) = match label.split_once(' ') {
        Some(("<", text)) => (text, -1),
        Some((_, text)) => (text, 1),
        None => (label, 0),
    };
    text.parse::<i128>().unwrap_or(0) * 2 + beside
}

impl HeatMap {
    /// A map without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column: the distributions among these elements, as they are at a time in nanoseconds. After
    /// a `clear` or `trunc` all there is has come since.
    pub fn sample<'a>(&mut self, time: u64, elements: impl Iterator<Item = &'a Entry>) {
        let mut now: BTreeMap<i128, i64> = BTreeMap::new();
        for entry in elements.filter(|entry| entry.number().is_none()) {
            for (label, count) in distribution::buckets(entry) {
                let at = position(&label);
                self.labels.insert(at, label);
                let sum = now.entry(at).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let cleared = self.last.iter().any(|(at, last)| now.get(at).is_none_or(|now| now < last));
        let before = |at| if cleared { 0 } else { self.last.get(at).copied().unwrap_or(0) };
        let column = now.iter().map(|(at, count)| (*at, count.saturating_sub(before(at)).max(0)));
        self.columns.push((time, column.collect()));
        self.last = now;
    }

    /// The picture, as an SVG.
    ///
    /// # Errors
    ///
    /// There was no distribution, or it cannot be drawn.
    pub fn svg(&self, title: &str) -> Result<String, PictureError> {
        let rows: Vec<(&i128, &String)> = self.labels.iter().collect();
        if rows.is_empty() || self.columns.is_empty() {
            return Err(PictureError::NoDistribution);
        }
        let mut picture = String::new();
        self.draw(title, &rows, &mut picture)
            .map_err(|error| PictureError::Draw(error.to_string()))?;
        Ok(picture)
    }

    fn draw(
        &self,
        title: &str,
        rows: &[(&i128, &String)],
        picture: &mut String,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(picture, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(110)
            .build_cartesian_2d(0..self.columns.len(), 0..rows.len())?;
        let first = self.columns[0].0;
        let seconds = |column: &usize| {
            let time = self.columns.get(*column).map(|(time, _)| time.saturating_sub(first));
            time.map_or_else(String::new, |time| format!("{:.1} s", time as f64 / 1e9))
        };
        let label = |row: &usize| rows.get(*row).map_or_else(String::new, |row| row.1.clone());
        chart
            .configure_mesh()
            .disable_mesh()
            .x_labels(8)
            .y_labels(rows.len().min(24))
            .x_label_formatter(&seconds)
            .y_label_formatter(&label)
            .draw()?;
        let counts = self.columns.iter().flat_map(|(_, column)| column.values());
        let most = counts.copied().max().unwrap_or(0).max(1) as f64;
        let cells = self.columns.iter().enumerate().flat_map(|(x, (_, column))| {
            rows.iter().enumerate().filter_map(move |(y, (at, _))| {
                let count = column.get(at).copied().filter(|&count| count > 0)?;
                // Small counts are to be seen beside large ones.
                let heat = (1.0 + count as f64).ln() / (1.0 + most).ln();
                let color = HSLColor(0.02, 0.85, 0.95 - 0.6 * heat);
                Some(Rectangle::new([(x, y), (x + 1, y + 1)], color.filled()))
            })
        });
        chart.draw_series(cells)?;
        area.present()?;
        Ok(())
    }
}
