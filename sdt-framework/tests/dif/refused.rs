//! Programs that the validator refuses, each with the instruction and the reason; a refused program leaves no data.

use dtrace_abi::Platform;
use dtrace_abi::dif::{Builtin, DifType, Instr, Opcode, Subr, TypeKind, Variable};
use sdt_framework::testing::{
    Access, Declarations, Difo, Invalid, InvalidPlace, Problem, Program, Slot,
};

use crate::world::{self, World};

const RET: Instr = Instr::ret(0);

fn variable(id: u32, scope: u8, kind: u8, ty: DifType) -> Variable {
    Variable { name: 0, id, kind, scope, flags: 3, ty }
}

fn string(size: u32) -> DifType {
    DifType { kind: 1, ckind: 0, flags: DifType::BYREF, pad: 0, size }
}

fn difo<'a>(code: &'a [Instr], variables: &'a [Variable]) -> Difo<'a> {
    Difo { code, integers: &[1, 2], strings: b"\0abc\0", variables, returns: DifType::INT }
}

fn check(source: &Difo<'_>, declarations: &mut Declarations<'_>) -> Result<(), Invalid> {
    Program::new(source, declarations, false, &mut [Slot::EMPTY; 16]).map(drop)
}

/// Returns the problem of the first of some instructions, which `ret` follows.
fn said(code: &[Instr]) -> Problem {
    let code = [code, &[RET]].concat();
    let mut declarations = world::declarations(world::memory(256, 1, 4));
    let globals = [
        variable(0x500, 0, 1, DifType::INT),
        variable(0x501, 0, 0, DifType::INT),
        variable(0x503, 2, 1, DifType::INT),
    ];
    let error = check(&difo(&code, &globals), &mut declarations).unwrap_err();
    assert_eq!(error.place, InvalidPlace::Instruction(0), "{error}");
    error.problem
}

#[test]
fn instructions() {
    use Opcode::*;
    let call = |subr| Instr::call(subr, Platform::Freebsd, 1).unwrap();
    let cases = [
        (Instr(0), Problem::Opcode(0)),
        (Instr(80 << 24), Problem::Opcode(80)),
        (Instr::three(Add, 8, 1, 1), Problem::Register(8)),
        (Instr::three(Add, 1, 9, 1), Problem::Register(9)),
        (Instr::three(Add, 1, 1, 255), Problem::Register(255)),
        (Instr::three(Add, 1, 1, 0), Problem::WritesZero),
        (Instr::three(Mov, 1, 1, 1), Problem::Reserved),
        (Instr::three(Cmp, 1, 1, 1), Problem::Reserved),
        (Instr::three(Tst, 1, 1, 0), Problem::Reserved),
        (Instr::three(Nop, 0, 0, 1), Problem::Reserved),
        (Instr::three(Ret, 1, 0, 0), Problem::Reserved),
        (Instr::three(Ldx, 1, 1, 1), Problem::Reserved),
        (Instr::two(Stx, 1, 0), Problem::WritesZero),
        (Instr::two(Rldx, 1, 1), Problem::Internal(77)),
        (Instr::var(Xlate, 0, 1), Problem::Internal(78)),
        (Instr::branch(Ba, 0), Problem::Backward(0)),
        (Instr::branch(Be, 2), Problem::Target(2)),
        (Instr::setx(2, 1), Problem::Integer(2)),
        (Instr::sets(5, 1), Problem::String(5)),
        (Instr::three(Ldga, 3, 0, 1), Problem::Array(3)),
        (Instr::three(Ldta, 0, 0, 1), Problem::Array(0)),
        (Instr::var(Ldgs, 0x124, 1), Problem::Builtin(0x124)),
        (Instr::var(Ldgs, 1, 1), Problem::Builtin(1)),
        (Instr::var(Stgs, Builtin::Pid.number(), 1), Problem::ReadOnly(Builtin::Pid.number())),
        (Instr::var(Ldls, 0x100, 1), Problem::ReadOnly(0x100)),
        // Variables that are not declared; 0x502 is less than the declared number 0x503.
        (Instr::var(Ldls, 0x502, 1), Problem::Undeclared(0x502)),
        (Instr::var(Ldts, 0x500, 1), Problem::Undeclared(0x500)),
        (Instr::var(Stgs, 0xffff, 1), Problem::Undeclared(0xffff)),
        (Instr::var(Ldgs, 0x501, 1), Problem::Keys(0x501)),
        (Instr::var(Stgaa, 0x500, 1), Problem::Keys(0x500)),
        (Instr::var(Call, 54, 1), Problem::Subroutine(54)),
        (call(Subr::Msgsize), Problem::Unsupported(Subr::Msgsize)),
        (call(Subr::Copyout), Problem::Destructive(Subr::Copyout)),
        (Instr::push(Pushtv, TypeKind::String, 0, 1), Problem::Type(1)),
        (Instr::three(Pushtr, 2, 0, 1), Problem::Type(2)),
    ];
    for (instr, problem) in cases {
        assert_eq!(said(&[instr]), problem, "{instr:x?}");
    }
}

