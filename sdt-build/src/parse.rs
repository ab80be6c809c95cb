//! The parser of provider files: providers, their probes, and their stability attributes from pragmas.

use std::collections::BTreeMap;
use std::fmt;

use dtrace_abi::limits::{ARGS, MAX_NAME};

use crate::lex::{Token, tokens};
use crate::types::{self, Type};

/// An error in a provider file, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The error.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// The providers of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Providers(pub Vec<Provider>);

/// A provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// Its probes, in order.
    pub probes: Vec<Probe>,
    /// The stability attributes, such as `Stable/Stable/Common`, by the part to which they apply: `provider`, `args`,
    /// ...
    pub stability: BTreeMap<String, String>,
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The name as DTrace lists it: `exec-success`.
    pub name: String,
    /// Its name in Rust: `exec_success`.
    pub rust: String,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name; `arg0` and so on if the declaration gives no name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The C type to which a translator of D converts the argument, if it differs from `ty`.
    pub translated: Option<String>,
}

/// The parts of a provider for which a pragma can state attributes.
const PARTS: [&str; 5] = ["provider", "module", "function", "name", "args"];

impl Providers {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, at: 0, typedefs: BTreeMap::new() };
        let mut providers = Vec::<Provider>::new();
        while !parser.is_at_end() {
            match parser.tokens[parser.at].text {
                "#" => {
                    parser.pragma(&mut providers)?;
                    continue;
                }
                "typedef" => {
                    parser.typedef()?;
                    continue;
                }
                word if TAGGED.contains(&word) => {
                    parser.tagged()?;
                    parser.expect(";")?;
                    continue;
                }
                _ => {}
            }
            let at = parser.expect("provider")?;
            let provider = parser.provider()?;
            if providers.iter().any(|other| other.name == provider.name) {
                return Err(
                    at.error(format!("another provider already has the name `{}`", provider.name))
                );
            }
            providers.push(provider);
        }
        if providers.is_empty() {
            return Err(parser.next().error("the file declares no provider"));
        }
        Ok(Self(providers))
    }
}

impl Providers {
    /// Converts the bytes of a file to text.
    ///
    /// # Errors
    /// The first byte that is not valid UTF-8.
    pub fn text(bytes: &[u8]) -> Result<&str, ParseError> {
        str::from_utf8(bytes).map_err(|error| {
            let (good, bad) = bytes.split_at(error.valid_up_to());
            let good = String::from_utf8_lossy(good);
            let start = good.rfind('\n').map_or(0, |end| end + 1);
            ParseError {
                line: good.matches('\n').count() + 1,
                column: good[start..].chars().count() + 1,
                message: format!("the byte {:#04x} is not UTF-8", bad[0]),
            }
        })
    }

    /// Returns the names after each word `provider`, for a file that cannot be parsed.
    pub fn names(text: &str) -> impl Iterator<Item = &str> {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words = text.split(move |c| !is_of_word(c)).filter(|word| !word.is_empty());
        std::iter::from_fn(move || {
            words.find(|word| *word == "provider")?;
            words.next()
        })
    }
}

struct Parser<'p, 't> {
    tokens: &'p [Token<'t>],
    at: usize,
    /// The definition of each typedef name: the words of its type, and the number of stars.
    typedefs: BTreeMap<&'t str, (Vec<&'t str>, usize)>,
}

/// The keywords that a tag follows in C.
const TAGGED: [&str; 3] = ["struct", "union", "enum"];

impl<'p, 't> Parser<'p, 't> {
    fn next(&mut self) -> &'p Token<'t> {
        // The last token marks the end; the position never moves past it.
        let token = &self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn peek(&self, text: &str) -> bool {
        self.tokens[self.at].text == text
    }

    fn is_at_end(&self) -> bool {
        self.at == self.tokens.len() - 1
    }

    fn expect(&mut self, text: &str) -> Result<&'p Token<'t>, ParseError> {
        let token = self.next();
        if token.text == text {
            return Ok(token);
        }
        let found =
            if token.text.is_empty() { "the end".into() } else { format!("`{}`", token.text) };
        Err(token.error(format!("expected `{text}`, found {found}")))
    }

    fn word(&mut self, what: &str) -> Result<&'p Token<'t>, ParseError> {
        let token = self.next();
        if token.is_word() { Ok(token) } else { Err(token.error(format!("expected {what}"))) }
    }

    /// Parses a type such as `struct proc` or `enum { A, B = 3 }`, and returns its words. Skips the contents, which only a C
    /// compiler understands.
    fn tagged(&mut self) -> Result<Vec<&'t str>, ParseError> {
        let mut words = vec![self.next().text];
        if !self.peek("{") {
            words.push(self.word("a name")?.text);
        }
        if self.peek("{") {
            let open = self.next();
            let mut depth = 1;
            while depth > 0 {
                if self.is_at_end() {
                    return Err(open.error("the definition is not closed: `}` is missing"));
                }
                match self.next().text {
                    "{" => depth += 1,
                    "}" => depth -= 1,
                    _ => {}
                }
            }
        }
        Ok(words)
    }

