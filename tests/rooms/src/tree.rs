//! The modules of a crate, and the resolution of paths among them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ExprLit, File, Item, ItemMod, Lit, Meta, UseTree, Visibility};

/// A module. Two files that `cfg`s choose between are two modules of one name.
pub struct Module {
    /// The module that contains it; `None` for the root.
    pub parent: Option<usize>,
    /// Its file. Modules in braces have that of the module around them.
    pub file: PathBuf,
    /// Its items, without those of tests.
    pub items: Vec<Item>,
    /// Whether the whole module is hidden from the documentation.
    pub is_hidden: bool,
    children: HashMap<String, Vec<usize>>,
    uses: Vec<Use>,
}

/// A name that a module imports.
#[derive(Clone, Debug)]
pub struct Use {
    /// The imported path.
    pub path: Vec<String>,
    /// The name in the module; `None` for a glob.
    pub name: Option<String>,
    /// Whether other modules can import the name from here.
    pub is_exported: bool,
    /// Whether it is public and documented.
    pub is_public: bool,
}

/// The item that a path names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// A module.
    Module(usize),
    /// An item of a module.
    Item(usize, String),
}

impl Named {
    /// Returns the module that is named, or that contains the item.
    pub fn module(&self) -> usize {
        match self {
            Self::Module(module) | Self::Item(module, _) => *module,
        }
    }
}

/// The modules of a crate. The first is the root.
pub struct Tree {
    /// All modules.
    pub modules: Vec<Module>,
}

impl Tree {
    /// Reads a crate from the file of its root module.
    ///
    /// # Panics
    /// If a file cannot be read or parsed.
    pub fn read(root: &Path) -> Self {
        let mut tree = Self { modules: Vec::new() };
        let folder = root.parent().expect("a file is in a folder").to_owned();
        tree.file(root, &folder, None, false);
        tree
    }

    /// Reads a file, whose modules are in `folder`.
    fn file(
        &mut self,
        path: &Path,
        folder: &Path,
        parent: Option<usize>,
        is_hidden: bool,
    ) -> usize {
        let text = std::fs::read_to_string(path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file: File =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.module(path, folder, parent, is_hidden, file.items)
    }

    fn module(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        is_hidden: bool,
        items: Vec<Item>,
    ) -> usize {
        let index = self.modules.len();
        self.modules.push(Module {
            parent,
            file: file.to_owned(),
            items: Vec::new(),
            is_hidden,
            children: HashMap::new(),
            uses: Vec::new(),
        });
        let items: Vec<Item> =
            items.into_iter().filter(|item| !is_test(attributes(item))).collect();
        for item in &items {
            match item {
                Item::Mod(module) => self.child(index, module, file, folder),
                Item::Use(of) => {
                    let mut uses = Vec::new();
                    flatten(&of.tree, &mut Vec::new(), &mut uses);
                    let is_exported = !matches!(of.vis, Visibility::Inherited);
                    let is_public =
                        matches!(of.vis, Visibility::Public(_)) && !self::is_hidden(&of.attrs);
                    self.modules[index].uses.extend(uses.into_iter().map(|(path, name)| Use {
                        path,
                        name,
                        is_exported,
                        is_public,
                    }));
                }
                _ => {}
            }
        }
        self.modules[index].items = items;
        index
    }

    fn child(&mut self, parent: usize, module: &ItemMod, file: &Path, folder: &Path) {
        let name = module.ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
        let is_hidden = is_hidden(&module.attrs);
        let mut children = Vec::new();
        if let Some((_, items)) = &module.content {
            let (folder, items) = (folder.join(&name), items.clone());
            children.push(self.module(file, &folder, Some(parent), is_hidden, items));
        } else {
            // A path is relative to the folder of the file, or to that of the module in braces around it.
            let beside = match file.parent() {
                Some(own) if folder.starts_with(own) && self.is_inline(parent) => folder,
                Some(own) => own,
                None => folder,
            };
            let mut paths: Vec<PathBuf> =
                paths(&module.attrs).iter().map(|path| beside.join(path)).collect();
            if paths.is_empty() {
                let flat = folder.join(format!("{name}.rs"));
                paths.push(if flat.exists() { flat } else { folder.join(&name).join("mod.rs") });
            }
            for path in paths {
                let own = path.parent().expect("a file is in a folder");
                let folder = match path.file_name() {
                    Some(file) if file == "mod.rs" => own.to_owned(),
                    // If a path names the file of a module, the module's own modules are in the same folder as the file.
                    _ if !self::paths(&module.attrs).is_empty() => own.to_owned(),
                    _ => own.join(&name),
                };
                children.push(self.file(&path, &folder, Some(parent), is_hidden));
            }
        }
        self.modules[parent].children.entry(name).or_default().extend(children);
    }

    /// Returns whether a module is in braces.
    fn is_inline(&self, module: usize) -> bool {
        let of = &self.modules[module];
        of.parent.is_some_and(|parent| self.modules[parent].file == of.file)
    }

    /// Returns the path of a module from the root.
    pub fn path(&self, module: usize) -> Vec<String> {
        let Some(parent) = self.modules[module].parent else { return Vec::new() };
        let mut path = self.path(parent);
        let children = &self.modules[parent].children;
        let name = children.iter().find(|(_, of)| of.contains(&module)).map(|(name, _)| name);
        path.extend(name.cloned());
        path
    }

    /// Returns the modules of a name in a module.
    pub fn children(&self, module: usize, name: &str) -> &[usize] {
        self.modules[module].children.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the names that a module imports.
    pub fn uses(&self, module: usize) -> &[Use] {
        &self.modules[module].uses
    }

    /// Returns the items that a path in a module names, if they belong to this crate. There are several if `cfg`s select one of
    /// them.
    pub fn resolve(&self, module: usize, path: &[String]) -> Vec<Named> {
        self.resolve_within(module, path, 16)
    }

    fn resolve_within(&self, module: usize, path: &[String], depth: usize) -> Vec<Named> {
        let Some((first, rest)) = path.split_first() else { return vec![Named::Module(module)] };
        let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
        let start = match &**first {
            "crate" => Some(0),
            "self" => Some(module),
            "super" => self.modules[module].parent,
            _ => None,
        };
        if let Some(start) = start {
            return self.resolve_within(start, rest, depth);
        }
        let children = self.children(module, first);
        if !children.is_empty() {
            let within = children.iter().flat_map(|&of| self.resolve_within(of, rest, depth));
            return within.collect();
        }
        if self.modules[module].items.iter().any(|item| name(item).is_some_and(|of| of == *first)) {
            return vec![Named::Item(module, first.clone())];
        }
        let mut found = Vec::new();
        for of in &self.modules[module].uses {
            match &of.name {
                Some(name) if name == first && of.path.first() != Some(name) => {
                    let whole: Vec<_> = of.path.iter().chain(rest).cloned().collect();
                    found.extend(self.resolve_within(module, &whole, depth));
                }
                Some(_) => {}
                None => {
                    for glob in self.resolve_within(module, &of.path, depth) {
                        if let Named::Module(of) = glob
                            && of != module
                        {
                            found.extend(self.resolve_within(of, path, depth));
                        }
                    }
                }
            }
        }
        found
    }
}

/// Returns the attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(of) => &of.attrs,
        Item::Enum(of) => &of.attrs,
        Item::Fn(of) => &of.attrs,
        Item::Impl(of) => &of.attrs,
        Item::Macro(of) => &of.attrs,
        Item::Mod(of) => &of.attrs,
        Item::Static(of) => &of.attrs,
        Item::Struct(of) => &of.attrs,
        Item::Trait(of) => &of.attrs,
        Item::Type(of) => &of.attrs,
        Item::Union(of) => &of.attrs,
        Item::Use(of) => &of.attrs,
        _ => &[],
    }
}

