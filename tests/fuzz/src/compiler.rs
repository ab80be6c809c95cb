//! The compiler of D: any text compiles to a program, or gives an error with a place.

use dtrace_abi::Platform;
use dtrace_abi::dof::Dof;
use dtrace_abi::stability::Attribute;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::{Compiler, Source, dof};

/// Surroundings in which every named probe exists.
struct Anywhere;

impl Surroundings for Anywhere {
    fn probes(&self, description: &Description) -> Matches {
        let argument = |native: &str, mapping| Argument {
            name: String::new(),
            native: native.into(),
            translated: String::new(),
            mapping,
            obstacle: None,
        };
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        let arguments = vec![argument("int", 0), argument("char *", 1)];
        let info = ProbeInfo::new(String::new(), attributes, arguments);
        match description.name.as_str() {
            "" if description.id == 0 => Matches::None,
            name if name.contains('*') => Matches::Several(info),
            _ => Matches::One(info),
        }
    }

    fn probe(&self, id: u32) -> Option<Description> {
        Some(Description { id, name: format!("probe{id}"), ..Description::default() })
    }

    fn macro_variable(&self, name: &str) -> Option<i64> {
        ["pid", "target"].contains(&name).then_some(7)
    }
}

/// Runs the target.
///
/// # Panics
/// An error has no place, or a program cannot be written to DOF and read again.
pub fn run(input: &[u8]) {
    for platform in [Platform::Freebsd, Platform::Illumos] {
        let mut compiler = Compiler::new(platform, Options::default());
        match compiler.compile(Source::file(input), &Anywhere) {
            Ok(program) => {
                // A program that is too large for any kernel is an error.
                let Ok(bytes) = dof::program(&program, compiler.options()) else { continue };
                let dof = Dof::parse(&bytes).expect("the written DOF can be read");
                assert_eq!(dof.ecbs().count(), program.ecbs.len());
            }
            // Errors about full tables have no place and no tag.
            Err(error) => assert!(error.place.is_some() || error.tag.is_none(), "{error}"),
        }
    }
}
