//! Heat maps: distributions over time.

mod draw;

use std::collections::BTreeMap;

use dtrace_abi::action::Action;
use plotters::prelude::*;

use super::PictureError;
use crate::escape;
use crate::render::aggregate::distribution::Bucket;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::label::LabelValue;
use crate::render::data::argument::Argument;
use crate::render::data::place::Place;
use crate::render::data::view::View;
use crate::render::unit::{Unit, Units};

/// Size of the map of one distribution in pixels.
const SIZE: (u32, u32) = (960, 420);
/// The maximum number of distributions that are drawn.
const MOST: usize = 32;
/// The maximum number of distributions that are kept. A run can have any number of keys.
const KEPT: usize = 1024;
/// The maximum number of samples, an even number. It exceeds the width of a picture in pixels; then pairs of samples are merged.
const SAMPLES: usize = 2048;

/// Distributions over time, a map for each aggregation and key: a column for each interval, a row for each bucket, the darker the
/// more values the bucket got in the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatMap {
    maps: BTreeMap<Tuple, Map>,
    /// The times of the samples in nanoseconds.
    times: Vec<u64>,
    units: Units,
    /// The number of distributions in the last sample that were beyond the limit.
    omitted: usize,
}

/// The number of an aggregation's variable, and the bytes of each key.
type Tuple = (u32, Vec<Vec<u8>>);

/// The map of one aggregation and key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Map {
    /// The aggregation and its keys.
    title: String,
    unit: Option<Unit>,
    /// The buckets with the counts of the last sample.
    last: Vec<Bucket>,
    /// Whether the buckets are those of `quantize`.
    powers: bool,
    /// By number of the sample: the counts since the previous sample, by position of the bucket.
    columns: BTreeMap<usize, BTreeMap<usize, i64>>,
}

/// Returns the aggregation and its keys, as D writes them.
fn title(entry: &Entry, view: &View<'_>) -> String {
    let value = |key: &Argument<'_>| match LabelValue::of(key, view) {
        LabelValue::Text(text) if Place::read(key.action, key.argument, key.data).is_none() => {
            format!("\"{}\"", escape::line(&text))
        }
        value => value.to_string(),
    };
    let key = |key: Argument<'_>| match key.name {
        Some(name) => format!("args.{name} = {}", value(&key)),
        None => value(&key),
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
    /// Creates a map without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a map without columns of aggregations in these units.
    pub fn in_units(units: Units) -> Self {
        Self { units, ..Self::default() }
    }

    /// Adds a sample: the distributions among these elements, at a time in nanoseconds since the beginning of the run. If a count
    /// has decreased, because of `clear` or `trunc`, all counts of the distribution count as new. In a long run, samples are
    /// merged into longer intervals. Only the first 1024 distributions are kept.
    pub fn sample<'a>(
        &mut self,
        time: u64,
        elements: impl Iterator<Item = &'a Entry>,
        view: &View<'_>,
    ) {
        if self.times.len() == SAMPLES {
            self.halve();
        }
        let number = self.times.len();
        self.times.push(time);
        self.omitted = 0;
        for entry in elements.filter(|entry| entry.number().is_none()) {
            let tuple = (entry.variable, entry.keys().map(|key| key.data.to_vec()).collect());
            if self.maps.len() == KEPT && !self.maps.contains_key(&tuple) {
                self.omitted += 1;
                continue;
            }
            let map = self.maps.entry(tuple).or_insert_with(|| Map {
                title: title(entry, view),
                unit: self.units.of(&entry.description.name),
                powers: entry.action == Action::Quantize,
                ..Map::default()
            });
            map.sample(number, entry);
        }
    }

    /// Merges pairs of samples into one sample each.
    fn halve(&mut self) {
        self.times = self.times.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        for map in self.maps.values_mut() {
            for (number, column) in std::mem::take(&mut map.columns) {
                let sum = map.columns.entry(number / 2).or_default();
                for (at, count) in column {
                    let all = sum.entry(at).or_default();
                    *all = all.saturating_add(count);
                }
            }
        }
    }

    /// Returns the times of the boundaries between columns in nanoseconds, and the column of each sample. An interval that is
    /// shorter than half of the longest one is merged with its neighbour: this happens at the beginning and at the end of a run.
    /// The time of the first sample counts as 0, unless a column ends there.
    fn columns(&self) -> (Vec<u64>, Vec<usize>) {
        let begins = std::iter::once(0).chain(self.times.iter().copied());
        let longest = begins.zip(&self.times).map(|(begin, end)| end.saturating_sub(begin)).max();
        let half = (longest.unwrap_or(0) / 2).max(1);
        let (mut ends, mut of, mut begin): (Vec<u64>, Vec<usize>, u64) = (vec![], vec![], 0);
        for (number, &time) in self.times.iter().enumerate() {
            of.push(ends.len());
            if time.saturating_sub(begin) >= half {
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
        let first = self.times.first().copied().filter(|first| ends.first() != Some(first));
        let origin = first.unwrap_or(0);
        let ends = ends.into_iter().map(|end| end.saturating_sub(origin));
        (std::iter::once(0).chain(ends).collect(), of)
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
        maps.sort_by_key(|map| std::cmp::Reverse(map.total()));
        let mut picture = String::new();
        self.draw(&maps, &mut picture).map_err(|error| PictureError::Draw(error.to_string()))?;
        Ok(picture)
    }

    fn draw(&self, maps: &[&Map], picture: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let drawn = &maps[..maps.len().min(MOST)];
        let size = (SIZE.0, SIZE.1 * drawn.len() as u32);
        let area = SVGBackend::with_string(picture, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (times, of) = self.columns();
        let hidden = maps.len() - drawn.len() + self.omitted;
        for (number, (panel, map)) in
            area.split_evenly((drawn.len(), 1)).iter().zip(drawn).enumerate()
        {
            let more = match (number, hidden) {
                (0, 1..) => format!(" ({hidden} more maps are not drawn)"),
                _ => String::new(),
            };
            map.draw(&more, &times, &of, panel)?;
        }
        area.present()?;
        Ok(())
    }
}

impl Map {
    /// Adds the counts of an element since its last sample.
    fn sample(&mut self, number: usize, entry: &Entry) {
        let now = entry.buckets();
        let count = |buckets: &[Bucket], at: usize| buckets.get(at).map_or(0, |of| of.count);
        let cleared = (0..self.last.len()).any(|at| count(&now, at) < count(&self.last, at));
        let mut column = BTreeMap::new();
        for (at, bucket) in now.iter().enumerate() {
            let before = if cleared { 0 } else { count(&self.last, at) };
            let new = bucket.count.saturating_sub(before);
            if new > 0 {
                column.insert(at, new);
            }
        }
        if !column.is_empty() {
            self.columns.insert(number, column);
        }
        self.last = now;
    }

    /// Returns the number of all values.
    fn total(&self) -> i128 {
        self.columns.values().flat_map(BTreeMap::values).map(|&count| i128::from(count)).sum()
    }
}
