//! Finds the imports between the files of a crate.
//!
//! An import counts for the file in which the imported item is defined, through however many re-exports. A re-export
//! itself counts only if the file uses the name, too. Items of tests do not count, nor paths in tokens that a macro quotes
//! or defines for other crates.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::circle::Graph;
use crate::tree::{Named, Tree};

/// The imports between the files of a crate, each with one of its paths.
pub type Imports = BTreeMap<(PathBuf, PathBuf), String>;

/// Returns the graph of some imports.
pub fn graph(imports: &Imports) -> Graph<PathBuf> {
    let mut graph = Graph::new();
    for (from, to) in imports.keys() {
        graph.entry(from.clone()).or_insert_with(BTreeSet::new).insert(to.clone());
    }
    graph
}

/// Returns the imports between the files of a crate.
pub fn files(tree: &Tree) -> Imports {
    let mut imports = Imports::new();
    for (index, module) in tree.modules.iter().enumerate() {
        let mut paths = Paths::default();
        module.items.iter().for_each(|item| paths.visit_item(item));
        let first: HashSet<String> = paths.0.iter().filter_map(|of| of.first().cloned()).collect();
        let imported = tree.uses(index).iter().filter(|of| {
            !of.is_exported || of.name.as_ref().is_some_and(|name| first.contains(name))
        });
        let imported = imported.map(|of| of.path.clone());
        // A name that is not a path of modules belongs to an import, which is counted already.
        let inline = paths.0.iter().filter(|path| path.len() > 1).cloned();
        let all: BTreeSet<Vec<String>> = imported.chain(inline).collect();
        for path in &all {
            for named in resolve(tree, index, path) {
                let (from, to) = (&module.file, &tree.modules[named.module()].file);
                if from != to {
                    imports.entry((from.clone(), to.clone())).or_insert_with(|| path.join("::"));
                }
            }
        }
    }
    imports
}

/// Returns the items that a path names: by the longest known part of the path, as the rest may be a variant or a method.
fn resolve(tree: &Tree, module: usize, path: &[String]) -> Vec<Named> {
    (1..=path.len())
        .rev()
        .map(|end| tree.resolve(module, &path[..end]))
        .find(|of| !of.is_empty())
        .unwrap_or_default()
}

/// Returns the imports between the folders in `folder`. A file beside a folder of its name belongs to it; other files belong to
/// no folder.
pub fn folders(files: &Imports, folder: &Path) -> Imports {
    let mut rooms = Imports::new();
    for ((from, to), path) in files {
        if let (Some(from), Some(to)) = (room(from, folder), room(to, folder))
            && from != to
        {
            rooms.entry((from, to)).or_insert_with(|| path.clone());
        }
    }
    rooms
}

/// The folder directly in `folder` that a file belongs to.
fn room(file: &Path, folder: &Path) -> Option<PathBuf> {
    let first = file.strip_prefix(folder).ok()?.components().next()?;
    let room = folder.join(first).with_extension("");
    room.is_dir().then_some(room)
}

/// All paths of some items, except those of `use`.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Visit<'_> for Paths {
    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            self.0.push(path.segments.iter().map(|of| of.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, _: &syn::ItemUse) {}

    // `pub(crate)` imports nothing.
    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    // A module in braces is a module of the tree, which is visited separately.
    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}

    fn visit_macro(&mut self, of: &syn::Macro) {
        visit::visit_macro(self, of);
        let name = of.path.segments.last().map(|of| of.ident.to_string()).unwrap_or_default();
        let quotes = ["quote", "quote_spanned", "hygienic", "parse_quote", "macro_rules"];
        if !quotes.contains(&&*name) {
            self.tokens(&of.tokens);
        }
    }
}

impl Paths {
    /// Paths among the tokens of a macro.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut is_variable = false;
        for token in tokens.clone() {
            let was_variable = std::mem::take(&mut is_variable);
            match token {
                // `$crate` is the path of another crate to this one.
                TokenTree::Ident(_) if was_variable => {}
                TokenTree::Punct(punct) if punct.as_char() == '$' => is_variable = true,
                TokenTree::Ident(ident) => {
                    if colons != 2 && !path.is_empty() {
                        self.0.push(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1
                }
                other => {
                    if !path.is_empty() {
                        self.0.push(std::mem::take(&mut path));
                    }
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(&group.stream());
                    }
                }
            }
        }
        if !path.is_empty() {
            self.0.push(path);
        }
    }
}