#[test]
fn programs_and_variables() {
    let memory = world::memory(256, 1, 4);
    let mut declarations = world::declarations(memory);
    let mut said = |source: &Difo<'_>| check(source, &mut declarations).unwrap_err();
    let whole = |problem| Invalid { place: InvalidPlace::Whole, problem };
    let of_variable = |problem| Invalid { place: InvalidPlace::Variable(0), problem };
    assert_eq!(said(&difo(&[], &[])), whole(Problem::Empty));
    assert_eq!(said(&difo(&[RET; 17], &[])), whole(Problem::Long(17, 16)));
    let unterminated = Difo { strings: b"\0a", ..difo(&[RET], &[]) };
    assert_eq!(said(&unterminated), whole(Problem::Unterminated));
    let three = Difo { returns: DifType::integer(3), ..difo(&[RET], &[]) };
    assert_eq!(said(&three), whole(Problem::ValueSize(3)));
    let endless = Invalid { place: InvalidPlace::Instruction(1), problem: Problem::NoReturn };
    assert_eq!(said(&difo(&[RET, Instr::NOP], &[])), endless);
    for (one, problem) in [
        (variable(0x500, 3, 1, DifType::INT), Problem::Scope(3)),
        (variable(0x500, 0, 2, DifType::INT), Problem::Kind(2)),
        (variable(0x500, 2, 0, DifType::INT), Problem::Kind(0)),
        (variable(0x1_0000, 0, 1, DifType::INT), Problem::Number(0x1_0000)),
        (variable(0x500, 0, 1, string(0)), Problem::NoSize),
        (variable(0x500, 0, 1, string(16_385)), Problem::Oversized(16_385)),
        (variable(0x500, 0, 1, DifType::integer(16)), Problem::ValueSize(16)),
        (variable(0x500, 0, 1, DifType { flags: 4, ..DifType::INT }), Problem::Flags(4)),
        (variable(0x500, 0, 1, DifType { kind: 2, ..DifType::INT }), Problem::Type(2)),
        (variable(0x5ff, 0, 1, DifType::INT), Problem::TooManyVariables),
        (variable(0x500, 0, 1, string(16_384)), Problem::NoRoomForValues),
    ] {
        assert_eq!(said(&difo(&[RET], &[one])), of_variable(problem));
    }
}

