//! Suggestions for names that do not exist.

/// Returns whether two names differ by one letter: one too many, one too few, another one, or two swapped.
fn is_one_off(left: &str, right: &str) -> bool {
    let (short, long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    let (short, long) = (short.as_bytes(), long.as_bytes());
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short, long) = (&short[same..], &long[same..]);
    match long.len() - short.len() {
        0 => match (short, long) {
            ([_, a @ ..], [_, b @ ..]) if a == b => true,
            ([a, b, rest @ ..], [c, d, others @ ..]) => (a, b) == (d, c) && rest == others,
            _ => false,
        },
        1 => short == &long[1..],
        _ => false,
    }
}

/// Returns the name that differs from `name` by one letter. If there are several, prefers those of the same length,
/// then the first in alphabetical order.
pub fn closest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    // Names of two letters are nearly all similar to each other.
    if name.len() < 3 {
        return None;
    }
    let close = names.filter(|other| is_one_off(name, other));
    close.min_by_key(|other| (other.len() != name.len(), *other)).map(String::from)
}

/// Returns the name that has `name` after a prefix and an underscore, in any case: the enumerator `MANNER_CURT` for `Curt`. If there are
/// several, returns the first in alphabetical order.
pub fn prefixed<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let has_suffix = |other: &&str| {
        let start = other.len().checked_sub(name.len()).filter(|start| *start > 1);
        let parts = start.and_then(|start| other.split_at_checked(start));
        parts.is_some_and(|(prefix, suffix)| {
            prefix.ends_with('_') && suffix.eq_ignore_ascii_case(name)
        })
    };
    names.filter(has_suffix).min().map(String::from)
}

/// Returns the question whether a similar name is meant.
pub fn did_you_mean(name: &str) -> String {
    format!("did you mean {name}?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found() {
        let names = ["MANNER_CURT", "MANNER_KIND", "_CURT", "CURT", "é_CURT"];
        for (name, expected) in [
            ("Curt", Some("MANNER_CURT")),
            ("kind", Some("MANNER_KIND")),
            ("IND", None),
            ("x", None),
        ] {
            assert_eq!(prefixed(name, names.into_iter()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn one_letter() {
        for (left, right) in [
            ("probenam", "probename"),
            ("probenamee", "probename"),
            ("probename", "probemame"),
            ("exti", "exit"),
            ("xit", "exit"),
        ] {
            assert!(is_one_off(left, right) && is_one_off(right, left), "{left} {right}");
        }
        for (left, right) in [("exit", "exit"), ("exi", "exitt"), ("abcd", "badc"), ("a", "xyz")] {
            assert!(!is_one_off(left, right), "{left} {right}");
        }
    }
}
