//! Functions, the sites of their entries and returns, and the obstacles.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use dtrace_abi::function::{MAX_LEN, Window};

use super::name::Name;

/// An architecture whose functions can be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// AMD64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
}

/// The functions of an ELF file.
#[derive(Clone, Debug)]
pub struct Functions {
    /// The architecture of the file.
    pub architecture: Architecture,
    /// The build ID of the file, if it has one.
    pub build_id: Option<Vec<u8>>,
    /// The functions in the order of their addresses. Each address occurs once.
    pub all: Vec<Function>,
    /// The file, for the types of arguments.
    pub(super) path: PathBuf,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The name of the module and of the function in probe descriptions.
    pub name: Name,
    /// The address in the file.
    pub address: u64,
    /// The size in bytes.
    pub size: u64,
    /// The first instruction.
    pub entry: Result<Site, Obstacle>,
    /// The instructions that leave the function, in the order of their addresses.
    pub returns: Result<Vec<Site>, Obstacle>,
    /// The addresses outside of the function that it calls or jumps to directly.
    pub calls: BTreeSet<u64>,
}

/// An instruction that a breakpoint can replace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The address in the file.
    pub address: u64,
    /// The bytes around the instruction that a jump may overwrite; `None` if no jump may overwrite the instruction.
    pub window: Option<Window>,
    bytes: [u8; MAX_LEN],
    length: u8,
}

impl Site {
    /// Returns the site of an instruction with these bytes, of which there are at most [`MAX_LEN`].
    pub(super) fn new(address: u64, code: &[u8]) -> Self {
        let mut bytes = [0; MAX_LEN];
        let length = code.len().min(MAX_LEN);
        bytes[..length].copy_from_slice(&code[..length]);
        Self { address, window: None, bytes, length: length as u8 }
    }

    /// Returns whether a jump may overwrite the instruction, together with others around it.
    pub const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Returns the bytes of the instruction.
    pub fn code(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: {:02x?}", self.address, self.code())
    }
}

/// The reason why a function's entry or its returns cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Obstacle {
    /// The kernel cannot emulate this instruction.
    NotEmulated {
        /// The offset of the instruction in the function.
        offset: u64,
        /// The instruction as text.
        instruction: String,
    },
    /// A jump in the function leads back to its first instruction, so a hit there is not always a call.
    JumpToEntry,
    /// The function does not return: it ends by a panic, in an endless loop, or by another exception.
    NeverReturns,
    /// The target of an indirect jump is unknown: it may be inside or outside of the function.
    IndirectJump {
        /// The offset of the instruction in the function.
        offset: u64,
    },
    /// A conditional branch leaves the function.
    ConditionalExit {
        /// The offset of the instruction in the function.
        offset: u64,
    },
    /// The function jumps into a return, behind its first byte. A thread that arrives so returns without a hit.
    JumpToReturn {
        /// The offset of the return in the function.
        offset: u64,
    },
    /// These bytes are not an instruction.
    NotCode {
        /// The offset of the bytes in the function.
        offset: u64,
    },
    /// The symbol has no size, so the end of the function is unknown.
    NoSize,
    /// The text of the function is not in the file.
    NoText,
    /// The breakpoint handler can reach this function.
    Handler,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmulated { offset, instruction } => {
                write!(f, "+{offset:#x}: '{instruction}' cannot be emulated")
            }
            Self::JumpToEntry => f.write_str("the function jumps to its own first instruction"),
            Self::NeverReturns => f.write_str("the function does not return"),
            Self::IndirectJump { offset } => {
                write!(f, "+{offset:#x}: the target of the indirect jump is unknown")
            }
            Self::ConditionalExit { offset } => {
                write!(f, "+{offset:#x}: a conditional branch leaves the function")
            }
            Self::JumpToReturn { offset } => {
                write!(
                    f,
                    "+{offset:#x}: the function jumps into this return, behind its first byte"
                )
            }
            Self::NotCode { offset } => {
                write!(f, "+{offset:#x}: these bytes are not an instruction")
            }
            Self::NoSize => f.write_str("the symbol has no size"),
            Self::NoText => f.write_str("the text of the function is not in the file"),
            Self::Handler => f.write_str("the breakpoint handler can reach this function"),
        }
    }
}

impl Functions {
    /// Excludes the functions at these addresses, which the kernel's breakpoint handler calls, and all functions that
    /// they reach by direct calls. Does not follow functions that do not return, such as those of a panic.
    pub fn exclude_reachable(&mut self, roots: &[u64]) {
        let mut open: Vec<u64> = roots.to_vec();
        while let Some(address) = open.pop() {
            let Some(of) = self.at_mut(address) else { continue };
            let is_root = roots.contains(&address);
            if of.entry == Err(Obstacle::Handler)
                || !is_root && of.returns == Err(Obstacle::NeverReturns)
            {
                continue;
            }
            (of.entry, of.returns) = (Err(Obstacle::Handler), Err(Obstacle::Handler));
            open.extend(&of.calls);
        }
    }

    /// Returns the function that contains an address.
    fn at_mut(&mut self, address: u64) -> Option<&mut Function> {
        let index = self.all.partition_point(|of| of.address <= address).checked_sub(1)?;
        let of = self.all.get_mut(index)?;
        (address - of.address < of.size.max(1)).then_some(of)
    }
}
