//! Registers, breakpoint and emulator of each architecture.
//!
//! Each module has the same items:
//!
//! | item | meaning |
//! |---|---|
//! | `Registers` | the registers of interrupted code |
//! | `IS_SUPPORTED` | whether functions can be traced |
//! | `Instruction` | an instruction that can be emulated: `decode`, `length`, `below_stack`, `emulate` |
//! | `breakpoint` | the bytes that replace the first bytes of an instruction |
//! | `address` | the address of the breakpoint |
//! | `arguments`, `result` | the arguments at an entry, and the value at a return |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::Registers;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{IS_SUPPORTED, Instruction, address, arguments, breakpoint, result};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::Registers;
#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{IS_SUPPORTED, Instruction, address, arguments, breakpoint, result};

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::Registers;
#[cfg(target_arch = "riscv64")]
pub(super) use riscv64::{IS_SUPPORTED, Instruction, address, arguments, breakpoint, result};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod none;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub use none::Registers;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(super) use none::{IS_SUPPORTED, Instruction, address, arguments, breakpoint, result};

/// The stack of the interrupted code, in memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Memory(());

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Memory {
    /// Creates the access to the stack of the interrupted code.
    ///
    /// # Safety
    /// It is used to emulate one instruction in its place: the interrupted code would access the same words, and if the
    /// instruction stores below the stack pointer, the breakpoint handler has left room there.
    const unsafe fn new() -> Self {
        Self(())
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl dtrace_abi::function::Stack for Memory {
    fn load(&mut self, address: u64) -> u64 {
        let at = core::ptr::with_exposed_provenance::<u64>(address as usize);
        // SAFETY: the interrupted code is about to load this word, as `Memory::new` requires.
        unsafe { at.read_unaligned() }
    }

    fn store(&mut self, address: u64, value: u64) {
        let at = core::ptr::with_exposed_provenance_mut::<u64>(address as usize);
        // SAFETY: the interrupted code is about to store to this word, and the handler has left it free, as `Memory::new`
        // requires.
        unsafe { at.write_unaligned(value) };
    }
}
