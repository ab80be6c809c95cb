//! Finds types by their names, which may begin with a module.

use super::{Session, is_conventional_type};
use crate::types::{TypeId, split_stars};

impl Session<'_> {
    /// Returns the type of a name, which may begin with a module.
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

    /// Returns a type that every kernel has, or a pointer to one.
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
