//! Reads the list of public functions from the source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{ImplItem, Item, ItemImpl, Type, Visibility};

/// Types that call a framework. The functions of their trait implementations are listed, too.
const REACHING: [&str; 7] = ["Console", "Dtrace", "Held", "Secure", "Server", "Smp", "Tracing"];
/// Traits whose functions work in every context.
const IGNORED: [&str; 2] = ["Debug", "RelaxStrategy"];

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().unwrap() != "tests" {
                files(&path, into);
            }
        } else {
            into.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    found.into_iter().map(read).collect()
}

fn owner(of: &ItemImpl) -> Option<String> {
    let Type::Path(path) = &*of.self_ty else { return None };
    Some(path.path.segments.last()?.ident.to_string())
}

/// The functions of an `impl`, as `Type::function`.
fn functions_of(block: &ItemImpl, into: &mut BTreeSet<String>) {
    let Some(owner) = owner(block) else { return };
    let of_trait =
        block.trait_.as_ref().map(|path| path.0.segments.last().unwrap().ident.to_string());
    let all = match &of_trait {
        Some(of) => REACHING.contains(&&*owner) && !IGNORED.contains(&&**of),
        None => false,
    };
    for item in &block.items {
        if let ImplItem::Fn(function) = item
            && (all || (of_trait.is_none() && matches!(function.vis, Visibility::Public(_))))
        {
            into.insert(format!("{owner}::{}", function.sig.ident));
        }
    }
}

/// Returns all public functions: `Type::function`, and `module::function`. Dropping a [`Held`](sdt_framework::Held) is also in
/// the list.
pub fn all() -> BTreeSet<String> {
    let mut all = BTreeSet::from(["Held::drop".to_owned()]);
    for (path, text) in sources() {
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for item in syn::parse_file(&text).unwrap().items {
            match item {
                Item::Impl(block) => functions_of(&block, &mut all),
                Item::Fn(function) if matches!(function.vis, Visibility::Public(_)) => {
                    all.insert(format!("{module}::{}", function.sig.ident));
                }
                _ => {}
            }
        }
    }
    all
}

/// Returns the source of the implementations of types that have one row for all of their functions.
pub fn files_of_values(table: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let owners: Vec<_> = table.keys().filter_map(|name| name.strip_suffix("::*")).collect();
    let mut found = Vec::new();
    for (_, text) in sources() {
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("impl")) {
            let words = line.split(|of: char| !of.is_alphanumeric());
            let Some(owner) = owners.iter().find(|owner| words.clone().any(|word| word == **owner))
            else {
                continue;
            };
            let block = lines[at..].iter().take_while(|line| **line != "}");
            let code = block.filter(|line| !line.trim_start().starts_with("//"));
            found.push(((*owner).to_owned(), code.copied().collect::<Vec<_>>().join("\n")));
        }
    }
    for owner in owners {
        assert!(found.iter().any(|(of, _)| of == owner), "{owner}");
    }
    found
}
