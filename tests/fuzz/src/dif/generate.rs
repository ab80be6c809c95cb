//! Generates programs from a fuzzer's input: most of them are valid, and most of their addresses are near mapped memory.

use arbitrary::Arbitrary;
use dtrace_abi::Platform;
use dtrace_abi::dif::{
    Builtin, DifType, Instr, Opcode, Subr, TypeKind, VarKind, VarScope, Variable,
};
use sdt_framework::testing::Access;
use sdt_framework::testing::address::{ObjectAddress, Region};

use super::world::{KERNEL, STRING, USER};

/// A case, decoded from the input.
#[derive(Debug, Arbitrary)]
pub struct Case {
    rights: u8,
    cleans: u8,
    programs: Vec<Code>,
}

/// The instructions of a program.
#[derive(Debug, Arbitrary)]
pub struct Code {
    steps: Vec<Step>,
    result: u8,
}

/// A program that owns its parts.
#[derive(Debug)]
pub struct Source {
    pub code: Vec<Instr>,
    pub integers: Vec<u64>,
    pub strings: Vec<u8>,
    pub variables: Vec<Variable>,
    pub returns: DifType,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
struct Reg(u8);

impl Reg {
    fn any(self) -> u8 {
        self.0 % 8
    }

    /// Returns the number of a register that can be written.
    fn target(self) -> u8 {
        1 + self.0 % 7
    }
}

/// One instruction, or a short sequence. An index is taken modulo the number of items.
#[derive(Debug, Arbitrary)]
enum Step {
    Three {
        op: u8,
        a: Reg,
        b: Reg,
        d: Reg,
    },
    Two {
        op: u8,
        a: Reg,
        d: Reg,
    },
    Compare {
        op: u8,
        a: Reg,
        b: Reg,
    },
    Branch {
        op: u8,
        over: u8,
    },
    Load {
        op: u8,
        a: Reg,
        d: Reg,
    },
    Store {
        op: u8,
        s: Reg,
        to: Reg,
    },
    Set {
        value: Value,
        d: Reg,
    },
    String {
        offset: u8,
        d: Reg,
    },
    Variable {
        which: u8,
        store: bool,
        reg: Reg,
    },
    Builtin {
        which: u8,
        d: Reg,
    },
    Array {
        which: u8,
        index: Reg,
        d: Reg,
    },
    Push {
        how: u8,
        size: Reg,
        s: Reg,
    },
    Plain {
        op: u8,
    },
    Call {
        subr: u8,
        d: Reg,
    },
    /// A call with its arguments.
    Apply {
        subr: u8,
        args: [Value; 3],
        count: u8,
        d: Reg,
    },
    /// An element with its keys.
    Element {
        which: u8,
        keys: [Value; 2],
        store: bool,
        reg: Reg,
    },
    /// Any instruction.
    Any {
        bits: u32,
    },
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Value {
    Small(u8),
    Great(u8),
    Kernel(u8),
    User(u8),
    Literal(u8),
    Scratch(u16),
    Ours { region: u8, item: u8, offset: u8 },
    Least,
    Any(u64),
}

impl Value {
    fn number(self) -> u64 {
        match self {
            Self::Small(value) => value.into(),
            Self::Great(less) => u64::MAX - u64::from(less),
            Self::Kernel(at) => KERNEL.wrapping_add(at.into()),
            Self::User(at) => USER.wrapping_add(at.into()),
            Self::Literal(at) => place(Region::Literals, 0, at.into()),
            Self::Scratch(at) => place(Region::Scratch, 0, u32::from(at) % 600),
            Self::Ours { region, item, offset } => {
                let region = [Region::Global, Region::Local, Region::Dynamic, Region::Text]
                    [usize::from(region) % 4];
                place(region, u32::from(item) % 10, u32::from(offset) % 32)
            }
            Self::Least => 1 << 63,
            Self::Any(value) => value,
        }
    }
}

fn place(region: Region, item: u32, offset: u32) -> u64 {
    ObjectAddress { region, item, offset }.address()
}

pub const THREE: [Opcode; 14] = [
    Opcode::Or,
    Opcode::Xor,
    Opcode::And,
    Opcode::Sll,
    Opcode::Srl,
    Opcode::Sra,
    Opcode::Sub,
    Opcode::Add,
    Opcode::Mul,
    Opcode::Sdiv,
    Opcode::Udiv,
    Opcode::Srem,
    Opcode::Urem,
    Opcode::Copys,
];
pub const TWO: [Opcode; 3] = [Opcode::Not, Opcode::Mov, Opcode::Allocs];
const BRANCHES: [Opcode; 11] = [
    Opcode::Ba,
    Opcode::Be,
    Opcode::Bne,
    Opcode::Bg,
    Opcode::Bgu,
    Opcode::Bge,
    Opcode::Bgeu,
    Opcode::Bl,
    Opcode::Blu,
    Opcode::Ble,
    Opcode::Bleu,
];
pub const LOADS: [Opcode; 14] = [
    Opcode::Ldsb,
    Opcode::Ldsh,
    Opcode::Ldsw,
    Opcode::Ldub,
    Opcode::Lduh,
    Opcode::Lduw,
    Opcode::Ldx,
    Opcode::Uldsb,
    Opcode::Uldsh,
    Opcode::Uldsw,
    Opcode::Uldub,
    Opcode::Ulduh,
    Opcode::Ulduw,
    Opcode::Uldx,
];
pub const STORES: [Opcode; 4] = [Opcode::Stb, Opcode::Sth, Opcode::Stw, Opcode::Stx];
const PLAIN: [Opcode; 3] = [Opcode::Nop, Opcode::Popts, Opcode::Flushts];

const STRINGS: &[u8] =
    b"\0/usr/lib/x\0a,b,,c\0hello\0l\x000x7f\0//a//.\0 -12z\0A string as long as there are\0";

/// The variables of every program: number, scope, kind, by reference, string, size.
const VARIABLES: [(u16, VarScope, VarKind, u8, u32); 11] = {
    use VarKind::{Array, Scalar};
    use VarScope::{Global, Local, Thread};
    [
        (0x500, Global, Scalar, 0, 8),
        (0x501, Global, Scalar, 2, STRING),
        (0x502, Global, Scalar, 1, 12),
        (0x503, Global, Array, 0, 4),
        (0x504, Global, Array, 2, STRING),
        (0x500, Thread, Scalar, 0, 8),
        (0x501, Thread, Scalar, 2, STRING),
        (0x502, Thread, Array, 0, 8),
        (0x500, Local, Scalar, 0, 8),
        (0x501, Local, Scalar, 2, STRING),
        (0x502, Local, Scalar, 1, 5),
    ]
};

fn variables() -> Vec<Variable> {
    let variable = |&(id, scope, kind, ty, size): &(u16, VarScope, VarKind, u8, u32)| Variable {
        name: 0,
        id: id.into(),
        kind: kind.number(),
        scope: scope.number(),
        flags: 3,
        ty: DifType { kind: u8::from(ty == 2), ckind: 0, flags: u8::from(ty != 0), pad: 0, size },
    };
    VARIABLES.iter().map(variable).collect()
}

/// Subroutines that the oracle has, too.
fn subroutine(which: u8, destructive: bool) -> Subr {
    let usable = |subr: &&Subr| {
        !matches!(
            subr,
            Subr::Msgdsize | Subr::Msgsize | Subr::DdiPathname | Subr::Getf | Subr::Json
        ) && (destructive || !matches!(subr, Subr::Copyout | Subr::Copyoutstr))
    };
    let all: Vec<_> = Subr::ALL.iter().filter(usable).collect();
    *all[usize::from(which) % all.len()]
}

impl Case {
    pub fn rights(&self) -> Access {
        // In most cases, all rights.
        let has = |bit: u8| self.rights >> bit & 1 == 0;
        Access { kernel: has(0), args: has(1), process: has(2), control: has(3) }
    }

