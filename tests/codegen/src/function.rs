//! One decoded function: its hot and its cold instructions.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::image::{Image, SiteRecord, Symbol};

/// The instruction at a site: `nopl 0(%rax,%rax,1)`.
pub const SITE_NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// The reason why a function cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// The program has no text where the symbol is.
    #[error("{name}: no text at {address:#x}")]
    NoText {
        /// The function.
        name: String,
        /// Its address.
        address: u64,
    },
    /// Control flow leads to where no instruction can be decoded, or into the middle of one.
    #[error("{name}: no instruction at {address:#x}")]
    NoInstruction {
        /// The function.
        name: String,
        /// The address.
        address: u64,
    },
    /// A jump whose destination is not in the instruction: this decoder does not follow those.
    #[error("{name}: a jump through a register or memory at {address:#x}")]
    IndirectJump {
        /// The function.
        name: String,
        /// The address.
        address: u64,
    },
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    decoded: iced_x86::Instruction,
}

impl Instruction {
    /// Its address.
    pub fn address(&self) -> u64 {
        self.decoded.ip()
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.decoded.len() as u64
    }

    /// Returns `false`: every instruction has bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the mnemonic and the kinds of operands, without registers and targets of jumps: `mov Register Memory`.
    pub fn shape(&self) -> String {
        let kinds = self.decoded.op_kinds().map(|kind| match kind {
            OpKind::Register => "register".to_owned(),
            OpKind::Memory => "memory".to_owned(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => "to".to_owned(),
            // The value of an immediate matters, not the size of its encoding.
            kind => self.immediate(kind).map_or_else(|| format!("{kind:?}"), |v| format!("{v:#x}")),
        });
        let mnemonic = format!("{:?}", self.decoded.mnemonic()).to_lowercase();
        std::iter::once(mnemonic).chain(kinds).collect::<Vec<_>>().join(" ")
    }

    fn immediate(&self, kind: OpKind) -> Option<u64> {
        let operand = (0..self.decoded.op_count()).find(|i| self.decoded.op_kind(*i) == kind)?;
        self.decoded.try_immediate(operand).ok()
    }

    /// The general register it pushes.
    pub fn pushes(&self) -> Option<Register> {
        let pushes = self.decoded.mnemonic() == Mnemonic::Push
            && self.decoded.op0_kind() == OpKind::Register;
        pushes.then(|| self.decoded.op0_register())
    }

    /// Returns whether it tests, compares, or branches conditionally.
    pub fn decides(&self) -> bool {
        matches!(self.decoded.mnemonic(), Mnemonic::Test | Mnemonic::Cmp | Mnemonic::Bt)
            || self.decoded.flow_control() == FlowControl::ConditionalBranch
    }

    /// Returns whether it is one of those that set up a frame and leave it: `push rbp`, `mov rbp, rsp`,
    /// `pop rbp`.
    pub fn is_frame(&self) -> bool {
        let first = (self.decoded.op_count() > 0).then(|| self.decoded.op0_register());
        match self.decoded.mnemonic() {
            Mnemonic::Push | Mnemonic::Pop => first == Some(Register::RBP),
            Mnemonic::Mov => {
                first == Some(Register::RBP) && self.decoded.op1_register() == Register::RSP
            }
            _ => false,
        }
    }

    /// Returns whether it can fill the space between two functions.
    fn is_padding(&self) -> bool {
        matches!(self.decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
    }

    fn is_nop(&self) -> bool {
        self.decoded.mnemonic() == Mnemonic::Nop
    }

    /// Returns whether it calls a function.
    pub fn calls(&self) -> bool {
        matches!(self.decoded.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
    }

    /// The vector and mask registers that it reads, and those that it writes as a whole.
    fn vectors(&self) -> [BTreeSet<Register>; 2] {
        let mut info = InstructionInfoFactory::new();
        let mut sets = [BTreeSet::new(), BTreeSet::new()];
        for used in info.info(&self.decoded).used_registers() {
            let register = used.register().full_register();
            if !register.is_vector_register() && !register.is_k() {
                continue;
            }
            let (reads, writes) = match used.access() {
                OpAccess::Write => (false, true),
                OpAccess::ReadWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
                _ => (true, false),
            };
            for (set, wanted) in sets.iter_mut().zip([reads, writes]) {
                if wanted {
                    set.insert(register);
                }
            }
        }
        sets
    }

    /// Returns the target of a jump; `None` for calls.
    fn jumps_to(&self) -> Option<u64> {
        let jumps = matches!(
            self.decoded.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        jumps.then(|| self.decoded.near_branch_target())
    }

    /// Returns whether the next instruction can follow it.
    fn falls_through(&self) -> bool {
        matches!(
            self.decoded.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::Call
        ) || (self.decoded.flow_control() == FlowControl::IndirectCall)
    }
}

impl std::fmt::Display for Instruction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use iced_x86::Formatter as _;
        let mut text = String::new();
        iced_x86::GasFormatter::new().format(&self.decoded, &mut text);
        write!(f, "{:x}  {text}", self.decoded.ip())
    }
}

/// A function, taken apart.
#[derive(Debug)]
pub struct Function {
    /// Its symbol.
    pub symbol: Symbol,
    /// Its sites.
    pub sites: Vec<SiteRecord>,
    /// The instructions that are reachable from its entry while no site is patched, by address.
    pub hot: Vec<Instruction>,
    /// The instructions that are reachable only from the targets of its sites, by address.
    pub cold: Vec<Instruction>,
    bytes: Vec<u8>,
}

impl Function {
    /// Decodes a function.
    ///
    /// Every call is assumed to return. If a called function does not return and the bytes after the call are not code,
    /// the function is refused.
    ///
    /// # Errors
    /// The function has no text, control leaves the instructions, or the function jumps through a register.
    pub fn analyse(image: &Image, symbol: &Symbol) -> Result<Self, FunctionError> {
        let bytes = image.text(symbol.address, symbol.len).ok_or_else(|| {
            FunctionError::NoText { name: symbol.name.clone(), address: symbol.address }
        })?;
        let sites = image.sites_in(symbol);
        let hot = reachable(symbol, bytes, &[symbol.address], &BTreeMap::new())?;
        let targets: Vec<_> = sites.iter().map(|site| site.target).collect();
        let cold = reachable(symbol, bytes, &targets, &hot)?;
        Ok(Self {
            symbol: symbol.clone(),
            sites,
            hot: hot.into_values().collect(),
            cold: cold.into_values().collect(),
            bytes: bytes.to_vec(),
        })
    }

    /// The bytes of an instruction.
    pub fn bytes_of(&self, instruction: &Instruction) -> &[u8] {
        let start = (instruction.address() - self.symbol.address) as usize;
        &self.bytes[start..start + instruction.len() as usize]
    }

    /// Returns whether the instruction is a site.
    pub fn is_site(&self, instruction: &Instruction) -> bool {
        self.sites.iter().any(|site| site.patchpoint == instruction.address())
    }

    /// Returns the hot instructions without those that only align code. The number of nops before a loop depends on the address
    /// of the function.
    pub fn hot_without_padding(&self) -> Vec<&Instruction> {
        let heads: BTreeSet<_> = self.hot.iter().filter_map(Instruction::jumps_to).collect();
        let mut kept = Vec::new();
        for (i, instruction) in self.hot.iter().enumerate() {
            let rest = &self.hot[i..];
            let behind = rest.iter().find(|next| !next.is_nop() || self.is_site(next));
            let pads = instruction.is_nop()
                && !self.is_site(instruction)
                && behind.is_some_and(|next| {
                    next.address().is_multiple_of(16) && heads.contains(&next.address())
                });
            if !pads {
                kept.push(instruction);
            }
        }
        kept
    }

    /// Length of the hot instructions in bytes, padding left out.
    pub fn hot_bytes(&self) -> u64 {
        self.hot_without_padding().iter().map(|instruction| instruction.len()).sum()
    }

    /// Length of the cold instructions in bytes.
    pub fn cold_bytes(&self) -> u64 {
        self.cold.iter().map(Instruction::len).sum()
    }

    /// Returns the number of bytes of the function that are neither hot, nor cold, nor padding.
    pub fn unreached_bytes(&self) -> u64 {
        let mut reached = BTreeSet::new();
        for instruction in self.hot.iter().chain(&self.cold) {
            reached.extend(instruction.address()..instruction.address() + instruction.len());
        }
        let mut decoder =
            Decoder::with_ip(64, &self.bytes, self.symbol.address, DecoderOptions::NONE);
        let mut unreached = 0;
        while decoder.can_decode() {
            let instruction = Instruction { decoded: decoder.decode() };
            if !instruction.is_padding() && !reached.contains(&instruction.address()) {
                unreached += instruction.len();
            }
        }
        unreached
    }

    /// Returns the vector and mask registers that are live after a call in its cold code, although the called function may have
    /// changed them.
    pub fn lost(&self) -> BTreeSet<Register> {
        let calls = self.cold.iter().filter(|instruction| instruction.calls());
        calls.flat_map(|call| self.alive(call.address() + call.len())).collect()
    }

    /// The vector and mask registers that are read from an address on before they are written.
    fn alive(&self, address: u64) -> BTreeSet<Register> {
        let code: BTreeMap<_, _> =
            self.hot.iter().chain(&self.cold).map(|of| (of.address(), of)).collect();
        let mut alive = BTreeSet::new();
        // For each address, the registers that are not written yet on the paths to the address.
        let mut known: BTreeMap<u64, BTreeSet<Register>> = BTreeMap::new();
        let all = (0..32).map(|i| Register::ZMM0 + i).chain((0..8).map(|i| Register::K0 + i));
        let mut open = vec![(address, all.collect::<BTreeSet<_>>())];
        while let Some((address, mut unwritten)) = open.pop() {
            let Some(instruction) = code.get(&address) else { continue };
            let here = known.entry(address).or_default();
            if !unwritten.is_empty() && unwritten.is_subset(here) || unwritten.is_empty() {
                continue;
            }
            here.extend(unwritten.iter().copied());
            let [reads, writes] = instruction.vectors();
            alive.extend(reads.intersection(&unwritten).copied());
            unwritten.retain(|register| !writes.contains(register));
            open.extend(instruction.jumps_to().map(|to| (to, unwritten.clone())));
            if instruction.falls_through() {
                open.push((address + instruction.len(), unwritten));
            }
        }
        alive
    }

    /// The registers that its hot path pushes.
    pub fn saved(&self) -> BTreeSet<Register> {
        self.hot.iter().filter_map(Instruction::pushes).collect()
    }
}

/// Returns the instructions that are reachable from `entries`, without those that are `known` already.
fn reachable(
    symbol: &Symbol,
    bytes: &[u8],
    entries: &[u64],
    known: &BTreeMap<u64, Instruction>,
) -> Result<BTreeMap<u64, Instruction>, FunctionError> {
    let mut found = BTreeMap::new();
    let mut open = entries.to_vec();
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    while let Some(address) = open.pop() {
        // A jump to another function is a tail call.
        if known.contains_key(&address) || found.contains_key(&address) || !symbol.contains(address)
        {
            continue;
        }
        let none = || FunctionError::NoInstruction { name: symbol.name.clone(), address };
        decoder.set_position((address - symbol.address) as usize).map_err(|_| none())?;
        decoder.set_ip(address);
        let decoded = decoder.decode();
        if decoded.code() == Code::INVALID {
            return Err(none());
        }
        let instruction = Instruction { decoded };
        if decoded.flow_control() == FlowControl::IndirectBranch
            && decoded.op0_kind() != OpKind::Memory
        {
            return Err(FunctionError::IndirectJump { name: symbol.name.clone(), address });
        }
        open.extend(instruction.jumps_to());
        if instruction.falls_through() {
            open.push(decoded.next_ip());
        }
        found.insert(address, instruction);
    }
    Ok(found)
}

/// Returns all instructions of a function in the order of their addresses, reachable or not, without padding.
///
/// # Errors
/// The function has no text, or bytes that are not instructions.
pub fn instructions(image: &Image, symbol: &Symbol) -> Result<Vec<Instruction>, FunctionError> {
    let bytes = image.text(symbol.address, symbol.len).ok_or_else(|| FunctionError::NoText {
        name: symbol.name.clone(),
        address: symbol.address,
    })?;
    let mut decoder = Decoder::with_ip(64, bytes, symbol.address, DecoderOptions::NONE);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let decoded = decoder.decode();
        if decoded.code() == Code::INVALID {
            let (name, address) = (symbol.name.clone(), decoded.ip());
            return Err(FunctionError::NoInstruction { name, address });
        }
        instructions.push(Instruction { decoded });
    }
    let padding = instructions.iter().rev().take_while(|i| i.is_padding()).count();
    instructions.truncate(instructions.len() - padding);
    Ok(instructions)
}
