//! Merges the aggregations of several kernels. The kernel's name becomes the first key, unless the program uses the
//! name in its keys.

use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;

use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::merge;
use crate::render::aggregate::store::Aggregations;
use crate::render::record::description::AggDescription;

/// Bytes of a name as a key.
const NAME: usize = 64;

impl Aggregations {
    /// Adds the elements of a kernel for which `wanted` returns true. `host`, if given, becomes the first key of each element.
    pub(crate) fn absorb(
        &mut self,
        host: Option<&str>,
        other: &Self,
        wanted: impl Fn(&Entry) -> bool,
    ) {
        self.kept.extend(&other.kept);
        for (name, entry) in other.entries.iter().filter(|(_, entry)| wanted(entry)) {
            let (name, entry) = match host {
                Some(host) => (named(name, host), keyed(entry, host)),
                None => (name.clone(), entry.clone()),
            };
            match self.entries.get_mut(&name) {
                Some(known) => merge::merge(entry.action, &mut known.words, &entry.words),
                None => _ = self.entries.insert(name, entry),
            }
        }
    }

    /// Performs `trunc` for one of several kernels whose elements are added up. The first elements are known only after
    /// the addition. So the elements beyond them are hidden, not removed: together with those of other kernels, they
    /// may be among the first.
    pub(crate) fn trunc_sum(&mut self, variable: u32, count: i64) {
        if count == 0 {
            self.kept.remove(&variable);
            self.trunc(variable, 0);
        } else {
            self.kept.insert(variable, count);
        }
    }
}

/// Inserts a kernel's name as the first key into the name of an element. A name begins with the variable and the size
/// of the value; the keys follow.
fn named(name: &[u8], host: &str) -> Vec<u8> {
    let (before, keys) = name.split_at(name.len().min(12));
    [before, &(host.len() as u64).to_le_bytes(), host.as_bytes(), keys].concat()
}

fn keyed(entry: &Entry, host: &str) -> Entry {
    let description = &entry.description;
    let mut data = entry.data.clone();
    let key = RecordDesc {
        action: Action::DifExpr.number(),
        size: NAME as u32,
        offset: data.len() as u32,
        alignment: 1,
        ..RecordDesc::EMPTY
    };
    let mut text = host.as_bytes().to_vec();
    // The name ends with a NUL.
    text.truncate(NAME - 1);
    text.resize(NAME, 0);
    data.extend(text);
    let mut records = description.records.clone();
    records.insert(records.len().min(1), key);
    let mut names = description.names.clone();
    names.insert(0, None);
    let mut variables = description.variables.clone();
    variables.insert(0, Some("hostname"));
    let description =
        AggDescription { records, names, variables, ..AggDescription::clone(description) };
    Entry { description: Rc::new(description), data, ..entry.clone() }
}

#[cfg(test)]
mod tests {
    use dtrace_compiler::options::Options;

    use super::*;

    fn aggregations(key: u32, count: i64) -> Aggregations {
        let record = |action: Action, offset, size| RecordDesc {
            action: action.number(),
            offset,
            size,
            ..RecordDesc::EMPTY
        };
        let records = vec![
            record(Action::DifExpr, 4, 4),
            record(Action::DifExpr, 8, 4),
            record(Action::Count, 16, 8),
        ];
        let description = AggDescription {
            id: 1,
            variable: 1,
            name: "a".into(),
            epid: 1,
            size: 24,
            records,
            names: Vec::new(),
            variables: Vec::new(),
        };
        let mut data = vec![0; 24];
        data[8..12].copy_from_slice(&key.to_le_bytes());
        let description = Rc::new(description);
        let words = vec![count];
        let entry =
            Entry { description, variable: 1, action: Action::Count, data, words, normal: 1 };
        let mut all = Aggregations::default();
        all.entries.insert([&[0; 12][..], &key.to_le_bytes()].concat(), entry);
        all
    }

    fn keys(entry: &Entry) -> Vec<Vec<u8>> {
        entry.keys().map(|key| key.data.to_vec()).collect()
    }

    #[test]
    fn names_are_keys() {
        let mut all = Aggregations::default();
        for (host, count) in [("a", 3), ("b", 4), ("b", 5)] {
            all.absorb(Some(host), &aggregations(7, count), |_| true);
        }
        let shown: Vec<_> = all.entries().map(|of| (keys(of), of.words[0])).collect();
        assert_eq!(shown.len(), 2);
        assert_eq!(&shown[0].0[0][..2], b"a\0");
        assert_eq!((&shown[1].0[1][..], shown[1].1), (&7_u32.to_le_bytes()[..], 9));
    }

    #[test]
    fn without_names_kernels_are_as_cpus() {
        let mut all = Aggregations::default();
        for (key, count) in [(7, 3), (7, 4), (8, 5)] {
            all.absorb(None, &aggregations(key, count), |_| true);
        }
        let counts: Vec<_> = all.entries().map(|entry| entry.words[0]).collect();
        assert_eq!(counts, [7, 5]);
    }

    /// Key 7 is second in each kernel and first in the sum, so no kernel may discard it at its own `trunc`.
    #[test]
    fn first_are_those_of_the_sum() {
        let host = |counts: [(u32, i64); 2]| {
            let mut host = Aggregations::default();
            for (key, count) in counts {
                host.absorb(None, &aggregations(key, count), |_| true);
            }
            host.trunc_sum(1, 1);
            host
        };
        let shown = |of: &Aggregations| -> Vec<_> {
            of.entries().map(|entry| (keys(entry)[0][0], entry.words[0])).collect()
        };
        let mut hosts = [host([(5, 10), (7, 9)]), host([(6, 10), (7, 8)])];
        assert_eq!(hosts.each_ref().map(shown), [[(5, 10)], [(6, 10)]]);
        let sum = |hosts: &[Aggregations]| {
            let mut all = Aggregations::default();
            hosts.iter().for_each(|host| all.absorb(None, host, |_| true));
            all
        };
        assert_eq!(shown(&sum(&hosts)), [(7, 17)]);
        assert_eq!(sum(&hosts).table(&Options::default(), |_| true).rows.len(), 1);
        // Removes all elements of one kernel.
        hosts[0].trunc_sum(1, 0);
        assert_eq!(shown(&sum(&hosts)), [(6, 10)]);
        hosts[1].trunc_sum(1, 0);
        assert!(shown(&sum(&hosts)).is_empty());
    }
}
