//! What a disabled site costs: the function with it is the function without it and one nop.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::sync::OnceLock;

use codegen::compare::{Comparison, Likeness, compare};
use codegen::function::SITE_NOP;
use codegen::{Function, Image};
use support::{Build, KERNEL_LIKE};

/// Most cold bytes of a site with two plain arguments.
const COLD_PLAIN: u64 = 40;
/// Most cold bytes of a site with an evaluator.
const COLD_EVALUATED: u64 = 80;

/// With frame pointers or without them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Frames {
    Without,
    /// As kernels are compiled.
    With,
    /// As kernels are compiled, and loops are not kept together with their cold blocks.
    WithAndColdLoops,
}

impl Frames {
    fn image(self) -> &'static Image {
        static IMAGES: [OnceLock<Image>; 3] = [const { OnceLock::new() }; 3];
        IMAGES[self as usize].get_or_init(|| {
            let mut rustflags = KERNEL_LIKE.to_vec();
            if self != Self::Without {
                rustflags.push("-Cforce-frame-pointers=yes");
            }
            if self == Self::WithAndColdLoops {
                rustflags.push("-Cllvm-args=-force-loop-cold-block");
            }
            let profile = &["opt-level=3", "codegen-units=1", "panic=\"abort\""];
            Build { package: "codegen-subjects", rustflags: &rustflags, profile }.image()
        })
    }

    fn function(self, module: &str, name: &str) -> Function {
        let name = format!("codegen_subjects::{module}::{name}");
        let symbol = self.image().function(&name).unwrap_or_else(|| panic!("no {name}"));
        Function::analyse(self.image(), symbol).unwrap()
    }

    /// Compares the two variants of a function, having checked what must be so for every one.
    fn compare(self, name: &str) -> Comparison {
        let (plain, probed) = (self.function("plain", name), self.function("probed", name));
        assert!(plain.sites.is_empty() && plain.cold.is_empty(), "{name}");
        assert!(!probed.sites.is_empty() && !probed.cold.is_empty(), "{name}");
        // Nothing was overlooked: every byte is hot, cold or padding.
        assert_eq!((plain.unreached_bytes(), probed.unreached_bytes()), (0, 0), "{name}");
        for site in &probed.sites {
            let nop = probed.hot.iter().find(|i| i.address() == site.patchpoint);
            let nop = nop.unwrap_or_else(|| panic!("{name}: {site:x?} is not on the hot path"));
            assert_eq!(probed.bytes_of(nop), SITE_NOP, "{name}");
        }
        compare(&plain, &probed)
    }
}

/// A function, and how many hot instructions it may have more where that is not one nop a site.
struct Subject {
    name: &'static str,
    /// How many cold bytes a site may have.
    cold: u64,
    /// How alike the hot paths must be.
    likeness: Likeness,
    /// By [`Frames`]; `None`: held to the rule.
    at_most: [Option<isize>; 3],
}

const fn plain(name: &'static str) -> Subject {
    Subject { name, cold: COLD_PLAIN, likeness: Likeness::Same, at_most: [None; 3] }
}

const fn evaluated(name: &'static str) -> Subject {
    Subject { name, cold: COLD_EVALUATED, likeness: Likeness::Same, at_most: [None; 3] }
}

impl Subject {
    /// Another order of the instructions will do.
    const fn in_any_order(self) -> Self {
        Self { likeness: Likeness::Reordered, ..self }
    }

    const fn but(self, at_most: [Option<isize>; 3]) -> Self {
        Self { at_most, ..self }
    }
}

