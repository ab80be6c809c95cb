//! The probes that a kernel's fbt creates for a function: at its entry, by the same rule as in the check of cargo-sdt, and at its
//! returns.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check::fbt;

use crate::flow;

/// The places of a function that fbt patches, as offsets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    /// The offset of the probe `entry`.
    pub entry: u64,
    /// The offsets of the probes `return`.
    pub returns: Vec<u64>,
}

impl Probes {
    /// Finds the probes of a function that has this code, at this address; `None` if fbt makes none.
    pub fn of(arch: Arch, code: &[u8], address: u64) -> Option<Self> {
        let entry = fbt::entry(arch, code)?;
        let first = entry as usize;
        let returns = match arch {
            Arch::X86_64 => x86_64(code, first, address),
            Arch::Aarch64 => aarch64(code, first),
            Arch::Riscv64 => riscv64(code, first),
        };
        Some(Self { entry, returns: returns.into_iter().map(|at| at as u64).collect() })
    }

    /// Returns whether the entry is where the function begins.
    pub fn begins_at_entry(&self, arch: Arch, code: &[u8]) -> bool {
        fbt::begins_at(arch, code, self.entry)
    }
}

fn x86_64(code: &[u8], mut at: usize, address: u64) -> Vec<usize> {
    const RET: u8 = 0xc3;
    let mut returns = Vec::new();
    while let Some(instruction) = code.get(at..).and_then(|rest| flow::decode(Arch::X86_64, rest)) {
        if code[at] == RET && !is_in_a_pointer(code, address, at) {
            returns.push(at);
        }
        at += instruction.len as usize;
    }
    returns
}

/// Returns whether eight bytes around a place are an address in the function itself, as in a jump table, which is not code.
fn is_in_a_pointer(code: &[u8], address: u64, at: usize) -> bool {
    let inside = address..address + code.len() as u64;
    let first = at.saturating_sub(7);
    (first..=at).any(|start| {
        let bytes = code.get(start..).and_then(|rest| rest.first_chunk());
        bytes.is_some_and(|bytes| inside.contains(&u64::from_le_bytes(*bytes)))
    })
}

fn aarch64(code: &[u8], entry: usize) -> Vec<usize> {
    const RET: u32 = 0xd65f_03c0;
    let words: Vec<_> = code.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let returns = (entry / 4..words.len()).filter(|&at| match words[at] {
        RET => true,
        // `b` with a distance that is not negative, which fbt multiplies by four.
        word if word & 0xff00_0000 == 0x1400_0000 => {
            at as u64 + 4 * u64::from(word & 0x00ff_ffff) >= words.len() as u64
        }
        _ => false,
    });
    returns.map(|at| 4 * at).collect()
}

/// Finds `jalr x0, 0(ra)` and `c.jr ra`. Searches in steps of four bytes from the entry, and for short instructions in both
/// halves.
fn riscv64(code: &[u8], mut at: usize) -> Vec<usize> {
    let is = |at: usize, bytes: &[u8]| code.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    let mut returns = Vec::new();
    while at < code.len() {
        let short = [at, at + 2].into_iter().find(|&at| is(at, &[0x82, 0x80]));
        match if is(at, &[0x67, 0x80, 0, 0]) { Some(at) } else { short } {
            Some(found) => {
                returns.push(found);
                at = found + 4;
            }
            None => at += 4,
        }
    }
    returns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arch: Arch, code: &[u8]) -> Option<(u64, Vec<u64>, bool)> {
        let probes = Probes::of(arch, code, 0xffff_ffff_8000_0000)?;
        let begins = probes.begins_at_entry(arch, code);
        Some((probes.entry, probes.returns, begins))
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
        // The frame is set up after a test; before that, a site, and a return. `ret 8` does not count as a return.
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
        // `cbz x0, #8` before the frame; a site at the start, which fbt uses as the entry; a tail call.
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
        // The second half of `lui a0, 0xe4060` equals `sd ra`. The search in steps of four bytes from there misses the return.
        assert_eq!(of(&words(&[0xe406_0537, 0x8067])), Some((2, vec![], false)));
        assert_eq!(of(&halves(&[ret])), None);
        assert_eq!(of(&[]), None);
    }
}