#[test]
fn variables_stay_as_they_are() {
    let memory = world::memory(256, 1, 4);
    let mut declarations = world::declarations(memory);
    let good = [variable(0x500, 0, 1, string(8)), variable(0x501, 1, 0, DifType::INT)];
    assert_eq!(check(&difo(&[RET], &good), &mut declarations), Ok(()));
    for (other, problem) in [
        (variable(0x500, 0, 1, string(9)), Problem::ChangedSize),
        (variable(0x500, 0, 1, DifType::INT), Problem::ChangedType),
        (variable(0x500, 0, 0, string(8)), Problem::ChangedKind),
        (variable(0x501, 1, 1, DifType::INT), Problem::ChangedKind),
        (variable(0x501, 1, 0, DifType::integer(4)), Problem::ChangedSize),
        (
            variable(0x501, 1, 0, DifType { flags: DifType::BYUREF, ..DifType::INT }),
            Problem::ChangedType,
        ),
    ] {
        let error = check(&difo(&[RET], &[other]), &mut declarations).unwrap_err();
        assert_eq!(error.problem, problem);
    }
}

/// A program can use only the variables in its own table, also if other programs have declared more.
#[test]
fn variables_of_other_programs_are_not_declared() {
    let memory = world::memory(256, 1, 4);
    let mut declarations = world::declarations(memory);
    let scopes = [(0, Opcode::Ldgs), (1, Opcode::Ldts), (2, Opcode::Ldls)];
    for (scope, load) in scopes {
        let own = [variable(0x500, scope, 1, DifType::INT)];
        let code = [Instr::var(load, 0x500, 1), RET];
        assert_eq!(check(&difo(&code, &own), &mut declarations), Ok(()));
        let error = check(&difo(&code, &[]), &mut declarations).unwrap_err();
        assert_eq!(error.problem, Problem::Undeclared(0x500));
        assert_eq!(check(&difo(&code, &own), &mut declarations), Ok(()));
    }
}

/// A program that is refused at its end has declared nothing, and has taken no room.
#[test]
fn nothing_is_left_of_what_is_refused() {
    let memory = world::memory(256, 1, 4);
    let mut declarations = world::declarations(memory);
    let large = [variable(0x500, 0, 1, string(9000))];
    for _ in 0..100 {
        let source = Difo { strings: &[0; 1000], ..difo(&[Instr(0), RET], &large) };
        let error = check(&source, &mut declarations).unwrap_err();
        assert_eq!(error.problem, Problem::Opcode(0));
    }
    let code = [Instr::var(Opcode::Ldgs, 0x500, 1), RET];
    let error = check(&difo(&code, &[]), &mut declarations).unwrap_err();
    assert_eq!(error.problem, Problem::Undeclared(0x500));
    let small = [variable(0x500, 0, 1, DifType::INT)];
    assert_eq!(check(&difo(&code, &small), &mut declarations), Ok(()));
}

/// `strstr` in a string that takes long to search: the program is stopped.
#[test]
fn work_is_bounded() {
    let memory = world::memory(1 << 20, 1, 4);
    let mut declarations = world::declarations(memory);
    let address = 0xffff_0000_0000_0000u64;
    let needle = address + (1 << 21);
    let push = |register| Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, register);
    let code = [
        Instr::setx(0, 1),
        Instr::setx(1, 2),
        push(1),
        push(2),
        Instr::call(Subr::Strstr, Platform::Freebsd, 1).unwrap(),
        Instr::ret(1),
    ];
    let source = Difo {
        code: &code,
        integers: &[address, needle],
        strings: &[],
        variables: &[],
        returns: DifType::INT,
    };
    let mut slots = [Slot::EMPTY; 8];
    let program = Program::new(&source, &mut declarations, false, &mut slots).unwrap();
    let mut text = vec![b'a'; 1 << 19];
    text.push(0);
    let mut wanted = vec![b'a'; 1 << 10];
    wanted.extend(b"b\0");
    let world = World { memory: vec![(address, text), (needle, wanted)], ..World::default() };
    let mut firing = world::firing(&world, memory, Access::ALL, 1, 0);
    firing.begin(1);
    let failure = firing.run(&program).unwrap_err();
    assert_eq!(failure.fault, dtrace_abi::fault::Fault::IllegalOperation);
    assert_eq!(failure.offset, 16);
}
