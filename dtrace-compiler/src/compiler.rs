//! The public interface of the compiler.

use std::collections::BTreeMap;

use dtrace_abi::action::Action;
use dtrace_abi::{ErrTag, Platform, System};

use crate::compile::{self, Specifies};
use crate::declared::{self, Declarations, DeclaredError};
use crate::error::Error;
use crate::libraries::{self, Library};
use crate::options::Options;
use crate::parse::{self, Context};
use crate::program::Program;
use crate::sema::{Function, IdKind, Session, State, is_conventional_type};
use crate::stack::with_room;
use crate::surroundings::Surroundings;
use crate::types::Types;

/// The compiler of D.
///
/// The declarations of a program are known to later programs: variables, aggregations and types, as with several `-n` and `-s` of
/// one dtrace(1). A refused program leaves the compiler unchanged.
#[derive(Clone, Debug)]
pub struct Compiler {
    state: State,
}

/// The source of a program.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a [u8],
    /// Whether the source is a file, whose errors name lines.
    pub file: bool,
    /// The meaning of the last part of a probe description.
    pub specifies: Specifies,
    /// The program's arguments; the first is its name.
    pub arguments: &'a [String],
}

impl<'a> Source<'a> {
    /// Creates the source of a file, without arguments.
    pub const fn file(text: &'a [u8]) -> Self {
        Self { text, file: true, specifies: Specifies::Name, arguments: &[] }
    }

    /// Creates the source of a command line, without arguments.
    pub const fn line(text: &'a [u8]) -> Self {
        Self { text, file: false, specifies: Specifies::Name, arguments: &[] }
    }
}

/// An aggregation that a program has declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Its name, without `@`; `_` if it has none.
    pub name: String,
    /// Its function, after its first use.
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
    /// Creates a compiler for a platform, with options.
    pub fn new(platform: Platform, options: Options) -> Self {
        let mut state = State::new(platform, options);
        state.hardwire();
        Self { state }
    }

    /// Returns the options, with those that programs have set.
    pub const fn options(&self) -> &Options {
        &self.state.options
    }

    /// Returns the options for changes between programs.
    pub const fn options_mut(&mut self) -> &mut Options {
        &mut self.state.options
    }

    /// Returns the declared types.
    pub const fn types(&self) -> &Types {
        &self.state.types
    }

    /// Returns the aggregations by the numbers of their variables.
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
    /// The error that libdtrace would report.
    pub fn compile(
        &mut self,
        source: Source<'_>,
        surroundings: &dyn Surroundings,
    ) -> Result<Program, Box<Error>> {
        with_room(|| self.compile_with_room(source, surroundings))
    }

    fn compile_with_room(
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
            Ok(mut program) => {
                self.state = state;
                program.source = source.text.to_vec();
                Ok(program)
            }
            Err(mut error) => {
                error.in_file = source.file;
                Err(error)
            }
        }
    }

    /// Adds the [declarations](crate::declared) of a module: types, constants, translators and inlines. For the
    /// module's own probes they precede those of other modules, so two modules can declare different objects of one
    /// name. Control lines and clauses in the text are errors: a traced module sets no option and adds no actions.
    ///
    /// An error in the declarations is reported when a program names a probe of the module.
    pub fn module(&mut self, name: &str, declared: &[u8], surroundings: &dyn Surroundings) {
        self.state.foreign = true;
        self.built_in(name, declared, surroundings);
        self.state.foreign = false;
    }

    /// Adds declarations of the tracer itself under a module's name, such as [`processes`](crate::declared::processes). Unlike those
    /// of a [`module`](Self::module), they may contain `#pragma D attributes`.
    pub fn built_in(&mut self, name: &str, declared: &[u8], surroundings: &dyn Surroundings) {
        let room = self.state.module(name);
        if let Err(error) = self.declare(room, name, declared, surroundings) {
            self.state.modules[room].failed.get_or_insert(error);
        }
    }

    /// Adds the numbers that a system assigns to names such as `ENOENT`, `SIGKILL`, `O_RDONLY` and `IPPROTO_TCP`, under
    /// a module's name. Modules that were added before take precedence. With the option `nolibs`, adds nothing.
    pub fn constants(&mut self, name: &str, system: System) {
        if self.state.options.no_libraries {
            return;
        }
        let Some(int) = self.state.types.lookup("int") else { return };
        let room = self.state.module(name);
        for (name, value) in declared::constants(system) {
            self.state.declare_constant(room, name.into(), int, value);
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

    /// Compiles libraries, each after those on which it depends (`#pragma D depends_on library`). Skips libraries that
    /// depend on missing providers, modules or libraries, and returns the reasons.
    ///
    /// # Errors
    /// The libraries depend on each other, or see [`compile`](Self::compile).
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

    /// Compiles a library of declarations, inlines and translators. Errors name the file.
    ///
    /// # Errors
    ///
    /// See [`compile`](Self::compile).
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
