//! The messages of a crate: the string literals of its source that are sentences.
//!
//! A literal is a sentence if it has at least three words, placeholders included. In attributes `#[error]` and in
//! implementations of `Display`, every literal counts. Documentation, assembly, link scripts and tests do not count.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, LitStr};

use crate::tree::Tree;

/// Macros whose literals are assembly, or parts of names.
const ASSEMBLY: [&str; 6] = ["asm", "global_asm", "naked_asm", "__sdt_asm", "__sdt_arch", "concat"];

/// Returns the messages of a crate, each after its file relative to `folder`, in the order of the files.
///
/// # Panics
/// If a file of the crate is not below `folder`.
pub fn messages(tree: &Tree, folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for module in &tree.modules {
        let file = module.file.strip_prefix(folder).expect("the folder contains the crate");
        let mut own = Vec::new();
        // Modules in braces are modules of the tree.
        for item in module.items.iter().filter(|item| !matches!(item, Item::Mod(_))) {
            literals(item.to_token_stream(), is_display(item), &mut own);
        }
        found.extend(own.into_iter().map(|text| (file.display().to_string(), text)));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// Returns whether an item implements `Display`.
fn is_display(item: &Item) -> bool {
    let Item::Impl(of) = item else { return false };
    let last = of.trait_.as_ref().and_then(|(path, _)| path.segments.last());
    last.is_some_and(|last| last.ident == "Display")
}

/// Adds the messages among some tokens: all literals with letters if `are_all`, otherwise the sentences.
fn literals(tokens: TokenStream, are_all: bool, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut previous = None;
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<LitStr>(&literal.to_string()).map(|of| of.value());
                let is_message =
                    |text: &String| if are_all { words(text) > 0 } else { is_sentence(text) };
                found.extend(text.ok().filter(is_message));
            }
            TokenTree::Group(group) => {
                let is_attribute = group.delimiter() == Delimiter::Bracket
                    && matches!(&previous, Some(TokenTree::Punct(of)) if "#!".contains(of.as_char()));
                let first = group.stream().into_iter().next().map(|of| of.to_string());
                match first.as_deref().filter(|_| is_attribute) {
                    Some("doc") => {}
                    Some("error") => literals(group.stream(), true, found),
                    _ => literals(group.stream(), are_all, found),
                }
            }
            TokenTree::Ident(name) if ASSEMBLY.iter().any(|of| name == of) => {
                let is_bang =
                    |of: &TokenTree| matches!(of, TokenTree::Punct(of) if of.as_char() == '!');
                if tokens.next_if(is_bang).is_some() {
                    tokens.next_if(|of| matches!(of, TokenTree::Group(_)));
                }
            }
            _ => {}
        }
        previous = Some(token);
    }
}

/// Returns the number of words that are not placeholders.
fn words(text: &str) -> usize {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|of: char| of.is_ascii_punctuation());
        word.len() > 1 && word.chars().all(|of| of.is_alphabetic() || matches!(of, '\'' | '-'))
    };
    text.split_whitespace().filter(is_word).count()
}

/// Returns whether a literal has at least three words, of which one may be a placeholder.
fn is_sentence(text: &str) -> bool {
    let is_code = text.trim_start().starts_with(['.', '/', '<'])
        || text.starts_with("push ")
        || text.contains("\n        ");
    let words = words(text);
    !is_code && words >= 2 && words + text.matches('{').count() >= 3
}
