//! Providers in Rust.

use std::fmt::Write as _;

use crate::{Argument, Probe, Provider, Providers};

impl Providers {
    /// Returns the text for `sdt_provider!`, for each provider, with this visibility: `pub`, `pub(crate)` or nothing.
    pub fn declarations(&self, visibility: &str) -> Vec<String> {
        self.0.iter().map(|provider| provider.declaration(visibility)).collect()
    }

    /// Returns the providers as Rust items, for a file that is included.
    pub fn to_rust(&self, visibility: &str) -> String {
        let item = |declaration: String| format!("::sdt_core::sdt_provider! {{\n{declaration}}}\n");
        self.declarations(visibility).into_iter().map(item).collect()
    }
}

impl Provider {
    fn declaration(&self, visibility: &str) -> String {
        let mut text = String::new();
        if !self.stability.is_empty() {
            let parts: Vec<_> =
                self.stability.iter().map(|(of, is)| format!("{of} = \"{is}\"")).collect();
            let _ = writeln!(text, "    #[stability({})]", parts.join(", "));
        }
        let _ = writeln!(text, "    {visibility} {} {{", raw(&self.name));
        self.probes.iter().for_each(|probe| text.push_str(&probe.declaration()));
        text + "    }\n"
    }
}

impl Probe {
    fn declaration(&self) -> String {
        let arguments: Vec<_> = self.arguments.iter().map(Argument::declaration).collect();
        let (name, rust) = (&self.name, raw(&self.rust));
        format!("        #[name = \"{name}\"]\n        fn {rust}({});\n", arguments.join(", "))
    }
}

impl Argument {
    fn declaration(&self) -> String {
        let translated = self.translated.as_ref();
        let translated = translated.map(|to| format!(" => \"{to}\"")).unwrap_or_default();
        format!("{}: {}{translated}", raw(&self.name), self.ty.rust)
    }
}

/// Returns a C name as a Rust identifier: a keyword of Rust becomes a raw identifier.
fn raw(name: &str) -> String {
    const KEYWORDS: [&str; 48] = [
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do",
        "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
        "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
        "return", "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe",
        "unsized", "use", "virtual", "where", "while", "yield",
    ];
    match name {
        // These cannot be raw.
        "self" | "super" | "crate" | "Self" | "_" => format!("{name}_"),
        name if KEYWORDS.contains(&name) => format!("r#{name}"),
        name => name.into(),
    }
}
