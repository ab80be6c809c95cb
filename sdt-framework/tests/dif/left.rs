//! Data that a program must not read: memory of another consumer or of a refused program. Also keys that make a hit
//! slow.

use std::sync::atomic::AtomicU32;

use dtrace_abi::dif::{DifType, Instr, Opcode, TypeKind, Variable};
use dtrace_abi::fault::Fault;
use sdt_framework::testing::{
    Access, Difo, Dynamic, Memory, PerCpu, Program, Slot, Source, Statics, Word,
};

use crate::world::{self, World};

const NONE: Access = Access { kernel: false, args: false, process: false, control: false };
/// Addresses of a program's own memory: of its strings, of global variable 0, of dynamic variable 0.
const STRINGS: u64 = 0x4402_0000_0000_0001;
const GLOBAL: u64 = 0x4403_0000_0000_0000;
const DYNAMIC: u64 = 0x4405_0000_0000_0000;

fn variable(id: u32, scope: u8, kind: u8, ty: DifType) -> Variable {
    Variable { name: 0, id, kind, scope, flags: 3, ty }
}

fn string(size: u32) -> DifType {
    DifType { kind: 1, ckind: 0, flags: DifType::BYREF, pad: 0, size }
}

fn words(count: usize) -> &'static [Word] {
    Box::leak((0..count).map(|_| Word::new()).collect())
}

fn links(count: usize) -> &'static [AtomicU32] {
    Box::leak((0..count).map(|_| AtomicU32::new(0)).collect())
}

#[test]
fn the_next_consumer_finds_nothing_of_the_last_one() {
    let (literals, extents, values, variables) = (words(64), words(64), words(256), words(1600));
    let (buckets, chain, list) = (links(8), links(10), links(10));
    let cpus: &'static [PerCpu] = Box::leak(vec![PerCpu::new()].into());
    let memory = || -> &'static Memory<'static> {
        let statics = || Statics { extents, words: values, copies: 1 };
        let dynamic = Dynamic::new(buckets, chain, list, variables, 160, cpus);
        let locals = Statics { extents: words(64), words: words(256), copies: 1 };
        Box::leak(Box::new(Memory {
            literals,
            globals: statics(),
            locals,
            dynamic,
            string_size: 64,
        }))
    };
    let (world, mut room) = (World::default(), [Slot::EMPTY; 32]);
    {
        let memory = memory();
        let mut declarations = world::declarations(memory);
        let code = [
            Instr::sets(1, 1),
            Instr::var(Opcode::Stgs, 0x500, 1),
            Instr::var(Opcode::Stts, 0x501, 1),
            Instr::ret(0),
        ];
        let source = Difo {
            code: &code,
            integers: &[],
            strings: b"\0a secret\0",
            variables: &[variable(0x500, 0, 1, string(32)), variable(0x501, 1, 1, string(32))],
            returns: DifType::INT,
        };
        let program = Program::new(&source, &mut declarations, false, &mut room).unwrap();
        world::firing(&world, memory, NONE, 1, 0).run(&program).unwrap();
    }
    let memory = memory();
    let mut declarations = world::declarations(memory);
    for address in [STRINGS, GLOBAL, DYNAMIC] {
        let source = Difo {
            code: &[Instr::setx(0, 1), Instr::ret(1)],
            integers: &[address],
            strings: &[],
            variables: &[],
            returns: string(64),
        };
        let program = Program::new(&source, &mut declarations, false, &mut room).unwrap();
        let mut firing = world::firing(&world, memory, NONE, 1, 0);
        let (at, mut found) = (firing.run(&program).unwrap(), [0u8; 32]);
        let _ = firing.fetch_string(at, &mut found);
        assert_eq!(found, [0; 32], "{address:#x}");
    }
}

#[test]
fn a_refused_program_leaves_no_place() {
    let memory = world::memory(256, 1, 4);
    let mut declarations = world::declarations(memory);
    let (world, mut room) = (World::default(), [Slot::EMPTY; 32]);
    let refused = Difo {
        code: &[Instr(0), Instr::ret(0)],
        integers: &[],
        strings: b"\0",
        variables: &[variable(0x505, 0, 1, string(64))],
        returns: DifType::INT,
    };
    assert!(Program::new(&refused, &mut declarations, false, &mut room).is_err());
    let code = [Instr::setx(0, 2), Instr::setx(1, 4), Instr::two(Opcode::Stx, 4, 2), Instr::ret(0)];
    let source = Difo {
        code: &code,
        integers: &[GLOBAL + (5 << 24), 0x9999],
        strings: b"\0",
        variables: &[variable(0x500, 0, 1, DifType::INT), variable(0x501, 0, 1, DifType::INT)],
        returns: DifType::INT,
    };
    let program = Program::new(&source, &mut declarations, false, &mut room).unwrap();
    let failure = world::firing(&world, memory, NONE, 1, 0).run(&program).unwrap_err();
    assert_eq!(failure.fault, Fault::BadAddress);
}

/// A source that announces instructions, and returns none.
struct Liar;

struct Nothing;

