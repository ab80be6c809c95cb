//! Flame graphs of stack aggregations.

use std::io::Write;

use inferno::flamegraph::{self, Options};

use super::PictureError;
use crate::render::aggregate::Entry;
use crate::render::bits::{signed, until_zero};
use crate::render::place::Place;
use crate::render::value::Argument;
use crate::render::view::View;

/// A key's frames, from the outermost on; a key that is no stack is one frame.
fn frames(key: &Argument<'_>, view: &View<'_>) -> Vec<String> {
    match Place::read(key.action, key.argument, key.data) {
        Some(place) => place.names(view).into_iter().rev().collect(),
        None => match signed(key.data) {
            Some(number) => vec![number.to_string()],
            None => vec![String::from_utf8_lossy(until_zero(key.data)).into_owned()],
        },
    }
}

/// An element as a line of folded stacks: frames, and how much they are.
fn folded(entry: &Entry, view: &View<'_>) -> Option<String> {
    let keys: Vec<Argument<'_>> = entry.keys().collect();
    let is_stack = |key: &Argument<'_>| {
        let place = Place::read(key.action, key.argument, key.data);
        matches!(place, Some(Place::Stack(_) | Place::UserStack { .. }))
    };
    let stack = keys.iter().any(is_stack);
    let weight = entry.number().unwrap_or_else(|| {
        let buckets = crate::render::distribution::buckets(entry);
        buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    });
    if !stack || weight <= 0 {
        return None;
    }
    // The separators of the format are none in names.
    let name = |frame: String| frame.replace(';', ":").replace(['\n', '\r'], " ");
    let frames: Vec<String> = keys.iter().flat_map(|key| frames(key, view)).map(name).collect();
    Some(format!("{} {weight}", frames.join(";")))
}

/// Draws elements that have stacks among their keys, as an SVG: kernel or user stacks from the outermost
/// frame on; other keys stand around or inside of them as they stand in the tuple.
///
/// # Errors
///
/// There are no such elements, or the picture cannot be written.
pub fn flame_graph<'a>(
    elements: impl Iterator<Item = &'a Entry>,
    view: &View<'_>,
    title: &str,
    to: impl Write,
) -> Result<(), PictureError> {
    let lines: Vec<String> = elements.filter_map(|entry| folded(entry, view)).collect();
    if lines.is_empty() {
        return Err(PictureError::NoStacks);
    }
    let mut options = Options::default();
    options.title = title.into();
    options.hash = true;
    let lines = lines.iter().map(String::as_str);
    flamegraph::from_lines(&mut options, lines, to)
        .map_err(|error| PictureError::Draw(error.to_string()))
}
