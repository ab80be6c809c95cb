//! Tests of `src/check/operand.rs`.

use super::*;
use crate::check::elf::{Home, Symbol};
use object::elf;

#[test]
fn calls_and_jumps_are_told_by_their_opcodes() {
    for (code, field) in [
        (&[0xe8][..], Instruction::Call),
        (&[0xe9], Instruction::Jump),
        (&[0x0f, 0x84], Instruction::Jump),
        // lea rax, [rip + ..]
        (&[0x48, 0x8d, 0x05], Instruction::Other),
        (&[], Instruction::Other),
    ] {
        assert_eq!(before(code, code.len() as u64), field, "{code:02x?}");
    }
    assert_eq!(before(&[0xe8], 9), Instruction::Other);
}

/// A function of 16 bytes at 0, another one of 32 behind it, both in section 1.
fn judged(code: &[u8], addend: i64, relative: bool, of: Option<bool>) -> Option<Stray> {
    let symbol = |name: &str, value, size| {
        let (binding, kind, home) = (elf::STB_LOCAL, elf::STT_FUNC, Home::Section(1));
        Symbol { name: name.into(), binding, kind, home, value, size }
    };
    let mut variable = symbol("variable", 40, 8);
    variable.kind = elf::STT_OBJECT;
    let functions = [symbol("first", 0, 16), symbol("second", 16, 32), variable];
    let functions = Functions::new(functions.iter());
    let operand =
        Operand { section: 1, code: Some(code), offset: code.len() as u64, addend, relative };
    let section = |is_code| if is_code { 1 } else { 2 };
    let at = |is_code| Target { section: section(is_code), offset: 0 };
    let base = |is_code| Base { at: at(is_code), size: 48, is_code };
    operand.judge(of.map(base), &functions)
}

#[test]
fn calls_go_to_functions() {
    let call = |addend, of| judged(&[0xe8], addend, true, of);
    assert_eq!(call(-4, None), None);
    assert!(matches!(call(0, None), Some(Stray::Call { distance: 4, .. })));
    assert_eq!(call(12, Some(true)), None);
    for (addend, reason) in
        [(13, "no function"), (44, "the target is outside"), (-5, "the target is outside")]
    {
        let Some(Stray::Call { reason: found, .. }) = call(addend, Some(true)) else { panic!() };
        assert!(found.starts_with(reason), "{addend}: {found}");
    }
    assert!(matches!(call(12, Some(false)), Some(Stray::Call { .. })));
    for opcode in [0xe8, 0xe9] {
        let Some(Stray::Call { reason, .. }) = judged(&[opcode], 36, true, Some(true)) else {
            panic!()
        };
        assert!(
            reason.starts_with("the symbol of the target has a type other than function"),
            "{reason}"
        );
    }
    // A jump may be to a label.
    assert_eq!(judged(&[0xe9], 13, true, Some(true)), None);
}

#[test]
fn addresses_are_of_something() {
    let lea = |addend, of| judged(&[0x48, 0x8d, 0x05], addend, true, Some(of));
    assert_eq!(lea(12, true), None, "a function");
    assert_eq!(lea(4, true), None, "a label of its own");
    let middle = Stray::Middle { function: "second".into(), offset: 4 };
    assert_eq!(lea(16, true), Some(middle));
    assert_eq!(lea(-100, true), Some(Stray::Outside));
    assert_eq!(lea(-100, false), None, "an index is added");
    assert_eq!(lea(5000, false), Some(Stray::Outside));
    assert_eq!(judged(&[], i64::MAX, false, None), Some(Stray::Outside));
}
