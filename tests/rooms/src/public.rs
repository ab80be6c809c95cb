//! The public items of a crate, a line each.
//!
//! The list contains the items of all systems and architectures, with their `cfg`s. It contains neither items that are hidden
//! from the documentation, nor items that a macro makes, but the call of the macro.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, Type, Visibility};

use crate::tree::{Module, Named, Tree, attributes, is_hidden, name};

/// Returns the public items of a crate, sorted by their paths, a line each.
pub fn items(tree: &Tree, krate: &str) -> String {
    let krate = krate.replace('-', "_");
    let mut list = List { tree, lines: BTreeSet::new(), paths: HashMap::new() };
    list.module(0, &krate, 0);
    list.impls(&krate);
    list.lines.into_iter().map(|(path, line)| format!("{path}: {line}\n")).collect()
}

struct List<'a> {
    tree: &'a Tree,
    /// Path and line of each item.
    lines: BTreeSet<(String, String)>,
    /// The first path of each item.
    paths: HashMap<(usize, String), String>,
}

impl List<'_> {
    /// Adds the public items of a module that is public as `path`.
    fn module(&mut self, index: usize, path: &str, depth: usize) {
        let module = &self.tree.modules[index];
        if module.is_hidden || depth > 8 {
            return;
        }
        for item in &module.items {
            match item {
                Item::Mod(of) if is_public(&of.vis) => {
                    let of_name = of.ident.to_string();
                    let below = format!("{path}::{}", of_name.trim_start_matches("r#"));
                    if !is_hidden(&of.attrs) {
                        let cfgs = kept(&of.attrs);
                        self.lines.insert((below.clone(), tidy(&quote!(#cfgs pub mod))));
                    }
                    for &child in self.tree.children(index, of_name.trim_start_matches("r#")) {
                        self.module(child, &below, depth + 1);
                    }
                }
                Item::Mod(_) | Item::Use(_) => {}
                item => self.item(index, item, path, None),
            }
        }
        for of in self.tree.uses(index).iter().filter(|of| of.is_public) {
            let found = self.tree.resolve(index, &of.path);
            match &of.name {
                Some(name) if found.is_empty() => {
                    let line = format!("pub use {}", of.path.join("::"));
                    self.lines.insert((format!("{path}::{name}"), line));
                }
                None if found.is_empty() => {
                    self.lines
                        .insert((path.to_owned(), format!("pub use {}::*", of.path.join("::"))));
                }
                shown => {
                    for named in found {
                        self.named(&named, path, shown.as_deref(), depth + 1);
                    }
                }
            }
        }
    }

    /// Adds the items that a `pub use` makes public in `path`, by another name or by their own.
    fn named(&mut self, named: &Named, path: &str, shown: Option<&str>, depth: usize) {
        match (named, shown) {
            (Named::Module(of), None) => self.module(*of, path, depth),
            (Named::Module(of), Some(shown)) => {
                self.module(*of, &format!("{path}::{shown}"), depth)
            }
            (Named::Item(of, item), shown) => {
                let module: &Module = &self.tree.modules[*of];
                for item in module.items.iter().filter(|of| name(of).as_ref() == Some(item)) {
                    self.item(*of, item, path, shown);
                }
            }
        }
    }

    /// Adds an item of a module, if it is public.
    fn item(&mut self, module: usize, item: &Item, path: &str, shown: Option<&str>) {
        if is_hidden(attributes(item)) {
            return;
        }
        let Some(line) = line(item) else { return };
        let own = name(item);
        let path = match shown.map(str::to_owned).or(own.clone()) {
            // Exported macros are in the root.
            Some(name) if matches!(item, Item::Macro(_)) => {
                format!("{}::{name}", path.split("::").next().unwrap_or_default())
            }
            Some(name) => format!("{path}::{name}"),
            None => path.to_owned(),
        };
        if let Some(own) = own {
            self.paths.entry((module, own)).or_insert_with(|| path.clone());
        }
        self.lines.insert((path, line));
    }

    /// Returns whether a trait is one of this crate that is not public.
    fn is_private(&self, module: usize, of_trait: &syn::Path) -> bool {
        let path: Vec<_> = of_trait.segments.iter().map(|of| of.ident.to_string()).collect();
        self.tree.resolve(module, &path).iter().any(|named| match named {
            Named::Item(module, name) => !self.paths.contains_key(&(*module, name.clone())),
            Named::Module(_) => false,
        })
    }

    /// Adds the methods and traits of public types.
    fn impls(&mut self, krate: &str) {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (index, module) in self.tree.modules.iter().enumerate() {
            for item in &module.items {
                // An exported macro is public wherever its module is.
                if matches!(item, Item::Macro(of) if of.ident.is_some() && is_exported(&of.attrs)) {
                    let root = !self.paths.contains_key(&(index, name(item).unwrap_or_default()));
                    if root && !is_hidden(attributes(item)) {
                        found
                            .entry(format!("{krate}::{}", name(item).unwrap_or_default()))
                            .or_default();
                    }
                }
                let Item::Impl(of) = item else { continue };
                let Type::Path(ty) = &*of.self_ty else { continue };
                let segments: Vec<_> =
                    ty.path.segments.iter().map(|of| of.ident.to_string()).collect();
                let named = self.tree.resolve(index, &segments);
                let Some(Named::Item(module, ident)) = named.into_iter().next() else { continue };
                let Some(path) = self.paths.get(&(module, ident)) else { continue };
                let lines = found.entry(path.clone()).or_default();
                let (cfgs, generics, ty) = (kept(&of.attrs), &of.generics, &of.self_ty);
                let bounds = &of.generics.where_clause;
                if let Some((of_trait, _)) = &of.trait_ {
                    if self.is_private(index, of_trait) {
                        continue;
                    }
                    lines.insert(tidy(&quote!(#cfgs impl #generics #of_trait for #ty #bounds)));
                    continue;
                }
                for item in &of.items {
                    let (attrs, vis, shown) = match item {
                        ImplItem::Fn(of) => (&of.attrs, &of.vis, of.sig.to_token_stream()),
                        ImplItem::Const(of) => {
                            let (ident, ty) = (&of.ident, &of.ty);
                            (&of.attrs, &of.vis, quote!(const #ident: #ty))
                        }
                        _ => continue,
                    };
                    if is_public(vis) && !is_hidden(attrs) {
                        let own = kept(attrs);
                        let of = if of.generics.params.is_empty() {
                            quote!()
                        } else {
                            quote!(impl #generics #ty #bounds)
                        };
                        lines.insert(tidy(&quote!(#cfgs #own #of pub #shown)));
                    }
                }
            }
        }
        for (path, lines) in found {
            if lines.is_empty() {
                self.lines.insert((path, "macro".to_owned()));
                continue;
            }
            self.lines.extend(lines.into_iter().map(|line| (path.clone(), line)));
        }
    }
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_exported(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|of| of.path().is_ident("macro_export"))
}

/// The line of an item, if it is public.
fn line(item: &Item) -> Option<String> {
    let kept = kept(attributes(item));
    let shown = match item {
        Item::Const(of) if is_public(&of.vis) => {
            let ty = &of.ty;
            quote!(pub const: #ty)
        }
        Item::Static(of) if is_public(&of.vis) => {
            let (mutability, ty) = (&of.mutability, &of.ty);
            quote!(pub static #mutability: #ty)
        }
        Item::Fn(of) if is_public(&of.vis) => {
            let sig = &of.sig;
            quote!(pub #sig)
        }
        Item::Type(of) if is_public(&of.vis) => {
            let (generics, ty) = (&of.generics, &of.ty);
            quote!(pub type #generics = #ty)
        }
        Item::Struct(of) if is_public(&of.vis) => {
            let (generics, bounds, fields) =
                (&of.generics, &of.generics.where_clause, fields(&of.fields));
            quote!(pub struct #generics #fields #bounds)
        }
        Item::Union(of) if is_public(&of.vis) => {
            let (generics, fields) = (&of.generics, fields(&Fields::Named(of.fields.clone())));
            quote!(pub union #generics #fields)
        }
        Item::Enum(of) if is_public(&of.vis) => {
            let (generics, bounds) = (&of.generics, &of.generics.where_clause);
            let variants = of.variants.iter().map(|of| {
                let mut of = of.clone();
                of.attrs.retain(is_kept);
                for field in &mut of.fields {
                    field.attrs.retain(is_kept);
                }
                of
            });
            quote!(pub enum #generics #bounds { #(#variants),* })
        }
        Item::Trait(of) if is_public(&of.vis) => {
            let mut of = of.clone();
            of.attrs.clear();
            of.items = of.items.into_iter().filter_map(declared).collect();
            of.to_token_stream()
        }
        Item::Macro(of) if of.ident.is_some() => {
            if !is_exported(&of.attrs) {
                return None;
            }
            quote!(macro)
        }
        Item::Macro(of) => {
            let (path, tokens) = (&of.mac.path, undocumented(of.mac.tokens.clone()));
            if !tokens.to_string().contains("pub ") {
                return None;
            }
            quote!(#path! { #tokens })
        }
        _ => return None,
    };
    Some(tidy(&quote!(#kept #shown)))
}

/// An item of a trait without its body.
fn declared(item: syn::TraitItem) -> Option<syn::TraitItem> {
    let mut item = item;
    match &mut item {
        syn::TraitItem::Fn(of) => {
            if is_hidden(&of.attrs) {
                return None;
            }
            of.attrs.retain(is_kept);
            // The line shows that the item has a default.
            if of.default.is_some() {
                of.default = Some(syn::parse_quote!({}));
            }
        }
        syn::TraitItem::Const(of) => of.attrs.retain(is_kept),
        syn::TraitItem::Type(of) => of.attrs.retain(is_kept),
        _ => {}
    }
    Some(item)
}

/// The public fields; `..` for the others.
fn fields(fields: &Fields) -> TokenStream {
    let mut shown: Vec<TokenStream> = fields
        .iter()
        .filter(|field| is_public(&field.vis) && !is_hidden(&field.attrs))
        .map(|field| {
            let ty = &field.ty;
            match &field.ident {
                Some(ident) => quote!(pub #ident: #ty),
                None => quote!(pub #ty),
            }
        })
        .collect();
    if shown.len() < fields.len() {
        shown.push(quote!(..));
    }
    match fields {
        Fields::Named(_) => quote!({ #(#shown),* }),
        Fields::Unnamed(_) => quote!((#(#shown),*)),
        Fields::Unit => quote!(),
    }
}

/// Attributes that change what others can do with an item.
fn is_kept(attribute: &Attribute) -> bool {
    let kept = ["cfg", "derive", "non_exhaustive", "repr", "proc_macro", "proc_macro_derive"];
    kept.iter().any(|name| attribute.path().is_ident(name))
}

fn kept(attributes: &[Attribute]) -> TokenStream {
    let kept = attributes.iter().filter(|of| is_kept(of));
    quote!(#(#kept)*)
}

/// Tokens without documentation.
fn undocumented(tokens: TokenStream) -> TokenStream {
    let mut kept: Vec<TokenTree> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let is_doc = group.delimiter() == Delimiter::Bracket
                    && group.stream().to_string().starts_with("doc ");
                if is_doc
                    && matches!(kept.last(), Some(TokenTree::Punct(of)) if of.as_char() == '#')
                {
                    kept.pop();
                    continue;
                }
                let stream = undocumented(group.stream());
                kept.push(TokenTree::Group(proc_macro2::Group::new(group.delimiter(), stream)));
            }
            token => kept.push(token),
        }
    }
    kept.into_iter().collect()
}

/// Returns tokens as one line, with the blanks of formatted code.
fn tidy(tokens: &TokenStream) -> String {
    let mut text = tokens.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" : ", ": "),
        (" , ", ", "),
        (" < ", "<"),
        (" > ", "> "),
        (" >", ">"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
        ("[ ", "["),
        (" ]", "]"),
        ("# [", "#["),
        (" ;", ";"),
        ("< ", "<"),
        ("->(", "-> ("),
        (" ,", ","),
        ("* const", "*const"),
        ("* mut", "*mut"),
        ("' ", "'"),
        (" !", "!"),
        ("= >", "=>"),
        ("? Sized", "?Sized"),
    ] {
        text = text.replace(from, to);
    }
    text.trim().to_owned()
}
