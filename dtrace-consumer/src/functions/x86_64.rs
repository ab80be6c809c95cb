//! x86_64, decoded by iced.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter as _, GasFormatter,
    InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::instruction::{Flow, Instruction};

/// The number of instructions before an indirect jump that are searched for the load of its target from a table.
const NEAR: usize = 6;

/// Decodes the instructions of a function. `Err` has the offset of the first bytes that are no instruction.
pub(super) fn decode(address: u64, text: &[u8]) -> Result<Vec<Instruction>, usize> {
    let mut decoder = Decoder::with_ip(64, text, address, DecoderOptions::NONE);
    let mut all: Vec<iced_x86::Instruction> = Vec::new();
    let mut found = Vec::new();
    while decoder.can_decode() {
        let offset = decoder.position();
        let decoded = decoder.decode();
        if decoded.code() == Code::INVALID {
            return Err(offset);
        }
        let near = &all[all.len().saturating_sub(NEAR)..];
        let flow = flow(&decoded, near);
        found.push(Instruction { address: decoded.ip(), length: decoded.len(), flow });
        all.push(decoded);
    }
    Ok(found)
}

/// Returns the effect of an instruction on the flow of control; `before` are the instructions before it.
fn flow(decoded: &iced_x86::Instruction, before: &[iced_x86::Instruction]) -> Flow {
    match decoded.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::Call => Flow::Call(Some(decoded.near_branch_target())),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::ConditionalBranch => Flow::Branch(decoded.near_branch_target()),
        FlowControl::UnconditionalBranch => Flow::Jump(decoded.near_branch_target()),
        FlowControl::IndirectBranch => indirect(decoded, before),
        FlowControl::Return => Flow::Return,
        // `int3` as padding, `ud2`, and all other instructions that raise an exception.
        FlowControl::Interrupt | FlowControl::Exception => match decoded.mnemonic() {
            Mnemonic::Int | Mnemonic::Int1 => Flow::Next,
            _ => Flow::Stop,
        },
        FlowControl::XbeginXabortXend => Flow::Next,
    }
}

/// Returns the effect of an indirect jump.
fn indirect(decoded: &iced_x86::Instruction, before: &[iced_x86::Instruction]) -> Flow {
    if decoded.op0_kind() == OpKind::Memory {
        // A table has an index; a function in a structure, such as a vtable, has none.
        let has_index = decoded.memory_index() != Register::None;
        return if has_index { Flow::Table } else { Flow::TailCall };
    }
    // `movslq (%table,%index,4), %reg; addq %table, %reg; jmpq *%reg`, or a table of addresses.
    let target = decoded.op0_register();
    let loads_entry = |of: &iced_x86::Instruction| {
        matches!(of.mnemonic(), Mnemonic::Movsxd | Mnemonic::Mov)
            && of.op1_kind() == OpKind::Memory
            && of.memory_index() != Register::None
    };
    let writes_target = |of: &&iced_x86::Instruction| {
        of.op0_kind() == OpKind::Register && of.op0_register().full_register() == target
    };
    match before.iter().rev().find(writes_target) {
        Some(of) if loads_entry(of) => Flow::Table,
        Some(of) if of.mnemonic() == Mnemonic::Add && before.iter().any(loads_entry) => Flow::Table,
        // A function's address that was loaded from a structure, or moved out of the way of the epilogue.
        Some(of) if of.mnemonic() == Mnemonic::Mov => Flow::TailCall,
        _ => Flow::Indirect,
    }
}

/// Returns whether an instruction changes neither an argument register, nor the stack, nor memory.
pub(super) fn keeps_arguments(code: &[u8]) -> bool {
    let decoded = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode();
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&decoded);
    let writes = |access| {
        !matches!(
            access,
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
    };
    let is_scratch = |register: Register| {
        matches!(register.full_register(), Register::RAX | Register::R10 | Register::R11)
    };
    info.used_memory().iter().all(|memory| !writes(memory.access()))
        && info
            .used_registers()
            .iter()
            .all(|used| !writes(used.access()) || is_scratch(used.register()))
}