    pub fn destructive(&self) -> bool {
        self.rights >> 4 & 1 == 0
    }

    pub fn cleans(&self, number: u32) -> bool {
        self.cleans >> (number % 8) & 1 != 0
    }

    /// Returns whether all programs have to pass.
    pub fn is_valid(&self) -> bool {
        let any = |step: &Step| matches!(step, Step::Any { .. });
        !self.programs.iter().take(8).any(|code| code.steps.iter().any(any))
    }

    pub fn programs(&self) -> Vec<Source> {
        self.programs.iter().take(8).map(|code| code.source(self.destructive())).collect()
    }
}

/// A program that is being made.
struct Maker {
    source: Source,
    /// The branches: the position, the opcode, and the number of skipped instructions.
    branches: Vec<(usize, Opcode, usize)>,
}

impl Code {
    /// The program.
    pub fn source(&self, destructive: bool) -> Source {
        let returns = match self.result {
            0..64 => DifType::integer(8),
            64..128 => DifType::integer(1),
            _ => DifType { kind: 1, ckind: 0, flags: DifType::BYREF, pad: 0, size: STRING },
        };
        let source = Source {
            code: Vec::new(),
            integers: Vec::new(),
            strings: STRINGS.to_vec(),
            variables: variables(),
            returns,
        };
        let mut maker = Maker { source, branches: Vec::new() };
        for step in self.steps.iter().take(64) {
            maker.step(step, destructive);
        }
        maker.source.code.push(Instr::ret(self.result % 8));
        let last = maker.source.code.len() - 1;
        for (at, op, over) in maker.branches {
            maker.source.code[at] = Instr::branch(op, (at + 1 + over).min(last) as u32);
        }
        maker.source
    }
}

impl Maker {
    fn set(&mut self, value: Value, d: u8) {
        self.source.integers.push(value.number());
        let index = self.source.integers.len() - 1;
        self.source.code.push(Instr::setx(index as u16, d));
    }