/// All pairs of functions.
const SUBJECTS: [Subject; 39] = [
    plain("leaf_0"),
    plain("leaf_1"),
    plain("leaf_2"),
    plain("leaf_6"),
    plain("leaf_computed"),
    plain("declared_0"),
    plain("declared_2"),
    plain("generic::<u32>"),
    plain("generic::<u64>"),
    plain("closure::{closure#0}"),
    plain("calls"),
    plain("tail_call"),
    plain("independent"),
    plain("enabled_before_tail"),
    plain("enabled_among_calls"),
    plain("enabled_declared"),
    evaluated("declared_costly"),
    evaluated("calls_costly"),
    evaluated("costly_u64"),
    evaluated("costly_str"),
    evaluated("costly_slice"),
    evaluated("costly_mut"),
    evaluated("costly_pair"),
    evaluated("costly_closure"),
    evaluated("costly_struct"),
    evaluated("costly_field"),
    evaluated("effect_atomic"),
    evaluated("effect_call"),
    evaluated("effect_in_block"),
    // The scheduler may mix instructions, but not across the site.
    evaluated("costly_struct_argument").in_any_order(),
    // Vector registers, which kernels do not have, are saved in the cold block.
    Subject { cold: COLD_EVALUATED, ..plain("floats").in_any_order() },
    // The cold block pushes, for which the stack has to be aligned. Where there is one site outside
    // loops, that is done in the cold block; otherwise a leaf function without frame pointers does
    // it in its prologue: one push, and a pop at each return.
    plain("branches").but([Some(5), None, None]),
    plain("two_sites").but([Some(4), None, None]),
    // As above; and the compiler keeps a loop's blocks together, the cold one among them, so that
    // leaving the loop jumps over it. `-force-loop-cold-block` moves it out.
    plain("in_loop").but([Some(5), Some(2), None]),
    evaluated("in_loop_costly").but([Some(5), Some(2), None]),
    // The stack again: with frame pointers this function saves an odd number of registers.
    plain("under_pressure").but([None, Some(3), Some(3)]),
    // What is no `Copy` cannot be handed over by value. The evaluator gets the local's address, and the hot path
    // keeps the local in memory.
    evaluated("costly_not_copy").but([Some(6); 3]),
    // The call is the function's own, not the site's: what is alive across it is saved.
    plain("enabled_in_leaf").but([Some(7), Some(5), Some(5)]),
    // A site ends a basic block, and instructions are selected for each block: a sum that is part
    // of two addressing modes is computed once for both.
    plain("shared_subexpression").but([Some(2), Some(-1), Some(-1)]),
];

fn check(frames: Frames) {
    for Subject { name, cold, likeness, at_most } in SUBJECTS {
        let found = frames.compare(name);
        let sites = found.sites as isize;
        assert!(found.cold_bytes <= cold * found.sites as u64, "{name}: {found}");
        if let Some(most) = at_most[frames as usize] {
            assert!(found.instructions <= most, "{name}: {found}");
            let rule = found.likeness == Likeness::Same && found.out_of_line;
            assert!(!rule, "{name} keeps to the rule and is no exception any more: {found}");
            continue;
        }
        assert!(found.likeness >= likeness, "{name}: {found}");
        if found.frameless {
            // A leaf function that sets up its frame in the cold block only.
            assert!(frames != Frames::Without && found.instructions < sites, "{name}: {found}");
        } else {
            assert_eq!(found.instructions, sites, "{name}: {found}");
            assert_eq!(found.bytes, 5 * found.sites as i64, "{name}: {found}");
        }
        assert!(found.newly_saved.is_empty() && found.out_of_line, "{name}: {found}");
        assert_eq!(found.decisions, 0, "{name}: {found}");
    }
}

#[test]
fn a_disabled_site_is_one_nop() {
    check(Frames::Without);
}

#[test]
fn a_disabled_site_is_one_nop_with_frame_pointers() {
    check(Frames::With);
}

#[test]
fn a_disabled_site_in_a_loop_is_one_nop_if_cold_blocks_may_leave_loops() {
    check(Frames::WithAndColdLoops);
}

/// No function is left out of the table.
#[test]
fn all_pairs_are_compared() {
    let mut names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
    names.sort_unstable();
    let functions = Frames::Without.image().functions().iter();
    let in_module = |symbol: &codegen::image::Symbol| {
        let name = symbol.name.strip_prefix("codegen_subjects::probed::")?;
        (!name.starts_with("keep")).then(|| name.to_owned())
    };
    let mut found: Vec<_> = functions.filter_map(in_module).collect();
    // Evaluators are parts of the functions they are for.
    found.retain(|name| !name.contains("{closure") || names.contains(&&**name));
    found.sort_unstable();
    assert_eq!(found, names);
}
