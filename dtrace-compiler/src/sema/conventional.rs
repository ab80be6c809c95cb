//! Names that every kernel in C declares: the types that CTF describes in such kernels, for kernels without CTF.

use std::collections::HashMap;
use std::sync::LazyLock;

use dtrace_abi::dif::CtfKind;

use super::Session;
use crate::parse::{self, Context};
use crate::syntax::ItemKind;

/// The modules to which these types belong.
const KERNELS: [&str; 4] = ["kernel", "genunix", "unix", "vmlinux"];

/// The declarations by their names: `uid_t`, `struct in6_addr`, `AF_INET`.
static DECLARATIONS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    split(include_str!("conventional.d")).map(|text| (name(text), text)).collect()
});

/// Returns the declarations in a text, without comments.
fn split(mut text: &'static str) -> impl Iterator<Item = &'static str> {
    std::iter::from_fn(move || {
        loop {
            text = text.trim_start();
            match text.strip_prefix("/*") {
                Some(comment) => text = comment.split_once("*/")?.1,
                None => break,
            }
        }
        let mut depth = 0;
        let end = text.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && c == ';'
        })?;
        let (declaration, rest) = text.split_at(end + 1);
        text = rest;
        Some(declaration)
    })
}

fn name(declaration: &str) -> &str {
    let declaration = declaration.trim_end_matches(';');
    match declaration.split_once(' ') {
        Some(("struct", _)) => declaration.split('{').next().unwrap_or_default().trim_end(),
        Some(("inline", _)) => declaration.split([' ', '[']).nth(2).unwrap_or_default(),
        _ => declaration.rsplit([' ', '*']).next().unwrap_or_default(),
    }
}

/// Returns whether such a type exists, in a kernel's module or without a module.
pub(crate) fn is_type(module: Option<&str>, name: &str) -> bool {
    let declaration = DECLARATIONS.get(name);
    is_kernel(module) && declaration.is_some_and(|text| !text.starts_with("inline"))
}

fn is_kernel(module: Option<&str>) -> bool {
    module.is_none_or(|module| KERNELS.contains(&module))
}

/// The context in which the declarations are parsed.
struct Known<'a>(&'a Session<'a>);

impl Context for Known<'_> {
    fn is_type(&self, name: &str) -> bool {
        self.0.types().has(name) || is_type(None, name)
    }

    fn is_weak_type(&self, name: &str) -> bool {
        !self.0.types().has(name)
    }

    fn is_name(&self, _: &str) -> bool {
        false
    }

    fn arguments(&self) -> &[String] {
        &[]
    }

    fn default_arguments(&self) -> bool {
        false
    }

    fn macro_variable(&self, _: &str) -> Option<i64> {
        None
    }

    fn is_file(&self) -> bool {
        true
    }

    fn prefer_probes(&self) -> bool {
        false
    }
}

impl Session<'_> {
    /// Declares a conventional name, in a kernel's module or without a module. Returns whether it exists.
    pub fn declare_conventional(&mut self, module: Option<&str>, name: &str) -> bool {
        if self.state.options.no_libraries || !is_kernel(module) {
            return false;
        }
        let Some(&text) = DECLARATIONS.get(name) else { return false };
        if let Some(tag) = name.strip_prefix("struct ").filter(|_| !text.contains('{')) {
            self.state.types.forward(CtfKind::Struct, tag);
            return true;
        }
        let parsed = parse::parse(text.as_bytes(), &Known(self));
        let place = self.place;
        let declared = parsed.program.items.iter().all(|item| {
            let done = match &item.kind {
                ItemKind::Decl(specs, declarators) => self.declare(specs, declarators),
                ItemKind::Inline(specs, declarator, value) => {
                    self.declare_inline(place, specs, declarator, value)
                }
                _ => return false,
            };
            done.is_ok()
        });
        self.place = place;
        declared
    }
}

#[cfg(test)]
mod tests {
    use dtrace_abi::Platform;

    use super::*;
    use crate::options::Options;
    use crate::sema::State;
    use crate::surroundings::{Description, Matches, Surroundings};

    struct Nowhere;

    impl Surroundings for Nowhere {
        fn probes(&self, _: &Description) -> Matches {
            Matches::None
        }
    }

    #[test]
    fn each_can_be_declared_by_itself() {
        assert!(DECLARATIONS.len() > 70);
        for name in DECLARATIONS.keys() {
            let mut state = State::new(Platform::Freebsd, Options::default());
            state.hardwire();
            let mut session = Session::new(&mut state, &Nowhere);
            assert!(session.declare_conventional(None, name), "{name}");
            let ty = session.state.types.has(name);
            assert!(ty || session.global(name).is_some(), "{name}");
            assert_eq!(ty, is_type(Some("genunix"), name), "{name}");
        }
    }
}
