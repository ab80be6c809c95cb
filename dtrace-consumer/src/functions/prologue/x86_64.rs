//! x86_64, decoded by iced.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use super::{MOST, Prologue, Value};

/// The numbers, as in instructions, of `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
pub(super) const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];

/// Follows the first instructions.
pub(super) fn follow(state: &mut Prologue, text: &[u8]) {
    let mut decoder = Decoder::with_ip(64, text, 0, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    for _ in 0..MOST {
        if !decoder.can_decode() {
            return;
        }
        let decoded = decoder.decode();
        if decoded.is_invalid() || decoded.flow_control() != FlowControl::Next {
            return;
        }
        if !known(state, &decoded) && !other(state, &decoded, &mut factory) {
            return;
        }
    }
}

/// Returns the number of a general register that is at the beginning of its full register: not `ah`.
fn low(register: Register) -> Option<usize> {
    let is_high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
    (register.is_gpr() && !is_high).then(|| register.full_register().number())
}

/// Returns the address of the memory operand, if it is in the frame.
fn address(state: &Prologue, of: &Instruction) -> Option<i64> {
    let base = match of.memory_base() {
        Register::RSP => state.stack?,
        Register::RBP => state.frame?,
        _ => return None,
    };
    let is_plain = of.memory_index() == Register::None && of.segment_prefix() == Register::None;
    is_plain.then(|| base.checked_add(of.memory_displacement64().cast_signed())).flatten()
}

/// Performs an instruction that sets the stack or frame pointer, or copies a value. Returns whether it is one.
fn known(state: &mut Prologue, of: &Instruction) -> bool {
    let (to, from) = (of.op0_kind(), of.op1_kind());
    let is_register = |kind| kind == OpKind::Register;
    let constant = || of.try_immediate(1).ok().map(u64::cast_signed);
    match of.mnemonic() {
        Mnemonic::Push if is_register(to) && of.op0_register().size() == 8 => {
            let value = low(of.op0_register()).and_then(|number| state.registers[number]);
            let stack = state.stack.and_then(|stack| stack.checked_sub(8));
            state.move_stack(stack);
            // Other registers are saved, or only make room for slots.
            if let (Some(stack), Some(_)) = (stack, value) {
                state.store(stack, 8, value);
            }
            true
        }
        Mnemonic::Sub | Mnemonic::Add if is_register(to) && of.op0_register() == Register::RSP => {
            let by = constant().filter(|_| !is_register(from) && from != OpKind::Memory);
            let stack = state.stack.zip(by).and_then(|(stack, by)| match of.mnemonic() {
                Mnemonic::Sub => stack.checked_sub(by),
                _ => stack.checked_add(by),
            });
            state.move_stack(stack);
            true
        }
        Mnemonic::Mov
            if is_register(to)
                && of.op0_register() == Register::RBP
                && is_register(from)
                && of.op1_register() == Register::RSP =>
        {
            state.frame = state.stack;
            true
        }
        Mnemonic::Lea if is_register(to) && of.op0_register() == Register::RBP => {
            state.frame = address(state, of);
            true
        }
        // `and $1, %al`
        Mnemonic::And if is_register(to) && of.op0_register().size() == 1 => {
            let Some(number) = low(of.op0_register()) else { return false };
            let is_one = !is_register(from) && from != OpKind::Memory && constant() == Some(1);
            let value = state.registers[number].filter(|value| is_one && value.bytes >= 1);
            state.set(number, value.map(|value| Value { bytes: 1, is_bit: true, ..value }));
            true
        }
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => copy(state, of),
        _ => false,
    }
}

/// Performs a move between general registers and the frame. Returns whether it is one.
fn copy(state: &mut Prologue, of: &Instruction) -> bool {
    let size_of = |register: Register| register.size() as u64;
    let limited = |value: Option<Value>, size| {
        value.map(|value: Value| Value { bytes: value.bytes.min(size), ..value })
    };
    match (of.op0_kind(), of.op1_kind()) {
        (OpKind::Memory, OpKind::Register) => {
            let (Some(address), true) = (address(state, of), of.op1_register().is_gpr()) else {
                return false;
            };
            let value = low(of.op1_register()).and_then(|number| state.registers[number]);
            state.store(address, size_of(of.op1_register()), value);
            true
        }
        (OpKind::Register, OpKind::Register) => {
            let (Some(to), true) = (low(of.op0_register()), of.op1_register().is_gpr()) else {
                return false;
            };
            if matches!(of.op0_register().full_register(), Register::RSP | Register::RBP) {
                return false;
            }
            let value = low(of.op1_register()).and_then(|number| state.registers[number]);
            state.set(to, limited(value, size_of(of.op1_register())));
            true
        }
        (OpKind::Register, OpKind::Memory) => {
            let (Some(to), Some(address)) = (low(of.op0_register()), address(state, of)) else {
                return false;
            };
            if matches!(of.op0_register().full_register(), Register::RSP | Register::RBP) {
                return false;
            }
            let value = state.load(address, of.memory_size().size() as u64);
            state.set(to, value);
            true
        }
        _ => false,
    }
}

/// Forgets the values that another instruction changes. Returns `false` if it may change any slot, or the stack pointer.
fn other(state: &mut Prologue, of: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
    let info = factory.info(of);
    let writes = |access| {
        !matches!(
            access,
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
    };
    for used in info.used_registers().iter().filter(|used| writes(used.access())) {
        match used.register().full_register() {
            Register::RSP => return false,
            Register::RBP => state.frame = None,
            register if register.is_gpr() => state.set(register.number(), None),
            _ => {}
        }
    }
    let stored: Vec<_> =
        info.used_memory().iter().filter(|memory| writes(memory.access())).collect();
    match stored[..] {
        [] => true,
        [memory] => {
            let size = memory.memory_size().size() as u64;
            match address(state, of) {
                Some(address) if size > 0 => {
                    state.store(address, size, None);
                    true
                }
                _ => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::function::Architecture;
    use crate::signature::Frame;

    use super::*;

    fn of(code: &[&[u8]]) -> Prologue {
        Prologue::follow(Architecture::X86_64, &code.concat())
    }

    const SUB: &[u8] = &[0x48, 0x83, 0xec, 0x28]; // sub $0x28,%rsp
    const PUSH: &[u8] = &[0x55]; // push %rbp
    const FRAME: &[u8] = &[0x48, 0x89, 0xe5]; // mov %rsp,%rbp
    const STORE: &[u8] = &[0x48, 0x89, 0x7c, 0x24, 0x10]; // mov %rdi,0x10(%rsp)
    const OTHER: &[u8] = &[0x48, 0xc7, 0x44, 0x24, 0x10, 1, 0, 0, 0]; // movq $1,0x10(%rsp)

    /// Returns the argument in the slot at 0x10(%rsp) after `sub $0x28,%rsp`.
    fn stored(code: &[&[u8]], size: u64) -> Option<u8> {
        let state = of(&[&[SUB], code].concat());
        state.stored(state.address(Frame::Register(7, 0))? + 0x10, size, false)
    }

    #[test]
    fn stores_of_arguments_are_found() {
        assert_eq!(stored(&[STORE], 8), Some(0));
        // Not exactly this slot.
        assert_eq!(stored(&[STORE], 4), None);
        // mov %esi,0x10(%rsp)
        assert_eq!(stored(&[&[0x89, 0x74, 0x24, 0x10]], 4), Some(1));
        // mov %r8b,%al; mov %al,0x10(%rsp)
        let copied: [&[u8]; 2] = [&[0x44, 0x88, 0xc0], &[0x88, 0x44, 0x24, 0x10]];
        assert_eq!(stored(&copied, 1), Some(4));
        // mov %rdi,8(%rsp); mov 8(%rsp),%rax; mov %rax,0x10(%rsp)
        let reloaded: [&[u8]; 3] = [
            &[0x48, 0x89, 0x7c, 0x24, 0x08],
            &[0x48, 0x8b, 0x44, 0x24, 0x08],
            &[0x48, 0x89, 0x44, 0x24, 0x10],
        ];
        assert_eq!(stored(&reloaded, 8), Some(0));
    }

    #[test]
    fn other_stores_are_not_arguments() {
        // The register has changed: add $1,%rdi; mov %rsi,%rdi; xor %edi,%edi.
        for change in [&[0x48, 0x83, 0xc7, 0x01][..], &[0x31, 0xff], &[0x40, 0xb7, 1]] {
            assert_eq!(stored(&[change, STORE], 8), None, "{change:x?}");
        }
        assert_eq!(stored(&[&[0x48, 0x89, 0xf7], STORE], 8), Some(1));
        // Another value is stored first.
        assert_eq!(stored(&[OTHER, STORE], 8), None);
        // A later store is an assignment.
        assert_eq!(stored(&[STORE, OTHER], 8), Some(0));
        // Behind a branch, a call, and a store to unknown memory: je, call, mov %rsi,(%rdx).
        for end in [&[0x74, 0][..], &[0xe8, 0, 0, 0, 0], &[0x48, 0x89, 0x32]] {
            assert_eq!(stored(&[end, STORE], 8), None, "{end:x?}");
        }
        // The offset of the slot is relative to another stack pointer: push %rax.
        assert_eq!(stored(&[STORE, &[0x50]], 8), None);
        // A partial register: mov %ah,0x10(%rsp).
        assert_eq!(stored(&[&[0x88, 0x64, 0x24, 0x10]], 1), None);
    }

    #[test]
    fn a_push_can_make_room() {
        // push %rax; mov %edi,4(%rsp)
        let state = of(&[&[0x50], &[0x89, 0x7c, 0x24, 0x04]]);
        let base = state.address(Frame::Register(7, 0)).unwrap();
        assert_eq!(state.stored(base + 4, 4, false), Some(0));
        // push %rdi; mov %esi,4(%rsp)
        let state = of(&[&[0x57], &[0x89, 0x74, 0x24, 0x04]]);
        assert_eq!(state.stored(-16, 8, false), Some(0));
        assert_eq!(state.stored(-12, 4, false), None);
    }

    #[test]
    fn a_bit_is_only_a_bool() {
        // mov %dil,%al; and $1,%al; mov %al,0x10(%rsp)
        let code: [&[u8]; 4] = [SUB, &[0x40, 0x88, 0xf8], &[0x24, 1], &[0x88, 0x44, 0x24, 0x10]];
        let state = of(&code);
        let slot = state.address(Frame::Register(7, 0)).unwrap() + 0x10;
        assert_eq!(state.stored(slot, 1, true), Some(0));
        assert_eq!(state.stored(slot, 1, false), None);
    }

    #[test]
    fn frames_of_gcc_and_of_llvm() {
        // push %rbp; mov %rsp,%rbp; mov %rdi,-0x18(%rbp)
        let state = of(&[PUSH, FRAME, &[0x48, 0x89, 0x7d, 0xe8]]);
        assert_eq!(state.address(Frame::Call), Some(0));
        assert_eq!(state.address(Frame::Register(6, 0)), Some(-16));
        assert_eq!(state.stored(-0x28, 8, false), Some(0));
        // Without a frame pointer.
        assert_eq!(of(&[SUB]).address(Frame::Register(6, 0)), None);
        assert_eq!(of(&[SUB]).address(Frame::Register(3, 0)), None);
    }
}
