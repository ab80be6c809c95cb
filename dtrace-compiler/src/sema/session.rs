//! What is known from one program to the next, and while one is compiled.

use std::collections::HashMap;

use dtrace_abi::stability::Attribute;
use dtrace_abi::{ErrTag, Platform};

use super::control::Pragma;
use super::ident::{Cooking, Inline};
use super::provider::Provider;
use super::{IdKind, Ident, IdentId, Kind, Node, Table, Xlator, builtin, is_conventional_type};
use crate::declared::{self, Declarations, DeclaredError};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::program::Difo;
use crate::surroundings::{Description, ProbeInfo, Surroundings};
use crate::syntax::Place;
use crate::types::{TypeId, Types, split_stars};
use crate::version::Version;

/// The first variable of a program's.
const FIRST: u32 = dtrace_abi::dif::VAR_OTHER_USER as u32;
/// Behind the last one.
const END: u32 = dtrace_abi::dif::VAR_OTHER_MAX as u32;

/// What a module declares beside types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// Its constants and inlines.
    pub names: HashMap<String, IdentId>,
    /// Why not all is known of it.
    pub failed: Option<Box<Error>>,
}

/// What is known from one program to the next.
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
    /// What modules declare beside types, in the order of their rooms.
    pub modules: Vec<Module>,
    pub generation: u64,
    /// The version of D that names have been cut down to.
    pub version: Version,
    /// What is compiled is a library.
    pub library: bool,
    /// What is compiled was declared by a traced module.
    pub foreign: bool,
    /// Libraries that were read: the last parts of their paths.
    pub libraries: Vec<String>,
    /// `dtrace:::ERROR` has its clause for programs with `if`.
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

    /// What D declares by itself: `inline long NULL = 0;` (`_dtrace_hardwire`, dt_open.c).
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

    /// Forgets what a version of D did not have yet (`dt_reduce`, dt_cc.c).
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

    /// The number of a module, which it has from now on.
    pub fn module(&mut self, name: &str) -> usize {
        let room = self.types.make_room(name);
        let count = self.modules.len().max(room + 1);
        self.modules.resize_with(count, Module::default);
        room
    }

    /// Takes a module's types and constants; it is the one that declares now.
    pub fn declare_types(
        &mut self,
        room: usize,
        declared: &Declarations,
    ) -> std::result::Result<(), DeclaredError> {
        for (name, ty, value) in declared::define(&mut self.types, declared)? {
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
        Ok(())
    }

    /// What a name stands for that is none of the program's: those of the module that declares.
    pub fn declared_name(&self, name: &str) -> Option<IdentId> {
        let module = self.types.declaring().and_then(|room| self.modules.get(room));
        module.and_then(|module| module.names.get(name).copied())
    }

    /// What a name stands for in a module: in that of the probe that is compiled for, else in any.
    pub fn name_of_module(&self, name: &str) -> Option<IdentId> {
        let find = |room: usize| self.modules.get(room)?.names.get(name).copied();
        self.types.order().find_map(find)
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

/// Whose a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Global,
    Thread,
    Local,
    Agg,
}

/// The probe whose clause is being compiled.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub description: Description,
    /// What is known of it, if the description means one probe or as good as one.
    pub info: Option<ProbeInfo>,
    pub attr: Attribute,
}

/// A program that is being compiled.
pub(crate) struct Session<'a> {
    pub state: &'a mut State,
    pub surroundings: &'a dyn Surroundings,
    pub locals: Table,
    /// Parameters of inlines and translators.
    pub scopes: Vec<HashMap<String, IdentId>>,
    /// Where the compiler is.
    pub place: Place,
    pub region: Option<&'static str>,
    pub probe: Option<Probe>,
    pub pragmas: HashMap<String, Pragma>,
    /// Structs and unions whose members are being declared, the outermost first: none can be a member of itself.
    pub open: Vec<TypeId>,
    /// DIFOs as they were made, if they are to be listed.
    pub listed: Vec<Difo>,
}

