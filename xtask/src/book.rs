//! The book: Markdown files of the repository, with links to the documentation of the crates and to sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

/// The book's table of contents. Its links are relative to its folder, like those of all pages.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The folder of the documentation of the crates in the finished book.
const API: &str = "api";

/// A book that is prepared for mdBook.
#[derive(Debug)]
pub struct Book<'a> {
    root: &'a Path,
    /// The documentation of the crates, as rustdoc wrote it.
    api: &'a Path,
    /// The folder that mdBook reads.
    source: PathBuf,
    /// Paths of the pages from the root.
    pages: BTreeSet<PathBuf>,
}

impl<'a> Book<'a> {
    /// Writes all pages that the table of contents names into a folder, and copies the files to which they link.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn prepare(root: &'a Path, api: &'a Path, source: PathBuf) -> anyhow::Result<Self> {
        let summary = read(&root.join(SUMMARY))?;
        let docs = Path::new(SUMMARY).parent().unwrap_or(Path::new(""));
        let pages = links(&summary).map(|link| normal(&docs.join(link))).collect();
        let book = Self { root, api, source, pages };
        let from_root = |link: &str| Ok(normal(&docs.join(link)).display().to_string());
        write(&book.source.join("SUMMARY.md"), &with_links(&summary, from_root)?)?;
        for page in &book.pages {
            let text = read(&root.join(page))?;
            let text = with_links(&text, |link| book.resolve(page, link))?;
            write(&book.source.join(page), &text)?;
        }
        Ok(book)
    }

    /// Returns the link of a page as it is in the book.
    fn resolve(&self, page: &Path, link: &str) -> anyhow::Result<String> {
        let up = "../".repeat(page.components().count() - 1);
        if let Some(name) = link.strip_prefix("https://docs.rs/") {
            let index = format!("{}/index.html", name.replace('-', "_"));
            let is_ours = self.api.join(&index).is_file();
            return Ok(if is_ours { format!("{up}{API}/{index}") } else { link.to_owned() });
        }
        let (file, _) = link.split_once('#').unwrap_or((link, ""));
        let path = normal(&page.parent().unwrap_or(Path::new("")).join(file));
        if link.contains("://") || file.is_empty() || self.pages.contains(&path) {
            return Ok(link.to_owned());
        }
        Ok(format!("{up}{}", self.place(&path)?))
    }

    /// Returns where a file or folder of the repository is in the book, which is a copy unless rustdoc has a page of it.
    fn place(&self, path: &Path) -> anyhow::Result<String> {
        if let Some(page) = self.source_page(path) {
            return Ok(page);
        }
        let from = self.root.join(path);
        if from.is_dir() {
            let entries = fs::read_dir(&from).with_context(|| from.display().to_string())?;
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            let names: String = names.iter().map(|name| format!("{}\n", name.display())).collect();
            let listing = path.join("files.txt");
            write(&self.source.join(&listing), &names)?;
            return Ok(listing.display().to_string());
        }
        // mdBook copies all files but those of Markdown.
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        let copy = if is_markdown { path.with_extension("md.txt") } else { path.to_owned() };
        write(&self.source.join(&copy), &read(&from)?)?;
        Ok(copy.display().to_string())
    }

    /// Returns rustdoc's page of a source file, if it wrote one.
    fn source_page(&self, path: &Path) -> Option<String> {
        let mut parts = path.iter();
        let package = parts.next()?.to_str()?.replace('-', "_");
        if parts.next()? != "src" {
            return None;
        }
        let page = format!("src/{package}/{}.html", parts.as_path().display());
        self.api.join(&page).is_file().then(|| format!("{API}/{page}"))
    }
}

/// Copies the documentation of the crates into a finished book.
///
/// # Errors
/// A file cannot be read or written.
pub fn add_api(api: &Path, html: &Path) -> anyhow::Result<()> {
    copy(api, &html.join(API))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| to.display().to_string())?;
        }
    }
    Ok(())
}

/// Returns the links of a finished book's pages that lead nowhere, each with its page.
///
/// # Errors
/// A file cannot be read.
pub fn dead_links(html: &Path) -> anyhow::Result<Vec<String>> {
    let mut dead = Vec::new();
    let mut folders = vec![html.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() && path != html.join(API) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html")
                // This page needs a server that knows its own address.
                && path != html.join("404.html")
            {
                dead.extend(dead_links_of(&path, html)?);
            }
        }
    }
    Ok(dead)
}

