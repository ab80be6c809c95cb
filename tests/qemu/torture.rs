//! Tests the kernel's own probes: sites are patched while all CPUs execute them, and probes are hit inside other hits.

use cargo_sdt::internal::arch::Arch;
use sdt_protocol::{Reentered, TorturedProbe};
use xtask::cmd::torture::{failures, random_seed};

use crate::bench::{boot, name, on_every_architecture};
use harness::torture::program;

on_every_architecture!(
    torture_with_a_random_seed,
    torture_with_programs,
    probes_in_probes_while_they_trap,
    probes_in_probes_while_they_jump,
);

const CPUS: u32 = 4;

/// A short torture; `cargo xtask torture` is the long one.
fn torture(arch: Arch, seed: u64, transitions: u64, program: Vec<u8>) {
    println!("seed {seed}");
    let mut session = boot(arch, CPUS);
    let result = session.torture(seed, transitions, program, |_| {}).expect("the kernel goes on");
    assert_eq!(failures(&result, transitions), [""; 0], "seed {seed}: {result:#?}");
    for kind in [result.enabled, result.upgraded, result.downgraded, result.disabled] {
        assert!(kind > transitions / 20, "{result:#?}");
    }
    for probe in &result.probes {
        assert!(probe.intervals > 0 && probe.stable_hits > 0, "{probe:?} was never stable");
    }
    assert!(result.breakpoints > 0 && result.breakpoints < result.framework, "both modes are hit");
    // Its probes are destroyed with it.
    assert_eq!(session.list(name("standin:::")).unwrap(), []);
}

fn torture_with_a_random_seed(arch: Arch) {
    torture(arch, random_seed(), 4_000, Vec::new());
}

/// D programs have counted and recorded exactly the hits.
fn torture_with_programs(arch: Arch) {
    torture(arch, random_seed(), 4_000, program());
}

fn probe<'a>(result: &'a Reentered, name: &str) -> &'a TorturedProbe {
    result.probes.iter().find(|probe| probe.name == name).expect("the kernel has the probe")
}

fn reenter(arch: Arch, jump: bool) {
    const ROUNDS: u32 = 50;
    let mut session = boot(arch, CPUS);
    let result = session.reenter(ROUNDS, jump).expect("the kernel goes on");
    // Each pass of a site was one hit, with its arguments.
    for probe in &result.probes {
        assert_eq!(probe.passes, probe.hits, "{probe:?}");
        assert!(probe.sites > 0, "{probe:?}");
    }
    assert_eq!(result.garbled, 0);
    let passes = |name| probe(&result, name).passes;
    for name in ["tight", "costly", "masked", "many", "asked", "waiting"] {
        assert_eq!(passes(name), u64::from(CPUS * ROUNDS), "{name}");
    }
    // Each `waiting` was interrupted by a timer interrupt that fired.
    assert!(passes("tick") >= passes("waiting"));
    assert!(result.counters.ticks >= passes("tick"));
    // The hits of probes outside handlers.
    let outer = ["tight", "costly", "masked", "many", "asked", "waiting", "tick"].map(passes);
    let outer: u64 = outer.iter().sum();
    // Each hit was recorded, so the framework read the clock, which hits the probe `recording` inside that hit.
    let (hits, reentered) = (result.counters.hits, result.counters.reentered);
    assert_eq!(passes("recording"), hits);
    if jump {
        assert_eq!((passes("breakpoint"), result.counters.breakpoints), (0, 0));
        assert_eq!((hits, reentered), (outer, outer));
    } else {
        // Each hit is a breakpoint exception, and `asked` is two. `breakpoint` is hit in the handler of each: in those of outer
        // hits, where it is an ordinary hit, and in those of the `recording` inside an outer hit, where it is a hit inside
        // another hit.
        let asked = passes("asked");
        assert_eq!(passes("breakpoint"), (outer + asked) + outer);
        assert_eq!(hits, outer + (outer + asked));
        assert_eq!(reentered, passes("recording") + outer);
        let all: u64 = result.probes.iter().map(|probe| probe.hits).sum();
        assert_eq!(result.counters.breakpoints, all + asked);
    }
}

fn probes_in_probes_while_they_trap(arch: Arch) {
    reenter(arch, false);
}

fn probes_in_probes_while_they_jump(arch: Arch) {
    reenter(arch, true);
}
