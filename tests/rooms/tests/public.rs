//! Compares the public items of each published crate with a file, so that a review shows every change.

use std::path::Path;

use rooms::public;
use rooms::tree::Tree;

/// With this variable set to `overwrite`, the test writes the files.
const VARIABLE: &str = "PUBLIC_ITEMS";

/// Lines that are in one text and not in the other.
fn missing<'a>(from: &'a str, in_other: &'a str, sign: char) -> impl Iterator<Item = String> + 'a {
    let is_missing = move |line: &&str| !in_other.lines().any(|other| other == *line);
    from.lines().filter(is_missing).map(move |line| format!("{sign} {line}"))
}

#[test]
fn public_items_are_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("public");
    let overwrite = std::env::var_os(VARIABLE).is_some_and(|value| value == "overwrite");
    let published: Vec<_> =
        rooms::packages().into_iter().filter(|package| package.is_published).collect();
    assert!(published.len() >= 9, "{published:?}");
    let mut changed = Vec::new();
    for package in published {
        let file = folder.join(format!("{}.txt", package.name));
        let found = public::items(&Tree::read(&package.root), &package.name);
        if overwrite {
            std::fs::write(&file, &found).unwrap();
            continue;
        }
        let listed = std::fs::read_to_string(&file).unwrap_or_default();
        if found != listed {
            let lines = missing(&listed, &found, '-').chain(missing(&found, &listed, '+'));
            changed.push(format!("{}:\n{}", package.name, lines.collect::<Vec<_>>().join("\n")));
        }
    }
    assert!(
        changed.is_empty(),
        "public items have changed. If that is meant, accept it, and tell users in CHANGELOG.md:\n\n    \
         {VARIABLE}=overwrite cargo test -p rooms --test public\n\n{}",
        changed.join("\n")
    );
}
