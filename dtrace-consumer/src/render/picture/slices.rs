//! Pairs of probes that are the ends of a slice of the timeline.

use std::str::FromStr;

use dtrace_abi::spec::{Field, Spec};
use dtrace_compiler::surroundings::Description;

/// The last words of the names of pairs of probes.
const PAIRS: [(&str, &str); 3] = [("start", "done"), ("begin", "end"), ("entry", "return")];
/// The last words of the probes of functions.
const OF_FUNCTION: [&str; 2] = ["entry", "return"];

/// The argument whose value is equal at both ends, unless a rule names another one.
const ID: &str = "id";
/// The variable that selects slices on the tracks of threads.
const TID: &str = "tid";

/// A rule for slices: `START,DONE` or `START,DONE,KEY`, where `START` and `DONE` are descriptions of probes, and `KEY` is the name of
/// an argument that both probes record, or `tid`.
#[derive(Clone, Debug)]
pub struct SliceRule {
    start: Spec,
    done: Spec,
    key: Option<String>,
}

/// A rule for slices cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: a rule for slices is START,DONE or START,DONE,KEY, with two descriptions of probes: {1}"
)]
pub struct SliceError(String, String);

impl FromStr for SliceRule {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<Self, SliceError> {
        let error = |why: String| SliceError(text.to_owned(), why);
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let (start, done, key) = match parts[..] {
            [start, done] => (start, done, None),
            [start, done, key] if !key.is_empty() => (start, done, Some(key)),
            _ => return Err(error(format!("it has {} parts", parts.len()))),
        };
        let spec = |part: &str| match part {
            "" => Err(error("a description is empty".to_owned())),
            _ => Spec::parse(part, Field::Name).map_err(|why| error(why.to_string())),
        };
        let key = key.map(|key| key.strip_prefix("args.").unwrap_or(key).to_owned());
        Ok(Self { start: spec(start)?, done: spec(done)?, key })
    }
}

/// An end of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Whether the slice begins here.
    pub is_start: bool,
    /// The slice's name.
    pub name: String,
    /// The rule by which the other end is found.
    pub key: Key,
}

/// The rule by which the two ends of a slice are matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// By an argument with this name.
    Argument(String),
    /// By the thread.
    Thread,
    /// By the argument `id` if it is recorded, otherwise by the thread.
    Any,
}

impl Key {
    /// Returns the name of the argument.
    pub fn argument(&self) -> Option<&str> {
        match self {
            Self::Argument(name) => Some(name),
            Self::Thread => None,
            Self::Any => Some(ID),
        }
    }

    /// Returns whether the thread is a key.
    pub fn is_thread(&self) -> bool {
        !matches!(self, Self::Argument(_))
    }
}

/// Returns the part of a probe's name before the word `last`, without the dash; `None` if the name does not end with
/// the word.
fn before<'a>(name: &'a str, last: &str) -> Option<&'a str> {
    let stem = name.strip_suffix(last)?;
    if stem.is_empty() { Some(stem) } else { stem.strip_suffix('-') }
}

impl SliceRule {
    fn end(&self, probe: &Description) -> Option<End> {
        let names = [&probe.provider, &probe.module, &probe.function, &probe.name];
        let names = names.map(|name| name.as_bytes());
        let is_start = self.start.matches(names);
        if !is_start && !self.done.matches(names) {
            return None;
        }
        // Both ends have the name of the first.
        let [.., start] = self.start.exact();
        let start = String::from_utf8_lossy(start.unwrap_or(b"slice"));
        let stem = PAIRS.iter().find_map(|(first, _)| before(&start, first));
        let name = stem.filter(|stem| !stem.is_empty()).unwrap_or(&start).to_owned();
        let key = match self.key.as_deref() {
            None => Key::Any,
            Some(TID) => Key::Thread,
            Some(argument) => Key::Argument(argument.to_owned()),
        };
        Some(End { is_start, name, key })
    }
}

/// Returns the end of a slice that a probe marks according to its name.
fn by_name(probe: &Description) -> Option<End> {
    let words = PAIRS.iter().flat_map(|&(start, done)| [(true, start), (false, done)]);
    let mut ends = words.filter_map(|(is_start, word)| {
        let name = match before(&probe.name, word)? {
            "" if OF_FUNCTION.contains(&word) => &probe.function,
            "" => &probe.provider,
            stem => stem,
        };
        Some(End { is_start, name: name.to_owned(), key: Key::Any })
    });
    ends.next()
}

/// Returns the end of a slice that a probe marks: according to the first rule that matches, or to its name.
pub(super) fn end(rules: &[SliceRule], probe: &Description) -> Option<End> {
    rules.iter().find_map(|rule| rule.end(probe)).or_else(|| by_name(probe))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(function: &str, name: &str) -> Description {
        let (provider, module) = ("p".to_owned(), "m".to_owned());
        Description { id: 1, provider, module, function: function.into(), name: name.into() }
    }

    fn found(rules: &[&str], function: &str, name: &str) -> Option<(bool, String, Key)> {
        let rules: Vec<SliceRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        end(&rules, &probe(function, name)).map(|end| (end.is_start, end.name, end.key))
    }

    #[test]
    fn names_of_pairs() {
        for (name, is_start, slice) in [
            ("query-start", true, "query"),
            ("query-done", false, "query"),
            ("io-begin", true, "io"),
            ("io-end", false, "io"),
            ("entry", true, "f"),
            ("return", false, "f"),
            ("method-entry", true, "method"),
            ("start", true, "p"),
            ("done", false, "p"),
        ] {
            assert_eq!(found(&[], "f", name), Some((is_start, slice.into(), Key::Any)), "{name}");
        }
        for name in ["restart", "carpentry", "send", "query"] {
            assert_eq!(found(&[], "f", name), None, "{name}");
        }
    }

    #[test]
    fn rules() {
        let argument = |name: &str| Key::Argument(name.into());
        let of = |rule: &str, name: &str| found(&[rule], "f", name);
        assert_eq!(
            of("sent,p:::received,args.seq", "sent"),
            Some((true, "sent".into(), argument("seq")))
        );
        assert_eq!(
            of("sent,p:::received,seq", "received"),
            Some((false, "sent".into(), argument("seq")))
        );
        assert_eq!(of("sent,q:::received,seq", "received"), None);
        assert_eq!(
            of("work-start,failed,tid", "failed"),
            Some((false, "work".into(), Key::Thread))
        );
        for rule in ["sent", "sent,", "a,b,c,d", "a,b,", "a:b:c:d:e,b"] {
            assert!(rule.parse::<SliceRule>().is_err(), "{rule}");
        }
    }
}
