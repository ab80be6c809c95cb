//! Checks the gate of the breakpoint handler in the interrupt descriptor table, on kernels other than FreeBSD and
//! illumos.

use core::fmt;

/// The reason why the breakpoint handler of this CPU cannot handle the breakpoint of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerFault {
    /// Vector 3 has no handler.
    Missing,
    /// Its gate leaves interrupts on.
    TrapGate,
    /// It uses the interrupt stack of another vector: a site in the handler of that vector would overwrite its frame.
    SharedStack {
        /// The other vector.
        vector: u8,
    },
}

impl fmt::Display for HandlerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the breakpoint exception, vector 3, has no handler"),
            Self::TrapGate => f.write_str(
                "the breakpoint exception, vector 3, has a trap gate; it needs an interrupt gate",
            ),
            Self::SharedStack { vector } => write!(
                f,
                "the breakpoint exception, vector 3, has the interrupt stack (IST) of vector {vector}; give it none, \
                 or one of its own"
            ),
        }
    }
}

/// The entries of the table.
#[cfg(any(test, target_os = "none"))]
mod gates {
    use super::HandlerFault;

    /// A gate: two words (Intel SDM, volume 3, 64-bit IDT gate descriptors).
    pub(super) type Gate = [u64; 2];

    pub(super) const BREAKPOINT: usize = 3;
    /// `Type` of an interrupt gate.
    pub(super) const INTERRUPT_GATE: u64 = 0xe;

    fn is_present(gate: &Gate) -> bool {
        gate[0] >> 47 & 1 != 0
    }

    /// The interrupt stack, 1 to 7, or 0 for the stack that is interrupted.
    fn stack(gate: &Gate) -> u64 {
        gate[0] >> 32 & 7
    }

    /// The vector of a double fault, which may share the stack: its handler never returns.
    const DOUBLE_FAULT: usize = 8;

    pub(super) fn judge(gates: &[Gate]) -> Result<(), HandlerFault> {
        let gate =
            gates.get(BREAKPOINT).filter(|gate| is_present(gate)).ok_or(HandlerFault::Missing)?;
        if gate[0] >> 40 & 0xf != INTERRUPT_GATE {
            return Err(HandlerFault::TrapGate);
        }
        let shares = |(vector, other): (usize, &Gate)| {
            let is_other = vector != BREAKPOINT && vector != DOUBLE_FAULT;
            is_other && is_present(other) && stack(other) == stack(gate)
        };
        match gates.iter().enumerate().position(shares) {
            Some(vector) if stack(gate) != 0 => {
                Err(HandlerFault::SharedStack { vector: vector as u8 })
            }
            _ => Ok(()),
        }
    }
}

/// Checks the table of this CPU.
#[cfg(target_os = "none")]
pub fn check_handler() -> Result<(), HandlerFault> {
    use core::arch::asm;

    #[repr(C, packed)]
    struct Register {
        limit: u16,
        base: u64,
    }

    let code: u64;
    // SAFETY: the instruction only reads a register.
    unsafe { asm!("mov {}, cs", out(reg) code, options(nomem, nostack, preserves_flags)) };
    if code & 3 != 0 {
        // In user mode, the table belongs to the kernel of the system.
        return Ok(());
    }
    let mut table = Register { limit: 0, base: 0 };
    // SAFETY: the instruction stores the register, 10 bytes, to a local of this size.
    unsafe { asm!("sidt [{}]", in(reg) &raw mut table, options(nostack, preserves_flags)) };
    if table.limit == 0 {
        return Err(HandlerFault::Missing);
    }
    let count = (usize::from(table.limit) + 1) / size_of::<gates::Gate>();
    let table = core::ptr::with_exposed_provenance(table.base as usize);
    // SAFETY: the table is mapped, because the CPU reads its gates at any moment. If another CPU changes a gate
    // meanwhile, this reads old or new words; no word is used as an address.
    gates::judge(unsafe { core::slice::from_raw_parts(table, count) })
}

/// Returns `Ok`: in a program, the table belongs to the kernel of the operating system.
#[cfg(not(target_os = "none"))]
pub const fn check_handler() -> Result<(), HandlerFault> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::HandlerFault;
    use super::gates::*;

    fn gate(kind: u64, stack: u64) -> Gate {
        [1 << 47 | kind << 40 | stack << 32 | 0x1234, 0xffff_8000]
    }

    fn table(breakpoint: Gate, other: Gate) -> [Gate; 64] {
        let mut gates = [gate(INTERRUPT_GATE, 0); 64];
        gates[BREAKPOINT] = breakpoint;
        gates[33] = other;
        gates
    }

    #[test]
    fn a_handler_on_the_stack_that_it_interrupts_is_good() {
        let interrupt = gate(INTERRUPT_GATE, 1);
        assert_eq!(judge(&table(gate(INTERRUPT_GATE, 0), interrupt)), Ok(()));
        assert_eq!(judge(&table(gate(INTERRUPT_GATE, 2), interrupt)), Ok(()), "of its own");
    }

    #[test]
    fn what_would_crash_is_refused() {
        let interrupt = gate(INTERRUPT_GATE, 1);
        let shared = judge(&table(gate(INTERRUPT_GATE, 1), interrupt));
        assert_eq!(shared, Err(HandlerFault::SharedStack { vector: 33 }));
        assert_eq!(judge(&table(gate(0xf, 0), interrupt)), Err(HandlerFault::TrapGate));
        assert_eq!(judge(&table([0, 0], interrupt)), Err(HandlerFault::Missing));
        assert_eq!(judge(&[]), Err(HandlerFault::Missing));
    }

    #[test]
    fn a_handler_that_never_returns_may_share() {
        let mut gates = table(gate(INTERRUPT_GATE, 1), gate(INTERRUPT_GATE, 0));
        gates[8] = gate(INTERRUPT_GATE, 1);
        assert_eq!(judge(&gates), Ok(()));
        // An NMI during the breakpoint handler would overwrite its frame.
        gates[2] = gate(INTERRUPT_GATE, 1);
        assert_eq!(judge(&gates), Err(HandlerFault::SharedStack { vector: 2 }));
    }
}
