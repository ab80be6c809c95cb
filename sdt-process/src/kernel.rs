//! What programs in D may ask: the process stands for the kernel, and for the process that runs in it.
//!
//! Everything but [`Kernel::symbol`] is called while a hit is recorded, perhaps in a signal handler: system calls and
//! thread-local variables, and nothing that allocates, locks or panics.

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU32;

use sdt_framework::kernel::{Costs, Destruction, Kernel, Number, Symbol, Text};

use crate::cpus::{self, Slots};
use crate::{memory, stack, symbols};

/// What is known of this program from the beginning.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name of its file: `execname`.
    name: Box<[u8]>,
    /// What it was called with, `execargs`: with spaces in between.
    arguments: Box<[u8]>,
}

impl Program {
    pub(crate) fn this() -> Self {
        let arguments: Vec<_> = std::env::args_os().collect();
        let arguments: Vec<_> = arguments.iter().map(|of| of.as_bytes()).collect();
        Self { name: program_name().as_bytes().into(), arguments: arguments.join(&b' ').into() }
    }
}

/// The name of the program's file.
pub(crate) fn program_name() -> OsString {
    let file = std::env::current_exe().ok();
    file.as_deref().and_then(Path::file_name).unwrap_or_default().to_owned()
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time; safe in signal handlers (POSIX). It cannot fail for these clocks.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn process() -> libc::pid_t {
    // SAFETY: asks for a number.
    unsafe { libc::getpid() }
}

/// The frame with this index of the hit that is being recorded; 0 if there is none.
fn frame(index: usize) -> u64 {
    let mut frames = [0; 2];
    stack::of_hit(&mut frames);
    frames.get(index).copied().unwrap_or(0)
}

/// How many frames there are.
fn depth() -> u64 {
    let mut frames = [0; stack::DEEPEST];
    stack::of_hit(&mut frames) as u64
}

impl Kernel for Slots {
    fn timestamp(&self) -> u64 {
        sdt_framework::Host::timestamp(self)
    }

    /// A read of memory is a few system calls, which took 1.5 to 2.5 microseconds together on a virtual machine. A frame takes two
    /// reads. The first one takes the system call for the alternate stack, too, and once in a hit a search of at most 64 kB of the
    /// stack by loads, about 10 microseconds: two frames and all that took 6 to 8 of the 12 microseconds that are charged.
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
        // SAFETY: asked for by who may destroy and has said so.
        unsafe { memory::write(from, address) }
    }

    fn thread(&self) -> u64 {
        cpus::thread_number()
    }

    fn interrupts(&self) -> u8 {
        cpus::depth()
    }

    fn number(&self, which: Number) -> Option<u64> {
        Some(match which {
            // SAFETY: asks for a number.
            Number::Curthread => unsafe { libc::pthread_self() as u64 },
            Number::Vtimestamp => clock(libc::CLOCK_THREAD_CPUTIME_ID),
            Number::Walltimestamp => clock(libc::CLOCK_REALTIME),
            Number::Stackdepth | Number::Ustackdepth => depth(),
            Number::Caller => frame(0),
            Number::Ucaller => frame(1),
            Number::Pid => process().unsigned_abs().into(),
            // SAFETY: as above.
            Number::Tid => unsafe { libc::gettid() }.unsigned_abs().into(),
            // SAFETY: as above.
            Number::Ppid => unsafe { libc::getppid() }.unsigned_abs().into(),
            // SAFETY: as above.
            Number::Uid => unsafe { libc::getuid() }.into(),
            // SAFETY: as above.
            Number::Gid => unsafe { libc::getgid() }.into(),
            Number::Errno => cpus::errno()?.unsigned_abs().into(),
            Number::Ipl | Number::Jid => 0,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        match which {
            Text::Execname => Some(&self.program.name),
            Text::Execargs => Some(&self.program.arguments),
            Text::Zonename | Text::Jailname => None,
        }
    }

    /// The provider's frames are not counted: the thunk's is found by its mark.
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
        match how {
            // SAFETY: a signal to this process; safe in signal handlers (POSIX).
            Destruction::Stop => unsafe { libc::kill(process(), libc::SIGSTOP) == 0 },
            Destruction::Raise(signal) => {
                let Ok(signal) = libc::c_int::try_from(signal) else { return false };
                // SAFETY: as above. What comes of it was asked for.
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
        // A hit that interrupts another has thread-local variables of its own.
        self.cache().filter(|_| cpus::depth() == 0)
    }
}
