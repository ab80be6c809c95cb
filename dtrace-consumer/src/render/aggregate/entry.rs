//! Elements of aggregations.

use std::rc::Rc;

use dtrace_abi::action::Action;

use crate::render::aggregate::merge;
use crate::render::data::argument::Argument;
use crate::render::record::description::AggDescription;

/// An element of an aggregation: one tuple of keys, and its aggregated value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The aggregation's description.
    pub description: Rc<AggDescription>,
    /// Number of the variable.
    pub variable: u32,
    /// The aggregating action.
    pub action: Action,
    /// The record that its keys are in.
    pub(super) data: Vec<u8>,
    /// The value: one number of 64 bits, or several by the kind of aggregation.
    pub words: Vec<i64>,
    /// The divisor of the value when it is shown.
    pub normal: i64,
}

impl Entry {
    /// Returns the keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = Argument<'_>> {
        self.description.keys().iter().enumerate().map(|(index, key)| {
            let begin = key.offset as usize;
            Argument {
                action: Action::from_number(key.action).unwrap_or(Action::DifExpr),
                argument: key.arg,
                name: self.description.names.get(index).and_then(Option::as_deref),
                variable: self.description.variables.get(index).copied().flatten(),
                data: self.data.get(begin..begin + key.size as usize).unwrap_or_default(),
            }
        })
    }

    /// Returns the normalized value as one number; `None` for a distribution.
    pub fn number(&self) -> Option<i64> {
        self.number_over(self.normal)
    }

    pub(super) fn number_over(&self, normal: i64) -> Option<i64> {
        let word = |index: usize| self.words.get(index).copied().unwrap_or(0);
        let over = |value: i64, by: i64| value.checked_div(by).unwrap_or(0);
        match self.action {
            Action::Avg => Some(over(over(word(1), normal), word(0))),
            Action::Stddev => Some(merge::deviation(&self.words, normal) as i64),
            Action::Quantize | Action::Lquantize | Action::Llquantize => None,
            _ => Some(over(word(0), normal)),
        }
    }

    /// Returns an element with the same keys for another aggregation, with the initial value.
    pub(super) fn zero(&self, description: Rc<AggDescription>, variable: u32) -> Self {
        let action = description.action().unwrap_or(self.action);
        let value = description.value();
        let count = value.map_or(0, |value| value.size as usize / 8);
        let mut words = vec![0; count.min(merge::WORDS)];
        if let (Action::Lquantize | Action::Llquantize, Some(first)) = (action, words.first_mut()) {
            *first = value.map_or(0, |value| value.arg as i64);
        }
        Self { description, variable, action, words, normal: 1, data: self.data.clone() }
    }
}
