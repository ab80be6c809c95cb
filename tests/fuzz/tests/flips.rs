//! What the check passes does not take a kernel down: a byte is changed at random, outside of the code, in each of the
//! modules that are fuzzed. `SDT_FLIPS=N` makes more of them, from other seeds, and says what came of them.

use sdt_fuzz::flips::{run, subjects};

/// Bytes that are changed in each module.
const FLIPS: usize = 1000;

#[test]
fn what_the_check_passes_does_not_take_a_kernel_down() {
    let more: usize = std::env::var("SDT_FLIPS").map_or(0, |more| more.parse().expect("a number"));
    let mut bad = Vec::new();
    for (seed, subject) in (1_u64..).zip(subjects()) {
        let tally = match more {
            0 => run(subject, seed, FLIPS),
            more => run(subject, seed << 32 | more as u64, more),
        };
        println!("{}: {tally}", subject.name);
        assert!(tally.dangerous > 0, "{}: bytes matter", subject.name);
        bad.extend(tally.panics.into_iter().map(|panic| format!("{}: {panic:x?}", subject.name)));
    }
    assert!(bad.is_empty(), "{} would have panicked:\n{}", bad.len(), bad.join("\n"));
}
