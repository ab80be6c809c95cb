//! Heat maps: a distribution over time.

use std::collections::BTreeMap;

use plotters::prelude::*;

use super::PictureError;
use crate::escape;
use crate::render::aggregate::distribution;
use crate::render::aggregate::entry::Entry;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, until_zero};
use crate::render::data::place::Place;
use crate::render::data::view::View;

/// Size of the map of one distribution in pixels.
const SIZE: (u32, u32) = (960, 420);
/// Most distributions that are drawn.
const MOST: usize = 32;

/// Distributions over time, a map for each aggregation and key: a column for each interval, a row for each bucket, the darker the
/// more values the bucket got in the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatMap {
    maps: BTreeMap<Tuple, Map>,
    /// The times of the samples in nanoseconds.
    times: Vec<u64>,
}

/// The number of an aggregation's variable, and the bytes of each key.
type Tuple = (u32, Vec<Vec<u8>>);

/// The map of one aggregation and key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Map {
    /// The aggregation and its keys.
    title: String,
    /// The labels of the buckets, by position.
    labels: BTreeMap<i128, String>,
    /// The counts of the last sample.
    last: BTreeMap<i128, i64>,
    /// By number of the sample: the counts since the previous sample.
    columns: BTreeMap<usize, BTreeMap<i128, i64>>,
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

/// Returns the aggregation and its keys, as D writes them.
fn title(entry: &Entry, view: &View<'_>) -> String {
    let key = |key: Argument<'_>| match Place::read(key.action, key.argument, key.data) {
        // From the outermost frame on, as in a flame graph.
        Some(place) => place.names(view).into_iter().rev().collect::<Vec<_>>().join(" > "),
        None => match signed(key.data) {
            Some(number) => number.to_string(),
            None => format!("\"{}\"", escape::name(until_zero(key.data))),
        },
    };
    let keys: Vec<String> = entry.keys().map(key).collect();
    let name = &entry.description.name;
    let name = if name == "_" { "" } else { name };
    match keys.is_empty() {
        true => format!("@{name}"),
        false => format!("@{name}[{}]", keys.join(", ")),
    }
}

