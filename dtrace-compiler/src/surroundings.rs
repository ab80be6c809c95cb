//! What the compiler asks of where its programs are to run.

use std::fmt;

use dtrace_abi::stability::Attribute;

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

/// How stable the parts of a provider's probes are (`dtrace_pattr_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderAttributes {
    /// Its own name.
    pub provider: Attribute,
    /// Names of modules.
    pub module: Attribute,
    /// Names of functions.
    pub function: Attribute,
    /// Names of probes.
    pub name: Attribute,
    /// Arguments.
    pub args: Attribute,
}

impl ProviderAttributes {
    /// The same for all parts.
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
    /// Its type as the probe passes it.
    pub native: String,
    /// Its type as programs see it; empty if that is the same.
    pub translated: String,
    /// Which of the probe's arguments it is.
    pub mapping: u8,
}

/// What is known of a probe that a description matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeInfo {
    /// Its module: what that [declares](crate::Compiler::module) comes before what others do.
    pub module: String,
    /// The provider's attributes.
    pub attributes: ProviderAttributes,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
}

/// What a description matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matches {
    /// Nothing.
    None,
    /// One probe.
    One(ProbeInfo),
    /// Several, of which this is the first.
    Several(ProbeInfo),
}

/// A variable or function of a kernel's or a process's.
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
    /// Its type, if that is known; else it is taken for an unsigned number of its size, or bytes.
    pub ty: Option<TypeId>,
}

/// Where programs are to run: which probes there are, which types and symbols modules have.
///
/// Everything has an answer for a place that has nothing of the kind, but for the probes.
pub trait Surroundings {
    /// The probes that a description matches.
    fn probes(&self, description: &Description) -> Matches;

    /// The number and the names of the probe with a number, as `-l` lists them. A program enables it by its names: kernels
    /// ignore the number.
    fn probe(&self, id: u32) -> Option<Description> {
        let _ = id;
        None
    }

    /// A type of a module's, or, without one, of any. What it is made of is added to `types`.
    fn type_named(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<TypeId> {
        let _ = (module, name, types);
        None
    }

    /// Whether there is such a type. Asked of every name that is read, so worth a shorter way than this
    /// where there are types at all.
    fn has_type(&self, module: Option<&str>, name: &str) -> bool {
        self.type_named(module, name, &mut Types::new(256)).is_some()
    }

    /// A symbol of a module's, or, without one, of the kernel itself.
    fn symbol(&self, module: Option<&str>, name: &str, types: &mut Types) -> Option<Symbol> {
        let _ = (module, name, types);
        None
    }

    /// What `$name` stands for: `target`, `pid`, `uid` and so on.
    fn macro_variable(&self, name: &str) -> Option<i64> {
        let _ = name;
        None
    }

    /// Whether `#pragma D depends_on` finds what it wants: a `provider`, `module` or `library`.
    fn has(&self, class: &str, name: &str) -> bool {
        let _ = (class, name);
        false
    }
}

/// A place where there is every probe that is asked for, with arguments of which no type is known, and nothing else: for
/// programs that are compiled before anybody knows where they will run.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryProbe;

impl Surroundings for EveryProbe {
    fn probes(&self, _: &Description) -> Matches {
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        Matches::One(ProbeInfo { module: String::new(), attributes, arguments: Vec::new() })
    }
}