    /// Parses a typedef such as `typedef struct proc proc_t;`. From then on, the new name means its type.
    fn typedef(&mut self) -> Result<(), ParseError> {
        let at = self.expect("typedef")?;
        let (mut words, mut stars) = (Vec::new(), 0);
        if TAGGED.contains(&self.tokens[self.at].text) {
            words = self.tagged()?;
        }
        while !self.peek(";") {
            let token = self.next();
            match token.text {
                "const" | "volatile" => {}
                "*" => stars += 1,
                word if token.is_word() => words.push(word),
                _ => {
                    return Err(token.error(
                        "expected a type and its new name, such as `typedef struct proc proc_t;`",
                    ));
                }
            }
        }
        self.expect(";")?;
        let name = words.pop().filter(|_| !words.is_empty());
        let name = name.ok_or_else(|| at.error("expected a type and its new name"))?;
        // A typedef of a type without a tag has no other name, so the new name stays as it is.
        if !matches!(words[..], ["struct" | "union" | "enum"]) {
            let stands_for = self.resolved(words, stars);
            self.typedefs.insert(name, stands_for);
        }
        Ok(())
    }

    /// Returns the type that words mean, with typedefs replaced.
    fn resolved(&self, words: Vec<&'t str>, stars: usize) -> (Vec<&'t str>, usize) {
        let [name] = words[..] else { return (words, stars) };
        match self.typedefs.get(name) {
            Some((words, more)) => (words.clone(), stars + more),
            None => (words, stars),
        }
    }

    fn provider(&mut self) -> Result<Provider, ParseError> {
        let name = self.word("the provider's name")?;
        check_name(name, name.text)?;
        if name.text.starts_with('_') || name.text.ends_with('_') || name.text.contains("__") {
            return Err(name.error(
                "the name of a provider must not begin or end with an underscore, or contain two \
                 in a row",
            ));
        }
        let mut probes = Vec::<Probe>::new();
        self.expect("{")?;
        while !self.peek("}") {
            self.expect("probe")?;
            let at = &self.tokens[self.at];
            let probe = self.probe()?;
            if let Some(other) = probes.iter().find(|other| other.rust == probe.rust) {
                let message = format!(
                    "the Rust name `{}` of this probe is also that of `{}`: \
                     rename one",
                    probe.rust, other.name
                );
                return Err(at.error(message));
            }
            probes.push(probe);
        }
        self.expect("}")?;
        self.expect(";")?;
        Ok(Provider { name: name.text.into(), probes, stability: BTreeMap::new() })
    }

    fn probe(&mut self) -> Result<Probe, ParseError> {
        let at = self.word("the probe's name")?;
        let name = at.text.replace("__", "-");
        check_name(at, &name)?;
        if name.starts_with(['-', '_']) || name.contains("_-") {
            return Err(at.error(
                "the name of a probe must begin with a letter, and must not contain three \
                 underscores in a row",
            ));
        }
        let mut arguments = self.arguments()?;
        if arguments.len() > ARGS {
            return Err(at.error(format!("a probe can have at most {ARGS} arguments")));
        }
        if self.peek(":") {
            let colon = self.next();
            let translated = self.arguments()?;
            if translated.len() != arguments.len() {
                return Err(colon.error(format!(
                    "{} arguments are translated to {}: translate each argument to one",
                    arguments.len(),
                    translated.len()
                )));
            }
            for (argument, to) in arguments.iter_mut().zip(translated) {
                argument.translated = (argument.ty.c != to.ty.c).then_some(to.ty.c);
            }
        }
        self.expect(";")?;
        Ok(Probe { rust: name.replace('-', "_"), name, arguments })
    }

