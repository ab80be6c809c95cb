//! The compiler, as its users see it.

use std::collections::BTreeMap;

use dtrace_abi::action::Action;
use dtrace_abi::{ErrTag, Platform};

use crate::compile::{self, Specifies};
use crate::declared::{Declarations, DeclaredError};
use crate::error::Error;
use crate::libraries::{self, Library};
use crate::options::Options;
use crate::parse::{self, Context};
use crate::program::Program;
use crate::sema::{Function, IdKind, Session, State, is_conventional_type};
use crate::surroundings::Surroundings;
use crate::types::Types;

/// The compiler of D.
///
/// A compiler remembers what its programs declared: variables, aggregations and types of one are known
/// to the next, as with several `-n` and `-s` of one dtrace(1). A program that is refused leaves nothing
/// behind.
#[derive(Clone, Debug)]
pub struct Compiler {
    state: State,
}

/// A program's source, and how it came.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a [u8],
    /// Whether it is a file, whose errors name lines.
    pub file: bool,
    /// What the last part of a probe description is.
    pub specifies: Specifies,
    /// The program's arguments; the first is its name.
    pub arguments: &'a [String],
}

impl<'a> Source<'a> {
    /// A file's text, without arguments.
    pub const fn file(text: &'a [u8]) -> Self {
        Self { text, file: true, specifies: Specifies::Name, arguments: &[] }
    }

    /// A command line's text, without arguments.
    pub const fn line(text: &'a [u8]) -> Self {
        Self { text, file: false, specifies: Specifies::Name, arguments: &[] }
    }
}

/// An aggregation that some program declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Its name, without `@`; `_` if it has none.
    pub name: String,
    /// Its function, once it has one.
    pub function: Option<Action>,
    /// The function's argument.
    pub argument: u64,
}

struct ParseContext<'a> {
    state: &'a State,
    surroundings: &'a dyn Surroundings,
    source: Source<'a>,
}

impl Context for ParseContext<'_> {
    fn is_type(&self, name: &str) -> bool {
        if self.state.types.has(name) {
            return true;
        }
        let (module, name) = match name.rsplit_once('`') {
            Some(("C" | "D", name)) => return self.state.types.has(name),
            Some((module, name)) if self.state.types.has_in(module, name) => return true,
            Some((module, name)) => (Some(module), name),
            None => (None, name),
        };
        self.surroundings.has_type(module, name)
            || !self.state.options.no_libraries && is_conventional_type(module, name)
    }

    fn is_weak_type(&self, name: &str) -> bool {
        let known = self.state.types.has(name) || self.surroundings.has_type(None, name);
        !known && self.is_type(name)
    }

    fn is_name(&self, name: &str) -> bool {
        let state = self.state;
        state.globals.get(name).or_else(|| state.name_of_module(name)).is_some()
    }

    fn arguments(&self) -> &[String] {
        self.source.arguments
    }

    fn default_arguments(&self) -> bool {
        self.state.options.default_arguments
    }

    fn macro_variable(&self, name: &str) -> Option<i64> {
        self.surroundings.macro_variable(name)
    }

    fn is_file(&self) -> bool {
        self.source.file
    }

    fn only_declares(&self) -> bool {
        self.state.foreign
    }

    fn prefer_probes(&self) -> bool {
        self.state.options.prefer_probes
    }
}

impl Compiler {
    /// A compiler for a platform, with these options.
    pub fn new(platform: Platform, options: Options) -> Self {
        let mut state = State::new(platform, options);
        state.hardwire();
        Self { state }
    }

    /// The options, with those that programs have set.
    pub const fn options(&self) -> &Options {
        &self.state.options
    }

    /// The options, to be changed between programs.
    pub const fn options_mut(&mut self) -> &mut Options {
        &mut self.state.options
    }

    /// The types that have been declared.
    pub const fn types(&self) -> &Types {
        &self.state.types
    }

