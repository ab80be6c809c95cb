//! The system information that programs in D read: this process takes the role of the kernel, and of the process that
//! runs in it.
//!
//! All functions except [`Kernel::symbol`] and [`Kernel::symbol_named`] run while a hit is recorded, possibly in a signal handler. They
//! make system calls and use thread-local variables. They do not allocate, lock or panic.

use std::ffi::CStr;
use std::sync::atomic::AtomicU32;

use sdt_framework::kernel::{Costs, Destruction, Kernel, Number, Symbol, Text};

use crate::slots::Slots;
use crate::{clock, hit, identity, memory, stack, symbols};

fn process() -> libc::pid_t {
    // SAFETY: returns a number and changes nothing.
    unsafe { libc::getpid() }
}

/// Returns the return address with this index of the current hit, or 0 if there is none.
fn frame(index: usize) -> u64 {
    let mut frames = [0; 2];
    stack::of_hit(frames.get_mut(..=index).unwrap_or_default());
    frames.get(index).copied().unwrap_or(0)
}

/// Returns the number of frames of the current hit, at most [`stack::DEEPEST`].
fn depth() -> u64 {
    let mut frames = [0; stack::DEEPEST];
    stack::of_hit(&mut frames) as u64
}

impl Kernel for Slots {
    fn timestamp(&self) -> u64 {
        sdt_framework::Host::timestamp(self)
    }

    /// Returns costs in units of about a nanosecond. A read of memory makes at most three system calls, which took less than 1.5
    /// microseconds on a virtual machine. A frame of a stack is one read. Finding the first frame takes a search of at most 64 kB
    /// of the stack by loads, about 10 microseconds, once in a hit. A stack of two frames is charged 12 microseconds, and took 6
    /// to 8 without that search.
    fn costs(&self) -> Costs {
        const READ: u32 = 2_000;
        Costs { load: READ, user: READ, stack: 2 * READ, frame: 2 * READ }
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        memory::read(address, into)
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        memory::read(address, into)
    }

    fn copyout(&self, from: &[u8], address: u64) -> bool {
        // SAFETY: the framework calls this only for a consumer with the right to control the process, which asked for destructive
        // actions (`-w`).
        unsafe { memory::write(from, address) }
    }

    fn thread(&self) -> u64 {
        hit::thread_number()
    }

    fn interrupts(&self) -> u8 {
        hit::depth()
    }

    fn number(&self, which: Number) -> Option<u64> {
        Some(match which {
            // SAFETY: returns a number and changes nothing.
            Number::Curthread => unsafe { libc::pthread_self() as u64 },
            Number::Vtimestamp => clock::now(libc::CLOCK_THREAD_CPUTIME_ID),
            Number::Walltimestamp => clock::now(libc::CLOCK_REALTIME),
            Number::Stackdepth | Number::Ustackdepth => depth(),
            Number::Caller => frame(0),
            Number::Ucaller => frame(1),
            Number::Pid => identity::process().into(),
            Number::Tid => identity::thread().into(),
            // SAFETY: returns a number and changes nothing.
            Number::Ppid => unsafe { libc::getppid() }.unsigned_abs().into(),
            // SAFETY: returns a number and changes nothing.
            Number::Uid => unsafe { libc::getuid() }.into(),
            // SAFETY: returns a number and changes nothing.
            Number::Gid => unsafe { libc::getgid() }.into(),
            Number::Errno => hit::current()?.errno.unsigned_abs().into(),
            Number::Ipl | Number::Jid => 0,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        match which {
            Text::Execname => Some(&self.program.name),
            Text::Execargs => Some(&self.program.arguments),
            Text::Threadname => self.thread_name(),
            Text::Zonename | Text::Jailname => None,
        }
    }

    /// Ignores the number of the provider's frames: the search for the thunk's frame skips them.
    fn stack(&self, _own: u32, frames: &mut [u64]) -> usize {
        stack::of_hit(frames)
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        stack::of_hit(frames)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
        let Some(found) = symbols::at(address) else { return };
        let (module, name) = (&*self.program.name, found.name.as_bytes());
        show(Symbol { module, name, address: found.address, size: found.size });
    }

    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>)) {
        let own = &*self.program.name;
        let listed = sdt_core::attach::module().map(CStr::to_bytes);
        if module.is_some_and(|module| module != own && Some(module) != listed) {
            return;
        }
        let Some(found) = symbols::named(name) else { return };
        let (address, size) = (found.address, found.size);
        show(Symbol { module: own, name: found.name.as_bytes(), address, size });
    }

    fn destroy(&self, how: Destruction) -> bool {
        // Time passes, or a handler runs, so the process may change its memory.
        memory::forget_reads();
        match how {
            // SAFETY: sends a signal to this process; async-signal-safe (POSIX).
            Destruction::Stop => unsafe { libc::kill(process(), libc::SIGSTOP) == 0 },
            Destruction::Raise(signal) => {
                let Ok(signal) = libc::c_int::try_from(signal) else { return false };
                // SAFETY: sends the signal that the program in D asked for to this process; async-signal-safe (POSIX).
                unsafe { libc::kill(process(), signal) == 0 }
            }
            Destruction::Chill(nanoseconds) => {
                let until = Kernel::timestamp(self).saturating_add(nanoseconds);
                while Kernel::timestamp(self) < until {
                    std::hint::spin_loop();
                }
                true
            }
            Destruction::Breakpoint | Destruction::Panic => false,
        }
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        // A hit that interrupts another one has its own thread-local variables.
        Self::predicate_cache(self).filter(|_| hit::depth() == 0)
    }
}
