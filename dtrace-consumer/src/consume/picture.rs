//! The pictures of a run, each a [`Sink`] with its file, and the export to a collector.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::error::DtraceError;
use crate::job::Job;
use crate::render::picture::{HeatMap, Perfetto, PictureError, flame_graph};
use crate::render::{Aggregations, RenderError, Sink, View};

/// Returns the sinks for the pictures and the export that a job requests.
pub(super) fn sinks(job: &Job) -> Result<Vec<Box<dyn Sink>>, DtraceError> {
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    if let Some(file) = &job.perfetto {
        let opened = File::create(file);
        let opened = opened.map_err(|error| DtraceError::File { file: file.clone(), error })?;
        sinks.push(Box::new(Perfetto::with_slices(BufWriter::new(opened), job.slices.clone())));
    }
    if let Some(file) = &job.flame_graph {
        try_to_open(file)?;
        sinks.push(Box::new(FlameGraph { file: file.clone() }));
    }
    if let Some(file) = &job.heat_map {
        try_to_open(file)?;
        let (map, began) = (HeatMap::in_units(job.units.clone()), Instant::now());
        sinks.push(Box::new(Heat { file: file.clone(), map, began }));
    }
    if let Some(endpoint) = &job.otlp {
        sinks.push(export(endpoint, job)?);
    }
    Ok(sinks)
}

/// Tries to open a file that is written at the end of the run, so that a wrong path is an error at the beginning. Leaves the file as
/// it is. Does not open pipes and devices, whose other end would notice, nor symbolic links.
fn try_to_open(file: &Path) -> Result<(), DtraceError> {
    let found = std::fs::symlink_metadata(file);
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let is_new = found.is_err();
    let opened = File::options().write(true).create(true).truncate(false).open(file);
    let removed = opened.and_then(|_| if is_new { std::fs::remove_file(file) } else { Ok(()) });
    removed.map_err(|error| DtraceError::File { file: file.to_owned(), error })
}

/// Returns the export to the collector at a URL.
#[cfg(feature = "otlp")]
fn export(endpoint: &str, job: &Job) -> Result<Box<dyn Sink>, DtraceError> {
    let say = |text: &str| crate::output::say(format_args!("dtrace: {text}"));
    Ok(Box::new(crate::render::Otlp::new(endpoint, job.units.clone(), say)?))
}

/// Returns an error: this build cannot export.
#[cfg(not(feature = "otlp"))]
const fn export(_: &str, _: &Job) -> Result<Box<dyn Sink>, DtraceError> {
    Err(DtraceError::NoOtlp)
}

/// Draws the aggregated stacks at the end of the run.
struct FlameGraph {
    file: PathBuf,
}

impl Sink for FlameGraph {
    fn complete(
        &mut self,
        aggregations: &Aggregations,
        view: &View<'_>,
    ) -> Result<(), RenderError> {
        draw(&self.file, |title| {
            let mut picture = Vec::new();
            flame_graph(aggregations.entries(), view, title, &mut picture)?;
            Ok(picture)
        })
    }
}

/// Collects a column of a heat map each time aggregations are read, and draws it at the end of the run.
struct Heat {
    file: PathBuf,
    map: HeatMap,
    began: Instant,
}

impl Sink for Heat {
    fn sample(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result<(), RenderError> {
        let time = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.map.sample(time, aggregations.entries(), view);
        Ok(())
    }

    fn complete(&mut self, _: &Aggregations, _: &View<'_>) -> Result<(), RenderError> {
        draw(&self.file, |_| Ok(self.map.svg()?.into()))
    }
}

/// Draws a picture with its file's name as title, and writes it.
fn draw(
    file: &Path,
    draw: impl FnOnce(&str) -> Result<Vec<u8>, PictureError>,
) -> Result<(), RenderError> {
    let title = file.file_stem().unwrap_or_default().to_string_lossy();
    let drawn = draw(&title).and_then(|picture| Ok(std::fs::write(file, picture)?));
    drawn.map_err(|error| RenderError::Picture { file: file.into(), error: error.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_tried_and_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(try_to_open(&path("missing/picture.svg")).is_err());
        try_to_open(&path("new.svg")).unwrap();
        assert!(!path("new.svg").exists());
        std::fs::write(path("old.svg"), "old").unwrap();
        try_to_open(&path("old.svg")).unwrap();
        assert_eq!(std::fs::read(path("old.svg")).unwrap(), b"old");
        // Opening this would create the file to which the link leads.
        std::os::unix::fs::symlink(path("nothing"), path("link.svg")).unwrap();
        try_to_open(&path("link.svg")).unwrap();
        assert!(path("link.svg").is_symlink() && !path("nothing").exists());
        // Opening this for writing would wait for a reader.
        let pipe = path("pipe.svg");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        try_to_open(&pipe).unwrap();
    }
}
