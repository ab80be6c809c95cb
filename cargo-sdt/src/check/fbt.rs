//! Where a kernel's fbt puts its probes in a function, and whether its entry is where the function begins.
//!
//! fbt looks for the instruction that saves the frame pointer or the return address, wherever in the function that is,
//! and takes it for the entry. A compiler that sets up a frame only on the way that needs one (shrink wrapping) makes
//! it another place, or none that is passed at all: the probe is listed, and does not fire. So kernels of illumos are
//! compiled with `-fno-shrink-wrap`, and modules here are with `-enable-shrink-wrap=false` in their target files.
//!
//! The rules are FreeBSD's (`fbt_provide_module_function` in `sys/cddl/dev/fbt/{x86,aarch64,riscv}/fbt_isa.c`, main)
//! and illumos's (`fbt_provide_module` in `usr/src/uts/intel/dtrace/fbt.c`), which on amd64 are the same.

use super::finding::{Findings, Hex};
use super::flow::{self, Flow};
use super::rules::Rule;
use crate::arch::Arch;

/// The places of a function that fbt patches, as offsets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Of `entry`.
    pub entry: u64,
    /// Of `return`.
    pub returns: Vec<u64>,
}

impl Probes {
    /// What fbt makes of a function that has this code, at this address; nothing where it makes no probe.
    pub fn of(arch: Arch, code: &[u8], address: u64) -> Option<Self> {
        match arch {
            Arch::X86_64 => x86_64(code, address),
            Arch::Aarch64 => aarch64(code),
            Arch::Riscv64 => riscv64(code),
        }
    }

    /// Whether every call of the function passes its entry, and that before anything else can happen: no branch, call
    /// or site is in front of it.
    pub fn begins_at_entry(&self, arch: Arch, code: &[u8]) -> bool {
        let mut at = 0;
        while at < self.entry {
            let rest = code.get(at as usize..).unwrap_or_default();
            let Some(instruction) = flow::decode(arch, rest) else { return false };
            // A nop is a site, which is a jump while it is enabled: compilers have none there.
            if instruction.flow != Flow::Next || instruction.nop {
                return false;
            }
            at += instruction.len;
        }
        let entry = code.get(at as usize..).and_then(|rest| flow::decode(arch, rest));
        // Where instructions are of several lengths it can be found inside of one.
        at == self.entry && entry.is_some_and(|instruction| !instruction.nop)
    }
}

/// Warns of a function whose entry is not where it begins.
pub(super) fn check(arch: Arch, name: &str, code: &[u8], address: u64, findings: &mut Findings) {
    if let Some(probes) = Probes::of(arch, code, address)
        && !probes.begins_at_entry(arch, code)
    {
        findings.symbol(name, Rule::FbtEntry, &[&Hex(probes.entry)]);
    }
}

/// The lengths are those that DTrace's disassembler tells; of what compilers emit they are the same.
fn x86_64(code: &[u8], address: u64) -> Option<Probes> {
    const PUSH_RBP: u8 = 0x55;
    const RET: u8 = 0xc3;
    let mut at = 0;
    let len = |at: usize| flow::decode(Arch::X86_64, code.get(at..)?).map(|of| of.len as usize);
    while *code.get(at)? != PUSH_RBP {
        at += len(at)?;
    }
    let entry = at as u64;
    let mut returns = Vec::new();
    while let (Some(&byte), Some(len)) = (code.get(at), len(at)) {
        if byte == RET && !is_in_a_pointer(code, address, at) {
            returns.push(at as u64);
        }
        at += len;
    }
    Some(Probes { entry, returns })
}

/// Whether eight bytes about a place are an address in the function itself: a jump table is no code.
fn is_in_a_pointer(code: &[u8], address: u64, at: usize) -> bool {
    let inside = address..address + code.len() as u64;
    let first = at.saturating_sub(7);
    (first..=at).any(|start| {
        let bytes = code.get(start..).and_then(|rest| rest.first_chunk());
        bytes.is_some_and(|bytes| inside.contains(&u64::from_le_bytes(*bytes)))
    })
}

