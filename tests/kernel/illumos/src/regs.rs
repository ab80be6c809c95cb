//! The stack after a trap: the word that `dtrace_invop` pushes for its handlers (`invoptrap` of `intel/ml/exception.S`), followed
//! by `struct regs` (`usr/src/uts/intel/amd64/sys/privregs.h`).

use core::mem::offset_of;

use static_assertions::const_assert_eq;

/// The `uintptr_t *stack` of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct InvopStack {
    /// The word at the top of the interrupted stack.
    pub top: u64,
    /// The registers.
    pub regs: Regs,
}

/// `struct regs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Regs {
    /// `r_savfp`: `%rbp` again, for debuggers.
    pub savfp: u64,
    /// `r_savpc`: `%rip` again, for debuggers.
    pub savpc: u64,
    /// `r_rdi` to `r_r9`: the arguments that registers carry, in their order.
    pub arguments: [u64; 6],
    /// `r_rax`, `r_rbx`, `r_rbp`.
    pub rax_rbx_rbp: [u64; 3],
    /// `r_r10` to `r_r15`.
    pub r10_to_r15: [u64; 6],
    /// `__r_fsbase`, `__r_gsbase`.
    pub bases: [u64; 2],
    /// `r_ds`, `r_es`, `r_fs`, `r_gs`.
    pub segments: [u64; 4],
    /// `r_trapno`.
    pub trapno: u64,
    /// `r_err`.
    pub err: u64,
    /// `r_rip`.
    pub rip: u64,
    /// `r_cs`.
    pub cs: u64,
    /// `r_rfl`.
    pub rfl: u64,
    /// `r_rsp`.
    pub rsp: u64,
    /// `r_ss`.
    pub ss: u64,
}

const_assert_eq!(offset_of!(InvopStack, regs), 8);
const_assert_eq!(offset_of!(Regs, arguments), 16);
const_assert_eq!(offset_of!(Regs, rip), 200);
const_assert_eq!(offset_of!(Regs, rsp), 224);
const_assert_eq!(size_of::<Regs>(), 240);

impl Regs {
    /// Returns an argument of the call that krtld has replaced at a site (`sdt_getarg`). The first six arguments are in
    /// registers. The others start at the top of the stack, because no return address was pushed. If the call has fewer
    /// arguments, the result is the unrelated value of the register or stack word.
    ///
    /// # Safety
    /// `rsp` is the stack pointer at a site, and the stack is mapped at the position of the argument.
    pub unsafe fn argument(&self, argno: usize) -> u64 {
        match self.arguments.get(argno) {
            Some(&argument) => argument,
            // SAFETY: the caller guarantees a stack at `rsp` that is as deep as the argument.
            None => unsafe { *(self.rsp as *const u64).add(argno - self.arguments.len()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_in_registers_and_on_the_stack() {
        let stack = [16u64, 17, 18, 19];
        let regs = Regs {
            arguments: [10, 11, 12, 13, 14, 15],
            rsp: stack.as_ptr() as u64,
            ..Regs::default()
        };
        for argno in 0..10 {
            // SAFETY: four arguments are on the stack.
            assert_eq!(unsafe { regs.argument(argno) }, 10 + argno as u64);
        }
    }
}
