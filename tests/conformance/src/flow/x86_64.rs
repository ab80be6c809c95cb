//! x86_64.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};

use super::{Flow, Instruction};

pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let decoded = Decoder::new(64, code, DecoderOptions::NONE).decode();
    if decoded.code() == Code::INVALID {
        return None;
    }
    let target = decoded.near_branch_target().cast_signed();
    let flow = match decoded.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
        FlowControl::ConditionalBranch => Flow::Branch(target),
        FlowControl::UnconditionalBranch => Flow::Jump(target),
        FlowControl::Return => Flow::Return,
        _ => Flow::Leave,
    };
    let nop = decoded.mnemonic() == Mnemonic::Nop;
    Some(Instruction { len: decoded.len() as u64, flow, nop, frame: is_frame(&decoded) })
}

/// `push rbp`, `mov rbp, rsp`, `pop rbp`, `leave`.
fn is_frame(decoded: &iced_x86::Instruction) -> bool {
    let is = |operand, register| {
        decoded.op_count() > operand
            && decoded.op_kind(operand) == OpKind::Register
            && decoded.op_register(operand) == register
    };
    match decoded.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop => is(0, Register::RBP),
        Mnemonic::Mov => is(0, Register::RBP) && is(1, Register::RSP),
        Mnemonic::Leave => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows() {
        for (code, len, flow) in [
            (&[0x90][..], 1, Flow::Next),
            (&[0xe8, 0, 0, 0, 0], 5, Flow::Call),
            (&[0xff, 0xd0], 2, Flow::Call),
            (&[0x74, 0x10], 2, Flow::Branch(18)),
            (&[0xeb, 0xfe], 2, Flow::Jump(0)),
            (&[0xc3], 1, Flow::Return),
            (&[0xff, 0xe0], 2, Flow::Leave),
            (&[0x0f, 0x0b], 2, Flow::Leave),
        ] {
            let decoded = decode(code).unwrap();
            assert_eq!((decoded.len, decoded.flow), (len, flow), "{code:x?}");
        }
        assert_eq!(decode(&[0x06]), None);
    }

    #[test]
    fn frames() {
        for code in [&[0x55][..], &[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec], &[0x5d], &[0xc9]] {
            assert!(decode(code).unwrap().frame, "{code:x?}");
        }
        for code in [&[0x53][..], &[0x41, 0x55], &[0x48, 0x89, 0xec], &[0x48, 0x89, 0xc5]] {
            assert!(!decode(code).unwrap().frame, "{code:x?}");
        }
    }

    #[test]
    fn nops() {
        for code in [&[0x90][..], &[0x0f, 0x1f, 0x44, 0, 0], &[0x66, 0x0f, 0x1f, 0x04, 0]] {
            assert!(decode(code).unwrap().nop, "{code:x?}");
        }
        assert!(!decode(&[0x87, 0xdb]).unwrap().nop);
    }
}
