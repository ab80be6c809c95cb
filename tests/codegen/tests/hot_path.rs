//! The cost of a disabled site: the function with the site equals the function without it plus one nop.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::sync::OnceLock;

use cargo_sdt::internal::targets::CODE_SHAPE;
use codegen::compare::{Comparison, Likeness, compare};
use codegen::function::SITE_NOP;
use codegen::{Function, Image};
use support::{Build, KERNEL_LIKE, PROFILE};

/// Most cold bytes of a site with two plain arguments.
const COLD_PLAIN: u64 = 40;
/// Most cold bytes of a site with many words, which the cold block computes.
const COLD_MANY_WORDS: u64 = 120;
/// Most cold bytes of a site with an evaluator.
const COLD_EVALUATED: u64 = 80;

/// The use of frame pointers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Frames {
    Without,
    /// Frames only in functions for which the compiler uses one.
    With,
    /// As in kernel modules: frames at the entry, and loops are separate from their cold blocks.
    WithAndColdLoops,
    /// As in kernel modules, with landing pads for indirect branches and a shadow stack (`-Zcf-protection`).
    WithLandingPads,
}

impl Frames {
    fn image(self) -> &'static Image {
        static IMAGES: [OnceLock<Image>; 4] = [const { OnceLock::new() }; 4];
        IMAGES[self as usize].get_or_init(|| {
            // Options only for the program whose functions are compared, including the functions that they inline.
            let mut own = Vec::new();
            if self != Self::Without {
                own.push(CODE_SHAPE[0]);
            }
            if matches!(self, Self::WithAndColdLoops | Self::WithLandingPads) {
                own.push(CODE_SHAPE[1]);
            }
            if self == Self::WithLandingPads {
                own.push("-Zcf-protection=full");
            }
            let package = "codegen-subjects";
            Build { package, rustflags: &KERNEL_LIKE, own: &own, profile: &PROFILE }.image()
        })
    }

    fn function(self, module: &str, name: &str) -> Function {
        let name = format!("codegen_subjects::{module}::{name}");
        let symbol = self.image().function(&name).unwrap_or_else(|| panic!("no {name}"));
        Function::analyse(self.image(), symbol).unwrap()
    }

    /// Checks the properties that every function must have, and compares the two variants of a function.
    fn compare(self, name: &str) -> Comparison {
        let (plain, probed) = (self.function("plain", name), self.function("probed", name));
        assert!(plain.sites.is_empty() && plain.cold.is_empty(), "{name}");
        assert!(!probed.sites.is_empty() && !probed.cold.is_empty(), "{name}");
        // Every byte is hot, cold or padding.
        assert_eq!((plain.unreached_bytes(), probed.unreached_bytes()), (0, 0), "{name}");
        for site in &probed.sites {
            let nop = probed.hot.iter().find(|i| i.address() == site.patchpoint);
            let nop = nop.unwrap_or_else(|| panic!("{name}: {site:x?} is not on the hot path"));
            assert_eq!(probed.bytes_of(nop), SITE_NOP, "{name}");
        }
        compare(&plain, &probed)
    }
}

/// A function, and its allowed costs. The rule is one more hot instruction for each site: the nop.
struct Subject {
    name: &'static str,
    /// The greatest number of cold bytes of a site.
    cold: u64,
    /// The required similarity of the hot paths.
    likeness: Likeness,
    /// The allowed difference, by [`Frames`]; `None`: the rule applies. Landing pads add the same instructions with and
    /// without sites.
    at_most: [Option<isize>; 3],
}

const fn plain(name: &'static str) -> Subject {
    Subject { name, cold: COLD_PLAIN, likeness: Likeness::Same, at_most: [None; 3] }
}

const fn evaluated(name: &'static str) -> Subject {
    Subject { name, cold: COLD_EVALUATED, likeness: Likeness::Same, at_most: [None; 3] }
}

impl Subject {
    /// Allows another order of the instructions.
    const fn in_any_order(self) -> Self {
        Self { likeness: Likeness::Reordered, ..self }
    }

    const fn but(self, at_most: [Option<isize>; 3]) -> Self {
        Self { at_most, ..self }
    }
}

