//! DTrace's patterns (`dtrace_match_glob` in `dtrace.c` of FreeBSD and illumos).
//!
//! `*` matches any number of bytes, `?` any byte, `[abc]` a byte of a set, `[a-z]` a byte of a range, `[!x]` a byte
//! that is not in the set, and `\` the next byte literally, in a set too. A set that is not closed and a `\` at the end
//! match nothing.
//!
//! The kernels recurse at each `*`, at most eight levels deep. Every other element matches exactly one byte, so it is
//! enough to remember the latest `*`: this matcher accepts any pattern, and needs at most pattern length times name
//! length steps, and no recursion.

/// Returns whether `pattern` contains an operator.
pub fn is_glob(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// Returns whether the whole of `name` matches the whole of `pattern`.
pub fn matches(mut pattern: &[u8], mut name: &[u8]) -> bool {
    // The pattern after the latest `*`, and the rest of the name that it has not matched yet.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, name));
            pattern = rest;
            continue;
        }
        match name {
            [] if pattern.is_empty() => return true,
            // The rest of the pattern needs a byte, and a longer match of `*` would leave even fewer.
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

/// Matches one byte with the first element of the pattern, which is not `*`. Returns the rest of the pattern.
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

/// Returns whether `byte` is in the set after `[` or `[!`, and the pattern after its `]`. `None` if the set is not
/// closed.
///
/// The first member may be a `]`. A `-` is a range from the member before it to the one after it; as the first or last
/// member it is literal. The end of one range can be the start of the next.
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

/// Returns one member of a set, and the rest.
fn literal(set: &[u8]) -> Option<(u8, &[u8])> {
    match set {
        [b'\\', byte, rest @ ..] => Some((*byte, rest)),
        [b'\\'] | [] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The results of DTrace's rules, derived by hand.
    #[test]
    fn table() {
        let yes = [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("**", "a"),
            ("?", "a"),
            ("a*", "a"),
            ("*a", "a"),
            ("*a*", "bab"),
            ("*ab", "aab"),
            ("*ab*ab", "abcabab"),
            ("exec-*", "exec-success"),
            ("[abc]", "b"),
            ("[a-c]", "b"),
            ("[a-c]x", "cx"),
            ("[!x]", "a"),
            ("[!a-c]", "d"),
            // `!` elsewhere, and a `]` in first place, are members.
            ("[a!]", "!"),
            ("[]]", "]"),
            ("[]a]", "a"),
            ("[!]]", "a"),
            // `-` is literal as the first and the last member.
            ("[-a]", "-"),
            ("[a-]", "-"),
            ("[!-]", "a"),
            // The end of a range starts another one.
            ("[a-c-e]", "d"),
            ("[\\]]", "]"),
            ("[a-\\]]", "a"),
            ("[\\a-c]", "b"),
            ("[[]", "["),
            ("[*]", "*"),
            ("\\*", "*"),
            ("\\a", "a"),
            ("\\\\", "\\"),
            ("]", "]"),
            ("a-b", "a-b"),
            ("!", "!"),
        ];
        let no = [
            ("", "a"),
            ("?", ""),
            ("??", "a"),
            ("a", ""),
            ("a*b", "a"),
            ("[abc]", "d"),
            ("[abc]", ""),
            ("[abc]", "ab"),
            ("[!x]", "x"),
            ("[!x]", ""),
            ("[!a-c]", "b"),
            ("[!a-c]", "c"),
            ("[c-a]", "b"),
            // Sets that are not closed, `[]` and `[!]` among them, and a lone `\`.
            ("[", "["),
            ("[]", "]"),
            ("[!]", "!"),
            ("[a", "a"),
            ("[a-", "a"),
            ("[a\\", "a"),
            ("[a-\\", "a"),
            ("*[a", "a"),
            ("a\\", "a"),
            ("\\", "\\"),
            ("\\*", "a"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in no {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        // A backwards range still holds its ends, each being a member.
        assert!(matches(b"[c-a]", b"a") && matches(b"[c-a]", b"c"));
    }

    #[test]
    fn patterns_that_make_a_recursive_matcher_run_away() {
        let name = [b'a'; 191];
        let mut pattern = b"a*".repeat(90);
        assert!(matches(&pattern, &name));
        pattern.push(b'b');
        assert!(!matches(&pattern, &name));
    }

    /// An element of a pattern: the bytes that it matches, or any number of any bytes.
    enum Element {
        Star,
        One(Box<dyn Fn(u8) -> bool>),
    }

    /// Returns the elements of a pattern, with `None` at a malformed element, which matches nothing.
    fn parse(pattern: &[u8]) -> Vec<Option<Element>> {
        let mut elements = Vec::new();
        let mut at = 0;
        while at < pattern.len() {
            let byte = pattern[at];
            at += 1;
            elements.push(match byte {
                b'*' => Some(Element::Star),
                b'?' => Some(Element::One(Box::new(|_| true))),
                b'\\' => {
                    let literal = pattern.get(at).copied();
                    at += 1;
                    literal.map(|l| Element::One(Box::new(move |byte| byte == l)))
                }
                b'[' => {
                    let negated = pattern.get(at) == Some(&b'!');
                    at += usize::from(negated);
                    parse_set(pattern, &mut at).map(|ranges| {
                        Element::One(Box::new(move |byte| {
                            ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte))
                                != negated
                        }))
                    })
                }
                literal => Some(Element::One(Box::new(move |byte| byte == literal))),
            });
        }
        elements
    }

    fn parse_set(pattern: &[u8], at: &mut usize) -> Option<Vec<(u8, u8)>> {
        let mut next = || {
            let byte = pattern.get(*at).copied();
            *at += 1;
            byte
        };
        // The members and operators of the set, before the closing `]`.
        let mut tokens: Vec<(u8, bool)> = Vec::new();
        loop {
            match next()? {
                b']' if !tokens.is_empty() => break,
                b'\\' => tokens.push((next()?, true)),
                byte => tokens.push((byte, false)),
            }
        }
        let mut ranges = Vec::new();
        let mut index = 0;
        while index < tokens.len() {
            let (byte, _) = tokens[index];
            let is_range = index > 0 && tokens[index] == (b'-', false) && index + 1 < tokens.len();
            if is_range {
                let (low, high) = (tokens[index - 1].0, tokens[index + 1].0);
                ranges.push((low, high));
                ranges.push((high, high));
                // The right end cannot be an operator; it can be the left end of the next range.
                index += 2;
            } else {
                ranges.push((byte, byte));
                index += 1;
            }
        }
        Some(ranges)
    }

    fn oracle(elements: &[Option<Element>], name: &[u8]) -> bool {
        match elements {
            [] => name.is_empty(),
            [None, ..] => false,
            [Some(Element::Star), rest @ ..] => {
                oracle(rest, name) || (!name.is_empty() && oracle(elements, &name[1..]))
            }
            [Some(Element::One(takes)), rest @ ..] => {
                !name.is_empty() && takes(name[0]) && oracle(rest, &name[1..])
            }
        }
    }

    fn bytes_of(alphabet: &'static [u8], len: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(alphabet), 0..=len)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_the_oracle(
            pattern in bytes_of(b"abcd-]![*?\\", 10),
            name in bytes_of(b"abcd-]![\\", 7),
        ) {
            prop_assert_eq!(matches(&pattern, &name), oracle(&parse(&pattern), &name));
        }

        /// Mostly well-formed patterns, mostly matching.
        #[test]
        fn agrees_with_the_oracle_on_likely_matches(
            pieces in prop::collection::vec(
                prop::sample::select(&["a", "b", "*", "?", "[ab]", "[a-c]", "[!c]", "\\a", "[!a-b]"][..]),
                0..8,
            ),
            name in bytes_of(b"abc", 8),
        ) {
            let pattern = pieces.concat();
            prop_assert_eq!(
                matches(pattern.as_bytes(), &name),
                oracle(&parse(pattern.as_bytes()), &name)
            );
        }

        #[test]
        fn a_name_without_metacharacters_matches_itself_only(
            name in bytes_of(b"abc-]!", 6),
            other in bytes_of(b"abc-]!", 6),
        ) {
            prop_assert!(!is_glob(&name));
            prop_assert_eq!(matches(&name, &other), name == other);
        }
    }
}
