//! Control lines: `#pragma D ...` and `#error` (dt_pragma.c).

use dtrace_abi::ErrTag;
use dtrace_abi::stability::Attribute;

use super::Ident;
use super::session::{Pragma, Session};
use crate::error::Result;
use crate::syntax::ControlWord;
use crate::version::Version;

impl Session<'_> {
    /// Processes a control line.
    pub fn control(&mut self, words: &[ControlWord]) -> Result<()> {
        let (mut rest, mut pragma, mut d) = (words, false, false);
        while let [first, tail @ ..] = rest {
            let ControlWord::Word(word) = first else {
                return self.error(ErrTag::PragctlInval, "invalid control directive");
            };
            match word.as_str() {
                "pragma" if !pragma => pragma = true,
                "D" if pragma && !d => d = true,
                "error" => {
                    let words: String =
                        tail.iter().filter_map(word_text).map(|word| word + " ").collect();
                    return self.error(ErrTag::Pragerr, format!("#error: {words}"));
                }
                "ident" => return Ok(()),
                "attributes" if d => return self.pragma_attributes(tail),
                "binding" if d => return self.pragma_binding(tail),
                "depends_on" if d => return self.pragma_depends(tail),
                "option" if d => return self.pragma_option(tail),
                _ if d => {
                    return self.error(ErrTag::PragmaInval, format!("invalid D pragma: {word}"));
                }
                // Pragmas for other compilers are ignored.
                _ if pragma => return Ok(()),
                _ => {
                    let message = format!("invalid control directive: #{word}");
                    return self.error(ErrTag::PragctlInval, message);
                }
            }
            rest = tail;
        }
        Ok(())
    }

    fn malformed(&self, what: &str) -> Result<()> {
        self.error(ErrTag::PragmaMalform, format!("malformed #pragma {what}"))
    }

    fn pragma_attributes(&mut self, words: &[ControlWord]) -> Result<()> {
        let [ControlWord::Word(attr), ControlWord::Word(name), rest @ ..] = words else {
            return self.malformed("attributes <attributes> <ident>");
        };
        let Some(attr) = Attribute::parse(attr) else {
            let message = "invalid attributes specified by #pragma attributes";
            return self.error(ErrTag::PragmaInval, message);
        };
        if name == "provider" {
            return match rest {
                [ControlWord::Word(_), ControlWord::Word(part)] => match part.as_str() {
                    "provider" | "module" | "function" | "name" | "args" => Ok(()),
                    _ => {
                        let message = format!(
                            "invalid component \"{part}\" in attribute #pragma for provider"
                        );
                        self.error(ErrTag::PragmaInval, message)
                    }
                },
                _ => self.malformed("attributes <attributes> provider <name> <component>"),
            };
        }
        self.pragma_name("attributes", name, Some(attr), None)
    }

    fn pragma_binding(&mut self, words: &[ControlWord]) -> Result<()> {
        let [ControlWord::Str(version), ControlWord::Word(name), ..] = words else {
            return self.malformed("binding \"version\" <ident>");
        };
        let version = String::from_utf8_lossy(version);
        let Some(version) = Version::parse(&version) else {
            let message = "invalid version string specified by #pragma binding";
            return self.error(ErrTag::PragmaInval, message);
        };
        self.pragma_name("binding", name, None, Some(version))
    }

    /// Applies a pragma to a name: now if this program has declared it, else at its declaration.
    fn pragma_name(
        &mut self,
        pragma: &'static str,
        name: &str,
        attr: Option<Attribute>,
        since: Option<Version>,
    ) -> Result<()> {
        if let Some(id) = self.global(name) {
            if self.ident(id).generation != self.state.generation {
                let message =
                    format!("#pragma {pragma} cannot modify entity defined outside program scope");
                return self.error(ErrTag::PragmaScope, message);
            }
            if let Some(attr) = attr {
                self.ident_mut(id).attr = attr;
            }
            if since.is_some() {
                self.ident_mut(id).since = since;
            }
            return Ok(());
        }
        let line = self.place.line;
        let said =
            self.pragmas.entry(name.into()).or_insert(Pragma { name: pragma, attr, since, line });
        said.attr = attr.or(said.attr);
        said.since = since.or(said.since);
        Ok(())
    }

    /// Applies earlier pragmas to a name at its declaration.
    pub fn apply_pragma(&mut self, ident: &mut Ident) {
        if let Some(pragma) = self.pragmas.remove(&ident.name) {
            ident.attr = pragma.attr.unwrap_or(ident.attr);
            ident.since = pragma.since;
        }
    }

    /// Reports a pragma for a name that is not declared.
    pub fn check_pragmas(&mut self) -> Result<()> {
        let first = self.pragmas.values().min_by_key(|pragma| pragma.line);
        match first {
            Some(pragma) => {
                let place = crate::place::Place { line: pragma.line, ..self.place };
                self.error_at(
                    place,
                    ErrTag::PragmaUnused,
                    format!("unused #pragma {}", pragma.name),
                )
            }
            None => Ok(()),
        }
    }

    fn pragma_depends(&mut self, words: &[ControlWord]) -> Result<()> {
        let [ControlWord::Word(class), ControlWord::Word(name), ..] = words else {
            return self.malformed("depends_on <class> <name>");
        };
        if !matches!(class.as_str(), "provider" | "module" | "library") {
            let message = format!("invalid class {class} specified by #pragma depends_on");
            return self.error(ErrTag::PragmaInval, message);
        }
        if class == "library" && !self.state.library {
            let message = "main program may not explicitly depend on a library";
            return self.error(ErrTag::PragmaDepend, message);
        }
        let read = class == "library" && self.state.libraries.contains(name);
        if !read && !self.surroundings.has(class, name) {
            return self.error(ErrTag::PragmaDepend, format!("program requires {class} {name}"));
        }
        Ok(())
    }

    fn pragma_option(&mut self, words: &[ControlWord]) -> Result<()> {
        let [ControlWord::Word(option), rest @ ..] = words else {
            return self.malformed("option <option>=<val>");
        };
        if !rest.is_empty() {
            let message = "superfluous arguments specified for #pragma option";
            return self.error(ErrTag::PragmaMalform, message);
        }
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option.as_str(), None),
        };
        let before = self.state.options.strsize();
        if let Err(error) = self.state.options.set(name, value) {
            let message = match value {
                Some(value) => format!("failed to set option '{name}' to '{value}': {error}"),
                None => format!("failed to set option '{name}': {error}"),
            };
            return self.error_with_hint(ErrTag::PragmaOptset, message, error.hint(name));
        }
        self.state.reduce();
        let strsize = self.state.options.strsize();
        if strsize != before {
            self.state.types.set_strsize(strsize);
        }
        Ok(())
    }
}

fn word_text(word: &ControlWord) -> Option<String> {
    match word {
        ControlWord::Word(word) => Some(word.clone()),
        ControlWord::Str(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ControlWord::Int(_) => None,
    }
}
