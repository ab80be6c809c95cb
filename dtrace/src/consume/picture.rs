//! The pictures of a run: a timeline of its records, and at its end what its aggregations have come to.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use super::DtraceError;
use crate::job::Job;
use crate::render::Aggregations;
use crate::render::picture::{HeatMap, Perfetto, flame_graph};
use crate::trace::Running;

/// Opens the timeline that was asked for.
pub(super) fn timeline(job: &Job) -> Result<Option<Perfetto<BufWriter<File>>>, DtraceError> {
    let file = job.perfetto.as_deref().map(create).transpose()?;
    Ok(file.map(|file| Perfetto::new(BufWriter::new(file))))
}

fn create(file: &Path) -> Result<File, DtraceError> {
    File::create(file).map_err(|error| DtraceError::File { file: file.into(), error })
}

/// A heat map on its way.
pub(super) struct Heat {
    map: HeatMap,
    began: Instant,
    /// How often aggregations had been taken when there was the last column.
    taken: u64,
}

impl Heat {
    pub(super) fn new() -> Self {
        Self { map: HeatMap::new(), began: Instant::now(), taken: 0 }
    }

    /// Adds a column if aggregations have been taken since the last one.
    pub(super) fn sample(&mut self, running: &Running) {
        if std::mem::replace(&mut self.taken, running.taken()) != running.taken() {
            let time = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.map.sample(time, running.aggregations().entries());
        }
    }
}

/// Draws what was asked for of aggregations. One picture that cannot be drawn is no reason to leave out the other.
pub(super) fn draw(job: &Job, running: &Running, heat: &Heat) -> Result<(), DtraceError> {
    let flame = picture(job.flame_graph.as_deref(), |title| {
        let mut picture = Vec::new();
        running.view(|aggregations: &Aggregations, view| {
            flame_graph(aggregations.entries(), view, title, &mut picture)
        })?;
        Ok(picture)
    });
    let heat = picture(job.heat_map.as_deref(), |title| Ok(heat.map.svg(title)?.into()));
    flame.and(heat)
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Draws one of them, with a title, if there is a file for it.
fn picture(
    file: Option<&Path>,
    draw: impl FnOnce(&str) -> Result<Vec<u8>, AnyError>,
) -> Result<(), DtraceError> {
    let Some(file) = file else { return Ok(()) };
    let title = file.file_stem().unwrap_or_default().to_string_lossy();
    let drawn = draw(&title).and_then(|picture| Ok(std::fs::write(file, picture)?));
    drawn.map_err(|error| DtraceError::Picture { file: file.into(), error })
}
