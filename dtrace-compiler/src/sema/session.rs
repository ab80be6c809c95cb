//! The program that is being compiled.

use std::collections::HashMap;

use dtrace_abi::ErrTag;
use dtrace_abi::stability::Attribute;

use super::id::IdentId;
use super::ident::{Ident, Table};
use super::state::State;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::program::Difo;
use crate::surroundings::{Description, ProbeInfo, Surroundings};
use crate::types::{TypeId, Types};
use crate::version::Version;

/// A pragma for a name that is not declared yet.
#[derive(Clone, Debug)]
pub(crate) struct Pragma {
    /// The pragma's name.
    pub name: &'static str,
    pub attr: Option<Attribute>,
    pub since: Option<Version>,
    pub line: u32,
}

/// The scope of a name.
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
    /// The probe's properties, if the description matches one probe, or several with the same arguments.
    pub info: Option<ProbeInfo>,
    /// The properties of the probes whose arguments the clause uses by name.
    pub named: Option<ProbeInfo>,
    pub attr: Attribute,
}

/// A program that is being compiled.
pub(crate) struct Session<'a> {
    pub state: &'a mut State,
    pub surroundings: &'a dyn Surroundings,
    pub locals: Table,
    /// Parameters of inlines and translators.
    pub scopes: Vec<HashMap<String, IdentId>>,
    /// The place that is being compiled.
    pub place: Place,
    pub region: Option<&'static str>,
    pub probe: Option<Probe>,
    pub pragmas: HashMap<String, Pragma>,
    /// Structs and unions whose members are being declared, the outermost first: they cannot contain themselves.
    pub open: Vec<TypeId>,
    /// The DIFOs, if the user requested a listing.
    pub listed: Vec<Difo>,
}

impl<'a> Session<'a> {
    pub fn new(state: &'a mut State, surroundings: &'a dyn Surroundings) -> Self {
        Self {
            state,
            surroundings,
            locals: State::locals(),
            scopes: Vec::new(),
            place: Place { line: 1, start: 0 },
            region: None,
            probe: None,
            pragmas: HashMap::new(),
            open: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Returns an error at the current place.
    pub fn error<T>(&self, tag: ErrTag, message: impl Into<String>) -> Result<T> {
        self.error_at(self.place, tag, message)
    }

    /// Returns an error at another place.
    pub fn error_at<T>(&self, place: Place, tag: ErrTag, message: impl Into<String>) -> Result<T> {
        let mut error = Error::new(tag, place, message);
        error.region = self.region;
        Err(error)
    }

    /// Calls a function with another current place.
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

    /// Returns a parameter or a global by its name.
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

    /// Returns the global name that a module declares; `None` for other scopes.
    pub fn lookup_in_modules(&self, scope: Scope, name: &str) -> Option<IdentId> {
        (scope == Scope::Global).then(|| self.state.name_of_module(name)).flatten()
    }
}
