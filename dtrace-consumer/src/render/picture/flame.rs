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

/// Returns the frames of a key, the outermost first. A key that is not a stack is a single frame.
fn frames(key: &Argument<'_>, view: &View<'_>) -> Vec<String> {
    match Place::read(key.action, key.argument, key.data) {
        Some(place) => place.names(view).into_iter().rev().map(function).collect(),
        None => match signed(key.data) {
            Some(number) => vec![number.to_string()],
            None => vec![escape::name(until_zero(key.data))],
        },
    }
}

/// Removes the offset from a frame, so that all addresses in a function give the same frame.
fn function(frame: String) -> String {
    let is_offset =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match frame.rsplit_once("+0x") {
        Some((name, offset)) if is_offset(offset) => name.to_owned(),
        _ => frame,
    }
}

/// The result of folding an element.
enum Folded {
    /// A line.
    Line { stack: String, weight: i64 },
    /// The stacks of the element have no frames.
    Empty,
}

/// Returns an element as a line of folded stacks: the frames, and their weight. `None` for an element without a stack, or with a
/// weight that is not positive.
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
        // A line that begins with `#` would be a comment.
        line.insert(0, WORD_JOINER);
    }
    Some(Folded::Line { stack: line, weight })
}

/// An invisible character that does not count as white space.
const WORD_JOINER: char = '\u{2060}';
/// A blank that separates nothing.
const NO_BREAK: &str = "\u{a0}";
/// Replaces blanks at the ends of a frame, which would be trimmed.
const OPEN_BOX: &str = "\u{2423}";

/// Returns a frame in a form that folded stacks can contain: without separators, and without a number as the last word,
/// which would be read as the weight.
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

/// Draws elements with stacks among their keys as an SVG. The frames of a stack are drawn from the outermost one on.
/// Other keys become frames, in the order of the keys.
///
/// # Errors
///
/// No element has a stack, no stack has a frame, the sum of the values is too large, or the picture cannot be written.
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
