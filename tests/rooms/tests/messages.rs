//! Compares the messages of each published crate with a file, so that a review shows every change, and checks that their wording
//! is plain.

use std::path::Path;

use rooms::Package;
use rooms::messages::messages;
use rooms::tree::Tree;

/// With this variable set to `overwrite`, the test writes the files.
const VARIABLE: &str = "MESSAGES";

/// Wording that stops a reader. CONTRIBUTING.md says how to write messages.
const UNCLEAR: [&str; 30] = [
    "anybody",
    "somebody",
    "nobody",
    "whoever",
    "such a one",
    "but for",
    "who is",
    "who has",
    "who may",
    "is said",
    "is told",
    "what is",
    "not there",
    "which is there",
    "is gone",
    "have gone",
    "had back",
    "let go",
    "goes on",
    "goes by",
    "stays as it",
    "is none of",
    "was to ",
    "has to be",
    "have to be",
    "look into",
    "looks into",
    "or the like",
    "hand over",
    "says of",
];

/// Returns the messages of a published crate, a line each: the file, and the literal.
fn lines(package: &Package) -> Vec<String> {
    let roots = std::iter::once(&package.root).chain(&package.programs);
    let mut lines = Vec::new();
    for root in roots {
        let folder = root.ancestors().find(|of| of.join("Cargo.toml").exists());
        let found = messages(&Tree::read(root), folder.expect("a crate has a manifest"));
        lines.extend(found.into_iter().map(|(file, text)| format!("{file}: {text:?}")));
    }
    lines.dedup();
    lines
}

fn published() -> Vec<Package> {
    rooms::packages().into_iter().filter(|package| package.is_published).collect()
}

#[test]
fn messages_are_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("messages");
    let overwrite = std::env::var_os(VARIABLE).is_some_and(|value| value == "overwrite");
    let mut changed = Vec::new();
    for package in published() {
        let file = folder.join(format!("{}.txt", package.name));
        let found = lines(&package);
        if overwrite {
            std::fs::write(&file, found.iter().map(|line| format!("{line}\n")).collect::<String>())
                .unwrap();
            continue;
        }
        let listed = std::fs::read_to_string(&file).unwrap_or_default();
        let listed: Vec<&str> = listed.lines().collect();
        if found != listed {
            let missing = listed.iter().filter(|line| !found.iter().any(|of| of == *line));
            let new = found.iter().filter(|line| !listed.contains(&&***line));
            let missing = missing.map(|line| format!("- {line}"));
            let lines: Vec<_> = missing.chain(new.map(|line| format!("+ {line}"))).collect();
            changed.push(format!("{}:\n{}", package.name, lines.join("\n")));
        }
    }
    assert!(
        changed.is_empty(),
        "messages have changed. Read them as a user: what failed, on which object, why, and what to do. Then accept them:\n\n    \
         {VARIABLE}=overwrite cargo test -p rooms --test messages\n\n{}",
        changed.join("\n")
    );
}

#[test]
fn messages_are_plain() {
    let mut unclear = Vec::new();
    for package in published() {
        for line in lines(&package) {
            let text = line.to_lowercase();
            if let Some(wording) = UNCLEAR.iter().find(|wording| text.contains(**wording)) {
                unclear.push(format!("{}: \"{wording}\" in {line}", package.name));
            }
        }
    }
    assert!(
        unclear.is_empty(),
        "messages with unclear wording: name the subject, and use the terms of the field\n{}",
        unclear.join("\n")
    );
}
