//! Functions whose names are similar to one that does not exist, for messages.

use std::collections::BTreeSet;

use dtrace_abi::function::first_crate;
use dtrace_compiler::closest;

/// Crates whose functions are not traced in a process, and that have many functions with common names.
const UNTRACED: [&str; 6] =
    ["core", "sdt_core", "sdt_framework", "sdt_process", "dtrace_abi", "dtrace_protocol"];
/// The most functions that are suggested.
const MOST: usize = 4;

/// Returns the functions that a description may mean, of which none has exactly this name: those whose last part of the path it is,
/// otherwise the one whose name or last part differs by one letter. In a description, a `?` can be a colon.
pub(super) fn similar<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let wanted = wanted.replace("??", "::");
    if wanted.is_empty() || wanted.contains(['*', '?', '[', '\\']) {
        return Vec::new();
    }
    let is_traced = |name: &&str| first_crate(name).is_none_or(|of| !UNTRACED.contains(&of));
    let all: BTreeSet<&str> = names.filter(is_traced).collect();
    let is_whole_end = |name: &&&str| {
        let before = name.strip_suffix(&*wanted);
        before.is_some_and(|before| before.ends_with("::"))
    };
    let mut found: Vec<&str> = all
        .iter()
        .filter(is_whole_end)
        .chain(all.iter().filter(|name| last(name) == wanted))
        .copied()
        .collect();
    if found.is_empty() {
        let whole = closest(&wanted, all.iter().copied());
        let part = closest(last(&wanted), all.iter().map(|name| last(name)));
        let same_path = |name: &&&str| {
            let path = wanted.strip_suffix(last(&wanted)).unwrap_or_default();
            part.as_deref() == Some(last(name)) && name.ends_with(&format!("{path}{}", last(name)))
        };
        found = match &whole {
            Some(whole) => all.get(&**whole).copied().into_iter().collect(),
            None => all.iter().filter(same_path).copied().collect(),
        };
    }
    // The function exists, but is not traced.
    found.retain(|name| *name != wanted);
    // A short path is more likely the own program's.
    found.sort_by_key(|name| (name.len(), *name));
    found.dedup();
    found.into_iter().take(MOST).map(described).collect()
}

/// Returns the last part of a path, without the types of a generic function.
fn last(path: &str) -> &str {
    let path = match path.strip_suffix('>').and_then(|of| of.rsplit_once("::<")) {
        Some((path, _)) => path,
        None => path,
    };
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the name of a function as descriptions have it: with a `?` for each character that has a meaning in D.
fn described(name: &str) -> String {
    let replaced = |c: char| match c {
        '*' | '[' | ']' | '{' | '}' | ' ' | ',' | ';' | '$' | '\'' | '"' | '\\' => '?',
        c => c,
    };
    name.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_suggested() {
        let names = [
            "shop::checksum",
            "shop::pages::checksum",
            "shop::serve",
            "shop::serve::{{closure}}",
            "alloc::vec::from_elem::<[u8; 4]>",
            "sdt_process::serve",
            "malloc",
        ];
        let suggested = |wanted| similar(wanted, names.into_iter());
        assert_eq!(suggested("checksum"), ["shop::checksum", "shop::pages::checksum"]);
        assert_eq!(suggested("pages??checksum"), ["shop::pages::checksum"]);
        assert_eq!(suggested("shop??checksun"), ["shop::checksum"]);
        assert_eq!(suggested("sreve"), ["shop::serve"]);
        assert_eq!(suggested("from_elem"), ["alloc::vec::from_elem::<?u8??4?>"]);
        assert_eq!(suggested("maloc"), ["malloc"]);
        for other in ["", "*checksum*", "nothing_like_it", "shop", "malloc", "shop::serve"] {
            assert_eq!(suggested(other), [""; 0], "{other}");
        }
    }
}
