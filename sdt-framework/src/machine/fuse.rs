//! Fuses common sequences of instructions of D compilers into one.
//!
//! All instructions keep their positions, so branches have the same targets, and a fault belongs to the original
//! instruction. An instruction that was fused into the previous one runs only if a branch leads to it.

use super::op::{Op, Slot};

/// Fuses the instructions of a validated program.
pub(crate) fn fuse(program: &mut [Slot]) {
    // Back to front, so that the following instructions and the targets of branches are fused already.
    for at in (0..program.len()).rev() {
        let Some((&mut Slot(ref mut op), rest)) =
            program.get_mut(at..).and_then(<[Slot]>::split_first_mut)
        else {
            return;
        };
        // Branches count from the beginning of the program; `rest` begins after the current instruction.
        let later = |to: u32| (to as usize).checked_sub(at + 1).and_then(|to| rest.get(to));
        let next = |distance: usize| rest.get(distance).map(|Slot(op)| *op);
        let fused = match (*op, next(0), next(1)) {
            (Op::Set(d, value), Some(Op::Ret(from)), _) if d == from => Op::ReturnSet(value),
            (Op::Arg(index, d), Some(Op::Ret(from)), _) if d == from => Op::ReturnArg(index),
            (Op::Builtin(variable, d), Some(Op::Ret(from)), _) if d == from => {
                Op::ReturnBuiltin(variable)
            }
            (Op::Mov(from, d), Some(Op::Ret(returned)), _) if d == returned => Op::Ret(from),
            (Op::Set(d, value), Some(Op::Cmp(one, other)), Some(Op::Branch(cond, to)))
                if d == other =>
            {
                Op::SetCompareBranch(one, d, cond, to, value)
            }
            (Op::Ba(to), ..) => match later(to) {
                Some(Slot(end @ (Op::Ret(_) | Op::ReturnSet(_)))) => *end,
                _ => continue,
            },
            _ => continue,
        };
        *op = fused;
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::{Cond, Reg};
    use super::*;

    #[test]
    fn a_predicate_is_three_instructions() {
        let (r1, r2) = (Reg::R1, Reg::R2);
        let mut program = [
            Op::Arg(0, r1),
            Op::Set(r2, 42),
            Op::Cmp(r1, r2),
            Op::Branch(Cond::Equal, 6),
            Op::Mov(Reg::R0, r1),
            Op::Ba(7),
            Op::Set(r1, 1),
            Op::Ret(r1),
        ]
        .map(Slot);
        fuse(&mut program);
        let fused = [
            Op::Arg(0, r1),
            Op::SetCompareBranch(r1, r2, Cond::Equal, 6, 42),
            Op::Cmp(r1, r2),
            Op::Branch(Cond::Equal, 6),
            Op::Ret(Reg::R0),
            Op::Ret(r1),
            Op::ReturnSet(1),
            Op::Ret(r1),
        ];
        assert_eq!(program.map(|Slot(op)| op), fused);
    }
}
