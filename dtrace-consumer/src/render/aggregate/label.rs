//! The keys of an element as labels, for systems that collect metrics.

use std::fmt;

use crate::render::aggregate::entry::Entry;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, until_zero};
use crate::render::data::place::Place;
use crate::render::data::view::View;

/// A key of an element, with a name that no other key of the element has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name of the probe's argument, with `_` for `.`, or of the kernel's variable; `keyN` for other keys, counted from 0.
    pub name: String,
    /// The value.
    pub value: LabelValue,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelValue {
    /// An integer.
    Number(i64),
    /// A string, or the names of frames from the outermost on.
    Text(String),
}

impl fmt::Display for LabelValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl LabelValue {
    /// Returns the value of a recorded datum.
    pub(in crate::render) fn of(argument: &Argument<'_>, view: &View<'_>) -> Self {
        let Argument { action, argument, data, .. } = *argument;
        match (Place::read(action, argument, data), signed(data)) {
            (Some(place), _) => {
                let names: Vec<String> = place.names(view).into_iter().rev().collect();
                Self::Text(names.join(" > "))
            }
            (None, Some(number)) => Self::Number(number),
            (None, None) => Self::Text(String::from_utf8_lossy(until_zero(data)).into_owned()),
        }
    }
}

impl Entry {
    /// Returns the name of the aggregation without `@`; `dtrace` for the aggregation without a name.
    pub fn name(&self) -> &str {
        match self.description.name.as_str() {
            // The compiler's name.
            "" | "_" => "dtrace",
            name => name,
        }
    }

    /// Returns the keys as labels, in order.
    pub fn labels(&self, view: &View<'_>) -> Vec<Label> {
        let mut labels: Vec<Label> = Vec::new();
        for (index, key) in self.keys().enumerate() {
            let named = key.name.or(key.variable).map(|name| name.replace('.', "_"));
            let is_new = |name: &String| labels.iter().all(|label| label.name != *name);
            let name = named.filter(is_new).unwrap_or_else(|| format!("key{index}"));
            labels.push(Label { name, value: LabelValue::of(&key, view) });
        }
        labels
    }
}