    /// `(int, char *path)`, `()` or `(void)`.
    fn arguments(&mut self) -> Result<Vec<Argument>, ParseError> {
        let mut arguments = Vec::new();
        self.expect("(")?;
        if self.peek(")") {
            self.next();
            return Ok(arguments);
        }
        loop {
            let first = &self.tokens[self.at];
            let mut words = Vec::new();
            let mut stars = 0;
            let mut name = None;
            loop {
                let token = &self.tokens[self.at];
                match token.text {
                    "," | ")" => break,
                    "*" if name.is_none() => stars += 1,
                    "const" | "volatile" => {}
                    word if token.is_word()
                        && (stars > 0 || is_name(word, &words, &self.tokens[self.at + 1])) =>
                    {
                        name = Some(word.to_owned());
                    }
                    word if token.is_word() && name.is_none() => words.push(word),
                    _ => {
                        return Err(
                            token.error("expected an argument: a type, and optionally a name")
                        );
                    }
                }
                self.next();
            }
            let is_void = words == ["void"] && stars == 0;
            if !(is_void && arguments.is_empty() && self.peek(")")) {
                if words.is_empty() {
                    return Err(first.error("expected a type"));
                }
                let (words, stars) = self.resolved(words, stars);
                let ty = types::of(&words, stars).map_err(|message| first.error(message))?;
                let name = name.unwrap_or_else(|| format!("arg{}", arguments.len()));
                arguments.push(Argument { name, ty, translated: None });
            }
            if self.next().text == ")" {
                return Ok(arguments);
            }
        }
    }

    /// `#pragma D attributes Stable/Stable/Common provider NAME args`
    fn pragma(&mut self, providers: &mut [Provider]) -> Result<(), ParseError> {
        let at = self.expect("#")?;
        if !(self.peek("pragma") && self.tokens.get(self.at + 1).is_some_and(|of| of.text == "D")) {
            return Err(
                at.error("only `#pragma D` is supported: run the preprocessor on the file first")
            );
        }
        self.at += 2;
        let kind = self.next();
        if kind.text != "attributes" {
            return Err(kind.error("only `#pragma D attributes` is supported here"));
        }
        let mut stability = String::new();
        for (index, what) in ["a stability", "a stability", "a class"].into_iter().enumerate() {
            if index > 0 {
                self.expect("/")?;
                stability.push('/');
            }
            stability.push_str(self.word(what)?.text);
        }
        self.expect("provider")?;
        let name = self.word("a provider's name")?;
        let part = self.word("`provider`, `module`, `function`, `name` or `args`")?;
        if !PARTS.contains(&part.text) {
            return Err(part.error("expected `provider`, `module`, `function`, `name` or `args`"));
        }
        let provider = providers.iter_mut().find(|provider| provider.name == name.text);
        let provider = provider.ok_or_else(|| {
            name.error(
                "the file declares no provider of this \
                 name before this line",
            )
        })?;
        provider.stability.insert(part.text.into(), stability);
        Ok(())
    }
}

/// Returns whether a word is the name of an argument and not part of its type: it is the last word, and a type precedes
/// it.
fn is_name(word: &str, words: &[&str], next: &Token<'_>) -> bool {
    const PARTS_OF_TYPES: [&str; 6] = ["unsigned", "signed", "long", "short", "int", "char"];
    let is_last = matches!(next.text, "," | ")");
    is_last && !PARTS_OF_TYPES.contains(&word) && !matches!(words, [] | ["struct"])
}

