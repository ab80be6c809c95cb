//! Compares the table in `docs/kernels.md`, which lists the contexts of each function, with the public functions, and
//! with their behaviour when a `Kernel` calls them while a clause runs.
#![cfg(all(feature = "noise", not(miri)))]

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod functions;
mod several;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use calls::Outcome;

/// Returns the rows of the table: each function, and the first word of the column for probe context.
fn table() -> BTreeMap<String, String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kernels.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, section) = text.split_once("\n## Which function may be called where\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, probe, _, _] = cells[..] else { panic!("{line}") };
        for name in names.split('`').skip(1).step_by(2) {
            let first = probe.split([' ', ':']).next().unwrap();
            assert_eq!(
                rows.insert(name.to_owned(), first.to_owned()),
                None,
                "{name} is there twice"
            );
        }
    }
    assert!(rows.len() > 90, "{rows:?}");
    rows
}

#[test]
fn the_table_lists_each_public_function_and_no_other() {
    let table: BTreeSet<String> = table().into_keys().collect();
    let mut missing = Vec::new();
    let mut used = BTreeSet::new();
    for function in functions::all() {
        let owner = format!("{}::*", function.split("::").next().unwrap());
        match [function.clone(), owner].iter().find(|name| table.contains(*name)) {
            Some(name) => drop(used.insert(name.clone())),
            None => missing.push(function),
        }
    }
    assert_eq!(missing, [""; 0], "not in the table");
    let gone: Vec<_> = table.difference(&used).collect();
    assert_eq!(gone, [""; 0], "in the table, and no public function");
}

/// Types that have one row for all of their functions do not call a framework: no code in their files locks, waits, or calls a
/// host.
#[test]
fn what_works_anywhere_reaches_no_framework() {
    for (owner, text) in functions::files_of_values(&table()) {
        for word in ["Dtrace", ".lock()", ".sync()", "Host"] {
            assert!(!text.contains(word), "{owner}: {word}");
        }
    }
}

#[test]
fn each_function_does_in_probe_context_what_the_table_says() {
    let table = table();
    let mut left: BTreeSet<&String> = table.keys().filter(|name| !name.ends_with("::*")).collect();
    for (name, call) in calls::all() {
        let expected = match table.get(name).map(String::as_str) {
            Some("refuses") => Outcome::Refused,
            Some("works") => Outcome::Worked,
            other => panic!("{name}: {other:?}"),
        };
        let world = world::World::new();
        let found = world.in_probe_context(call);
        assert_eq!(found, expected, "{name}");
        world.is_whole(name);
        left.remove(&name.to_owned());
    }
    calls::ELSEWHERE.iter().for_each(|name| assert!(left.remove(&(*name).to_owned()), "{name}"));
    assert_eq!(left, BTreeSet::new(), "functions that no call is made of");
}
