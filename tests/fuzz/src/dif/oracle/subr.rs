//! Subroutines.

use dtrace_abi::dif::Subr;
use dtrace_abi::fault::Fault;
use sdt_framework::kernel::{Kernel, LockQuestion};
use sdt_framework::testing::address::{ObjectAddress, Region};

use super::super::world::STRING;
use super::text::{basename, dirname, substr};
use super::{Oracle, Result, bad, stop};

impl Oracle<'_> {
    pub(super) fn call(&mut self, subr: Subr, before: u64) -> Result<u64> {
        let given = |index: usize| self.tuple.get(index).map(|pushed| pushed.0);
        let [a, b, c] = [0, 1, 2].map(|index| given(index).unwrap_or(0));
        let (second, third) = (given(1), given(2));
        let limit = u64::from(STRING);
        if let Some(question) = question(subr) {
            if !self.rights.kernel {
                return Err((Fault::KernelPrivilege, a));
            }
            return self.world.lock(question, a).ok_or((Fault::IllegalOperation, 0));
        }
        match subr {
            Subr::Rand => Ok((self.world.timestamp() * 2416 + 374_441) % 1_771_875),
            Subr::Speculation => Ok(1),
            Subr::Progenyof => Ok(u64::from(a == 1)),
            Subr::Copyin => {
                let to = self.allocate(b, true)?;
                self.copyin(a, b, to)?;
                Ok(to)
            }
            Subr::Copyinto => self.copyin(a, b, c).map(|()| before),
            Subr::Copyinstr => {
                let size = second.filter(|&most| most < limit).map_or(limit, |most| most + 1);
                let to = self.allocate(size, false)?;
                let mut text = Vec::new();
                while (text.len() as u64) < size - 1 {
                    match self.user(a.wrapping_add(text.len() as u64), 1) {
                        Ok(0) => break,
                        Ok(byte) => text.push(byte as u8),
                        Err(fault) => {
                            self.fill(to, &text);
                            return Err(fault);
                        }
                    }
                }
                self.fill(to, &text);
                Ok(to)
            }
            Subr::Copyout | Subr::Copyoutstr => {
                self.copyout(a, b, c, subr == Subr::Copyoutstr).map(|()| before)
            }
            Subr::Alloca => self.allocate(a, true),
            Subr::Bcopy => {
                self.in_scratch(b, c)?;
                self.copy(a, b, c).map(|()| before)
            }
            Subr::Strlen => Ok(self.string(a, limit)?.len() as u64),
            Subr::Strchr | Subr::Strrchr => {
                let mut found = 0;
                for address in (0..limit).map(|at| a.wrapping_add(at)) {
                    let byte = self.byte(address)?;
                    if byte == b as u8 {
                        found = address;
                    }
                    if byte == 0 || (found != 0 && subr == Subr::Strchr) {
                        break;
                    }
                }
                Ok(found)
            }
            Subr::Strstr | Subr::Index | Subr::Rindex => {
                let (text, wanted) = (self.string(a, limit)?, self.string(b, limit)?);
                let from = third.filter(|_| subr != Subr::Strstr).map(|from| from as i64);
                let found = self.find(a, text.len(), &wanted, from, subr == Subr::Rindex)?;
                Ok(match found {
                    Some(at) if subr == Subr::Strstr => a.wrapping_add(at),
                    Some(at) => at,
                    None if subr == Subr::Strstr => 0,
                    None => u64::MAX,
                })
            }
            Subr::Strtok => self.strtok(a, b),
            Subr::Substr => {
                let text = self.string(a, limit)?;
                let at = self.allocate(limit, false)?;
                let part =
                    substr(&text, b as i64, third.map_or(limit as i64, |count| count as i64));
                self.writable(at, part.len() as u64)?.copy_from_slice(part);
                Ok(at)
            }
            Subr::Strjoin => self.strjoin(a, b),
            Subr::Toupper | Subr::Tolower => {
                let at = self.allocate(limit, false)?;
                for offset in 0..limit - 1 {
                    let byte = self.byte(a.wrapping_add(offset))?;
                    if byte == 0 {
                        break;
                    }
                    let byte = match subr {
                        Subr::Toupper => byte.to_ascii_uppercase(),
                        _ => byte.to_ascii_lowercase(),
                    };
                    self.writable(at + offset, 1)?[0] = byte;
                }
                Ok(at)
            }
            Subr::Basename | Subr::Dirname => {
                let path = self.string(a, limit)?;
                let text = if subr == Subr::Basename { basename(&path) } else { dirname(&path) };
                self.give(&text)
            }
            Subr::Cleanpath => self.cleanpath(a),
            Subr::Strtoll => self.strtoll(a, second),
            Subr::Lltostr => self.lltostr(a as i64, second),
            Subr::Htons | Subr::Ntohs => Ok((a & 0xff) << 8 | a >> 8 & 0xff),
            Subr::Htonl | Subr::Ntohl => Ok(u64::from((a as u32).swap_bytes())),
            Subr::Htonll | Subr::Ntohll => Ok(a.swap_bytes()),
            Subr::InetNtoa => self.inet(2, a, false),
            Subr::InetNtoa6 => self.inet(28, a, true),
            Subr::InetNtop => self.inet(a as i32, b, false),
            Subr::Getmajor => Ok(a >> 32),
            Subr::Getminor => Ok(a & u64::from(u32::MAX)),
            Subr::Memref => {
                let at = self.allocate(16, true)?;
                let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
                self.writable(at, 16)?.copy_from_slice(&bytes);
                Ok(at)
            }
            Subr::Memstr => {
                if c == 0 {
                    return Ok(0);
                }
                // If the size exceeds both the free scratch space and the limit of a size, the fault is that of the scratch
                // space.
                let at = self.allocate(c, false)?;
                for offset in 0..c - 1 {
                    let byte = self.byte(a.wrapping_add(offset))?;
                    self.writable(at + offset, 1)?[0] = if byte == 0 { b as u8 } else { byte };
                }
                Ok(at)
            }
            _ => stop(Fault::IllegalOperation),
        }
    }

    pub(super) fn in_scratch(&self, address: u64, length: u64) -> Result<()> {
        let inside =
            ObjectAddress::of(address).and_then(std::result::Result::ok).is_some_and(|place| {
                let end = u128::from(place.offset) + u128::from(length);
                place.region == Region::Scratch && end <= self.used as u128
            });
        if inside { Ok(()) } else { bad(address) }
    }

    pub(super) fn copyin(&mut self, from: u64, size: u64, to: u64) -> Result<()> {
        self.in_scratch(to, size)?;
        let mut bytes = vec![0; size as usize];
        if size != 0 && !self.world.copyin(from, &mut bytes) {
            return bad(from);
        }
        self.writable(to, size)?.copy_from_slice(&bytes);
        Ok(())
    }

    pub(super) fn copyout(&mut self, from: u64, to: u64, size: u64, string: bool) -> Result<()> {
        if !self.rights.control {
            return stop(Fault::UserPrivilege);
        }
        let mut at = 0;
        while at < size {
            let mut part = Vec::new();
            let mut ended = false;
            while part.len() < 64 && at + (part.len() as u64) < size && !ended {
                let byte = self.byte(from.wrapping_add(at + part.len() as u64))?;
                part.push(byte);
                ended = string && byte == 0;
            }
            if !self.world.copyout(&part, to.wrapping_add(at)) {
                return bad(to.wrapping_add(at));
            }
            if ended {
                break;
            }
            at += part.len() as u64;
        }
        Ok(())
    }
}

fn question(subr: Subr) -> Option<LockQuestion> {
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