    /// The aggregations, by the numbers of their variables.
    pub fn aggregations(&self) -> BTreeMap<u32, Aggregation> {
        let idents = self.state.idents.iter().filter(|ident| ident.kind == IdKind::Agg);
        idents
            .map(|ident| {
                let function = ident.agg_function.and_then(|id| self.state.ident(id).function);
                let function = match function {
                    Some(Function::Agg(action)) => Some(action),
                    _ => None,
                };
                let argument = ident.signature.as_ref().map_or(0, |signature| signature.argument);
                (ident.id, Aggregation { name: ident.name.clone(), function, argument })
            })
            .collect()
    }

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// What libdtrace would have said against it.
    pub fn compile(
        &mut self,
        source: Source<'_>,
        surroundings: &dyn Surroundings,
    ) -> Result<Program, Box<Error>> {
        let mut state = self.state.clone();
        state.generation += 1;
        state.reduce();
        let strsize = state.options.strsize();
        state.types.set_strsize(strsize);
        for ident in &mut state.idents {
            ident.flags.referred = ident.flags.inline;
            ident.flags.modified = false;
        }
        let context = ParseContext { state: &state, surroundings, source };
        let parsed = parse::parse(source.text, &context);
        let mut session = Session::new(&mut state, surroundings);
        let result = compile::compile(&mut session, parsed, source.arguments, source.specifies);
        match result {
            Ok(program) => {
                self.state = state;
                Ok(program)
            }
            Err(mut error) => {
                error.in_file = source.file;
                Err(error)
            }
        }
    }

    /// Takes what a module [declares](crate::declared): types, constants, translators and inlines. Programs know them, and
    /// for the module's own probes they come before those of others; so two modules can declare different things of one name.
    /// Control lines and clauses in the text are errors: a traced module sets no option and adds no actions.
    ///
    /// An error is reported once a program names a probe of the module.
    pub fn module(&mut self, name: &str, declared: &[u8], surroundings: &dyn Surroundings) {
        self.state.foreign = true;
        self.built_in(name, declared, surroundings);
        self.state.foreign = false;
    }

    /// As [`module`](Self::module), for declarations that the tracer itself adds under a module's name, such as
    /// [`processes`](crate::declared::processes). These may contain `#pragma D attributes`.
    pub fn built_in(&mut self, name: &str, declared: &[u8], surroundings: &dyn Surroundings) {
        let room = self.state.module(name);
        if let Err(error) = self.declare(room, name, declared, surroundings) {
            self.state.modules[room].failed.get_or_insert(error);
        }
    }

    fn declare(
        &mut self,
        room: usize,
        name: &str,
        declared: &[u8],
        surroundings: &dyn Surroundings,
    ) -> Result<(), Box<Error>> {
        let wrong = |error: DeclaredError| Error::library(format!("module {name}: {error}"));
        let declared = Declarations::parse(declared).map_err(wrong)?;
        let mut state = self.state.clone();
        state.types.declare_in(Some(room));
        state.declare_types(room, &declared).map_err(wrong)?;
        state.types.declare_in(None);
        self.state = state;
        if declared.text.is_empty() || self.state.options.no_libraries {
            return Ok(());
        }
        self.state.types.declare_in(Some(room));
        let read = self.library(name, declared.text.as_bytes(), surroundings);
        self.state.types.declare_in(None);
        read
    }

    /// Reads libraries, each behind those that it depends on (`#pragma D depends_on library`). Those whose
    /// providers, modules or libraries are not there are left out; gives why.
    ///
    /// # Errors
    ///
    /// They depend on each other, or as [`compile`](Self::compile).
    pub fn libraries(
        &mut self,
        libraries: &[Library<'_>],
        surroundings: &dyn Surroundings,
    ) -> Result<Vec<Box<Error>>, Box<Error>> {
        let order =
            libraries::order(libraries).map_err(|cycle| Error::library(cycle.to_string()))?;
        let mut left_out = Vec::new();
        for index in order {
            let Library { name, text } = libraries[index];
            match self.library(name, text, surroundings) {
                Err(error) if error.tag == Some(ErrTag::PragmaDepend) => left_out.push(error),
                read => read?,
            }
        }
        Ok(left_out)
    }

    /// Reads a library: declarations, inlines, translators. Errors name the file.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn library(
        &mut self,
        name: &str,
        text: &[u8],
        surroundings: &dyn Surroundings,
    ) -> Result<(), Box<Error>> {
        let empty = std::mem::replace(&mut self.state.options.empty, true);
        self.state.library = true;
        let result = self.compile(Source::file(text), surroundings);
        self.state.library = false;
        self.state.options.empty = empty;
        match result {
            Ok(_) => {
                self.state.libraries.push(libraries::base_name(name).into());
                Ok(())
            }
            Err(mut error) => {
                error.file.get_or_insert_with(|| name.into());
                Err(error)
            }
        }
    }
}
