//! The four layers: each imports only those before it in the list, and no circle of imports has more than two files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The layers from the bottom to the top: the base, the layers of `docs/architecture.md`, the facade and its users.
const LAYERS: [&[&str]; 7] = [
    &["base", "kernel"],
    &["machine"],
    &["run"],
    &["registry"],
    &["control"],
    &["dtrace"],
    &["smp", "testing", "lib"],
];

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else if path.file_name().unwrap() != "tests.rs" {
            into.push(path);
        }
    }
}

/// A file as its path in the crate: `run::fire`; a folder's `mod.rs` as the folder.
fn module(source: &Path, path: &Path) -> Vec<String> {
    let mut parts: Vec<String> = path
        .strip_prefix(source)
        .unwrap()
        .with_extension("")
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Returns the code of a file without comments, strings and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).fold(
        String::new(),
        |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        },
    )
}

/// All paths that begin with `crate::`, `super::` or `self::`, with braces written out, as parts.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            expand(&code[at..], Vec::new(), &mut all);
        }
    }
    all
}

/// Reads one path; returns the rest of the text.
fn expand<'t>(text: &'t str, mut prefix: Vec<String>, all: &mut Vec<Vec<String>>) -> &'t str {
    let mut rest = text.trim_start();
    loop {
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if length > 0 {
            prefix.push(rest[..length].to_owned());
            rest = &rest[length..];
        }
        if let Some(inner) = rest.strip_prefix("::") {
            rest = inner;
            continue;
        }
        if let Some(mut inner) = rest.strip_prefix('{')
            && prefix.last().is_some()
        {
            loop {
                inner = expand(inner, prefix.clone(), all).trim_start();
                match inner.strip_prefix(',') {
                    Some(more) => inner = more,
                    None => return inner.strip_prefix('}').unwrap_or(inner),
                }
            }
        }
        all.push(prefix);
        return rest.strip_prefix(" as _").unwrap_or(rest);
    }
}

/// Returns the imports of each file.
fn imports() -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    let modules: BTreeSet<_> = found.iter().map(|path| module(&source, path)).collect();
    let mut all = BTreeMap::new();
    for path in &found {
        let this = module(&source, path);
        let is_folder = path.file_name().unwrap() == "mod.rs";
        let mut targets = BTreeSet::new();
        for path in paths(&code(&std::fs::read_to_string(path).unwrap())) {
            let mut absolute = match path[0].as_str() {
                "crate" => path[1..].to_vec(),
                "self" => [&this[..], &path[1..]].concat(),
                _ => {
                    let up = path.iter().take_while(|part| *part == "super").count();
                    let depth = this.len() - up + usize::from(is_folder && up == 0);
                    [&this[..depth], &path[up..]].concat()
                }
            };
            // The file in which the item is.
            while !modules.contains(&absolute) && absolute.pop().is_some() {}
            if !absolute.is_empty() && absolute != this {
                targets.insert(absolute);
            }
        }
        all.insert(this, targets);
    }
    all
}

fn layer(module: &[String]) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&module[0].as_str()))
        .unwrap_or_else(|| panic!("{module:?} is in no layer"))
}

#[test]
fn layers_import_downwards() {
    let mut upward = Vec::new();
    for (from, targets) in imports() {
        for to in targets {
            if layer(&to) > layer(&from) {
                upward.push(format!("{} imports {}", from.join("::"), to.join("::")));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

/// The machine imports only the trait `Kernel`, and atomics and memory of the base.
#[test]
fn the_machine_stands_alone() {
    for (from, targets) in imports() {
        if from[0] != "machine" {
            continue;
        }
        for to in targets {
            let path = to.join("::");
            let is_allowed = to[0] == "machine"
                || ["kernel", "base::prefix", "base::sync", "base::word"].contains(&path.as_str());
            assert!(is_allowed, "{} imports {path}", from.join("::"));
        }
    }
}

/// No two files import each other, directly or through others, except a folder's `mod.rs`, which lists its files.
#[test]
fn no_circle_has_more_than_two_files() {
    let imports = imports();
    let reaches = |from: &Vec<String>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(next) = open.pop() {
            for to in imports.get(&next).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<_, _> = imports.keys().map(|of| (of.clone(), reaches(of))).collect();
    let mut circles = BTreeSet::new();
    for (from, reached) in &all {
        let circle: BTreeSet<_> =
            reached.iter().filter(|to| all[*to].contains(from)).cloned().collect();
        if circle.len() > 2 {
            circles.insert(circle.iter().map(|of| of.join("::")).collect::<Vec<_>>());
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn paths_are_found() {
    let code = "use crate::base::{arena::Arena, sync::{AtomicU32, Ordering}};\nuse super::x;";
    let expected = [
        "crate base arena Arena",
        "crate base sync AtomicU32",
        "crate base sync Ordering",
        "super x",
    ];
    let found: Vec<_> = paths(code).iter().map(|path| path.join(" ")).collect();
    assert_eq!(found, expected);
}