/// Returns the name of an item that can be imported.
pub fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(of) => of.ident.to_string(),
        Item::Enum(of) => of.ident.to_string(),
        Item::Fn(of) => of.sig.ident.to_string(),
        Item::Macro(of) => of.ident.as_ref()?.to_string(),
        Item::Static(of) => of.ident.to_string(),
        Item::Struct(of) => of.ident.to_string(),
        Item::Trait(of) => of.ident.to_string(),
        Item::Type(of) => of.ident.to_string(),
        Item::Union(of) => of.ident.to_string(),
        _ => return None,
    })
}

/// Returns whether an item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    let test = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let tokens = list.tokens.to_string();
            tokens == "test" || tokens.starts_with("all (test")
        }
        meta => meta.path().is_ident("test"),
    };
    attributes.iter().any(test)
}

/// Returns whether attributes hide an item from the documentation.
pub fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("doc") && list.tokens.to_string() == "hidden",
        _ => false,
    })
}

/// The files of `#[path = "..."]` and `#[cfg_attr(..., path = "...")]`.
fn paths(attributes: &[Attribute]) -> Vec<String> {
    let mut paths = Vec::new();
    for attribute in attributes {
        match &attribute.meta {
            Meta::NameValue(of) if of.path.is_ident("path") => {
                if let Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) = &of.value {
                    paths.push(path.value());
                }
            }
            Meta::List(list) if list.path.is_ident("cfg_attr") => {
                let tokens = list.tokens.to_string();
                let after =
                    tokens.rsplit_once("path = \"").and_then(|(_, rest)| rest.split_once('"'));
                paths.extend(after.map(|(path, _)| path.to_owned()));
            }
            _ => {}
        }
    }
    paths
}

/// The paths of a `use`, each with its name.
fn flatten(
    tree: &UseTree,
    before: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, Option<String>)>,
) {
    let with = |before: &[String], ident: &syn::Ident| {
        let mut path = before.to_vec();
        // `use a::{self}` is `use a`.
        if ident != "self" || path.is_empty() {
            path.push(ident.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(of) => {
            before.push(of.ident.to_string());
            flatten(&of.tree, before, found);
            before.pop();
        }
        UseTree::Name(of) => {
            let path = with(before, &of.ident);
            let name = path.last().cloned();
            found.push((path, name));
        }
        UseTree::Rename(of) => found.push((with(before, &of.ident), Some(of.rename.to_string()))),
        UseTree::Glob(_) => found.push((before.clone(), None)),
        UseTree::Group(of) => of.items.iter().for_each(|tree| flatten(tree, before, found)),
    }
}
