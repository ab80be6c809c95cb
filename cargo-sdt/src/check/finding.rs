//! Findings: a broken rule and its place in the module.

use std::cell::RefCell;
use std::fmt::{self, Display};

use super::rules::{Level, Rule};

/// A violation of a rule at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The place.
    pub place: Place,
    /// The rule.
    pub rule: Rule,
    /// The texts for the `{}` of the message, in order.
    pub details: Vec<String>,
}

impl Finding {
    /// Makes a finding.
    pub(super) fn new(place: Place, rule: Rule, details: &[&dyn Display]) -> Self {
        debug_assert_eq!(rule.message().matches("{}").count(), details.len(), "{rule:?}");
        Self { place, rule, details: details.iter().map(ToString::to_string).collect() }
    }

    /// Returns the severity of its rule.
    pub fn level(&self) -> Level {
        self.rule.level()
    }

    /// Returns whether the module must not be loaded.
    pub fn is_error(&self) -> bool {
        self.level() == Level::Error
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)?;
        let mut details = self.details.iter();
        for (index, text) in self.rule.message().split("{}").enumerate() {
            if index > 0 {
                f.write_str(details.next().map_or("?", String::as_str))?;
            }
            f.write_str(text)?;
        }
        Ok(())
    }
}

/// A place in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A section as a whole.
    Section(String),
    /// An offset in a section.
    Offset(String, u64),
    /// A symbol.
    Symbol(String),
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Section(section) => write!(f, "{section}: "),
            Self::Offset(section, offset) => write!(f, "{section}+{offset:#x}: "),
            Self::Symbol(symbol) => write!(f, "symbol {symbol}: "),
        }
    }
}

/// The findings in a module, as the rules add them.
#[derive(Debug, Default)]
pub(super) struct Findings(RefCell<Vec<Finding>>);

impl Findings {
    /// Returns the warnings and notes. If there is an error, returns all findings as an error.
    pub(super) fn done(self) -> Result<Vec<Finding>, Vec<Finding>> {
        let all = self.0.into_inner();
        if all.iter().any(Finding::is_error) { Err(all) } else { Ok(all) }
    }

    fn add(&self, place: Place, rule: Rule, details: &[&dyn Display]) {
        self.0.borrow_mut().push(Finding::new(place, rule, details));
    }

    /// Adds a finding about the file.
    pub(super) fn file(&self, rule: Rule, details: &[&dyn Display]) {
        self.add(Place::File, rule, details);
    }

    /// Adds a finding about a section.
    pub(super) fn section(&self, section: &str, rule: Rule, details: &[&dyn Display]) {
        self.add(Place::Section(section.into()), rule, details);
    }

    /// Adds a finding about an offset in a section.
    pub(super) fn offset(&self, section: &str, at: u64, rule: Rule, details: &[&dyn Display]) {
        self.add(Place::Offset(section.into(), at), rule, details);
    }

    /// Adds a finding about a symbol.
    pub(super) fn symbol(&self, symbol: &str, rule: Rule, details: &[&dyn Display]) {
        self.add(Place::Symbol(symbol.into()), rule, details);
    }
}

/// Shows a number as C and assembly do.
pub(super) struct Hex(pub(super) u64);

impl Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Shows a distance with its sign.
pub(super) struct Signed(pub(super) i64);

impl Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        write!(f, "{sign}{:#x}", self.0.unsigned_abs())
    }
}

/// Returns bytes in hexadecimal, `0f 1f`.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
