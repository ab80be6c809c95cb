//! Translates a valid DIF instruction into an instruction of the machine.

use dtrace_abi::Platform;
use dtrace_abi::dif::{
    Builtin, Form, Instr, Opcode, Subr, TypeKind, VAR_OTHER_MIN, VAR_OTHER_USER, VarScope,
};
use dtrace_abi::limits::INTEGER_REGISTERS;

use super::declare::{Declarations, Declared};
use super::invalid::Problem;
use super::op::{Cond, Op, Reg, Shape, Var, Width};
use super::sizes::Sizes;
use super::source::Source;
use crate::kernel::LockQuestion;

const _: () = assert!(INTEGER_REGISTERS == 8, "a register's number has three bits");

/// Decodes the instructions of a program, one after the other.
pub(super) struct Decoder<'s, 'd, 'm, S> {
    source: &'s S,
    declarations: &'d Declarations<'m>,
    count: u32,
    /// Address of the table of strings.
    strings: u64,
    permitted: bool,
    /// Whether the decoded instructions allow the result to be cached as a predicate.
    pub(super) cacheable: bool,
    pub(super) sizes: Sizes,
}

impl<'s, 'd, 'm, S: Source> Decoder<'s, 'd, 'm, S> {
    /// Returns a decoder for a program with this number of instructions, and with its strings at this address. `permitted`:
    /// whether the program may use destructive subroutines.
    pub(super) fn new(
        source: &'s S,
        declarations: &'d Declarations<'m>,
        count: u32,
        strings: u64,
        permitted: bool,
    ) -> Self {
        Self {
            source,
            declarations,
            count,
            strings,
            permitted,
            cacheable: true,
            sizes: Sizes::default(),
        }
    }

    /// Decodes the next instruction, whose index is `pc`.
    pub(super) fn decode(&mut self, pc: u32, instr: Instr) -> Result<Op, Problem> {
        let number = (instr.0 >> 24) as u8;
        let opcode = instr.opcode().ok_or(Problem::Opcode(number))?;
        let op = match opcode.form() {
            Form::Three => three(opcode, source(instr.r1())?, source(instr.r2())?, target(instr)?),
            Form::Two => {
                zero(instr.r2())?;
                two(opcode, source(instr.r1())?, target(instr)?)
            }
            Form::Compare => {
                zero(instr.rd())?;
                let (r1, r2) = (source(instr.r1())?, source(instr.r2())?);
                Some(if opcode == Opcode::Cmp { Op::Cmp(r1, r2) } else { Op::Scmp(r1, r2) })
            }
            Form::Test => {
                zero(instr.r2() | instr.rd())?;
                Some(Op::Tst(source(instr.r1())?))
            }
            Form::Branch => branch(opcode, self.label(pc, instr.label())?),
            Form::Load => {
                zero(instr.r2())?;
                self.cacheable = false;
                load(opcode, source(instr.r1())?, target(instr)?)
            }
            Form::Store => {
                zero(instr.r2())?;
                self.cacheable = false;
                store(opcode, source(instr.r1())?, target(instr)?)
            }
            Form::Return => {
                zero(instr.r1() | instr.r2())?;
                Some(Op::Ret(source(instr.rd())?))
            }
            Form::Plain => {
                zero(instr.r1() | instr.r2() | instr.rd())?;
                plain(opcode)
            }
            Form::Integer => {
                let index = instr.operand();
                let value = self.source.integer(index).ok_or(Problem::Integer(index))?;
                Some(Op::Set(target(instr)?, value))
            }
            Form::String => {
                let offset = instr.operand();
                if usize::from(offset) >= self.source.strings().len() {
                    return Err(Problem::String(offset));
                }
                Some(Op::Set(target(instr)?, self.strings.wrapping_add(offset.into())))
            }
            Form::LoadArray => Some(self.array(opcode, instr)?),
            Form::LoadVar => Some(self.load_variable(opcode, instr.operand(), target(instr)?)?),
            Form::StoreVar => {
                self.cacheable = false;
                Some(self.store_variable(opcode, instr.operand(), source(instr.rd())?)?)
            }
            Form::Call => Some(self.call(instr.operand(), target(instr)?)?),
            Form::Push => Some(push(opcode, instr)?),
            Form::Translate => None,
        };
        let op = op.ok_or(Problem::Internal(number))?;
        self.sizes.follow(&op);
        Ok(op)
    }

