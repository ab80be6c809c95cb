//! Compares the pattern matcher with one that follows all ways through a pattern at once.
//!
//! An input is a pattern, a zero byte, and a name. Neither can contain a zero byte in a kernel.

use std::time::Duration;

use dtrace_abi::glob;

/// The number of attempts for a match that takes too long.
const TRIES: usize = 5;

/// Runs the target.
///
/// # Panics
/// The matchers disagree, or the tested one takes longer than the lengths allow.
pub fn run(input: &[u8]) {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let (pattern, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());

    let steps = (pattern.len() + 1) * (name.len() + 1);
    let limit = Duration::from_millis(20) + Duration::from_nanos(500) * steps as u32;
    // The measured time can include other work of the machine, so one slow attempt is not a failure.
    let mut tries = (0..TRIES).map(|_| {
        let start = cpu_time();
        let found = glob::matches(pattern, name);
        (cpu_time() - start < limit).then_some(found)
    });
    let found = tries.find_map(|found| found);
    let Some(found) = found else { panic!("more than {limit:?} for {steps} steps") };

    let expected = reference(&parse(pattern), name);
    assert_eq!(found, expected, "{} {}", pattern.escape_ascii(), name.escape_ascii());
    if !glob::is_glob(pattern) {
        assert_eq!(found, pattern == name);
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "the clock of CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// An element of a pattern.
enum Element {
    /// `*`
    Any,
    /// One byte of these.
    One(Box<[bool; 256]>),
    /// A pattern that is not finished and so matches nothing.
    Broken,
}

impl Element {
    fn one(takes: impl Fn(u8) -> bool) -> Self {
        Self::One(Box::new(std::array::from_fn(|byte| takes(byte as u8))))
    }
}

fn parse(pattern: &[u8]) -> Vec<Element> {
    let mut bytes = pattern.iter().copied();
    let mut elements = Vec::new();
    while let Some(byte) = bytes.next() {
        elements.push(match byte {
            b'*' => Element::Any,
            b'?' => Element::one(|_| true),
            b'\\' => match bytes.next() {
                Some(literal) => Element::one(|byte| byte == literal),
                None => Element::Broken,
            },
            b'[' => match set(&mut bytes) {
                Some(set) => set,
                // The set has no `]`, so it has consumed the rest of the pattern.
                None => Element::Broken,
            },
            literal => Element::one(|byte| byte == literal),
        });
    }
    elements
}

/// Parses a set, from after its `[` up to its `]`.
fn set(bytes: &mut impl Iterator<Item = u8>) -> Option<Element> {
    let mut takes = [false; 256];
    let mut byte = bytes.next()?;
    let negated = byte == b'!';
    if negated {
        byte = bytes.next()?;
    }
    // The previous member, and whether a `-` follows it, which may begin a range.
    let mut before = None;
    let mut range = false;
    loop {
        match (byte, before) {
            (b']', Some(_)) => break,
            (b'-', Some(_)) if !range => range = true,
            _ => {
                let member = if byte == b'\\' { bytes.next()? } else { byte };
                if let (Some(low), true) = (before, range) {
                    takes
                        .get_mut(low as usize..=member as usize)
                        .into_iter()
                        .flatten()
                        .for_each(|taken| *taken = true);
                }
                takes[member as usize] = true;
                range = false;
                before = Some(member);
            }
        }
        byte = bytes.next()?;
    }
    // A `-` at the end of a set is an ordinary member.
    takes[b'-' as usize] |= range;
    Some(Element::one(|byte| takes[byte as usize] != negated))
}

/// Returns whether the elements can match the whole name. Keeps the set of lengths of the name that the elements so far can
/// match.
fn reference(elements: &[Element], name: &[u8]) -> bool {
    let mut taken = vec![false; name.len() + 1];
    taken[0] = true;
    for element in elements {
        taken = match element {
            Element::Any => {
                let first = taken.iter().position(|&taken| taken).unwrap_or(taken.len());
                (0..taken.len()).map(|length| length >= first).collect()
            }
            Element::One(bytes) => std::iter::once(false)
                .chain(name.iter().zip(&taken).map(|(&byte, &taken)| taken && bytes[byte as usize]))
                .collect(),
            Element::Broken => return false,
        };
    }
    taken[name.len()]
}