/// All pairs of functions.
const SUBJECTS: [Subject; 54] = [
    plain("leaf_0"),
    plain("leaf_1"),
    plain("leaf_2"),
    plain("leaf_6"),
    plain("leaf_computed"),
    plain("declared_0"),
    plain("declared_2"),
    plain("leaf_texts").in_any_order(),
    plain("declared_texts").in_any_order(),
    // The cold block computes the words from the arguments, and pushes them one by one.
    Subject { cold: COLD_MANY_WORDS, ..plain("declared_numbers") },
    Subject { cold: COLD_MANY_WORDS, ..plain("open_numbers") },
    // Its arguments name three locals nine times. Each name counts, as two equal names may be two locals, and nine are more than
    // an evaluator supports. So the arguments are evaluated in place, in ten registers at the same time, and the function must
    // save two of them.
    evaluated("declared_10").but([None, None, Some(5)]),
    evaluated("costly_texts").in_any_order(),
    evaluated("shown"),
    evaluated("serialised"),
    evaluated("declared_said"),
    evaluated("constructed"),
    plain("generic::<u32>"),
    plain("generic::<u64>"),
    plain("closure::{closure#0}"),
    plain("calls"),
    plain("tail_call"),
    plain("independent"),
    plain("enabled_before_tail"),
    plain("enabled_among_calls"),
    plain("enabled_declared"),
    plain("enabled_of_a_provider"),
    plain("enabled_of_a_group"),
    evaluated("declared_costly"),
    evaluated("calls_costly"),
    evaluated("costly_u64"),
    evaluated("costly_str"),
    evaluated("costly_slice"),
    evaluated("costly_mut"),
    evaluated("costly_pair"),
    evaluated("costly_closure"),
    evaluated("effect_atomic"),
    evaluated("effect_call"),
    evaluated("effect_in_block"),
    // The cold block keeps a copy of a struct on the stack. The frame, which is set up at the entry, contains the room for it:
    // one subtraction and one addition.
    evaluated("costly_struct").but([None, None, Some(3)]),
    evaluated("costly_field").but([None, None, Some(3)]),
    // The scheduler may mix instructions, but not across the site.
    evaluated("costly_struct_argument").in_any_order().but([None, None, Some(3)]),
    // Vector registers, which kernels do not have, are saved in the cold block.
    Subject { cold: COLD_EVALUATED, ..plain("floats").in_any_order() }.but([None, None, Some(3)]),
    // The cold block pushes, so the stack must be aligned. For a single site outside of loops, the cold block aligns it.
    // Otherwise a leaf function without frame pointers aligns it in its prologue: one push, and a pop at each return.
    plain("branches").but([Some(5), None, None]),
    plain("two_sites").but([Some(4), None, None]),
    // The stack must be aligned here, too. In addition, the compiler keeps all blocks of a loop together, including the cold one,
    // so that code which leaves the loop jumps over it. `-force-loop-cold-block` moves it out of the loop.
    plain("in_loop").but([Some(5), Some(2), None]),
    evaluated("in_loop_costly").but([Some(5), Some(2), None]),
    // The stack must be aligned: with frame pointers, this function saves an odd number of registers.
    plain("under_pressure").but([None, Some(3), Some(3)]),
    // Without `Copy`, the value cannot be passed by value. The evaluator gets the local's address, and the hot path
    // keeps the local in memory.
    evaluated("costly_not_copy").but([Some(6); 3]),
    // Values that only the probe needs after a call stay in registers that the callee preserves, and the function must save
    // these: two values, two pushes, moves and pops, and the compiler's own moves.
    plain("kept_alive").but([Some(8); 3]),
    // If the site passes their addresses, the values are stored in the frame, which takes fewer instructions. Sites do not do
    // this for all arguments, because values that are live anyway would be stored, too.
    evaluated("kept_in_memory").but([Some(5); 3]),
    // Vectors of 64 bytes, which kernels do not use, are saved on a stack with the same alignment. The prologue aligns it.
    Subject { cold: 500, ..plain("wide") }.but([Some(6); 3]),
    // The call is the function's own, not the site's, so the function saves the registers that are live across it.
    plain("enabled_in_leaf").but([Some(7), Some(5), Some(5)]),
    // A site ends a basic block, and instructions are selected for each block: a sum that is part
    // of two addressing modes is computed once for both.
    plain("shared_subexpression").but([Some(2), Some(-1), Some(2)]),
];

/// Returns the violations of a subject.
fn complaint(subject: &Subject, frames: Frames, found: &Comparison) -> Option<&'static str> {
    let sites = found.sites as isize;
    if found.cold_bytes > subject.cold * found.sites as u64 {
        return Some("more cold bytes");
    }
    if let Some(most) = subject.at_most[(frames as usize).min(subject.at_most.len() - 1)] {
        if found.instructions > most {
            return Some("more than its bound");
        }
        let rule = found.likeness == Likeness::Same && found.out_of_line;
        return rule.then_some("keeps to the rule and is no exception any more");
    }
    if found.likeness < subject.likeness {
        return Some("not alike");
    }
    // A leaf function that sets up its frame in the cold block only.
    let frameless = found.frameless && frames == Frames::With && found.instructions < sites;
    let one_nop = found.instructions == sites && found.bytes == 5 * sites as i64;
    if !frameless && (found.frameless || !one_nop) {
        return Some("not one nop");
    }
    let clean = found.newly_saved.is_empty() && found.out_of_line && found.decisions == 0;
    (!clean).then_some("saves, decides, or is in between")
}

fn check(frames: Frames) {
    let mut complaints = Vec::new();
    for subject in &SUBJECTS {
        let found = frames.compare(subject.name);
        if let Some(complaint) = complaint(subject, frames, &found) {
            complaints.push(format!("{}: {complaint}: {found}", subject.name));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
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

/// A cold block needs no landing pad: it is reached by a direct jump or by the return from an exception.
#[test]
fn a_disabled_site_is_one_nop_among_landing_pads() {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    check(Frames::WithLandingPads);
    // Called through a pointer.
    let function = Frames::WithLandingPads.function("probed", "leaf_0");
    assert_eq!(function.bytes_of(&function.hot[0]), ENDBR64);
    for Subject { name, .. } in SUBJECTS {
        let function = Frames::WithLandingPads.function("probed", name);
        for site in &function.sites {
            let target = function.cold.iter().find(|i| i.address() == site.target);
            assert_ne!(function.bytes_of(target.expect("it is cold")), ENDBR64, "{name}");
        }
    }
}

/// Functions called in cold code may change every vector register. No such register may be live after the call, both if the whole
/// program uses vector registers and if only one function does.
#[test]
fn nothing_that_a_callee_may_change_is_alive_behind_its_call() {
    for frames in [Frames::Without, Frames::With, Frames::WithAndColdLoops] {
        for Subject { name, .. } in SUBJECTS {
            let lost = frames.function("probed", name).lost();
            assert!(lost.is_empty(), "{frames:?}, {name}: {lost:?}");
        }
    }
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
