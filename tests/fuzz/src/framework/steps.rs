//! The steps: the calls that an input represents.

use std::ffi::CString;

use arbitrary::Arbitrary;
use sdt_framework::{Field, Spec};

use super::Probe;

/// A step. Numbers of objects are taken modulo their count plus one; the additional number stands for an object that
/// does not exist.
#[derive(Debug, Arbitrary)]
pub(super) enum Step {
    Register { name: Name },
    Unregister { provider: u8 },
    Invalidate { provider: u8 },
    Condense { provider: u8 },
    Create { provider: u8, module: Name, name: Name },
    Unload { module: Name },
    Open,
    Close { consumer: u8 },
    Enable { consumer: u8, spec: Text },
    Disable { consumer: u8, spec: Text },
    List { spec: Text },
    Go { consumer: u8 },
    Stop { consumer: u8 },
    Fire { cpu: u8, probe: u8, arg: u64, five: bool },
    Drain { consumer: u8, cpu: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Arbitrary)]
pub(super) enum Name {
    One,
    Two,
    Three,
}

impl Name {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
            Self::Three => "three",
        }
    }

    pub(super) fn c(self) -> CString {
        CString::new(self.text()).expect("no name holds a zero byte")
    }
}

/// A probe description.
#[derive(Debug, Arbitrary)]
pub(super) enum Text {
    All,
    Pieces {
        provider: Option<Name>,
        module: Option<Name>,
        name: Option<Name>,
    },
    /// Any text.
    Any {
        text: String,
        last: u8,
    },
}

impl Text {
    pub(super) fn parse(&self) -> Option<Spec> {
        let piece = |name: &Option<Name>| name.map_or("", Name::text);
        match self {
            Self::All => Some(Spec::ALL),
            Self::Pieces { provider, module, name } => {
                let text = format!("{}:{}::{}", piece(provider), piece(module), piece(name));
                Some(Spec::parse(&text, Field::Name).expect("a description of four pieces"))
            }
            Self::Any { text, last } => {
                let fields = [Field::Provider, Field::Module, Field::Function, Field::Name];
                Spec::parse(text, fields[usize::from(*last) % 4]).ok()
            }
        }
    }

    /// Returns whether the description matches a probe; `None` if the model cannot decide.
    pub(super) fn matches(&self, of_provider: Name, probe: &Probe) -> Option<bool> {
        let is = |pattern: &Option<Name>, name| pattern.is_none_or(|pattern| pattern == name);
        match self {
            Self::All => Some(true),
            Self::Pieces { provider, module, name } => {
                Some(is(provider, of_provider) && is(module, probe.module) && is(name, probe.name))
            }
            Self::Any { .. } => None,
        }
    }
}