    fn label(&self, pc: u32, label: u32) -> Result<u32, Problem> {
        if label >= self.count {
            Err(Problem::Target(label))
        } else if label <= pc {
            Err(Problem::Backward(label))
        } else {
            Ok(label)
        }
    }

    fn array(&mut self, opcode: Opcode, instr: Instr) -> Result<Op, Problem> {
        let (index, rd) = (source(instr.r2())?, target(instr)?);
        self.cacheable = false;
        match Builtin::from_number(instr.r1().into()) {
            // The kernel has no thread-local arrays.
            _ if opcode == Opcode::Ldta => Err(Problem::Array(instr.r1())),
            Some(Builtin::Args) => Ok(Op::Args(index, rd)),
            Some(Builtin::Uregs) => Ok(Op::UserRegister(index, rd)),
            Some(regs @ Builtin::Regs) => Ok(Op::Builtin(regs, rd)),
            _ => Err(Problem::Array(instr.r1())),
        }
    }

    fn load_variable(&self, opcode: Opcode, number: u16, rd: Reg) -> Result<Op, Problem> {
        if opcode == Opcode::Ldgs && number < VAR_OTHER_USER {
            return builtin(number, self.declarations.platform, rd);
        }
        let (declared, var) = self.find(opcode, number)?;
        Ok(match (opcode, declared.shape) {
            (Opcode::Ldgs, Shape::Value) => Op::LoadGlobal(declared.at, rd),
            (Opcode::Ldgs, _) => Op::LoadGlobalRef(var.number, rd),
            (Opcode::Ldls, Shape::Value) => Op::LoadLocal(declared.at, rd),
            (Opcode::Ldls, _) => Op::LoadLocalRef(var.number, rd),
            (Opcode::Ldts, shape) => Op::LoadThread(var.number, shape, rd),
            (_, shape) => Op::LoadElement(var, shape != Shape::Value, rd),
        })
    }

    fn store_variable(&mut self, opcode: Opcode, number: u16, rs: Reg) -> Result<Op, Problem> {
        let (declared, var) = self.find(opcode, number)?;
        self.cacheable = false;
        Ok(match (opcode, declared.shape) {
            (Opcode::Stgs, Shape::Value) => Op::StoreGlobal(declared.at, rs),
            (Opcode::Stgs, shape) => Op::StoreGlobalRef(var.number, shape, rs),
            (Opcode::Stls, Shape::Value) => Op::StoreLocal(declared.at, rs),
            (Opcode::Stls, shape) => Op::StoreLocalRef(var.number, shape, rs),
            (Opcode::Stts, shape) => Op::StoreThread(var.number, shape, rs),
            (_, shape) => Op::StoreElement(var, shape, rs),
        })
    }

    fn find(&self, opcode: Opcode, number: u16) -> Result<(Declared, Var), Problem> {
        use Opcode::{Ldgaa, Ldgs, Ldtaa, Ldts, Stgaa, Stgs, Sttaa, Stts};
        let scope = match opcode {
            Ldgs | Stgs | Ldgaa | Stgaa => VarScope::Global,
            Ldts | Stts | Ldtaa | Sttaa => VarScope::Thread,
            _ => VarScope::Local,
        };
        let keyed = matches!(opcode, Ldgaa | Stgaa | Ldtaa | Sttaa);
        let declared = self.declarations.find(scope, number, keyed)?;
        let number = number.wrapping_sub(VAR_OTHER_USER);
        Ok((declared, Var { number, thread: scope == VarScope::Thread }))
    }

