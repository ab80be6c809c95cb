//! The text of a tracepoint, by machine: `sdt_tracepoint_valid`, `_patch` and `_restore`
//! (`sys/x86/x86/sdt_machdep.c`, `sys/arm64/arm64/sdt_machdep.c`, `sys/riscv/riscv/sdt_machdep.c`, main).

use dtrace_abi::site::Code;

use crate::loader::Machine;

/// `KERNSTART`: the start address of amd64's kernel (`sys/amd64/include/vmparam.h`).
const KERNSTART: u64 = 0xffff_ffff_8020_0000;
/// `SDT_PATCH_SIZE`.
const X86_SIZE: u64 = 5;

/// A nop that can become a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// The address of the nop.
    pub patchpoint: u64,
    /// The target of the jump.
    pub target: u64,
}

impl Tracepoint {
    /// Returns the size of the nop in bytes.
    pub const fn len(machine: Machine) -> usize {
        match machine {
            Machine::X86_64 => X86_SIZE as usize,
            Machine::Aarch64 | Machine::Riscv64 => 4,
        }
    }

    /// Returns the maximum distance of a jump in bytes, forward or backward, that the kernel accepts. On arm64 and riscv that is
    /// half of the range of the instruction.
    pub const fn reach(machine: Machine) -> u64 {
        match machine {
            Machine::X86_64 => 1 << 31,
            Machine::Aarch64 => 1 << 26,
            Machine::Riscv64 => 1 << 19,
        }
    }

    /// The address from which the jump's distance is measured.
    const fn origin(self, machine: Machine) -> u64 {
        match machine {
            Machine::X86_64 => self.patchpoint.wrapping_add(X86_SIZE),
            Machine::Aarch64 | Machine::Riscv64 => self.patchpoint,
        }
    }

    const fn distance(self, machine: Machine) -> i64 {
        self.target.wrapping_sub(self.origin(machine)) as i64
    }

    /// Returns whether the kernel accepts the tracepoint. arm64's kernel also checks that it can write to the site;
    /// [`Records`](super::Records) does that check here.
    pub fn is_valid(self, machine: Machine) -> bool {
        let Self { patchpoint, target } = self;
        let places = match machine {
            Machine::X86_64 => {
                patchpoint >= KERNSTART
                    && target >= KERNSTART
                    && patchpoint.checked_add(X86_SIZE).is_some()
            }
            Machine::Aarch64 => patchpoint.is_multiple_of(4) && target.is_multiple_of(4),
            Machine::Riscv64 => patchpoint.is_multiple_of(2) && target.is_multiple_of(2),
        };
        places
            && patchpoint != target
            && self.distance(machine).unsigned_abs() <= Self::reach(machine)
    }

    /// Returns the jump instruction of a valid tracepoint.
    pub fn jump(self, machine: Machine) -> Code {
        let distance = self.distance(machine);
        match machine {
            Machine::X86_64 => {
                let [a, b, c, d] = (distance as i32).to_le_bytes();
                Code::new(&[0xe9, a, b, c, d])
            }
            Machine::Aarch64 => {
                let word = (distance as u64 >> 2) as u32 & 0x3ff_ffff | 0x1400_0000;
                Code::new(&word.to_le_bytes())
            }
            Machine::Riscv64 => {
                // JAL x0: imm[20|10:1|11|19:12].
                let distance = distance as u32;
                let bit =
                    |from: u32, count: u32, to: u32| (distance >> from & ((1 << count) - 1)) << to;
                let word = bit(20, 1, 31) | bit(1, 10, 21) | bit(11, 1, 20) | bit(12, 8, 12) | 0x6f;
                Code::new(&word.to_le_bytes())
            }
        }
    }

    /// Returns the instructions that replace the jump. On amd64 these are five 1-byte nops, not the original 5-byte nop.
    pub const fn nop(machine: Machine) -> Code {
        match machine {
            Machine::X86_64 => Code::new(&[0x90; 5]),
            Machine::Aarch64 => Code::new(&0xd503_201f_u32.to_le_bytes()),
            Machine::Riscv64 => Code::new(&0x13_u32.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Machine::{Aarch64, Riscv64, X86_64};
    use dtrace_abi::site;

    const BASE: u64 = 0xffff_ffff_c000_0000;

    fn to(distance: i64) -> Tracepoint {
        Tracepoint { patchpoint: BASE, target: BASE.wrapping_add_signed(distance) }
    }

    #[test]
    fn jumps_are_those_of_the_encodings() {
        for (machine, encoding) in [
            (X86_64, site::x86_64::ENCODING),
            (Aarch64, site::aarch64::ENCODING),
            (Riscv64, site::riscv64::ENCODING),
        ] {
            for distance in [4, -4, 8, 0x7fc, 0x800, 0x804, -0x800, 0xff00, -0xff00, 0x7fff4] {
                let tracepoint = to(distance);
                assert!(tracepoint.is_valid(machine), "{machine:?} {distance:#x}");
                let Tracepoint { patchpoint, target } = tracepoint;
                let jump = (encoding.jump)(patchpoint as usize, target as usize).unwrap();
                assert_eq!(tracepoint.jump(machine), jump, "{machine:?} {distance:#x}");
            }
            assert_eq!(Tracepoint::nop(machine).as_bytes().len(), Tracepoint::len(machine));
        }
        assert_eq!(Tracepoint::nop(Aarch64), site::aarch64::ENCODING.nop);
        assert_eq!(Tracepoint::nop(Riscv64), site::riscv64::ENCODING.nop);
    }

    #[test]
    fn the_kernel_takes_these_and_no_others() {
        for (machine, distance, valid) in [
            (X86_64, 0, false),
            (X86_64, 1, true),
            (X86_64, -0x3fe0_0000, true),
            (X86_64, -0x3fe0_0001, false),
            (Aarch64, 0, false),
            (Aarch64, 1 << 26, true),
            (Aarch64, (1 << 26) + 4, false),
            (Aarch64, -(1 << 26), true),
            (Aarch64, -(1 << 26) - 4, false),
            (Aarch64, 6, false),
            (Riscv64, 0, false),
            (Riscv64, 6, true),
            (Riscv64, 7, false),
            (Riscv64, 1 << 19, true),
            (Riscv64, (1 << 19) + 2, false),
            (Riscv64, -(1 << 19), true),
            (Riscv64, -(1 << 19) - 2, false),
        ] {
            assert_eq!(to(distance).is_valid(machine), valid, "{machine:?} {distance:#x}");
        }
        for patchpoint in [0, KERNSTART - 1, u64::MAX - 3] {
            let tracepoint = Tracepoint { patchpoint, target: BASE };
            assert!(!tracepoint.is_valid(X86_64), "{patchpoint:#x}");
        }
        // The target is the highest 64-bit address.
        let tracepoint = Tracepoint { patchpoint: KERNSTART, target: u64::MAX };
        assert!(tracepoint.is_valid(X86_64));
        for patchpoint in [BASE + 2, BASE + 1] {
            assert!(!Tracepoint { patchpoint, target: BASE }.is_valid(Aarch64));
        }
        assert!(!Tracepoint { patchpoint: BASE + 1, target: BASE }.is_valid(Riscv64));
    }
}
