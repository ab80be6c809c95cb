//! Programs that run without the machine: constants, arguments and properties of processes, alone or compared with a
//! number. Most predicates are of this kind, and most of the time they are false.

use dtrace_abi::dif::Builtin;
use dtrace_abi::fault::Fault;

use super::failure::Stop;
use super::memory::Access;
use super::op::{Compared, Op, Reg, Slot};
use super::validate::Program;
use crate::kernel::{Kernel, Number};

/// A number that needs no instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simple {
    Constant(u64),
    Given(Given),
}

impl Simple {
    /// Returns whether the computation may call the kernel.
    pub(crate) const fn asks(self) -> bool {
        matches!(self, Self::Given(given) if given.asks())
    }

    /// Returns the number. A fault belongs to the first instruction of the program.
    #[inline(always)]
    pub(crate) fn get(
        self,
        args: &[u64],
        kernel: &(impl Kernel + ?Sized),
        access: &Access,
    ) -> Result<u64, Stop> {
        match self {
            Self::Constant(value) => Ok(value),
            Self::Given(given) => given.get(args, kernel, access),
        }
    }
}

/// A number that the hit or the kernel supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// An argument of the probe.
    Arg(u8),
    /// Readable for all consumers that may trace processes.
    Process(Number),
}

impl Given {
    /// Returns whether the computation may call the kernel.
    const fn asks(self) -> bool {
        // A hit contains at least five arguments.
        matches!(self, Self::Process(_) | Self::Arg(5..))
    }

    /// Returns the number. A fault belongs to the first instruction of the program.
    #[inline(always)]
    fn get(
        self,
        args: &[u64],
        kernel: &(impl Kernel + ?Sized),
        access: &Access,
    ) -> Result<u64, Stop> {
        match self {
            Self::Arg(index) => argument(args, kernel, access, index.into()),
            Self::Process(number) if access.process => {
                kernel.number(number).ok_or(Stop::new(Fault::IllegalOperation))
            }
            Self::Process(_) => Err(Stop::new(Fault::UserPrivilege)),
        }
    }
}

/// An argument of the probe, from the hit or from the kernel.
#[inline(always)]
pub(crate) fn argument(
    args: &[u64],
    kernel: &(impl Kernel + ?Sized),
    access: &Access,
    index: u64,
) -> Result<u64, Stop> {
    if !access.args {
        return Err(Stop::new(Fault::KernelPrivilege));
    }
    let brought = usize::try_from(index).ok().and_then(|index| args.get(index));
    Ok(brought.copied().unwrap_or_else(|| kernel.argument(index)))
}

/// A predicate that compares a [`Given`] number with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    value: u64,
    what: Given,
    /// The [orders](Compared::order) of the number and `value` for which the predicate is true: the bit of each order is set.
    orders: u8,
}

impl Guard {
    /// Returns whether the test may call the kernel.
    pub(crate) const fn asks(&self) -> bool {
        self.what.asks()
    }

    /// Whether the predicate is true.
    #[inline(always)]
    pub(crate) fn test(
        &self,
        args: &[u64],
        kernel: &(impl Kernel + ?Sized),
        access: &Access,
    ) -> Result<bool, Stop> {
        let found = self.what.get(args, kernel, access)?;
        Ok(self.orders >> Compared::numbers(found, self.value).order() & 1 != 0)
    }
}

impl Program<'_> {
    /// Returns the result of the program, if that is a [`Simple`] number.
    pub(crate) fn simple(&self) -> Option<Simple> {
        if self.returns().is_by_ref() {
            return None;
        }
        match *self.ops {
            [Slot(Op::ReturnSet(value)), ..] => Some(Simple::Constant(value)),
            // `printf` without arguments.
            [Slot(Op::Ret(Reg::ZERO)), ..] => Some(Simple::Constant(0)),
            [Slot(Op::ReturnArg(index)), ..] => Some(Simple::Given(Given::Arg(index))),
            [Slot(Op::ReturnBuiltin(variable)), ..] => {
                Some(Simple::Given(Given::Process(number(variable)?)))
            }
            [first, second, Slot(Op::Ret(returned))] => {
                let (index, register) = indexed_argument([first, second])?;
                (register == returned).then_some(Simple::Given(Given::Arg(index)))
            }
            _ => None,
        }
    }

    /// Returns the program as a guard, if it has the form of one.
    pub(crate) fn guard(&self) -> Option<Guard> {
        let [Slot(first), Slot(second), ..] = self.ops else { return None };
        let (what, from) = match *first {
            Op::Arg(index, d) => (Given::Arg(index), d),
            Op::Builtin(variable, d) => (Given::Process(number(variable)?), d),
            _ => return None,
        };
        let Op::SetCompareBranch(one, other, cond, to, value) = *second else { return None };
        // Returns the result of the program at an instruction, if it is simple.
        let result = |at: usize| match *self.ops.get(at)? {
            Slot(Op::ReturnSet(value)) => Some(value != 0),
            Slot(Op::Ret(Reg::ZERO)) => Some(false),
            _ => None,
        };
        let orders = match (result(to as usize)?, result(4)?) {
            (true, true) => u8::MAX,
            (true, false) => cond.orders(),
            (false, true) => !cond.orders(),
            (false, false) => 0,
        };
        (one == from && other != from).then_some(Guard { what, value, orders })
    }
}

/// Returns the index of the argument that two instructions load (`args[0]`), and the register.
pub(super) fn indexed_argument(ops: [Slot; 2]) -> Option<(u8, Reg)> {
    let [Slot(Op::Set(set, index)), Slot(Op::Args(from, register))] = ops else { return None };
    let index = u8::try_from(index).ok()?;
    (set == from).then_some((index, register))
}

/// Returns the number of the kernel for a built-in variable that all consumers with rights for processes may read.
const fn number(variable: Builtin) -> Option<Number> {
    Some(match variable {
        Builtin::Pid => Number::Pid,
        Builtin::Tid => Number::Tid,
        Builtin::Ppid => Number::Ppid,
        Builtin::Uid => Number::Uid,
        Builtin::Gid => Number::Gid,
        Builtin::Jid => Number::Jid,
        Builtin::Errno => Number::Errno,
        Builtin::Curthread => Number::Curthread,
        _ => return None,
    })
}
