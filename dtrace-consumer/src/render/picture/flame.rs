//! Flame graphs of stack aggregations.

use std::io::Write;

use inferno::flamegraph::{self, Options};

use super::PictureError;
use crate::escape;
use crate::render::aggregate::entry::Entry;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, until_zero};
use crate::render::data::place::Place;
use crate::render::data::view::View;

/// A key's frames, from the outermost on; a key that is no stack is one frame.
fn frames(key: &Argument<'_>, view: &View<'_>) -> Vec<String> {
    match Place::read(key.action, key.argument, key.data) {
        Some(place) => place.names(view).into_iter().rev().map(function).collect(),
        None => match signed(key.data) {
            Some(number) => vec![number.to_string()],
            None => vec![escape::name(until_zero(key.data))],
        },
    }
}

/// A frame without how far in its function it is: frames of one function are one.
fn function(frame: String) -> String {
    let is_offset =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match frame.rsplit_once("+0x") {
        Some((name, offset)) if is_offset(offset) => name.to_owned(),
        _ => frame,
    }
}

/// An element as a line of folded stacks.
enum Folded {
    /// A line.
    Line { stack: String, weight: i64 },
    /// The stacks of the element have no frames.
    Empty,
}

/// An element as a line of folded stacks: frames, and how much they are.
fn folded(entry: &Entry, view: &View<'_>) -> Option<Folded> {
    let keys: Vec<Argument<'_>> = entry.keys().collect();
    let is_stack = |key: &Argument<'_>| {
        let place = Place::read(key.action, key.argument, key.data);
        matches!(place, Some(Place::Stack(_) | Place::UserStack { .. }))
    };
    let mut stacks = keys.iter().filter(|key| is_stack(key)).peekable();
    let weight = entry.number().unwrap_or_else(|| {
        let buckets = crate::render::aggregate::distribution::buckets(entry);
        buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    });
    if stacks.peek().is_none() || weight <= 0 {
        return None;
    }
    if stacks.all(|key| frames(key, view).is_empty()) {
        return Some(Folded::Empty);
    }
    let frames: Vec<String> = keys.iter().flat_map(|key| frames(key, view)).map(plain).collect();
    let mut line = frames.join(";");
    if line.starts_with('#') {
        // Otherwise the line would be a comment.
        line.insert(0, WORD_JOINER);
    }
    Some(Folded::Line { stack: line, weight })
}

/// Takes no room, and is no white space.
const WORD_JOINER: char = '\u{2060}';
/// A blank that separates nothing.
const NO_BREAK: &str = "\u{a0}";
/// Stands for a blank at an end of a frame, where blanks would be removed.
const OPEN_BOX: &str = "\u{2423}";

/// Returns a frame that folded stacks can hold: without their separators, and without a last word that is a number, which would be taken
/// for the weight of another stack.
fn plain(frame: String) -> String {
    let frame = frame.replace(';', ":").replace(['\n', '\r'], " ");
    let inner = frame.trim();
    let start = frame.len() - frame.trim_start().len();
    let end = frame.len() - start - inner.len();
    let inner = match inner.rsplit_once(' ') {
        Some((rest, last)) if last.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.')) => {
            [rest, last].join(NO_BREAK)
        }
        _ => inner.to_owned(),
    };
    format!("{}{inner}{}", OPEN_BOX.repeat(start), OPEN_BOX.repeat(end))
}

/// Draws elements that have stacks among their keys, as an SVG: kernel or user stacks from the outermost
/// frame on; other keys stand around or inside of them as they stand in the tuple.
///
/// # Errors
///
/// There are no such elements, none has a frame, their values are too large, or the picture cannot be written.
pub fn flame_graph<'a>(
    elements: impl Iterator<Item = &'a Entry>,
    view: &View<'_>,
    title: &str,
    to: impl Write,
) -> Result<(), PictureError> {
    let (mut lines, mut empty, mut total) = (Vec::new(), false, 0_i64);
    for folded in elements.filter_map(|entry| folded(entry, view)) {
        match folded {
            Folded::Line { stack, weight } => {
                total = total.checked_add(weight).ok_or(PictureError::TooLarge)?;
                lines.push(format!("{stack} {weight}"));
            }
            Folded::Empty => empty = true,
        }
    }
    if lines.is_empty() {
        return Err(if empty { PictureError::NoFrames } else { PictureError::NoStacks });
    }
    let mut options = Options::default();
    options.title = title.into();
    options.hash = true;
    let lines = lines.iter().map(String::as_str);
    flamegraph::from_lines(&mut options, lines, to)
        .map_err(|error| PictureError::Draw(error.to_string()))
}