impl Iterator for Nothing {
    type Item = Instr;

    fn next(&mut self) -> Option<Instr> {
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (4, Some(4))
    }
}

impl ExactSizeIterator for Nothing {}

impl Source for Liar {
    fn instructions(&self) -> impl ExactSizeIterator<Item = Instr> {
        Nothing
    }

    fn integer(&self, _: u16) -> Option<u64> {
        None
    }

    fn strings(&self) -> &[u8] {
        &[]
    }

    fn variables(&self) -> impl Iterator<Item = Variable> {
        std::iter::empty()
    }

    fn returns(&self) -> DifType {
        DifType::INT
    }
}

#[test]
fn slots_of_another_program_are_none_of_this_one() {
    let mut declarations = world::declarations(world::memory(64, 1, 4));
    let mut room = [Slot::EMPTY; 8];
    assert!(Program::new(&Liar, &mut declarations, false, &mut room).is_err());
}

/// An object, and numbers that are its size and its bytes, are different keys.
#[test]
fn an_object_is_not_the_numbers_that_it_contains() {
    let memory = world::memory(64, 1, 4);
    let mut declarations = world::declarations(memory);
    let world = World { memory: vec![(0x1000, vec![5, 0, 0, 0, 0, 0, 0, 0])], ..World::default() };
    let number = |register| Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, register);
    let code = [
        Instr::setx(0, 1),
        Instr::setx(1, 2),
        Instr::setx(2, 3),
        // a[8, 5] = 8
        number(1),
        number(2),
        Instr::var(Opcode::Stgaa, 0x500, 1),
        Instr::three(Opcode::Flushts, 0, 0, 0),
        // a[the 8 bytes at 0x1000], whose value is 5
        Instr::push(Opcode::Pushtv, TypeKind::Ctf, 1, 3),
        Instr::var(Opcode::Ldgaa, 0x500, 4),
        Instr::three(Opcode::Flushts, 0, 0, 0),
        number(1),
        number(2),
        Instr::var(Opcode::Ldgaa, 0x500, 5),
        Instr::three(Opcode::Sub, 5, 4, 5),
        Instr::ret(5),
    ];
    let source = Difo {
        code: &code,
        integers: &[8, 5, 0x1000],
        strings: &[],
        variables: &[variable(0x500, 0, 0, DifType::INT)],
        returns: DifType::INT,
    };
    let mut room = [Slot::EMPTY; 16];
    let program = Program::new(&source, &mut declarations, false, &mut room).unwrap();
    let mut firing = world::firing(&world, memory, Access::ALL, 1, 0);
    firing.begin(1);
    assert_eq!(firing.run(&program), Ok(8));
}

/// All keys are in one chain. A clause that searches this chain many times is stopped.
#[test]
fn a_long_chain_is_work() {
    const COUNT: usize = 2_000;
    let cpus: &'static [PerCpu] = Box::leak(vec![PerCpu::new()].into());
    let statics = || Statics { extents: words(4), words: words(16), copies: 1 };
    let memory: &'static Memory<'static> = Box::leak(Box::new(Memory {
        literals: words(16),
        globals: statics(),
        locals: statics(),
        // One bucket: every key is in it.
        dynamic: Dynamic::new(links(1), links(COUNT), links(COUNT), words(16 * COUNT), 16, cpus),
        string_size: 64,
    }));
    let mut declarations = world::declarations(memory);
    let world = World::default();
    let variables = [variable(0x500, 0, 0, DifType::INT)];
    let mut room = vec![Slot::EMPTY; 4096];
    let element = |place| [Instr::setx(place, 1), Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, 1)];
    for first in (0..COUNT as u64).step_by(20) {
        let integers: Vec<u64> = std::iter::once(1).chain(first..first + 20).collect();
        let mut code = vec![Instr::setx(0, 2)];
        for place in 1..=20 {
            code.extend(element(place));
            code.push(Instr::var(Opcode::Stgaa, 0x500, 2));
            code.push(Instr::three(Opcode::Flushts, 0, 0, 0));
        }
        code.push(Instr::ret(0));
        let source = Difo {
            code: &code,
            integers: &integers,
            strings: &[],
            variables: &variables,
            returns: DifType::INT,
        };
        let program = Program::new(&source, &mut declarations, false, &mut room).unwrap();
        let mut firing = world::firing(&world, memory, NONE, 1, 0);
        firing.begin(1);
        firing.run(&program).unwrap();
    }
    // The variable that was created first is the last in the chain.
    let mut code = element(0).to_vec();
    code.extend([Instr::var(Opcode::Ldgaa, 0x500, 2); 4000]);
    code.push(Instr::ret(0));
    let source = Difo {
        code: &code,
        integers: &[0],
        strings: &[],
        variables: &variables,
        returns: DifType::INT,
    };
    let program = Program::new(&source, &mut declarations, false, &mut room).unwrap();
    let mut firing = world::firing(&world, memory, NONE, 1, 0);
    firing.begin(1);
    assert_eq!(firing.run(&program).unwrap_err().fault, Fault::IllegalOperation);
}
