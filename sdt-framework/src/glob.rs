//! DTrace's patterns (`dtrace_match_glob` in `dtrace.c` of FreeBSD and illumos).
//!
//! `*` is any number of bytes, `?` any one, `[abc]` one of a set, `[a-z]` one of a range, `[!x]` one
//! that is not in the set, `\` takes the next byte as it is, in a set too. A set that is not closed and
//! a `\` at the end match nothing.
//!
//! The kernels recurse at each `*` and give up below eight of them. Every other element takes exactly
//! one byte, so it is enough to remember the latest `*`: this matcher answers for any pattern, in at
//! most pattern length times name length steps and no stack.

/// Whether `pattern` holds any byte that makes it more than a name.
pub(crate) fn is_glob(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// Whether the whole of `name` matches the whole of `pattern`.
pub(crate) fn matches(mut pattern: &[u8], mut name: &[u8]) -> bool {
    // Behind the latest `*`, and the rest of the name it has not taken yet.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, name));
            pattern = rest;
            continue;
        }
        match name {
            [] if pattern.is_empty() => return true,
            // What is left of the pattern wants a byte, and giving `*` more leaves still fewer.
            [] => return false,
            [byte, rest @ ..] => {
                if let Some(after) = element(pattern, *byte) {
                    (pattern, name) = (after, rest);
                    continue;
                }
            }
        }
        match star {
            Some((after, [_, rest @ ..])) => {
                star = Some((after, rest));
                (pattern, name) = (after, rest);
            }
            _ => return false,
        }
    }
}

/// Matches one byte with the first element of the pattern, which is not `*`; returns the rest of the
/// pattern.
fn element(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', b'!', set @ ..] => {
            let (found, rest) = in_set(set, byte)?;
            (!found).then_some(rest)
        }
        [b'[', set @ ..] => {
            let (found, rest) = in_set(set, byte)?;
            found.then_some(rest)
        }
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [b'\\'] => None,
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Whether `byte` is in the set that starts here, behind `[` or `[!`, and what follows its `]`. `None`
/// when the set is not closed.
///
/// The first member may be a `]`. A `-` is a range from the member before it to the one behind it; it
/// stands for itself first and last. The end of one range can be the start of the next.
fn in_set(mut set: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let mut found = false;
    let mut previous: Option<u8> = None;
    loop {
        let member;
        match (previous, set) {
            (Some(low), [b'-', next, ..]) if *next != b']' => {
                (member, set) = literal(set.get(1..)?)?;
                found |= (low..=member).contains(&byte);
            }
            _ => (member, set) = literal(set)?,
        }
        found |= member == byte;
        previous = Some(member);
        if let [b']', rest @ ..] = set {
            return Some((found, rest));
        }
    }
}

/// One member of a set and the rest.
fn literal(set: &[u8]) -> Option<(u8, &[u8])> {
    match set {
        [b'\\', byte, rest @ ..] => Some((*byte, rest)),
        [b'\\'] | [] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}
