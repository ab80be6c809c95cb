//! The store of aggregations: merges the snapshots of all CPUs, and performs `clear`, `normalize` and `trunc`
//! (dt_aggregate.c).

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use dtrace_abi::action::Action;

use crate::budget::{Budget, Share, Use};
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::merge;
use crate::render::aggregate::order::Order;
use crate::render::data::bits::u64_of;
use crate::render::data::error::{RenderError, Result};
use crate::render::data::place::Place;
use crate::render::data::symbol::Symbols;
use crate::render::record::catalog::Catalog;
use crate::render::record::description::{AggDescription, Descriptions};

/// All aggregations of a run.
#[derive(Debug, Default)]
pub struct Aggregations {
    /// The elements by variable, size of the value, and keys.
    pub(super) entries: BTreeMap<Vec<u8>, Entry>,
    /// For each variable, the number of elements that `trunc` keeps after the elements of all kernels have been added
    /// up.
    pub(super) kept: BTreeMap<u32, i64>,
    /// The memory of the elements, if they belong to one kernel.
    share: Option<Share>,
}

impl Aggregations {
    /// Returns an empty store for a kernel with this budget.
    pub(in crate::render) fn within(budget: &Budget) -> Self {
        Self { share: Some(budget.share(Use::Aggregations)), ..Self::default() }
    }

    /// Adds the content of a CPU's aggregation buffer since the last snapshot.
    pub(in crate::render) fn snapshot(
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
                // Padding before an aligned element.
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

    /// Performs `clear`: sets all values to zero, and keeps the keys.
    pub(in crate::render) fn clear(&mut self, variable: u32) {
        for entry in self.of(variable) {
            // The first word holds the arguments of these actions, so it is kept.
            let kept = matches!(entry.action, Action::Lquantize | Action::Llquantize);
            entry.words.iter_mut().skip(kept.into()).for_each(|word| *word = 0);
        }
    }

    /// Performs `normalize`: sets the divisor of the values; 0 removes the normalization.
    pub(in crate::render) fn normalize(&mut self, variable: u32, normal: i64) {
        let normal = if normal == 0 { 1 } else { normal };
        self.of(variable).for_each(|entry| entry.normal = normal);
    }

    /// Performs `trunc`: keeps the `count` largest elements, or for a negative `count` the smallest ones.
    pub(in crate::render) fn trunc(&mut self, variable: u32, count: i64) {
        let names: Vec<Vec<u8>> = self.behind(variable, count).cloned().collect();
        for name in names {
            if let (Some(entry), Some(share)) = (self.entries.remove(&name), &mut self.share) {
                share.release(bytes(&name, &entry));
            }
        }
    }

    /// Returns the names of the elements of a variable that are not among the first `count`.
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

    /// Returns the numbers of the aggregations of these variables that have elements, including hidden elements.
    pub(in crate::render) fn ids(&self, variables: &[u32]) -> impl Iterator<Item = u32> {
        let of = self.entries.values().filter(|entry| variables.contains(&entry.variable));
        of.map(|entry| entry.description.id)
    }

    /// Returns the elements that `trunc` has not hidden, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let hidden = self.kept.iter().flat_map(|(&variable, &count)| self.behind(variable, count));
        let hidden: HashSet<&Vec<u8>> = hidden.collect();
        let shown = self.entries.iter().filter(move |(name, _)| !hidden.contains(name));
        shown.map(|(_, entry)| entry)
    }
}

/// Returns the memory of an element in bytes.
fn bytes(name: &[u8], entry: &Entry) -> u64 {
    let variable = name.len() + entry.data.len() + size_of_val(&entry.words[..]);
    (variable + size_of::<(Vec<u8>, Entry)>()) as u64
}

/// Replaces an address in a key of `sym`, `mod`, `usym` or `umod` by the address of its symbol or module, so that all
/// addresses in the symbol or module give one key.
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
