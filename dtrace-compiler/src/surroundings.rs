//! The interface to the system on which programs run.

use std::fmt;

use dtrace_abi::stability::Attribute;

use crate::declared::Declarations;
use crate::types::{TypeId, Types};

/// A description of probes: four patterns, or a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Description {
    /// Number of the probe, or 0.
    pub id: u32,
    /// Provider.
    pub provider: String,
    /// Module.
    pub module: String,
    /// Function.
    pub function: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.id != 0 {
            return write!(f, "{}", self.id);
        }
        write!(f, "{}:{}:{}:{}", self.provider, self.module, self.function, self.name)
    }
}

/// The stability of the parts of a provider's probes (`dtrace_pattr_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderAttributes {
    /// Attributes of the provider's name.
    pub provider: Attribute,
    /// Attributes of the module names.
    pub module: Attribute,
    /// Attributes of the function names.
    pub function: Attribute,
    /// Attributes of the probe names.
    pub name: Attribute,
    /// Attributes of the arguments.
    pub args: Attribute,
}

impl ProviderAttributes {
    /// Returns attributes in which all parts have this attribute.
    pub const fn all(attribute: Attribute) -> Self {
        Self {
            provider: attribute,
            module: attribute,
            function: attribute,
            name: attribute,
            args: attribute,
        }
    }
}

/// An argument of a probe (`dtrace_argdesc_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, for `args.name`; empty if it has none. An argument in Rust that occupies two positions names both.
    pub name: String,
    /// Its type as the probe passes it.
    pub native: String,
    /// Its type as programs see it; empty if that is the same.
    pub translated: String,
    /// The index of the argument that the probe passes.
    pub mapping: u8,
    /// Why programs cannot use it, if they cannot.
    pub obstacle: Option<String>,
}

/// The properties of a probe that a description matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeInfo {
    /// Its module. The module's [declarations](crate::Compiler::module) take precedence over those of other modules.
    pub module: String,
    /// The provider's attributes.
    pub attributes: ProviderAttributes,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
    /// Whether it is the entry or the return of a function, whose arguments are those of the function. The arguments are missing in
    /// the result of [`Surroundings::probes`], because reading their types takes time; [`Surroundings::each`] has them.
    pub is_function: bool,
    /// Why the arguments of a function have no types.
    pub untyped: Option<String>,
}

impl ProbeInfo {
    /// Creates the properties of a probe that is not one of a function.
    pub const fn new(
        module: String,
        attributes: ProviderAttributes,
        arguments: Vec<Argument>,
    ) -> Self {
        Self { module, attributes, arguments, is_function: false, untyped: None }
    }
}

/// The probes that a description matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matches {
    /// No probe.
    None,
    /// One probe.
    One(ProbeInfo),
    /// Several probes; the properties are those of the first.
    Several(ProbeInfo),
}

/// A variable or function of a kernel or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The module it is in.
    pub module: String,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its type. `None` if unknown: then it is an unsigned number of its size, or an array of bytes.
    pub ty: Option<TypeId>,
}

/// The system on which programs run: its probes, and the types and symbols of its modules.
///
/// All methods except [`probes`](Self::probes) have a default for a system without these objects.
pub trait Surroundings {
    /// Returns the probes that a description matches.
    fn probes(&self, description: &Description) -> Matches;

    /// Returns each probe that a description matches, described by its exact names. If probes differ only in their functions,
    /// returns one of them, unless they are probes [of functions](ProbeInfo::is_function). By default, returns the description itself, with the properties of the first probe.
    fn each(&self, description: &Description) -> Vec<(Description, ProbeInfo)> {
        match self.probes(description) {
            Matches::None => Vec::new(),
            Matches::One(info) | Matches::Several(info) => vec![(description.clone(), info)],
        }
    }

    /// Returns the description of a probe by its ID. A program enables the probe by its names: kernels ignore the ID.
    fn probe(&self, id: u32) -> Option<Description> {
        let _ = id;
        None
    }

    /// Returns a type of a module, or of any module. Adds the type and its parts to `types`.
    fn type_named(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<TypeId> {
        let _ = (module, name, types);
        None
    }

    /// Returns the declarations of a struct or union, and of those in it, by its name: `struct shop::Order`. The compiler calls this
    /// when a program uses a pointer to it: an [argument of a function](ProbeInfo::is_function), or a member of a struct that this
    /// method has declared. Reading types from debug information takes time, so they are not declared earlier.
    fn declarations(&self, name: &str) -> Option<Declarations> {
        let _ = name;
        None
    }

    /// Returns whether a type exists. The compiler calls this for every name in a program, so a system with types should have a
    /// faster implementation.
    fn has_type(&self, module: Option<&str>, name: &str) -> bool {
        self.type_named(module, name, &mut Types::new(256)).is_some()
    }

    /// Returns a symbol of a module, or of the kernel itself.
    fn symbol(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<Symbol> {
        let _ = (module, name, types);
        None
    }

    /// Returns the value of a macro variable such as `target`, `pid` or `uid`.
    fn macro_variable(&self, name: &str) -> Option<i64> {
        let _ = name;
        None
    }

    /// Returns whether a `provider`, `module` or `library` exists, for `#pragma D depends_on` and for error messages.
    fn has(&self, class: &str, name: &str) -> bool {
        let _ = (class, name);
        false
    }
}

/// A system that has every probe, with arguments of unknown types, and nothing else: for programs that are compiled before the
/// system is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryProbe;

impl Surroundings for EveryProbe {
    fn probes(&self, _: &Description) -> Matches {
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        Matches::One(ProbeInfo::new(String::new(), attributes, Vec::new()))
    }
}
