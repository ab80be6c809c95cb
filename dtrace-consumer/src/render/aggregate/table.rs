//! Aggregations in the form in which they are shown: elements in order, several aggregations side by side, and the scale of bars.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::QUANTIZE_ZERO;
use dtrace_abi::option::OptionId;
use dtrace_compiler::options::Options;

use crate::render::aggregate::ZOOM;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::order::Order;
use crate::render::aggregate::store::Aggregations;
use crate::render::record::description::AggDescription;

/// Elements in the order in which they are shown.
#[derive(Debug, Default)]
pub struct Table<'a> {
    /// The rows: one for each element, or, if several aggregations are printed together, one for each tuple of keys.
    pub rows: Vec<Row<'a>>,
    /// By variable, the scale of bars, if options request bars.
    scales: HashMap<u32, Scale>,
}

/// One line of a table.
#[derive(Debug)]
pub struct Row<'a> {
    /// The element whose keys are shown.
    pub key: &'a Entry,
    /// The values: one, or one for each of the aggregations that are printed together.
    pub values: Vec<Cow<'a, Entry>>,
}

impl Row<'_> {
    /// Returns the values of the row from this position on, followed by those before it.
    fn from(&self, position: usize) -> Vec<&Entry> {
        let (before, from) = self.values.split_at(position);
        from.iter().chain(before).map(|value| &**value).collect()
    }
}

/// The scale of all bars of an aggregation.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// `agghist`: values as bars.
    Histogram {
        /// The value of a full bar.
        total: f64,
        /// Whether some value is positive.
        positives: bool,
        /// Whether some value is negative.
        negatives: bool,
    },
    /// `aggpack`: distributions on one line.
    Packed {
        /// The first bucket that is not empty in some element.
        first: usize,
        /// The last bucket that is not empty in some element.
        last: usize,
    },
}

impl Table<'_> {
    /// Returns the scale of the bars of a variable.
    pub fn scale(&self, variable: u32) -> Option<Scale> {
        self.scales.get(&variable).copied()
    }

    /// Returns the descriptions of the aggregations of all values.
    pub(in crate::render) fn descriptions(&self) -> impl Iterator<Item = &Rc<AggDescription>> {
        self.rows.iter().flat_map(|row| row.values.iter().map(|value| &value.description))
    }
}

impl Aggregations {
    /// Returns a table of the elements for which `wanted` returns true, each on its own row.
    pub(crate) fn table(&self, options: &Options, wanted: impl Fn(&Entry) -> bool) -> Table<'_> {
        let mut entries: Vec<&Entry> = self.entries().filter(|entry| wanted(entry)).collect();
        let order = Order::of(options);
        entries.sort_by(|left, right| order.single(left, right));
        let row = |key| Row { key, values: vec![Cow::Borrowed(key)] };
        Table { rows: entries.into_iter().map(row).collect(), scales: self.scales(options) }
    }

    /// Returns a table of several variables side by side. If a variable has no element for a key, the table shows zero.
    /// `described` returns the description of a variable that has no elements at all.
    pub(in crate::render) fn joined(
        &self,
        options: &Options,
        variables: &[u32],
        mut described: impl FnMut(u32) -> Option<Rc<AggDescription>>,
    ) -> Table<'_> {
        let mut order = Order::of(options);
        if order.position >= variables.len() {
            order.position = 0;
        }
        let of = self.entries().filter(|entry| variables.contains(&entry.variable));
        let mut entries: Vec<&Entry> = of.collect();
        let Some(first) = entries.first().copied() else { return Table::default() };
        let plain = Order { keys_first: false, reversed: false, ..order };
        let keys = |left: &Entry, right: &Entry| plain.keys(left, right);
        entries.sort_by(|left, right| keys(left, right).then(left.variable.cmp(&right.variable)));
        let descriptions: BTreeMap<u32, Rc<AggDescription>> = variables
            .iter()
            .map(|&variable| {
                let present = entries.iter().find(|entry| entry.variable == variable);
                let present = present.map(|entry| entry.description.clone());
                let description = present.or_else(|| described(variable));
                (variable, description.unwrap_or_else(|| first.description.clone()))
            })
            .collect();
        let bundles = entries.chunk_by(|left, right| keys(left, right).is_eq());
        let mut rows: Vec<Row<'_>> = bundles
            .map(|bundle| {
                let key = bundle[0];
                let value = |variable: &u32| match bundle
                    .iter()
                    .find(|entry| entry.variable == *variable)
                {
                    Some(entry) => Cow::Borrowed(*entry),
                    None => Cow::Owned(key.zero(descriptions[variable].clone(), *variable)),
                };
                Row { key, values: variables.iter().map(value).collect() }
            })
            .collect();
        rows.sort_by(|left, right| {
            let (left_values, right_values) =
                (left.from(order.position), right.from(order.position));
            order.joined((left.key, &left_values), (right.key, &right_values))
        });
        Table { rows, scales: HashMap::new() }
    }

    fn scales(&self, options: &Options) -> HashMap<u32, Scale> {
        let is_set = |option| options.is_set(option);
        let mut scales = HashMap::new();
        for entry in self.entries() {
            let scale = match entry.action {
                Action::Sum | Action::Count | Action::Avg | Action::Stddev
                    if is_set(OptionId::Agghist) =>
                {
                    histogram(entry, scales.get(&entry.variable), is_set(OptionId::Aggzoom))
                }
                Action::Quantize | Action::Lquantize if is_set(OptionId::Aggpack) => {
                    packed(entry, scales.get(&entry.variable))
                }
                _ => continue,
            };
            scales.insert(entry.variable, scale);
        }
        scales
    }
}

fn histogram(entry: &Entry, before: Option<&Scale>, zoom: bool) -> Scale {
    let value = entry.number_over(1).unwrap_or(0);
    let height = value.unsigned_abs() as f64;
    let (total, positives, negatives) = match before {
        Some(&Scale::Histogram { total, positives, negatives }) => (total, positives, negatives),
        _ => (0.0, false, false),
    };
    Scale::Histogram {
        total: if zoom { total.max((height * (1.0 / ZOOM)).trunc()) } else { total + height },
        positives: positives || value > 0,
        negatives: negatives || value < 0,
    }
}

fn packed(entry: &Entry, before: Option<&Scale>) -> Scale {
    let filled = |word: &i64| *word != 0;
    let (first, last) = if entry.action == Action::Lquantize {
        // An `lquantize` is shown with all buckets.
        (0, entry.words.len().saturating_sub(2))
    } else {
        match (entry.words.iter().position(filled), entry.words.iter().rposition(filled)) {
            (Some(first), Some(last)) => (first, last),
            _ => (QUANTIZE_ZERO, QUANTIZE_ZERO),
        }
    };
    match before {
        Some(&Scale::Packed { first: before, last: after }) => {
            Scale::Packed { first: first.min(before), last: last.max(after) }
        }
        _ => Scale::Packed { first, last },
    }
}