fn check_name(at: &Token<'_>, name: &str) -> Result<(), ParseError> {
    if name.len() > MAX_NAME {
        let length = name.len();
        return Err(at.error(format!(
            "the name has {length} bytes, more than DTrace's limit of {MAX_NAME}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "/* A comment */ provider p {\n probe a__b(int x, char *, unsigned long n, void);\n};";

    #[test]
    fn a_file_is_read() {
        let text = GOOD.replace(", void", "") + "#pragma D attributes A/B/C provider p args\n";
        let Providers(providers) = Providers::parse(&text).unwrap();
        let [Provider { name, probes, stability }] = &providers[..] else {
            panic!("{providers:?}")
        };
        assert_eq!((&**name, &*stability["args"]), ("p", "A/B/C"));
        let [Probe { name, rust, arguments }] = &probes[..] else { panic!("{probes:?}") };
        assert_eq!((&**name, &**rust), ("a-b", "a_b"));
        let arguments: Vec<_> =
            arguments.iter().map(|of| (&*of.name, &*of.ty.c, &*of.ty.rust)).collect();
        assert_eq!(
            arguments,
            [
                ("x", "int", "i32"),
                ("arg1", "char *", "&::core::ffi::CStr"),
                ("n", "unsigned long", "u64")
            ]
        );
    }

    #[test]
    fn declarations_of_c_are_taken() {
        let text = "struct proc;\ntypedef struct proc proc_t; typedef proc_t *procp_t;\n\
            typedef long long unsigned int big_t;\n\
            typedef struct { int a[3]; struct { char c; } in; } info_t;\n\
            typedef enum side { LEFT = -1, RIGHT } side_t; enum other { X }; union u { int i; };\n\
            provider p { probe a(proc_t *p, procp_t, big_t n, info_t *info, const big_t *, side_t); };";
        let error = Providers::parse(text).unwrap_err().to_string();
        assert_eq!(
            error,
            "6:80: `enum side` cannot be an argument of a probe: use a pointer to it, or an integer type"
        );
        let Providers(providers) = Providers::parse(&text.replace(", side_t)", ")")).unwrap();
        let arguments = &providers[0].probes[0].arguments;
        let types: Vec<_> = arguments.iter().map(|of| (&*of.ty.c, &*of.ty.rust)).collect();
        assert_eq!(
            types,
            [
                ("struct proc *", "*const Proc"),
                ("struct proc *", "*const Proc"),
                ("unsigned long long", "u64"),
                ("info_t *", "*const info_t"),
                ("unsigned long long *", "*const u64"),
            ]
        );
    }

    #[test]
    fn names_are_found_in_what_cannot_be_read() {
        let text = "typedef;;provider a{probe provider_x(int\nprovider\n b {";
        assert_eq!(Providers::names(text).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn bytes_that_are_no_text_have_a_place() {
        let text = "provider é {\n é probe";
        assert_eq!(Providers::text(text.as_bytes()), Ok(text));
        for (cut, expected) in [
            (&b"\xff"[..], "1:1: the byte 0xff is not UTF-8"),
            (b"/* \xc3\xa9\n \xe9", "2:2: the byte 0xe9 is not UTF-8"),
        ] {
            assert_eq!(Providers::text(cut).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let long = format!("provider p {{ probe {}(); }};", "x".repeat(64));
        for (text, expected) in [
            ("", "1:1: the file declares no provider"),
            ("provider p {", "1:13: expected `probe`, found the end"),
            ("provider p { };;", "1:16: expected `provider`, found `;`"),
            (
                GOOD,
                "2:45: `void` cannot be an argument of a probe: use a pointer to it, or an integer type",
            ),
            (
                "provider p { probe a(int; };",
                "1:25: expected an argument: a type, and optionally a name",
            ),
            (
                "provider p { probe a(int x y); };",
                "1:22: `int x` cannot be an argument of a probe: use a pointer to it, or an integer type",
            ),
            ("provider p { probe a(*x); };", "1:22: expected a type"),
            ("provider p { probe 9(); };", "1:20: expected the probe's name"),
            (
                "provider p { probe __a(); };",
                "1:20: the name of a probe must begin with a letter, and must not contain three underscores in a row",
            ),
            (
                "provider p { probe a__b();\nprobe a_b(); };",
                "2:7: the Rust name `a_b` of this probe is also that of `a-b`: rename one",
            ),
            ("provider p { };\nprovider p { };", "2:1: another provider already has the name `p`"),
            (
                "provider p_ { };",
                "1:10: the name of a provider must not begin or end with an underscore, or contain two in a row",
            ),
            (&long, "1:20: the name has 64 bytes, more than DTrace's limit of 63"),
            (
                "provider p { probe a(struct s *b) : (t *b, u *c); };",
                "1:35: 1 arguments are translated to 2: translate each argument to one",
            ),
            (
                "#include <sys/types.h>",
                "1:1: only `#pragma D` is supported: run the preprocessor on the file first",
            ),
            ("#pragma D depends_on x", "1:11: only `#pragma D attributes` is supported here"),
            (
                "#pragma D attributes A/B/C provider p args",
                "1:37: the file declares no provider of this name before this line",
            ),
            (
                "provider p { };\n#pragma D attributes A/B/C provider p all",
                "2:39: expected `provider`, `module`, `function`, `name` or `args`",
            ),
            (
                "provider p {\n probe a(int, int, int, int, int, int, int, int, int, int, int); };",
                "2:8: a probe can have at most 10 arguments",
            ),
            ("typedef x;", "1:1: expected a type and its new name"),
            (
                "typedef int (*f)(void);",
                "1:13: expected a type and its new name, such as `typedef struct proc proc_t;`",
            ),
            ("struct s { int a;", "1:10: the definition is not closed: `}` is missing"),
            ("/* x", "1:1: the comment is not closed: `*/` is missing"),
            ("provider p { probe a(int é); };", "1:26: 'é' is not allowed in a provider file"),
        ] {
            assert_eq!(Providers::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
