//! The drawing of a heat map: cells, axes, legend.

use std::collections::BTreeMap;
use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Map;
use crate::render::aggregate::distribution::Bucket;
use crate::render::unit::Unit;

/// A part of the picture.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Pixels of the legend.
const LEGEND: u32 = 110;
/// The legend's strip in pixels: left side, top, width, height.
const STRIP: (i32, i32, i32, i32) = (8, 70, 18, 280);
/// The number of shades in the legend.
const SHADES: i32 = 35;

/// The colours of a map: small counts are visible beside large ones.
#[derive(Clone, Copy)]
struct Colours {
    most: f64,
}

impl Colours {
    fn new(most: i64) -> Self {
        Self { most: most.max(1) as f64 }
    }

    /// Returns the heat of a count, from 0 to 1.
    fn heat(self, count: f64) -> f64 {
        count.ln_1p() / self.most.ln_1p()
    }

    /// Returns the count with this heat.
    fn count(self, heat: f64) -> f64 {
        (heat * self.most.ln_1p()).exp_m1()
    }

    fn colour(heat: f64) -> HSLColor {
        HSLColor(0.02, 0.85, 0.95 - 0.6 * heat)
    }

    /// Draws the shades, and the counts that they represent.
    fn legend(self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let (left, top, width, height) = STRIP;
        let font = ("sans-serif", 12).into_font();
        let centre = TextStyle::from(font.clone()).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text("values in", &font.clone().into(), (left, top - 42))?;
        area.draw_text("a cell", &font.into(), (left, top - 26))?;
        let lightest = self.heat(1.0);
        // If all counts are one, there is only one shade.
        let shades = if self.most > 1.0 { SHADES } else { 1 };
        for shade in 0..shades {
            let part = f64::from(shade) / f64::from((shades - 1).max(1));
            let heat = if shades == 1 { 1.0 } else { lightest + (1.0 - lightest) * part };
            let bottom = top + height - height / SHADES * shade;
            let corners = [(left, bottom - height / SHADES), (left + width, bottom)];
            area.draw(&Rectangle::new(corners, Self::colour(heat).filled()))?;
        }
        let mut last = 0.0;
        for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let count = self.count(lightest + (1.0 - lightest) * part).round();
            if count > last {
                last = count;
                let y = top + height - (f64::from(height) * part) as i32;
                area.draw_text(&count.to_string(), &centre, (left + width + 6, y))?;
            }
        }
        Ok(())
    }
}

/// Returns the unit in which an axis shows times up to `end`: its name, and its length in nanoseconds.
fn time_unit(end: u64) -> (&'static str, f64) {
    match end / 1_000_000_000 {
        0..=599 => ("s", 1e9),
        600..=35_999 => ("min", 60e9),
        _ => ("h", 3600e9),
    }
}

impl Map {
    /// Returns the counts by column and position of the bucket.
    fn cells(&self, of: &[usize]) -> BTreeMap<(usize, usize), i64> {
        let mut cells: BTreeMap<(usize, usize), i64> = BTreeMap::new();
        for (sample, counts) in &self.columns {
            let Some(&column) = of.get(*sample) else { continue };
            for (&at, &count) in counts {
                let sum = cells.entry((column, at)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        cells
    }

    /// Returns the lower bound of a bucket, as its label shows it; the upper one if there is no lower one.
    const fn bound(&self, bucket: &Bucket) -> i64 {
        match *bucket {
            Bucket { lowest: i64::MIN, highest, .. } => highest.saturating_add(1),
            Bucket { lowest, highest: ..=-1, .. } if self.powers => lowest - 1,
            Bucket { lowest, .. } => lowest,
        }
    }

    /// Returns the labels of the lines between rows, from the lower side of the first row to the upper side of the last one, and
    /// whether they name the unit.
    fn labels(&self, rows: &[Bucket]) -> (Vec<String>, bool) {
        let top = rows.last().filter(|last| last.highest != i64::MAX);
        let top = top.map(|last| match last.highest {
            ..=-1 if self.powers => last.highest,
            highest => highest + 1,
        });
        let mut values: Vec<i64> = rows.iter().map(|row| self.bound(row)).collect();
        values.extend(top);
        // The lowest row without a lower bound has the same number as the line above it.
        let skipped = usize::from(rows.first().is_some_and(|row| row.lowest == i64::MIN));
        let mut labels =
            Unit::labels(self.unit.as_ref(), values.get(skipped..).unwrap_or_default());
        let is_named = Unit::is_in(&labels);
        if skipped == 1 {
            let above = labels.first().cloned().unwrap_or_default();
            labels.insert(0, format!("< {above}"));
        }
        if top.is_none()
            && rows.len() > skipped
            && let Some(last) = labels.last_mut()
        {
            *last = format!("≥ {last}");
        }
        (labels, is_named)
    }

    /// Draws the map with its title, followed by `more`. The columns end at `times`, of which the first is the begin of the first
    /// column; `of` has the column of each sample.
    pub(super) fn draw(
        &self,
        more: &str,
        times: &[u64],
        of: &[usize],
        panel: &Area<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let cells = self.cells(of);
        let first = cells.keys().map(|(_, at)| *at).min().unwrap_or(0);
        let last = cells.keys().map(|(_, at)| *at).max().unwrap_or(0);
        let rows = self.last.get(first..=last).unwrap_or_default();
        let (labels, is_named) = self.labels(rows);
        let values = match &self.unit {
            Some(unit) if !is_named => format!("value in {unit}"),
            _ => "value".to_owned(),
        };
        let colours = Colours::new(cells.values().copied().max().unwrap_or(1));
        let (width, _) = panel.dim_in_pixel();
        let (map, legend) = panel.split_horizontally(width - LEGEND);
        let end = times.last().copied().unwrap_or(0);
        let (unit, one) = time_unit(end);
        let time = |column: usize| times.get(column).map_or(0.0, |time| *time as f64 / one);
        let title = format!("{}: {} values{more}", self.title, self.total());
        let mut chart = ChartBuilder::on(&map)
            .caption(title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(110)
            .build_cartesian_2d(0.0..(end.max(1) as f64 / one), 0..rows.len())?;
        let label = |row: &usize| labels.get(*row).cloned().unwrap_or_default();
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc(format!("time in {unit}"))
            .y_desc(values)
            .x_labels(12)
            .y_labels(rows.len().min(32) + 1)
            .x_label_formatter(&|time| {
                let text = format!("{time:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            })
            .y_label_formatter(&label)
            .draw()?;
        chart.draw_series(cells.into_iter().map(|((column, at), count)| {
            let heat = colours.heat(count as f64);
            let (from, to, row) = (time(column), time(column + 1), at - first);
            Rectangle::new([(from, row), (to, row + 1)], Colours::colour(heat).filled())
        }))?;
        colours.legend(&legend)
    }
}