/// Returns an instruction as text, in the syntax of GNU tools.
pub(super) fn text(address: u64, code: &[u8]) -> String {
    let decoded = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    let mut text = String::new();
    GasFormatter::new().format(&decoded, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(code: &[u8]) -> Flow {
        decode(0x1000, code).unwrap().last().unwrap().flow
    }

    #[test]
    fn flows() {
        for (code, flow) in [
            (&[0x55][..], Flow::Next),
            (&[0xc3], Flow::Return),
            (&[0xf3, 0xc3], Flow::Return),
            (&[0xe8, 1, 0, 0, 0], Flow::Call(Some(0x1006))),
            (&[0xff, 0xd0], Flow::Call(None)),
            (&[0x74, 2], Flow::Branch(0x1004)),
            (&[0xeb, 2], Flow::Jump(0x1004)),
            (&[0x0f, 0x0b], Flow::Stop),
            // jmp *0x18(%rax)
            (&[0xff, 0x60, 0x18], Flow::TailCall),
            // jmp *(,%rax,8)
            (&[0xff, 0x24, 0xc5, 0, 0, 0, 0], Flow::Table),
            // movslq (%rcx,%rax,4), %rax; add %rcx, %rax; jmp *%rax
            (&[0x48, 0x63, 0x04, 0x81, 0x48, 0x01, 0xc8, 0xff, 0xe0], Flow::Table),
            // mov 0x18(%rdi), %rax; jmp *%rax
            (&[0x48, 0x8b, 0x47, 0x18, 0xff, 0xe0], Flow::TailCall),
            (&[0xff, 0xe0], Flow::Indirect),
        ] {
            assert_eq!(last(code), flow, "{code:x?}");
        }
        assert_eq!(decode(0x1000, &[0x90, 0x06]).unwrap_err(), 1);
    }

    #[test]
    fn arguments_are_kept() {
        for (code, keeps) in [
            (&[0x48, 0x8b, 0x47, 0x18][..], true), // mov 0x18(%rdi), %rax
            (&[0x48, 0x8b, 0x77, 0x18], false),    // mov 0x18(%rdi), %rsi
            (&[0x48, 0x89, 0x47, 0x18], false),    // mov %rax, 0x18(%rdi)
            (&[0x80, 0x3f, 0x00], true),           // cmpb $0, (%rdi)
            (&[0x55], false),                      // push %rbp
        ] {
            assert_eq!(keeps_arguments(code), keeps, "{code:x?}");
        }
    }

    #[test]
    fn instructions_are_shown_as_gnu_tools_show_them() {
        assert_eq!(text(0, &[0x48, 0x8b, 0x47, 0x18]), "mov 0x18(%rdi),%rax");
    }

    /// `dtrace_abi` knows far fewer instructions than iced. It must agree with iced on those that it knows.
    #[test]
    fn movable_instructions_are_those_that_iced_decodes() {
        use dtrace_abi::function::x86_64::movable;
        use object::{Object as _, ObjectSection as _};

        let program = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*program).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let bytes = text.data().unwrap();
        let mut decoder = Decoder::with_ip(64, bytes, text.address(), DecoderOptions::NONE);
        let (mut all, mut known) = (0, 0);
        while decoder.can_decode() && all < 2_000_000 {
            let at = decoder.position();
            let decoded = decoder.decode();
            all += 1;
            let Some(movable) = movable(&bytes[at..]) else { continue };
            if decoded.code() == Code::INVALID {
                continue;
            }
            known += 1;
            let code = &bytes[at..at + decoded.len()];
            assert_eq!(usize::from(movable.length), decoded.len(), "{}", self::text(0, code));
            assert_eq!(decoded.flow_control(), FlowControl::Next, "{}", self::text(0, code));
            let offsets = decoder.get_constant_offsets(&decoded);
            let relative = decoded.is_ip_rel_memory_operand();
            let expected = relative.then(|| offsets.displacement_offset() as u8);
            assert_eq!(movable.relative, expected, "{}", self::text(0, code));
            let is_named = |of| matches!(of, Register::RSP | Register::RBP | Register::RIP);
            let is_safe = decoded.op_kinds().all(|kind| kind != OpKind::Memory)
                || matches!(decoded.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
                || decoded.segment_prefix() == Register::FS
                || is_named(decoded.memory_base());
            assert!(is_safe, "{}", self::text(0, code));
        }
        assert!(known > all / 3, "{known} of {all}");
    }
}