    fn call(&mut self, number: u16, rd: Reg) -> Result<Op, Problem> {
        let subr = Subr::from_number(number, self.declarations.platform)
            .ok_or(Problem::Subroutine(number))?;
        self.cacheable = false;
        if let Some(question) = lock_question(subr) {
            return Ok(Op::Lock(question, rd));
        }
        match subr {
            // These subroutines read structures of a particular kernel: messages, devices, open files.
            Subr::Msgdsize | Subr::Msgsize | Subr::DdiPathname | Subr::Getf => {
                return Err(Problem::Unsupported(subr));
            }
            Subr::Copyout | Subr::Copyoutstr if !self.permitted => {
                return Err(Problem::Destructive(subr));
            }
            _ => {}
        }
        Ok(Op::Call(subr, rd))
    }
}

fn source(number: u8) -> Result<Reg, Problem> {
    Reg::new(number).ok_or(Problem::Register(number))
}

fn target(instr: Instr) -> Result<Reg, Problem> {
    match source(instr.rd())? {
        Reg::ZERO => Err(Problem::WritesZero),
        reg => Ok(reg),
    }
}

fn zero(bits: u8) -> Result<(), Problem> {
    if bits == 0 { Ok(()) } else { Err(Problem::Reserved) }
}

fn three(opcode: Opcode, r1: Reg, r2: Reg, rd: Reg) -> Option<Op> {
    Some(match opcode {
        Opcode::Or => Op::Or(r1, r2, rd),
        Opcode::Xor => Op::Xor(r1, r2, rd),
        Opcode::And => Op::And(r1, r2, rd),
        Opcode::Sll => Op::Sll(r1, r2, rd),
        Opcode::Srl => Op::Srl(r1, r2, rd),
        Opcode::Sra => Op::Sra(r1, r2, rd),
        Opcode::Sub => Op::Sub(r1, r2, rd),
        Opcode::Add => Op::Add(r1, r2, rd),
        Opcode::Mul => Op::Mul(r1, r2, rd),
        Opcode::Sdiv => Op::Sdiv(r1, r2, rd),
        Opcode::Udiv => Op::Udiv(r1, r2, rd),
        Opcode::Srem => Op::Srem(r1, r2, rd),
        Opcode::Urem => Op::Urem(r1, r2, rd),
        Opcode::Copys => Op::Copy(r1, r2, rd),
        _ => return None,
    })
}

fn two(opcode: Opcode, r1: Reg, rd: Reg) -> Option<Op> {
    Some(match opcode {
        Opcode::Not => Op::Not(r1, rd),
        Opcode::Mov => Op::Mov(r1, rd),
        Opcode::Allocs => Op::Alloc(r1, rd),
        _ => return None,
    })
}

fn branch(opcode: Opcode, label: u32) -> Option<Op> {
    Some(match opcode {
        Opcode::Ba => Op::Ba(label),
        Opcode::Be => Op::Branch(Cond::Equal, label),
        Opcode::Bne => Op::Branch(Cond::NotEqual, label),
        Opcode::Bg => Op::Branch(Cond::Greater, label),
        Opcode::Bgu => Op::Branch(Cond::GreaterUnsigned, label),
        Opcode::Bge => Op::Branch(Cond::GreaterEqual, label),
        Opcode::Bgeu => Op::Branch(Cond::GreaterEqualUnsigned, label),
        Opcode::Bl => Op::Branch(Cond::Less, label),
        Opcode::Blu => Op::Branch(Cond::LessUnsigned, label),
        Opcode::Ble => Op::Branch(Cond::LessEqual, label),
        Opcode::Bleu => Op::Branch(Cond::LessEqualUnsigned, label),
        _ => return None,
    })
}