impl<'a> Session<'a> {
    pub fn new(state: &'a mut State, surroundings: &'a dyn Surroundings) -> Self {
        Self {
            state,
            surroundings,
            locals: Table::new("clause local", FIRST, END),
            scopes: Vec::new(),
            place: Place { line: 1, start: 0 },
            region: None,
            probe: None,
            pragmas: HashMap::new(),
            open: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// An error where the compiler is.
    pub fn error<T>(&self, tag: ErrTag, message: impl Into<String>) -> Result<T> {
        self.error_at(self.place, tag, message)
    }

    /// An error somewhere else.
    pub fn error_at<T>(&self, place: Place, tag: ErrTag, message: impl Into<String>) -> Result<T> {
        let mut error = Error::new(tag, place, message);
        error.region = self.region;
        Err(error)
    }

    /// Does something with the compiler at another place.
    pub fn at<T>(&mut self, place: Place, what: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.place, place);
        let result = what(self)?;
        self.place = before;
        Ok(result)
    }

    pub fn ident(&self, id: IdentId) -> &Ident {
        self.state.ident(id)
    }

    pub fn ident_mut(&mut self, id: IdentId) -> &mut Ident {
        self.state.ident_mut(id)
    }

    pub fn types(&self) -> &Types {
        &self.state.types
    }

    pub fn table(&self, scope: Scope) -> &Table {
        match scope {
            Scope::Global => &self.state.globals,
            Scope::Thread => &self.state.thread,
            Scope::Local => &self.locals,
            Scope::Agg => &self.state.aggs,
        }
    }

    pub fn table_mut(&mut self, scope: Scope) -> &mut Table {
        match scope {
            Scope::Global => &mut self.state.globals,
            Scope::Thread => &mut self.state.thread,
            Scope::Local => &mut self.locals,
            Scope::Agg => &mut self.state.aggs,
        }
    }

    /// What a name stands for: a parameter, else a global.
    pub fn global(&self, name: &str) -> Option<IdentId> {
        let param = self.scopes.iter().rev().find_map(|scope| scope.get(name).copied());
        param.or_else(|| self.state.declared_name(name)).or_else(|| self.state.globals.get(name))
    }

    pub fn lookup(&self, scope: Scope, name: &str) -> Option<IdentId> {
        match scope {
            Scope::Global => self.global(name),
            _ => self.table(scope).get(name),
        }
    }

    /// What a name stands for that no program has declared.
    pub fn lookup_in_modules(&self, scope: Scope, name: &str) -> Option<IdentId> {
        (scope == Scope::Global).then(|| self.state.name_of_module(name)).flatten()
    }

    /// The type of a name, which may have a module before it.
    pub fn type_named(&mut self, name: &str) -> Option<TypeId> {
        let types = &mut self.state.types;
        let Some(mark) = name.find('`') else {
            return types
                .lookup(name)
                .or_else(|| self.surroundings.type_named(None, name.trim(), types))
                .or_else(|| self.conventional_type(None, name));
        };
        // The module is the word before the mark: `struct genunix`foo` is allowed as well.
        let begin =
            name[..mark].rfind(|c: char| c.is_whitespace() || c == '*').map_or(0, |at| at + 1);
        let module = &name[begin..mark];
        let rest = format!("{}{}", &name[..begin], &name[mark + 1..]);
        match module {
            "C" | "D" => types.lookup(&rest),
            _ => types
                .lookup_in(module, &rest)
                .or_else(|| self.surroundings.type_named(Some(module), rest.trim(), types))
                .or_else(|| self.conventional_type(Some(module), &rest)),
        }
    }

    /// A type that kernels have everywhere, or a pointer to one.
    fn conventional_type(&mut self, module: Option<&str>, name: &str) -> Option<TypeId> {
        let (base, _) = split_stars(name);
        let there =
            module.is_some() && self.types().has(&base) && is_conventional_type(module, &base);
        if !there && !self.declare_conventional(module, &base) {
            return None;
        }
        self.state.types.lookup(name)
    }
}
