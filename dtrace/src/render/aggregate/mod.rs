//! Aggregations: snapshots of all CPUs as one, and what programs do with them (dt_aggregate.c).

mod hosts;
mod merge;
mod order;
mod table;

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use dtrace_abi::action::Action;

use super::bits::u64_of;
use super::description::{AggDescription, Catalog, Descriptions};
use super::error::{RenderError, Result};
use super::place::Place;
use super::symbol::Symbols;
use super::value::Argument;
use crate::budget::{Budget, Share, Use};

pub(super) use order::Order;
pub use table::{Row, Scale, Table};

/// An element of an aggregation: one tuple of keys and what it has come to.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The aggregation's description.
    pub description: Rc<AggDescription>,
    /// Number of the variable.
    pub variable: u32,
    /// What it aggregates by.
    pub action: Action,
    /// The record that its keys are in.
    data: Vec<u8>,
    /// The value: one number of 64 bits, or several by the kind of aggregation.
    pub words: Vec<i64>,
    /// What the value is divided by when it is shown.
    pub normal: i64,
}

impl Entry {
    /// Its keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = Argument<'_>> {
        self.description.keys().iter().map(|key| {
            let begin = key.offset as usize;
            Argument {
                action: Action::from_number(key.action).unwrap_or(Action::DifExpr),
                argument: key.arg,
                data: self.data.get(begin..begin + key.size as usize).unwrap_or_default(),
            }
        })
    }

    /// Its value as the one number that is shown, normalized; a distribution is none.
    pub fn number(&self) -> Option<i64> {
        self.number_over(self.normal)
    }

    fn number_over(&self, normal: i64) -> Option<i64> {
        let word = |index: usize| self.words.get(index).copied().unwrap_or(0);
        let over = |value: i64, by: i64| value.checked_div(by).unwrap_or(0);
        match self.action {
            Action::Avg => Some(over(over(word(1), normal), word(0))),
            Action::Stddev => Some(merge::deviation(&self.words, normal) as i64),
            Action::Quantize | Action::Lquantize | Action::Llquantize => None,
            _ => Some(over(word(0), normal)),
        }
    }

    /// An element with the same keys, of another aggregation, to which nothing was ever added.
    fn zero(&self, description: Rc<AggDescription>, variable: u32) -> Self {
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

/// All aggregations of a run.
#[derive(Debug, Default)]
pub struct Aggregations {
    /// By variable, size of the value, and keys.
    entries: BTreeMap<Vec<u8>, Entry>,
    /// By variable, how many elements are to be left once those of all kernels have been added up.
    kept: BTreeMap<u32, i64>,
    /// What they take of a kernel's memory, where they are a kernel's.
    share: Option<Share>,
}

impl Aggregations {
    /// None yet, of a kernel that has so much memory.
    pub(super) fn within(budget: &Budget) -> Self {
        Self { share: Some(budget.share(Use::Aggregations)), ..Self::default() }
    }

    /// Adds what a CPU has aggregated since the last snapshot.
    pub(super) fn snapshot(
        &mut self,
        buffer: &[u8],
        catalog: &mut Catalog,
        from: &mut dyn Descriptions,
        symbols: &dyn Symbols,
    ) -> Result {
        let mut rest = buffer;
        while let Some(id) = rest.get(..4) {
            let id = u64_of(id) as u32;
            if id == 0 {
                // Filler before an element that has to be aligned.
                rest = &rest[4..];
                continue;
            }
            let description = catalog.aggregation(from, id)?;
            if description.size < 4 || description.size > rest.len() {
                return Err(RenderError::Offset);
            }
            let (element, behind) = rest.split_at(description.size);
            self.add(description, element, symbols)?;
            rest = behind;
        }
        Ok(())
    }

    fn add(
        &mut self,
        description: Rc<AggDescription>,
        element: &[u8],
        symbols: &dyn Symbols,
    ) -> Result {
        let inside = |offset: u32, size: u32| {
            let begin = offset as usize;
            element.get(begin..begin.saturating_add(size as usize)).ok_or(RenderError::Offset)
        };
        let action = description.action().ok_or(RenderError::Mismatch)?;
        let value = description.value().ok_or(RenderError::Mismatch)?;
        let words = merge::words(action, inside(value.offset, value.size)?)?;
        let variable = match (description.variable, &description.records[..]) {
            (0, [first, _, ..]) => u64_of(inside(first.offset, first.size)?) as u32,
            (variable, _) => variable,
        };
        let mut data = element.to_vec();
        let mut name = variable.to_be_bytes().to_vec();
        name.extend((words.len() as u64).to_le_bytes());
        for key in description.keys() {
            inside(key.offset, key.size)?;
            let range = key.offset as usize..key.offset as usize + key.size as usize;
            gather(Action::from_number(key.action), &mut data[range.clone()], symbols);
            name.extend(key.size.to_le_bytes());
            name.extend(&data[range]);
        }
        match self.entries.get_mut(&name) {
            Some(entry) => merge::merge(action, &mut entry.words, &words),
            None => {
                let entry = Entry { description, variable, action, data, words, normal: 1 };
                if let Some(share) = &mut self.share {
                    share.add(bytes(&name, &entry))?;
                }
                self.entries.insert(name, entry);
            }
        }
        Ok(())
    }

    fn of(&mut self, variable: u32) -> impl Iterator<Item = &mut Entry> {
        self.entries.values_mut().filter(move |entry| entry.variable == variable)
    }

    /// `clear`: keys stay, values go.
    pub(super) fn clear(&mut self, variable: u32) {
        for entry in self.of(variable) {
            // The arguments of these stand before the buckets.
            let kept = matches!(entry.action, Action::Lquantize | Action::Llquantize);
            entry.words.iter_mut().skip(kept.into()).for_each(|word| *word = 0);
        }
    }

    /// `normalize`; by 0 it is taken back, as nothing is divided by that.
    pub(super) fn normalize(&mut self, variable: u32, normal: i64) {
        let normal = if normal == 0 { 1 } else { normal };
        self.of(variable).for_each(|entry| entry.normal = normal);
    }

    /// `trunc`: the first so many stay, of the largest, or if negative of the smallest.
    pub(super) fn trunc(&mut self, variable: u32, count: i64) {
        let names: Vec<Vec<u8>> = self.behind(variable, count).cloned().collect();
        for name in names {
            if let (Some(entry), Some(share)) = (self.entries.remove(&name), &mut self.share) {
                share.release(bytes(&name, &entry));
            }
        }
    }

    /// The names of those that are not among the first so many of a variable.
    fn behind(&self, variable: u32, count: i64) -> impl Iterator<Item = &Vec<u8>> {
        let of = self.entries.iter().filter(|(_, entry)| entry.variable == variable);
        let mut sorted: Vec<_> = of.collect();
        sorted.sort_by(|left, right| Order::default().value_then_key(left.1, right.1));
        if count >= 0 {
            sorted.reverse();
        }
        let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        sorted.into_iter().skip(kept).map(|(name, _)| name)
    }

    /// Numbers of the aggregations of some variables that there are elements of, shown or not.
    pub(super) fn ids(&self, variables: &[u32]) -> impl Iterator<Item = u32> {
        let of = self.entries.values().filter(|entry| variables.contains(&entry.variable));
        of.map(|entry| entry.description.id)
    }

    /// All elements, in no order that means anything.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let hidden = self.kept.iter().flat_map(|(&variable, &count)| self.behind(variable, count));
        let hidden: HashSet<&Vec<u8>> = hidden.collect();
        let shown = self.entries.iter().filter(move |(name, _)| !hidden.contains(name));
        shown.map(|(_, entry)| entry)
    }
}

/// Bytes that an element takes.
fn bytes(name: &[u8], entry: &Entry) -> u64 {
    let variable = name.len() + entry.data.len() + size_of_val(&entry.words[..]);
    (variable + size_of::<(Vec<u8>, Entry)>()) as u64
}

/// Addresses of one symbol or module are one key: the first of them.
fn gather(action: Option<Action>, key: &mut [u8], symbols: &dyn Symbols) {
    let Some(place) = action.and_then(|action| Place::read(action, 0, key)) else { return };
    let (at, address) = match place {
        Place::Symbol(address) => (0, symbols.symbol(address).map(|symbol| symbol.address)),
        Place::Module(address) => (0, symbols.module(address).map(|module| module.address)),
        Place::UserSymbol(pid, address) => {
            (8, symbols.user_symbol(pid, address).map(|symbol| symbol.address))
        }
        Place::UserModule(pid, address) => {
            (8, symbols.user_module(pid, address).map(|module| module.address))
        }
        _ => return,
    };
    if let (Some(address), Some(bytes)) = (address, key.get_mut(at..at + 8)) {
        bytes.copy_from_slice(&address.to_le_bytes());
    }
}
