//! Changed modules that pass the check do not make a kernel panic. `SDT_FLIPS=N` makes N changes of each module, from other
//! seeds.

use sdt_fuzz::flips::{Difference, Subject, subjects};

/// Changes of each module; with `cargo xtask test --all`, four times as many.
const CHANGES: usize = 250;

fn judge(subjects: impl Iterator<Item = Subject>, harmful: fn(Difference) -> bool) {
    let more: usize = std::env::var("SDT_FLIPS").map_or(0, |more| more.parse().expect("a number"));
    let changes = if harness::everything() { 4 * CHANGES } else { CHANGES };
    let mut bad = Vec::new();
    for (seed, subject) in (1_u64..).zip(subjects) {
        let tally = match more {
            0 => subject.run(seed, changes),
            more => subject.run(seed << 32 | more as u64, more),
        };
        println!("{}: {tally}", subject.name);
        assert!(tally.dangerous > 0, "{}: changes matter", subject.name);
        for (difference, changes) in tally.different {
            let line = |change| format!("{}: {difference:?}: {change}", subject.name);
            bad.extend(changes.into_iter().map(line).filter(|_| harmful(difference)));
        }
    }
    assert!(bad.is_empty(), "{} changes pass:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn sealed_modules_pass_only_if_they_load_as_they_were() {
    let sealed = subjects().into_iter().map(|mut subject| {
        cargo_sdt::internal::link::seal(&mut subject.file);
        subject
    });
    judge(sealed, |_| true);
}

/// A changed module without a seal may pass the check if it is still valid, for example if it calls another function. But a
/// module that passes must not make a kernel panic.
#[test]
fn what_the_rules_pass_does_not_take_a_kernel_down() {
    judge(subjects().into_iter(), |difference| difference == Difference::Panic);
}
