//! The subroutines, each as `dtrace_dif_subr` does it (dtrace.c).

mod copy;
mod json;
mod net;
mod number;
mod path;
mod string;

pub(super) use copy::MEMSTR;
use dtrace_abi::dif::Subr;
use dtrace_abi::fault::Fault;

use super::failure::Stop;
use super::firing::Firing;
use super::tuple::Tuple;
use crate::kernel::{Kernel, LockQuestion};

/// A string that a subroutine is writing to scratch space.
struct Output {
    start: u64,
    length: u64,
}

impl<K: Kernel> Firing<'_, K> {
    /// Calls a subroutine. `before` is the current value of the result's register, which some subroutines do not
    /// change.
    #[inline(never)]
    pub(crate) fn call(&mut self, subr: Subr, before: u64, tuple: &Tuple) -> Result<u64, Stop> {
        let [a, b, c] = [tuple.arg(0), tuple.arg(1), tuple.arg(2)];
        match subr {
            Subr::Rand => Ok(number::random(self.kernel.timestamp())),
            Subr::Speculation => self.kernel.speculation().ok_or(illegal()),
            Subr::Progenyof => self.kernel.progenyof(a).map(u64::from).ok_or(illegal()),
            Subr::Copyin => self.copyin(a, b),
            Subr::Copyinstr => self.copyinstr(a, tuple.given(1)),
            Subr::Copyinto => self.copyinto(a, b, c).map(|()| before),
            Subr::Copyout => self.copyout(a, b, c, false).map(|()| before),
            Subr::Copyoutstr => self.copyout(a, b, c, true).map(|()| before),
            Subr::Alloca => self.allocate(a, true),
            Subr::Bcopy => self.bcopy(a, b, c).map(|()| before),
            Subr::Strlen => self.length(a, self.limit()),
            Subr::Strchr => self.find_byte(a, b as u8, false),
            Subr::Strrchr => self.find_byte(a, b as u8, true),
            Subr::Strstr => {
                let found = self.find_forward(a, b, None)?;
                Ok(found.map_or(0, |at| a.wrapping_add(at)))
            }
            Subr::Index => self.find_forward(a, b, tuple.given(2)).map(|at| at.unwrap_or(u64::MAX)),
            Subr::Rindex => {
                self.find_backward(a, b, tuple.given(2)).map(|at| at.unwrap_or(u64::MAX))
            }
            Subr::Strtok => self.strtok(a, b),
            Subr::Substr => self.substr(a, b as i64, tuple.given(2).map(|count| count as i64)),
            Subr::Strjoin => self.strjoin(a, b),
            Subr::Toupper => self.change_case(a, |byte| byte.to_ascii_uppercase()),
            Subr::Tolower => self.change_case(a, |byte| byte.to_ascii_lowercase()),
            Subr::Basename => self.basename(a),
            Subr::Dirname => self.dirname(a),
            Subr::Cleanpath => self.cleanpath(a),
            Subr::Strtoll => self.strtoll(a, tuple.given(1)),
            Subr::Lltostr => self.lltostr(a as i64, tuple.given(1)),
            Subr::Json => self.json(a, b),
            Subr::Htons | Subr::Ntohs => Ok(u64::from((a as u16).to_be())),
            Subr::Htonl | Subr::Ntohl => Ok(u64::from((a as u32).to_be())),
            Subr::Htonll | Subr::Ntohll => Ok(a.to_be()),
            Subr::InetNtoa => self.inet(net::Family::V4, a, false),
            Subr::InetNtoa6 => self.inet(net::Family::V6, a, true),
            Subr::InetNtop => match net::Family::of(a as i32) {
                Some(family) => self.inet(family, b, false),
                None => Err(illegal()),
            },
            // Packed in 64 bits like illumos's (sys/mkdev.h).
            Subr::Getmajor => Ok(a >> 32),
            Subr::Getminor => Ok(a & 0xffff_ffff),
            Subr::Memref => self.memref(a, b),
            Subr::Memstr => self.memstr(a, b as u8, c),
            // Subroutines about locks have their own instruction, and the validator rejects all other subroutines.
            _ => Err(illegal()),
        }
    }

    /// Executes a subroutine about a lock.
    pub(crate) fn ask_lock(&mut self, question: LockQuestion, address: u64) -> Result<u64, Stop> {
        if !self.access.kernel {
            return Err(Stop::at(Fault::KernelPrivilege, address));
        }
        self.kernel.lock(question, address).ok_or(illegal())
    }

    /// Returns the largest size of a string in bytes.
    fn limit(&self) -> u64 {
        self.memory.string_size.into()
    }

    /// Allocates scratch space for a string of the largest size.
    fn string(&mut self) -> Result<Output, Stop> {
        match self.limit() {
            0 => Err(Stop::new(Fault::NoScratch)),
            size => Ok(Output { start: self.allocate(size, false)?, length: 0 }),
        }
    }

    fn put(&mut self, output: &mut Output, byte: u8) -> Result<(), Stop> {
        self.write(output.start.wrapping_add(output.length), &[byte])?;
        output.length += 1;
        Ok(())
    }

    /// Frees the latest allocation, which begins at `start`, except its first bytes.
    fn shrink(&mut self, start: u64, length: u64) {
        let begin =
            super::address::ObjectAddress::start(super::address::Region::Scratch, 0).address();
        let end = start.wrapping_sub(begin).wrapping_add(length);
        if let Ok(end) = usize::try_from(end) {
            self.used = self.used.min(end);
        }
    }
}

#[cold]
const fn illegal() -> Stop {
    Stop { fault: Fault::IllegalOperation, address: 0 }
}
