//! Built-in variables of the kernel.

use dtrace_abi::dif::Builtin;
use dtrace_abi::fault::Fault;

use super::failure::Stop;
use super::firing::Firing;
use super::work::NUMBER;
use super::{simple, text};
use crate::kernel::{Kernel, Number};

/// The largest number of frames that are counted for the depth of a stack.
pub(crate) const DEEPEST: usize = 256;

impl<K: Kernel> Firing<'_, K> {
    /// An argument of the probe (`arg0` to `arg9`, `args[]`).
    #[inline]
    pub(crate) fn argument(&self, index: u64) -> Result<u64, Stop> {
        if index >= self.probe.args.len() as u64 {
            self.charge(NUMBER)?;
        }
        simple::argument(self.probe.args, self.kernel, &self.access, index)
    }

    /// A register of the process.
    pub(crate) fn user_register(&self, index: u64) -> Result<u64, Stop> {
        self.need_process()?;
        self.charge(NUMBER)?;
        self.kernel.user_register(index).ok_or(Stop::at(Fault::BadAddress, 0))
    }

    fn need_process(&self) -> Result<(), Stop> {
        if self.access.process { Ok(()) } else { Err(Stop::new(Fault::UserPrivilege)) }
    }

    fn need_kernel(&self) -> Result<(), Stop> {
        if self.access.kernel { Ok(()) } else { Err(Stop::new(Fault::KernelPrivilege)) }
    }

    /// Returns the value of a built-in variable that is not an array. The consumer needs the same rights as in
    /// `dtrace_dif_variable`.
    pub(crate) fn builtin(&mut self, variable: Builtin) -> Result<u64, Stop> {
        let number = match variable {
            Builtin::Timestamp => return Ok(self.timestamp()),
            Builtin::Walltimestamp => return self.walltimestamp(),
            Builtin::Epid => return Ok(self.epid.into()),
            Builtin::Id => return Ok(self.probe.id.into()),
            Builtin::Cpu => return Ok(self.cpu as u64),
            Builtin::Vtimestamp => Number::Vtimestamp,
            Builtin::Ipl => Number::Ipl,
            Builtin::Stackdepth => Number::Stackdepth,
            Builtin::Caller => Number::Caller,
            Builtin::Curthread => Number::Curthread,
            Builtin::Ustackdepth => Number::Ustackdepth,
            Builtin::Ucaller => Number::Ucaller,
            Builtin::Pid => Number::Pid,
            Builtin::Tid => Number::Tid,
            Builtin::Ppid => Number::Ppid,
            Builtin::Uid => Number::Uid,
            Builtin::Gid => Number::Gid,
            Builtin::Errno => Number::Errno,
            Builtin::Jid => Number::Jid,
            Builtin::Execname
            | Builtin::Zonename
            | Builtin::Jailname
            | Builtin::Execargs
            | Builtin::Threadname => {
                self.need_process()?;
                return self.named(variable);
            }
            Builtin::Probeprov | Builtin::Probemod | Builtin::Probefunc | Builtin::Probename => {
                return self.named(variable);
            }
            _ => return Err(Stop::new(Fault::IllegalOperation)),
        };
        match number {
            Number::Vtimestamp | Number::Walltimestamp => {}
            Number::Ipl | Number::Stackdepth | Number::Caller => self.need_kernel()?,
            _ => self.need_process()?,
        }
        let frames = match number {
            Number::Stackdepth | Number::Ustackdepth => DEEPEST as u64,
            Number::Caller | Number::Ucaller => 2,
            _ => {
                self.charge(NUMBER)?;
                return self.kernel.number(number).ok_or(Stop::new(Fault::IllegalOperation));
            }
        };
        // Charges the largest number of frames, and then refunds the missing ones.
        let costs = self.kernel.costs();
        let each = u64::from(costs.frame);
        self.charge(u64::from(costs.stack) + frames * each)?;
        let found = self.kernel.number(number).ok_or(Stop::new(Fault::IllegalOperation))?;
        if matches!(number, Number::Stackdepth | Number::Ustackdepth) {
            let left = u64::from(self.work.get()) + frames.saturating_sub(found) * each;
            self.work.set(u32::try_from(left).unwrap_or(u32::MAX));
        }
        Ok(found)
    }

    fn named(&self, variable: Builtin) -> Result<u64, Stop> {
        text::item(variable)
            .and_then(|item| self.text_address(item))
            .ok_or(Stop::new(Fault::IllegalOperation))
    }

    /// Returns the time of the hit, which is the same in all clauses.
    pub fn timestamp(&mut self) -> u64 {
        let kernel = self.kernel;
        *self.timestamp.get_or_insert_with(|| kernel.timestamp())
    }

    fn walltimestamp(&mut self) -> Result<u64, Stop> {
        if let Some(time) = self.walltimestamp {
            return Ok(time);
        }
        self.charge(NUMBER)?;
        let time = self.kernel.number(Number::Walltimestamp);
        self.walltimestamp = time;
        time.ok_or(Stop::new(Fault::IllegalOperation))
    }
}
