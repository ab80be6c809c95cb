//! The messages of a crate: the string literals of its source that are sentences, a line each.
//!
//! A literal is a sentence if it has at least three words, or if it is the text of an attribute `#[error]`. Not in the list
//! are documentation, assembly and tests.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, LitStr};

use crate::tree::Tree;

/// Macros whose literals are assembly.
const ASSEMBLY: [&str; 6] = ["asm", "global_asm", "naked_asm", "__sdt_asm", "__sdt_arch", "concat"];

/// Returns the messages of a crate in the order of its files, each with its file relative to `folder`.
///
/// # Panics
/// If a file of the crate is not below `folder`.
pub fn messages(tree: &Tree, folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for module in &tree.modules {
        let file =
            module.file.strip_prefix(folder).expect("a module is in the folder of its crate");
        let mut own = Vec::new();
        for item in &module.items {
            // Modules in braces are modules of the tree.
            if !matches!(item, Item::Mod(_)) {
                literals(item.to_token_stream(), false, &mut own);
            }
        }
        found.extend(own.into_iter().map(|text| (file.display().to_string(), text)));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// Adds the sentences among some tokens.
fn literals(tokens: TokenStream, is_error: bool, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut previous = None;
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Literal(literal) => {
                if let Ok(text) =
                    syn::parse_str::<LitStr>(&literal.to_string()).map(|of| of.value())
                    && (is_error || is_sentence(&text))
                {
                    found.push(text);
                }
            }
            TokenTree::Group(group) => {
                let stream = group.stream();
                let name = match stream.clone().into_iter().next() {
                    Some(TokenTree::Ident(name)) => name.to_string(),
                    _ => String::new(),
                };
                let is_attribute = group.delimiter() == Delimiter::Bracket
                    && matches!(&previous, Some(TokenTree::Punct(of)) if matches!(of.as_char(), '#' | '!'));
                match (is_attribute, &*name) {
                    (true, "doc") => {}
                    (true, "error") => literals(stream, true, found),
                    _ => literals(stream, is_error, found),
                }
            }
            TokenTree::Ident(name) if ASSEMBLY.iter().any(|of| name == of) => {
                if matches!(tokens.peek(), Some(TokenTree::Punct(of)) if of.as_char() == '!') {
                    previous = tokens.next();
                    if matches!(tokens.peek(), Some(TokenTree::Group(_))) {
                        previous = tokens.next();
                    }
                    continue;
                }
            }
            _ => {}
        }
        previous = Some(token);
    }
}

/// Whether a literal has at least three words, two of them not placeholders.
fn is_sentence(text: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|of: char| of.is_ascii_punctuation());
        word.len() > 1 && word.chars().all(|of| of.is_alphabetic() || matches!(of, '\'' | '-'))
    };
    let words = text.split_whitespace().filter(is_word).count();
    let placeholders = text.matches('{').count();
    words >= 2 && words + placeholders >= 3
}