fn dead_links_of(page: &Path, html: &Path) -> anyhow::Result<Vec<String>> {
    let text = read(page)?;
    let mut dead = Vec::new();
    for link in text.split("href=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)) {
        if link.contains("://") {
            continue;
        }
        let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() {
            page.to_owned()
        } else {
            page.parent().unwrap_or(html).join(file)
        };
        let has_fragment = |text: &str| text.contains(&format!("id=\"{fragment}\""));
        let is_there = target.is_file()
            && (fragment.is_empty()
                || target.starts_with(html.join(API))
                || has_fragment(&read(&target)?));
        if !is_there {
            dead.push(format!("{}: {link}", page.strip_prefix(html).unwrap_or(page).display()));
        }
    }
    Ok(dead)
}

/// Returns the targets of the links in a text, without those in fenced blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let lines = outside_fences(text).filter(|&(_, outside)| outside);
    let rests = lines.flat_map(|(line, _)| line.split("](").skip(1));
    rests.filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// Returns a text with its links replaced, except those in fenced blocks.
fn with_links(
    text: &str,
    replace: impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let mut new = String::new();
    for (line, outside) in outside_fences(text) {
        let mut pieces = line.split("](");
        new.push_str(pieces.next().unwrap_or(""));
        for piece in pieces {
            new.push_str("](");
            match piece.split_once(')').filter(|_| outside) {
                Some((link, rest)) => {
                    new.push_str(&replace(link)?);
                    new.push(')');
                    new.push_str(rest);
                }
                None => new.push_str(piece),
            }
        }
    }
    Ok(new)
}

/// Returns the lines of a text with their ends, and whether each is outside of fenced blocks.
fn outside_fences(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut fenced = false;
    text.split_inclusive('\n').map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (line, !fenced && !is_fence)
    })
}

/// Returns a path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_crates_and_copies() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| write(&folder.path().join(path), text).unwrap();
        file("docs/SUMMARY.md", "# Summary\n- [A](a.md)\n- [Read](../README.md)\n");
        file(
            "docs/a.md",
            "[R](../README.md#x) [s](../one-crate/src/b/c.rs) [k](../k.ld) [f](../one-crate)\n\
             [d](https://docs.rs/one-crate) [o](https://docs.rs/other) [h](#here)\n```\n[x](y)\n```\n",
        );
        file("README.md", "[A](docs/a.md)\n");
        file("one-crate/src/b/c.rs", "");
        file("k.ld", "SECTIONS");
        file("doc/src/one_crate/b/c.rs.html", "");
        file("doc/one_crate/index.html", "");
        let (api, source) = (folder.path().join("doc"), folder.path().join("book/src"));
        Book::prepare(folder.path(), &api, source.clone()).unwrap();
        let made = |path: &str| fs::read_to_string(source.join(path)).unwrap();
        assert_eq!(made("SUMMARY.md"), "# Summary\n- [A](docs/a.md)\n- [Read](README.md)\n");
        assert_eq!(
            made("docs/a.md"),
            "[R](../README.md#x) [s](../api/src/one_crate/b/c.rs.html) [k](../k.ld) [f](../one-crate/files.txt)\n\
             [d](../api/one_crate/index.html) [o](https://docs.rs/other) [h](#here)\n```\n[x](y)\n```\n"
        );
        assert_eq!((&*made("k.ld"), &*made("one-crate/files.txt")), ("SECTIONS", "src\n"));
        assert_eq!(made("README.md"), "[A](docs/a.md)\n");
    }

    #[test]
    fn dead_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| write(&folder.path().join(path), text).unwrap();
        file("a.html", r##"<a href="b/c.html#x"> <a href="#y"> <a href="http://z"> <p id="y">"##);
        file("b/c.html", r##"<p id="x"> <a href="../a.html"> <a href="d.html"> <a href="#z">"##);
        assert_eq!(dead_links(folder.path()).unwrap(), ["b/c.html: d.html", "b/c.html: #z"]);
    }
}