    fn step(&mut self, step: &Step, destructive: bool) {
        let pick = |table: &[Opcode], op: u8| table[usize::from(op) % table.len()];
        let instr = match *step {
            Step::Three { op, a, b, d } => {
                Instr::three(pick(&THREE, op), a.any(), b.any(), d.target())
            }
            Step::Two { op, a, d } => Instr::two(pick(&TWO, op), a.any(), d.target()),
            Step::Compare { op, a, b } => match op % 3 {
                0 => Instr::test(a.any()),
                1 => Instr::compare(Opcode::Cmp, a.any(), b.any()),
                _ => Instr::compare(Opcode::Scmp, a.any(), b.any()),
            },
            Step::Branch { op, over } => {
                let at = self.source.code.len();
                self.branches.push((at, pick(&BRANCHES, op), usize::from(over % 8)));
                Instr::NOP
            }
            Step::Load { op, a, d } => Instr::two(pick(&LOADS, op), a.any(), d.target()),
            Step::Store { op, s, to } => Instr::two(pick(&STORES, op), s.any(), to.target()),
            Step::Set { value, d } => return self.set(value, d.target()),
            Step::String { offset, d } => {
                Instr::sets(u16::from(offset) % STRINGS.len() as u16, d.target())
            }
            Step::Variable { which, store, reg } => variable(which, store, reg, VarKind::Scalar),
            Step::Builtin { which, d } => {
                let all: Vec<_> = Builtin::ALL.iter().filter(|it| it.number() >= 0x100).collect();
                let builtin = all[usize::from(which) % all.len()];
                Instr::var(Opcode::Ldgs, builtin.number(), d.target())
            }
            Step::Array { which, index, d } => {
                Instr::three(Opcode::Ldga, which % 3, index.any(), d.target())
            }
            Step::Push { how, size, s } => match how % 3 {
                0 => Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, s.any()),
                1 => Instr::push(Opcode::Pushtr, TypeKind::Ctf, size.any(), s.any()),
                _ => Instr::push(Opcode::Pushtr, TypeKind::String, size.any(), s.any()),
            },
            Step::Plain { op } => Instr::three(pick(&PLAIN, op), 0, 0, 0),
            Step::Call { subr, d } => call(subroutine(subr, destructive), d),
            Step::Apply { subr, args, count, d } => {
                self.source.code.push(Instr::FLUSHTS);
                for arg in args.into_iter().take(usize::from(count % 4)) {
                    self.set(arg, 7);
                    self.source.code.push(Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, 7));
                }
                call(subroutine(subr, destructive), d)
            }
            Step::Element { which, keys, store, reg } => {
                self.source.code.push(Instr::FLUSHTS);
                for (key, kind) in keys.into_iter().zip([which >> 6, which >> 7]) {
                    self.set(key, 7);
                    let push = match (kind & 1, key) {
                        (1, Value::Kernel(_) | Value::Literal(_) | Value::Scratch(_)) => {
                            Instr::push(Opcode::Pushtr, TypeKind::String, 0, 7)
                        }
                        _ => Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, 7),
                    };
                    self.source.code.push(push);
                }
                variable(which & 63, store, reg, VarKind::Array)
            }
            Step::Any { bits } => match Instr(bits) {
                // The oracle does not implement all subroutines.
                instr if instr.opcode() == Some(Opcode::Call) => Instr::NOP,
                instr => instr,
            },
        };
        self.source.code.push(instr);
    }
}

fn call(subr: Subr, d: Reg) -> Instr {
    Instr::call(subr, Platform::Freebsd, d.target()).expect("FreeBSD has all of them")
}

fn variable(which: u8, store: bool, reg: Reg, kind: VarKind) -> Instr {
    let all: Vec<_> = VARIABLES.iter().filter(|variable| variable.2 == kind).collect();
    let &&(id, scope, ..) = &all[usize::from(which) % all.len()];
    let (load_op, store_op) = match (scope, kind) {
        (VarScope::Global, VarKind::Scalar) => (Opcode::Ldgs, Opcode::Stgs),
        (VarScope::Global, VarKind::Array) => (Opcode::Ldgaa, Opcode::Stgaa),
        (VarScope::Thread, VarKind::Scalar) => (Opcode::Ldts, Opcode::Stts),
        (VarScope::Thread, VarKind::Array) => (Opcode::Ldtaa, Opcode::Sttaa),
        (VarScope::Local, _) => (Opcode::Ldls, Opcode::Stls),
    };
    if store { Instr::var(store_op, id, reg.any()) } else { Instr::var(load_op, id, reg.target()) }
}