fn aarch64(code: &[u8]) -> Option<Probes> {
    const SP: u32 = 31;
    const NOP: u32 = 0xd503_201f;
    const RET: u32 = 0xd65f_03c0;
    let words: Vec<_> = code.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    // BTI.
    let first = usize::from(words.first()? & 0xffff_ff3f == 0xd503_241f);
    let sets_up = |word: u32| {
        // `stp xt1, xt2, [sp, #n]!`; `sub sp, sp, #n`.
        word & 0xffc0_0000 == 0xa980_0000 && word >> 5 & 31 == SP
            || word & 0xffc0_0000 == 0xd100_0000 && word & 31 == SP && word >> 5 & 31 == SP
    };
    let after = words.get(first..)?;
    let entry = if *after.first()? == NOP {
        first
    } else {
        first + after.iter().position(|&word| sets_up(word))?
    };
    let returns = (entry..words.len()).filter(|&at| match words[at] {
        RET => true,
        // `b` with a distance that is not negative, which is counted four times as far as it is.
        word if word & 0xff00_0000 == 0x1400_0000 => {
            at as u64 + 4 * u64::from(word & 0x00ff_ffff) >= words.len() as u64
        }
        _ => false,
    });
    Some(Probes { entry: 4 * entry as u64, returns: returns.map(|at| 4 * at as u64).collect() })
}

