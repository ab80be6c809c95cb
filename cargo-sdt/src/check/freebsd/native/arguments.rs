//! `struct sdt_argtype`.

use std::collections::BTreeMap;

use sdt_core::ops::ARG_TYPE_LEN;

use super::record::Record;
use super::{ARGUMENTS, PROBES};
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::freebsd::sets::elements;
use crate::check::image::{Image, Target};

const SIZE: u64 = 48;
const INDEX: u64 = 0;
const TYPE: u64 = 8;
const TRANSLATED: u64 = 16;
const ENTRY: u64 = 24;
const PROBE: u64 = 40;

pub(super) fn check(image: &Image<'_>, probes: &BTreeMap<Target, String>, findings: &mut Findings) {
    let mut indices = BTreeMap::<Target, Vec<i32>>::new();
    for (_, _, at) in elements(image, ARGUMENTS) {
        let record = Record::new(image, at);
        if !record.is_sound("a struct sdt_argtype", SIZE, findings) {
            continue;
        }
        record.check_zero("the list entry of a struct sdt_argtype", ENTRY..PROBE, findings);
        type_name(record, TYPE, "the argument's type", findings);
        type_name(record, TRANSLATED, "the argument's translated type", findings);
        match record.address(PROBE).filter(|probe| probes.contains_key(probe)) {
            Some(probe) => {
                let index = record.number(INDEX).unwrap_or_default().cast_signed();
                indices.entry(probe).or_default().push(index);
            }
            None => {
                let problem = Problem::NotRecord { what: "the argument's probe", set: PROBES };
                record.report(PROBE, problem, findings);
            }
        }
    }
    for (probe, mut found) in indices {
        found.sort_unstable();
        if !found.iter().copied().eq(0..found.len() as i32) {
            let words: Vec<_> = found.iter().map(ToString::to_string).collect();
            let (probe_name, found) = (probes[&probe].clone(), words.join(", "));
            let problem = Problem::ArgumentIndices { probe: probe_name, found };
            Record::new(image, probe).report(0, problem, findings);
        }
    }
}

/// The kernel takes NULL for no type at all.
fn type_name(record: Record<'_, '_>, member: u64, what: &'static str, findings: &mut Findings) {
    if record.is_null(member) {
        return;
    }
    match record.string(member) {
        None => record.report(member, Problem::NotAddress(what), findings),
        Some(name) if name.len() >= ARG_TYPE_LEN => {
            let reason = format!("is longer than {} bytes", ARG_TYPE_LEN - 1);
            let problem = Problem::Name { element: "argument type", name, reason };
            record.report(member, problem, findings);
        }
        Some(_) => {}
    }
}
