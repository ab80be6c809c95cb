//! Programs of one instruction that computes, loads, stores or calls, with all combinations of some values; and each variable.

use dtrace_abi::Platform;
use dtrace_abi::dif::{Builtin, DifType, Instr, Opcode, Subr, TypeKind};
use sdt_framework::testing::address::{ObjectAddress, Region};

use super::generate::{LOADS, STORES, Source, THREE, TWO};
use super::world::{KERNEL, TOXIC, USER};

/// Returns numbers at bounds, and addresses of which loads reach mapped, unmapped and toxic memory.
fn values() -> Vec<u64> {
    let place = |region, offset| ObjectAddress { region, item: 0, offset }.address();
    let mut all = vec![0, 1, 3, 63, 64, 65, 255, 1 << 31, i64::MAX as u64, 1 << 63, u64::MAX];
    all.extend([KERNEL, KERNEL + 1, TOXIC.start - 1, TOXIC.end, KERNEL - 1, USER, USER + 3]);
    all.extend([place(Region::Scratch, 0), place(Region::Scratch, 60), place(Region::Scratch, 64)]);
    all.extend([place(Region::Literals, 1), place(Region::Text, 2), place(Region::Global, 0)]);
    all
}

/// Returns a program: 64 bytes of scratch space at `%r4`, two values in `%r1` and `%r2`, the instruction, and a return of the
/// register `result`.
fn program(values: [u64; 2], instr: Instr, result: u8) -> Source {
    let [a, b] = values;
    let allocs = Instr::two(Opcode::Allocs, 3, 4);
    let code = vec![
        Instr::setx(0, 3),
        allocs,
        Instr::setx(1, 1),
        Instr::setx(2, 2),
        instr,
        Instr::ret(result),
    ];
    Source {
        code,
        integers: vec![64, a, b],
        strings: b"\0text\0".to_vec(),
        variables: Vec::new(),
        returns: DifType::INT,
    }
}

/// Each subroutine, with addresses of strings, room for results, and small numbers.
fn calls() -> impl Iterator<Item = Source> {
    let room = ObjectAddress { region: Region::Scratch, item: 0, offset: 0 }.address();
    // 2 and 28 are address families for `inet_ntop`.
    let firsts = [KERNEL, KERNEL + 14, USER, USER + 14, 2, 28];
    let seconds = [KERNEL + 15, USER + 1, room, 2, 8];
    let thirds = [room, 1, 8];
    // The oracle does not have it.
    let all = Subr::ALL.iter().filter(|subr| !matches!(subr, Subr::Json));
    let all = all.filter_map(|subr| subr.number(Platform::Freebsd));
    all.flat_map(move |subr| {
        let of = move |a| seconds.into_iter().flat_map(move |b| thirds.map(|c| [a, b, c]));
        firsts.into_iter().flat_map(of).flat_map(move |args| {
            (1..=3).map(move |given| {
                let mut source = program([args[0], args[1]], Instr::NOP, 5);
                source.integers.push(args[2]);
                let push = |register| Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, register);
                source.code.pop();
                source.code.push(Instr::setx(3, 3));
                source.code.extend((1..=given).map(push));
                source.code.extend([Instr::var(Opcode::Call, subr, 5), Instr::ret(5)]);
                source
            })
        })
    })
}

fn variables() -> impl Iterator<Item = Source> {
    let all = Builtin::ALL.iter().map(|variable| variable.number());
    all.map(|number| program([0; 2], Instr::var(Opcode::Ldgs, number, 5), 5))
}

/// Returns all programs. The validator refuses some of them.
pub fn programs() -> impl Iterator<Item = Source> {
    let all = values();
    let pairs: Vec<_> = all.iter().flat_map(|a| all.iter().map(|b| [*a, *b])).collect();
    let instrs = |[a, b]: [u64; 2]| {
        let three = THREE.iter().map(|op| match op {
            Opcode::Copys => (Instr::three(*op, 1, 2, 4), 4),
            op => (Instr::three(*op, 1, 2, 5), 5),
        });
        let two = TWO.iter().chain(&LOADS).map(|op| (Instr::two(*op, 1, 5), 5));
        let store = STORES.iter().map(|op| (Instr::two(*op, 1, 2), 1));
        let all: Vec<_> = three.chain(two).chain(store).collect();
        all.into_iter().map(move |(instr, result)| program([a, b], instr, result))
    };
    pairs.into_iter().flat_map(instrs).chain(calls()).chain(variables())
}
