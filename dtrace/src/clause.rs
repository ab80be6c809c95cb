//! What `-n`, `-P`, `-m` and `-f` are given: probe descriptions, as libdtrace reads them.

use std::fmt;

pub use dtrace_abi::spec::Field;
use dtrace_abi::spec::{Spec, SpecError};

/// One such option: descriptions, with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// As typed, which is how dtrace names it in messages.
    pub text: String,
    /// Its descriptions.
    pub descriptions: Vec<Description>,
}

/// A probe description: four names, each possibly empty or with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description(Spec);

/// Why an option's value cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid probe specifier {text}: {problem}")]
pub struct ClauseError {
    /// The value.
    pub text: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with an option's value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is D in it.
    #[error(
        "D programs (predicates and actions) come later; for now give the probe description alone"
    )]
    Program,
    /// More names than the option leaves room for.
    #[error("invalid probe description \"{0}\": Overspecified probe description")]
    Overspecified(String),
    /// A name is no name.
    #[error("invalid probe description \"{0}\": {1}")]
    Name(String, SpecError),
    /// No probe is meant.
    #[error("probe description {0} does not match any probes")]
    NoMatch(String),
}

impl Clause {
    /// Reads the value of an option whose description ends with `last`.
    ///
    /// # Errors
    /// It is no description, or has D in it.
    pub fn parse(text: &str, last: Field) -> Result<Self, ClauseError> {
        let error = |problem| ClauseError { text: text.to_owned(), problem };
        if text.contains(['{', '/', ';']) {
            return Err(error(Problem::Program));
        }
        let descriptions = text.split(',').map(|text| Description::parse(text.trim(), last));
        let descriptions = descriptions.collect::<Result<_, _>>().map_err(error)?;
        Ok(Self { text: text.to_owned(), descriptions })
    }

    /// The error for a description of this clause that matches nothing.
    pub fn no_match(&self, description: &Description) -> ClauseError {
        let problem = Problem::NoMatch(description.to_string());
        ClauseError { text: self.text.clone(), problem }
    }
}

impl Description {
    /// Names fill from the right, the last one being `last`; what is to the left of them is empty.
    fn parse(text: &str, last: Field) -> Result<Self, Problem> {
        Spec::parse(text, last).map(Self).map_err(|error| match error {
            SpecError::TooManyPieces { .. } => Problem::Overspecified(text.to_owned()),
            error => Problem::Name(text.to_owned(), error),
        })
    }

    /// All probes there are.
    pub fn any() -> Self {
        Self(Spec::ALL)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, last: Field) -> String {
        let clause = Clause::parse(text, last).unwrap();
        clause.descriptions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_fill_from_the_right() {
        assert_eq!(read("exec-success", Field::Name), ":::exec-success");
        assert_eq!(read("f:exec*", Field::Name), "::f:exec*");
        assert_eq!(read("proc:::", Field::Name), "proc:::");
        assert_eq!(read("", Field::Name), ":::");
        assert_eq!(read("proc", Field::Provider), "proc:::");
        assert_eq!(read("proc:mod", Field::Module), "proc:mod::");
        assert_eq!(read("f", Field::Function), "::f:");
        assert_eq!(read(" proc:::a , proc:::b ", Field::Name), "proc:::a proc:::b");
    }

    #[test]
    fn too_many_names() {
        for (text, last) in [
            ("a:b:c:d:e", Field::Name),
            ("a:b:c:d", Field::Function),
            ("a:b:c", Field::Module),
            ("a:b", Field::Provider),
        ] {
            let error = Clause::parse(text, last).unwrap_err().to_string();
            let expected = format!(
                "invalid probe specifier {text}: invalid probe description \"{text}\": \
                 Overspecified probe description"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_name_longer_than_any() {
        let text = "x".repeat(64);
        let error = Clause::parse(&text, Field::Name).unwrap_err().to_string();
        assert!(error.ends_with("name in probe description is 64 bytes long, at most 63 fit"));
    }

    #[test]
    fn programs_are_refused() {
        for text in ["proc:::exec-success { trace(1); }", "proc:::/pid == 1/", "a;b"] {
            let error = Clause::parse(text, Field::Name).unwrap_err();
            assert_eq!(error.problem, Problem::Program);
            assert!(error.to_string().starts_with(&format!("invalid probe specifier {text}: D ")));
        }
    }

    #[test]
    fn no_match_reads_as_dtrace_says_it() {
        let clause = Clause::parse("nosuch:::", Field::Name).unwrap();
        assert_eq!(
            clause.no_match(&clause.descriptions[0]).to_string(),
            "invalid probe specifier nosuch:::: probe description nosuch::: does not match any \
             probes"
        );
    }
}