fn load(opcode: Opcode, r1: Reg, rd: Reg) -> Option<Op> {
    Some(match opcode {
        Opcode::Ldsb => Op::Load(Width::I8, r1, rd),
        Opcode::Ldsh => Op::Load(Width::I16, r1, rd),
        Opcode::Ldsw => Op::Load(Width::I32, r1, rd),
        Opcode::Ldub => Op::Load(Width::U8, r1, rd),
        Opcode::Lduh => Op::Load(Width::U16, r1, rd),
        Opcode::Lduw => Op::Load(Width::U32, r1, rd),
        Opcode::Ldx => Op::Load(Width::U64, r1, rd),
        Opcode::Uldsb => Op::LoadUser(Width::I8, r1, rd),
        Opcode::Uldsh => Op::LoadUser(Width::I16, r1, rd),
        Opcode::Uldsw => Op::LoadUser(Width::I32, r1, rd),
        Opcode::Uldub => Op::LoadUser(Width::U8, r1, rd),
        Opcode::Ulduh => Op::LoadUser(Width::U16, r1, rd),
        Opcode::Ulduw => Op::LoadUser(Width::U32, r1, rd),
        Opcode::Uldx => Op::LoadUser(Width::U64, r1, rd),
        _ => return None,
    })
}

fn store(opcode: Opcode, r1: Reg, rd: Reg) -> Option<Op> {
    Some(match opcode {
        Opcode::Stb => Op::Store(Width::U8, r1, rd),
        Opcode::Sth => Op::Store(Width::U16, r1, rd),
        Opcode::Stw => Op::Store(Width::U32, r1, rd),
        Opcode::Stx => Op::Store(Width::U64, r1, rd),
        _ => return None,
    })
}

fn plain(opcode: Opcode) -> Option<Op> {
    Some(match opcode {
        Opcode::Nop => Op::Nop,
        Opcode::Popts => Op::Pop,
        Opcode::Flushts => Op::Flush,
        _ => return None,
    })
}

fn push(opcode: Opcode, instr: Instr) -> Result<Op, Problem> {
    let (size, value) = (source(instr.r2())?, source(instr.rd())?);
    match TypeKind::from_number(instr.r1()) {
        Some(TypeKind::Ctf) if opcode == Opcode::Pushtv => Ok(Op::PushValue(value)),
        Some(TypeKind::Ctf) => Ok(Op::PushBytes(size, value)),
        Some(TypeKind::String) if opcode == Opcode::Pushtr => Ok(Op::PushString(size, value)),
        _ => Err(Problem::Type(instr.r1())),
    }
}

/// A variable of the kernel that is not an array.
fn builtin(number: u16, platform: Platform, rd: Reg) -> Result<Op, Problem> {
    const { assert!(VAR_OTHER_MIN == Builtin::Curthread.number()) };
    let found = Builtin::from_number(number).filter(|found| found.is_on(platform));
    match found {
        Some(found) if number >= VAR_OTHER_MIN => {
            match number.checked_sub(Builtin::Arg0.number()) {
                Some(index @ 0..=9) => Ok(Op::Arg(index as u8, rd)),
                _ => Ok(Op::Builtin(found, rd)),
            }
        }
        _ => Err(Problem::Builtin(number)),
    }
}

const fn lock_question(subr: Subr) -> Option<LockQuestion> {
    Some(match subr {
        Subr::MutexOwned => LockQuestion::MutexOwned,
        Subr::MutexOwner => LockQuestion::MutexOwner,
        Subr::MutexTypeAdaptive => LockQuestion::MutexTypeAdaptive,
        Subr::MutexTypeSpin => LockQuestion::MutexTypeSpin,
        Subr::RwReadHeld => LockQuestion::RwReadHeld,
        Subr::RwWriteHeld => LockQuestion::RwWriteHeld,
        Subr::RwIswriter => LockQuestion::RwIswriter,
        Subr::SxSharedHeld => LockQuestion::SxSharedHeld,
        Subr::SxExclusiveHeld => LockQuestion::SxExclusiveHeld,
        Subr::SxIsexclusive => LockQuestion::SxIsexclusive,
        _ => return None,
    })
}
