//! No circle of imports: among more than two files of a crate, or between its folders.

use std::path::{Path, PathBuf};

use rooms::circle;
use rooms::imports::{self, Imports};
use rooms::tree::Tree;

/// Returns the circles of a crate, of files and of folders: a line for each import.
fn circles(root: &Path) -> Vec<String> {
    let tree = Tree::read(root);
    let source = root.parent().expect("a file is in a folder");
    let files = imports::files(&tree);
    let name = |path: &Path| path.strip_prefix(source).unwrap_or(path).display().to_string();
    let shown = |imports: &Imports, circle: Vec<PathBuf>| {
        let next = circle.iter().cycle().skip(1);
        let lines = circle.iter().zip(next).map(|(from, to)| {
            let path = &imports[&(from.clone(), to.clone())];
            format!("  {} imports {} ({path})", name(from), name(to))
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let circle = |imports: &Imports, least| {
        circle::find(&imports::graph(imports), least).map(|circle| shown(imports, circle))
    };
    let mut found: Vec<String> = circle(&files, 3).into_iter().collect();
    let mut folders: Vec<PathBuf> = tree
        .modules
        .iter()
        .flat_map(|module| module.file.ancestors().skip(1))
        .filter(|folder| folder.starts_with(source))
        .map(Path::to_owned)
        .collect();
    folders.sort();
    folders.dedup();
    let rooms = folders.iter().map(|folder| imports::folders(&files, folder));
    found.extend(rooms.filter_map(|rooms| circle(&rooms, 2)));
    found
}

#[test]
fn no_crate_has_a_circle_of_imports() {
    let mut wrong = Vec::new();
    for package in rooms::packages() {
        let circles = circles(&package.root);
        if !circles.is_empty() {
            wrong.push(format!("{} has a circle:\n{}", package.name, circles.join("\n\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
