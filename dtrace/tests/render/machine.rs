//! The machine that the real dtrace(1) ran on: its own provider, and nothing else.

use dtrace_abi::stability::Attribute;
use dtrace_compiler::surroundings::{
    Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};

#[derive(Debug)]
pub struct Machine;

impl Surroundings for Machine {
    fn probes(&self, description: &Description) -> Matches {
        let known = description.id == 1 || ["BEGIN", "END"].contains(&description.name.as_str());
        if !known {
            return Matches::None;
        }
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        Matches::One(ProbeInfo { attributes, arguments: Vec::new() })
    }

    fn macro_variable(&self, name: &str) -> Option<i64> {
        ["pid", "ppid", "uid", "gid", "target"].contains(&name).then_some(0)
    }
}
