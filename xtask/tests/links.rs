//! The targets of the documentation exist: links, their headings, and named paths.

use std::path::{Path, PathBuf};

use harness::workspace;

/// A page of the documentation. Its path is relative to the root of the workspace.
struct Text {
    path: PathBuf,
    /// The text without fenced blocks.
    lines: Vec<String>,
}

impl Text {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(workspace::root().join(path));
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut fenced = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            if !fenced && !fence {
                lines.push(line.to_owned());
            }
        }
        Self { path: path.to_owned(), lines }
    }

    /// Returns the targets of its links.
    fn links(&self) -> impl Iterator<Item = &str> {
        let all = self.lines.iter().flat_map(|line| line.split("](").skip(1));
        all.filter_map(|rest| Some(rest.split_once(')')?.0))
    }

    /// Returns the parts in backticks on one line.
    fn code(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flat_map(|line| line.split('`').skip(1).step_by(2))
    }

    /// Returns its headings in the form of link fragments.
    fn anchors(&self) -> Vec<String> {
        let headings = self.lines.iter().filter(|line| line.starts_with('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }
}

/// Returns a heading as a link fragment: lower-case letters, hyphens for spaces, and no punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the texts for readers: of the root, of `docs/` and `docs/internals/`, and each crate's README.
fn texts() -> Vec<Text> {
    let root = workspace::root();
    let folders = std::fs::read_dir(root).expect("the root").flatten().map(|entry| entry.path());
    let readmes = folders.filter(|path| path.is_dir()).map(|path| path.join("README.md"));
    let files = [root.to_owned(), root.join("docs"), root.join("docs/internals")]
        .map(|folder| std::fs::read_dir(folder).expect("a folder").flatten());
    let files = files.into_iter().flatten().map(|entry| entry.path());
    let mut all: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .chain(readmes.filter(|path| path.is_file()))
        .collect();
    all.sort();
    all.iter().map(|path| Text::read(path.strip_prefix(root).expect("below the root"))).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for text in texts() {
        for link in text.links().filter(|link| !link.contains("://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let folder = text.path.parent().expect("a file");
            let file = if file.is_empty() { text.path.clone() } else { folder.join(file) };
            let there = workspace::root().join(&file).exists();
            assert!(there, "{}: {link} is not there", text.path.display());
            if !fragment.is_empty() {
                let anchors = Text::read(&file).anchors();
                let there = anchors.iter().any(|of| of == fragment);
                assert!(there, "{}: {link} is none of {anchors:?}", text.path.display());
            }
            count += 1;
        }
    }
    assert!(count > 100, "there are links");
}

/// Paths from the root, such as `sdt-core/src/lib.rs`, exist.
#[test]
fn paths_are_there() {
    let mut count = 0;
    for name in ["CONTRIBUTING.md", "README.md"] {
        let text = Text::read(Path::new(name));
        for path in text.code().filter(|code| !code.contains([' ', '<', '='])) {
            let Some((first, _)) = path.split_once('/') else { continue };
            if !first.is_empty() && workspace::root().join(first).is_dir() {
                assert!(workspace::root().join(path).exists(), "{name}: {path} is not there");
                count += 1;
            }
        }
    }
    assert!(count > 30, "paths are named");
}

/// Each page of `docs/` is in the book.
#[test]
fn each_page_is_in_the_table_of_contents() {
    let summary = Text::read(Path::new("docs/SUMMARY.md"));
    let links: Vec<_> = summary.links().collect();
    for text in texts() {
        let Ok(page) = text.path.strip_prefix("docs") else { continue };
        let is_there = links.iter().any(|link| Path::new(link) == page);
        assert!(is_there || page == Path::new("SUMMARY.md"), "{} is not in it", page.display());
    }
}

#[test]
fn headings_are_linked_as_they_are() {
    assert_eq!(
        anchor("From a `sdt_probe!` to stack() and caller"),
        "from-a-sdt_probe-to-stack-and-caller"
    );
}