impl HeatMap {
    /// A map without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample: the distributions among these elements at a time in nanoseconds since the begin of the run. After a `clear`
    /// or `trunc`, all counts are new.
    pub fn sample<'a>(
        &mut self,
        time: u64,
        elements: impl Iterator<Item = &'a Entry>,
        view: &View<'_>,
    ) {
        let number = self.times.len();
        self.times.push(time);
        for entry in elements.filter(|entry| entry.number().is_none()) {
            let tuple = (entry.variable, entry.keys().map(|key| key.data.to_vec()).collect());
            let map = self
                .maps
                .entry(tuple)
                .or_insert_with(|| Map { title: title(entry, view), ..Map::default() });
            let mut now: BTreeMap<i128, i64> = BTreeMap::new();
            for (label, count) in distribution::buckets(entry) {
                let at = position(&label);
                map.labels.insert(at, label);
                now.insert(at, count);
            }
            let less = |(at, last): (&i128, &i64)| now.get(at).is_none_or(|now| now < last);
            let cleared = map.last.iter().any(less);
            let before = |at| if cleared { 0 } else { map.last.get(at).copied().unwrap_or(0) };
            let new = now.iter().map(|(at, count)| (*at, count.saturating_sub(before(at)).max(0)));
            let new: BTreeMap<i128, i64> = new.filter(|(_, count)| *count > 0).collect();
            map.columns.insert(number, new);
            map.last = now;
        }
    }

    /// Returns the ends of the columns, and the column of each sample. A column that is shorter than half of the longest interval
    /// becomes a part of its neighbour: the first sample of a run, and the last.
    fn columns(&self) -> (Vec<u64>, Vec<usize>) {
        let begins = std::iter::once(0).chain(self.times.iter().copied());
        let longest = begins.zip(&self.times).map(|(begin, end)| end.saturating_sub(begin)).max();
        let half = longest.unwrap_or(0) / 2;
        let (mut ends, mut of, mut begin): (Vec<u64>, Vec<usize>, u64) = (vec![], vec![], 0);
        for (number, &time) in self.times.iter().enumerate() {
            of.push(ends.len());
            if time.saturating_sub(begin) >= half.max(1) {
                ends.push(time);
                begin = time;
            } else if number + 1 == self.times.len() {
                match ends.last_mut() {
                    Some(end) => *end = time,
                    None => ends.push(time),
                }
            }
        }
        let last = ends.len().saturating_sub(1);
        of.iter_mut().for_each(|column| *column = (*column).min(last));
        (ends, of)
    }

    /// Returns the picture as an SVG: the maps below each other, those with most values first.
    ///
    /// # Errors
    ///
    /// There was no distribution, or it cannot be drawn.
    pub fn svg(&self) -> Result<String, PictureError> {
        let mut maps: Vec<&Map> = self.maps.values().collect();
        if maps.is_empty() {
            return Err(PictureError::NoDistribution);
        }
        let total = |map: &Map| -> i128 {
            map.columns.values().flat_map(BTreeMap::values).map(|&count| i128::from(count)).sum()
        };
        maps.sort_by_key(|map| std::cmp::Reverse(total(map)));
        let mut picture = String::new();
        self.draw(&maps, &mut picture).map_err(|error| PictureError::Draw(error.to_string()))?;
        Ok(picture)
    }

    fn draw(&self, maps: &[&Map], picture: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let drawn = &maps[..maps.len().min(MOST)];
        let size = (SIZE.0, SIZE.1 * drawn.len() as u32);
        let area = SVGBackend::with_string(picture, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (ends, of) = self.columns();
        for (number, (panel, map)) in
            area.split_evenly((drawn.len(), 1)).iter().zip(drawn).enumerate()
        {
            let hidden = maps.len() - drawn.len();
            let title = match (number, hidden) {
                (0, 1..) => format!("{} ({hidden} more are not drawn)", map.title),
                _ => map.title.clone(),
            };
            map.draw(&title, &ends, &of, panel)?;
        }
        area.present()?;
        Ok(())
    }
}

impl Map {
    fn draw(
        &self,
        title: &str,
        ends: &[u64],
        of: &[usize],
        panel: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let rows: Vec<(&i128, &String)> = self.labels.iter().collect();
        let mut cells: BTreeMap<(usize, usize), i64> = BTreeMap::new();
        for (sample, counts) in &self.columns {
            for (row, (at, _)) in rows.iter().enumerate() {
                if let (Some(count), Some(column)) = (counts.get(at), of.get(*sample)) {
                    let sum = cells.entry((*column, row)).or_default();
                    *sum = sum.saturating_add(*count);
                }
            }
        }
        let most = cells.values().copied().max().unwrap_or(1).max(1);
        let legend = format!("{title}: 1 (light) to {most} (dark) values in a cell");
        let mut chart = ChartBuilder::on(panel)
            .caption(legend, ("sans-serif", 16))
            .margin(12)
            .margin_right(36)
            .x_label_area_size(36)
            .y_label_area_size(110)
            .build_cartesian_2d(0..ends.len(), 0..rows.len())?;
        let seconds = |column: &usize| {
            let time = column.checked_sub(1).map_or(Some(&0), |column| ends.get(column));
            time.map_or_else(String::new, |time| format!("{:.1} s", *time as f64 / 1e9))
        };
        let label = |row: &usize| rows.get(*row).map_or_else(String::new, |row| row.1.clone());
        chart
            .configure_mesh()
            .disable_mesh()
            .x_labels(ends.len().min(10) + 1)
            .y_labels(rows.len().min(24))
            .x_label_formatter(&seconds)
            .y_label_formatter(&label)
            .draw()?;
        let cells = cells.into_iter().map(|((x, y), count)| {
            // Small counts are visible beside large ones.
            let heat = (1.0 + count as f64).ln() / (1.0 + most as f64).ln();
            let color = HSLColor(0.02, 0.85, 0.95 - 0.6 * heat);
            Rectangle::new([(x, y), (x + 1, y + 1)], color.filled())
        });
        chart.draw_series(cells)?;
        Ok(())
    }
}
