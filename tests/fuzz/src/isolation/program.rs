//! The first consumer's program: random DIF for clauses of all kinds of actions.

use arbitrary::Arbitrary;
use dtrace_abi::action::Action;
use dtrace_abi::dif::{DifType, Instr};
use dtrace_abi::stability::Attribute;
use dtrace_compiler::dof;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{self, Act, Difo, Ecb, Statement};
use dtrace_compiler::surroundings::Description;

use crate::dif::generate::{Code, Source};

#[derive(Debug, Arbitrary)]
pub(super) struct Program {
    clauses: Vec<Clause>,
    /// Whether the DOF is damaged: one in four.
    damaged: u8,
    /// Places in it, and the bytes that are put there.
    damage: Vec<(u16, u8)>,
}

#[derive(Debug, Arbitrary)]
struct Clause {
    probe: u8,
    predicate: Option<Code>,
    actions: Vec<(Kind, Code)>,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Kind {
    Trace,
    Tracemem(u8),
    Printf,
    Stack,
    Ustack,
    Speculate,
    Commit,
    Discard,
    Aggregate { function: u8, keys: u8 },
    Exit,
}

const FUNCTIONS: [Action; 7] = [
    Action::Count,
    Action::Sum,
    Action::Min,
    Action::Max,
    Action::Avg,
    Action::Stddev,
    Action::Quantize,
];

impl Program {
    /// Its DOF.
    pub(super) fn dof(&self) -> Vec<u8> {
        let ecbs = self.clauses.iter().take(6).map(Clause::ecb).collect();
        let program = program::Program { ecbs, listed: Vec::new(), source: Vec::new() };
        let mut dof = dof::program(&program, &Options::default()).unwrap_or_default();
        let length = dof.len();
        let count = if self.damaged.is_multiple_of(4) { 8 } else { 0 };
        for &(at, byte) in self.damage.iter().take(count) {
            dof[usize::from(at) % length] = byte;
        }
        dof
    }
}

impl Clause {
    fn ecb(&self) -> Ecb {
        let name = ["a", "b", "BEGIN", "ERROR", "a"][usize::from(self.probe) % 5];
        let mut actions = Vec::new();
        let mut statements = Vec::new();
        for (kind, code) in self.actions.iter().take(6) {
            let before = actions.len();
            kind.add(code, &mut actions);
            statements.push(Statement {
                actions: actions.len() - before,
                text: matches!(kind, Kind::Printf).then(|| b"%d\n".to_vec()),
                probe_attr: Attribute::DEFAULT,
                attr: Attribute::DEFAULT,
            });
        }
        Ecb {
            probe: Description { name: name.into(), ..Description::default() },
            predicate: self.predicate.as_ref().map(|code| difo(code.source(true), 8)),
            actions,
            statements,
        }
    }
}

impl Kind {
    fn add(self, code: &Code, actions: &mut Vec<Act>) {
        let source = || code.source(true);
        let act = |kind, difo| Act { kind, difo, keys: 0, arg: 0, name: None };
        match self {
            Self::Trace => {
                let source = source();
                let returns = source.returns;
                actions.push(act(Action::DifExpr, Some(with_type(source, returns))));
            }
            Self::Tracemem(size) => {
                let size = u32::from(size) + 1;
                let bytes = DifType { kind: 0, ckind: 0, flags: DifType::BYREF, pad: 0, size };
                actions.push(act(Action::Tracemem, Some(with_type(source(), bytes))));
            }
            Self::Printf => actions.push(act(Action::Printf, Some(difo(source(), 8)))),
            Self::Stack => actions.push(Act { arg: 3, ..act(Action::Stack, None) }),
            Self::Ustack => actions.push(Act { arg: 3, ..act(Action::Ustack, None) }),
            Self::Speculate => actions.push(act(Action::Speculate, Some(difo(source(), 4)))),
            Self::Commit => actions.push(act(Action::Commit, Some(difo(source(), 4)))),
            Self::Discard => actions.push(act(Action::Discard, Some(difo(source(), 4)))),
            Self::Exit => actions.push(act(Action::Exit, Some(difo(source(), 4)))),
            Self::Aggregate { function, keys } => {
                let keys = keys % 3;
                let variable = constant(u64::from(function % 3) + 1);
                actions.push(act(Action::DifExpr, Some(variable)));
                for _ in 0..keys {
                    let source = source();
                    let returns = source.returns;
                    actions.push(act(Action::DifExpr, Some(with_type(source, returns))));
                }
                let kind = FUNCTIONS[usize::from(function) % FUNCTIONS.len()];
                let value = difo(source(), 8);
                actions.push(Act { keys: u32::from(keys) + 1, ..act(kind, Some(value)) });
            }
        }
    }
}

fn constant(value: u64) -> Difo {
    Difo {
        code: vec![Instr::setx(0, 1), Instr::ret(1)],
        places: Vec::new(),
        integers: vec![value],
        strings: Vec::new(),
        variables: Vec::new(),
        returns: DifType::integer(8),
        destructive: false,
    }
}

fn difo(source: Source, size: u32) -> Difo {
    with_type(source, DifType::integer(size))
}

fn with_type(source: Source, returns: DifType) -> Difo {
    let Source { code, integers, strings, variables, .. } = source;
    Difo { code, places: Vec::new(), integers, strings, variables, returns, destructive: true }
}