fn riscv64(code: &[u8]) -> Option<Probes> {
    let half = |at: usize| Some(u16::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
    // In steps of four bytes from where it is, whatever instructions are there; of short ones in both halves.
    let find = |mut at: usize, long: fn(u32) -> bool, short: fn(u16) -> bool| {
        while at < code.len() {
            if word(at).is_some_and(long) {
                return Some(at);
            }
            let halves = [at, at + 2];
            if let Some(at) = halves.into_iter().find(|&at| half(at).is_some_and(short)) {
                return Some(at);
            }
            at += 4;
        }
        None
    };
    // `sd ra, n(sp)`; `c.sdsp ra, n(sp)`.
    let saves = |word: u32| word & 0x01ff_f07f == 0x0011_3023;
    let saves_short = |half: u16| half & 0xe07f == 0xe006;
    // `jalr x0, 0(ra)`; `c.jr ra`.
    let returns = |word: u32| word == 0x0000_8067;
    let returns_short = |half: u16| half == 0x8082;
    let entry = find(0, saves, saves_short)?;
    let mut at = entry;
    let mut found = Vec::new();
    while let Some(next) = find(at, returns, returns_short) {
        found.push(next as u64);
        at = next + 4;
    }
    Some(Probes { entry: entry as u64, returns: found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arch: Arch, code: &[u8]) -> Option<(u64, Vec<u64>, bool)> {
        let probes = Probes::of(arch, code, 0xffff_ffff_8000_0000)?;
        let begins = probes.begins_at_entry(arch, code);
        Some((probes.entry, probes.returns, begins))
    }

    #[test]
    fn a_misplaced_entry_is_a_warning() {
        let found = |code: &[u8]| {
            let mut findings = Findings::default();
            check(Arch::X86_64, "function", code, 0, &mut findings);
            findings.done().expect("no errors")
        };
        // push rbp; ret, and without a frame; then a test and a branch in front.
        assert_eq!((found(&[0x55, 0xc3]), found(&[0xc3])), (vec![], vec![]));
        let [warning] = &found(&[0x85, 0xff, 0x74, 2, 0x55, 0xc3, 0xc3])[..] else { panic!() };
        assert_eq!(warning.rule, Rule::FbtEntry);
        assert!(
            warning.to_string().starts_with("symbol function: fbt takes 0x4 for "),
            "{warning}"
        );
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn x86_64_entries() {
        let of = |code: &[u8]| of(Arch::X86_64, code);
        // push rbp; mov rbp, rsp; pop rbp; ret
        assert_eq!(of(&[0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3]), Some((0, vec![5], true)));
        // endbr64; mov rax, rdi; push rbp; pop rbp; ret
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0x55, 0x5d, 0xc3];
        assert_eq!(of(&code), Some((7, vec![9], true)));
        // The frame is behind a test; a site; a return: `ret 8` is none.
        let code = [0x85, 0xff, 0x74, 3, 0x55, 0x5d, 0xc3, 0xc3];
        assert_eq!(of(&code), Some((4, vec![6, 7], false)));
        let code = [0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0x55, 0x5d, 0xc2, 8, 0];
        assert_eq!(of(&code), Some((6, vec![], false)));
        // lea rax, [rdi + 0x55]; ret
        assert_eq!(of(&[0x48, 0x8d, 0x47, 0x55, 0xc3]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_address_in_the_function_is_no_return() {
        // 0xffffffff800000c3 is in it, for a function that is long enough.
        let mut code = vec![0x55, 0x90];
        code.extend([0xc3, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff]);
        code.resize(0x100, 0x90);
        code.push(0xc3);
        let found = Probes::of(Arch::X86_64, &code, 0xffff_ffff_8000_0000).unwrap();
        assert!(!found.returns.contains(&2), "{found:?}");
        assert!(Probes::of(Arch::X86_64, &code, 0).unwrap().returns.contains(&2));
    }

    #[test]
    fn aarch64_entries() {
        let of = |code: &[u32]| of(Arch::Aarch64, &words(code));
        let (stp, ldp, ret, bti) = (0xa9bf_7bfd, 0xa8c1_7bfd, 0xd65f_03c0, 0xd503_245f);
        assert_eq!(of(&[stp, ldp, ret]), Some((0, vec![8], true)));
        assert_eq!(of(&[bti, stp, ldp, ret]), Some((4, vec![12], true)));
        // paciasp; add x0, x0, x1; sub sp, sp, #32
        assert_eq!(of(&[0xd503_233f, 0x8b01_0000, 0xd100_83ff, ret]), Some((8, vec![12], true)));
        // cbz x0, #8 before it; a site first, which is taken for the entry; a tail call.
        assert_eq!(of(&[0xb400_0040, stp, ret]), Some((4, vec![8], false)));
        assert_eq!(of(&[0xd503_201f, ret, stp]), Some((0, vec![4], false)));
        assert_eq!(of(&[stp, ldp, 0x1400_1000]), Some((0, vec![8], true)));
        assert_eq!(of(&[ret]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn riscv64_entries() {
        let of = |code: &[u8]| of(Arch::Riscv64, code);
        let halves = |halves: &[u16]| -> Vec<u8> {
            halves.iter().flat_map(|half| half.to_le_bytes()).collect()
        };
        // addi sp, sp, -16; sd ra, 8(sp); ld ra, 8(sp); ret
        let (room, saves, loads, ret) = (0x1141, 0xe406, 0x60a2, 0x8082);
        assert_eq!(of(&halves(&[room, saves, loads, ret])), Some((2, vec![6], true)));
        // beqz a0, ...
        assert_eq!(of(&halves(&[0xc501, room, saves, ret])), Some((4, vec![6], false)));
        // Long ones: addi sp, sp, -2032; sd ra, 2024(sp); ret
        assert_eq!(of(&words(&[0x8101_0113, 0x7e11_3423, 0x8067])), Some((4, vec![8], true)));
        // The second half of `lui a0, 0xe4060` is a `sd ra`, too; and in steps of four from there the return is
        // passed over.
        assert_eq!(of(&words(&[0xe406_0537, 0x8067])), Some((2, vec![], false)));
        assert_eq!(of(&halves(&[ret])), None);
        assert_eq!(of(&[]), None);
    }
}
