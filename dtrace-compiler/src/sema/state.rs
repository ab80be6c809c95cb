//! The state of the compiler from one program to the next.

use std::collections::HashMap;

use dtrace_abi::Platform;
use dtrace_abi::stability::Attribute;

use super::builtin;
use super::id::IdentId;
use super::ident::{Cooking, IdKind, Ident, Inline, Table};
use super::node::{Kind, Node};
use crate::declared::{self, Declarations, DeclaredError, Keep};
use crate::error::Error;
use crate::options::Options;
use crate::place::Place;
use crate::types::{TypeId, Types};
use crate::version::Version;

/// The number of the first variable of programs.
const FIRST: u32 = dtrace_abi::dif::VAR_OTHER_USER as u32;
/// The number after that of the last variable.
const END: u32 = dtrace_abi::dif::VAR_OTHER_MAX as u32;

/// A translator.
#[derive(Clone, Debug)]
pub(crate) struct Xlator {
    pub input: TypeId,
    pub output: TypeId,
    pub output_pointer: TypeId,
    /// The name of the input.
    pub param: IdentId,
    /// Each member, with the node of its type, and its value.
    pub members: Vec<(String, Node, Node)>,
    pub attr: Attribute,
    /// The first version of D that has it, if not all have it.
    pub since: Option<Version>,
    /// Whether the requested version of D no longer has it.
    pub gone: bool,
}

impl Xlator {
    pub fn member(&self, name: &str) -> Option<&(String, Node, Node)> {
        self.members.iter().find(|member| member.0 == name)
    }
}

/// A provider, and the names of its probes.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub name: String,
    pub probes: Vec<String>,
}

/// The declarations of a module other than types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// The constants and inlines.
    pub names: HashMap<String, IdentId>,
    /// The error in the declarations, if there is one.
    pub failed: Option<Box<Error>>,
}

/// The state of the compiler from one program to the next.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub platform: Platform,
    pub options: Options,
    pub types: Types,
    pub idents: Vec<Ident>,
    pub globals: Table,
    pub thread: Table,
    pub aggs: Table,
    pub xlators: Vec<Xlator>,
    pub providers: Vec<Provider>,
    /// The declarations of modules other than types, in the order of their rooms.
    pub modules: Vec<Module>,
    pub generation: u64,
    /// The version of D whose names are known.
    pub version: Version,
    /// Whether a library is being compiled.
    pub library: bool,
    /// Whether the declarations of a traced module are being compiled.
    pub foreign: bool,
    /// The libraries that were read, by the last parts of their paths.
    pub libraries: Vec<String>,
    /// Whether `dtrace:::ERROR` has its clause for programs with `if`.
    pub catches_errors: bool,
}

impl State {
    pub fn new(platform: Platform, options: Options) -> Self {
        let mut state = Self {
            platform,
            types: Types::new(options.strsize()),
            options,
            idents: Vec::new(),
            globals: Table::new("global", FIRST, END),
            thread: Table::new("thread local", FIRST, END),
            aggs: Table::new("aggregation", 1, u32::MAX),
            xlators: Vec::new(),
            providers: Vec::new(),
            modules: Vec::new(),
            generation: 0,
            version: Version::LATEST,
            library: false,
            foreign: false,
            libraries: Vec::new(),
            catches_errors: false,
        };
        for ident in builtin::idents() {
            let name = ident.name.clone();
            let id = state.add(ident);
            state.globals.names.insert(name, id);
        }
        state
    }

    /// Declares `inline long NULL = 0;` (`_dtrace_hardwire`, dt_open.c).
    pub fn hardwire(&mut self) {
        let long = self.types.lookup("long").unwrap_or(self.types.special().int);
        let mut root = Node::new(Place::default(), Kind::Int(0));
        root.ty = Some(self.types.special().int);
        root.flags.signed = true;
        root.flags.cooked = true;
        let mut ident = Ident::new("NULL", IdKind::Scalar, Cooking::Inline, 0);
        ident.flags.inline = true;
        ident.flags.referred = true;
        ident.flags.declared = true;
        ident.ty = Some(long);
        ident.inline = Some(Inline { root: Some(Box::new(root)), ..Inline::default() });
        let id = self.add(ident);
        self.globals.names.insert("NULL".into(), id);
    }

    /// Removes the names that a version of D does not have (`dt_reduce`, dt_cc.c).
    pub fn reduce(&mut self) {
        let version = self.options.version;
        if version >= self.version {
            return;
        }
        self.version = version;
        let idents = &self.idents;
        let has = |since: Option<Version>| since.is_none_or(|since| since <= version);
        for table in [&mut self.globals, &mut self.aggs] {
            table.names.retain(|_, id| has(idents[id.0 as usize].since));
        }
        for xlator in &mut self.xlators {
            xlator.gone |= !has(xlator.since);
        }
    }

    /// Returns the number of a module; creates it if there is none.
    pub fn module(&mut self, name: &str) -> usize {
        let room = self.types.make_room(name);
        let count = self.modules.len().max(room + 1);
        self.modules.resize_with(count, Module::default);
        room
    }

    /// Adds a module's types and constants. The module's room must be the one to which new declarations are added.
    pub fn declare_types(
        &mut self,
        room: usize,
        declared: &Declarations,
    ) -> std::result::Result<(), DeclaredError> {
        for (name, ty, value) in declared::define(&mut self.types, declared, Keep::New)? {
            self.declare_constant(room, name, ty, value);
        }
        Ok(())
    }

    /// Adds a constant to the names of a module.
    pub fn declare_constant(&mut self, room: usize, name: String, ty: TypeId, value: i32) {
        let mut root = Node::new(Place::default(), Kind::Int(i64::from(value) as u64));
        root.ty = Some(ty);
        root.flags.signed = true;
        root.flags.cooked = true;
        let mut ident = Ident::new(&name, IdKind::Scalar, Cooking::Inline, 0);
        ident.flags.inline = true;
        ident.flags.referred = true;
        ident.flags.declared = true;
        ident.ty = Some(ty);
        ident.inline = Some(Inline { root: Some(Box::new(root)), ..Inline::default() });
        let id = self.add(ident);
        self.modules[room].names.insert(name, id);
    }

    /// Looks up a name in the module whose declarations are being compiled.
    pub fn declared_name(&self, name: &str) -> Option<IdentId> {
        let module = self.types.declaring().and_then(|room| self.modules.get(room));
        module.and_then(|module| module.names.get(name).copied())
    }

    /// Looks up a name in the module of the probe whose clause is being compiled, then in the other modules.
    pub fn name_of_module(&self, name: &str) -> Option<IdentId> {
        let find = |room: usize| self.modules.get(room)?.names.get(name).copied();
        self.types.order().find_map(find)
    }

    /// Returns the names that [`name_of_module`](Self::name_of_module) finds.
    pub fn names_of_modules(&self) -> impl Iterator<Item = &str> {
        let modules = self.types.order().filter_map(|room| self.modules.get(room));
        modules.flat_map(|module| module.names.keys().map(String::as_str))
    }

    /// Returns an empty table of clause-local names.
    pub fn locals() -> Table {
        Table::new("clause local", FIRST, END)
    }

    pub fn add(&mut self, ident: Ident) -> IdentId {
        let id = IdentId(u32::try_from(self.idents.len()).unwrap_or(u32::MAX));
        self.idents.push(ident);
        id
    }

    pub fn ident(&self, id: IdentId) -> &Ident {
        &self.idents[id.0 as usize]
    }

    pub fn ident_mut(&mut self, id: IdentId) -> &mut Ident {
        &mut self.idents[id.0 as usize]
    }
}
