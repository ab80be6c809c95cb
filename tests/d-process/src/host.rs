//! The host: one CPU, which the threads of the process share by a lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sdt_framework::kernel::{Kernel, Number, Text};
use sdt_framework::{Host, SpinLock};

/// Values of D's built-in variables, chosen by the test.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `execname`
    pub execname: String,
    /// `zonename`, and `jailname`
    pub zonename: String,
    /// `pid`
    pub pid: u64,
    /// `ppid`
    pub ppid: u64,
    /// `execargs`
    pub execargs: String,
    /// `ustackdepth`
    pub ustackdepth: u64,
    /// Registers the provider `syscall`, whose probes fire when the process writes to its line.
    pub syscalls: bool,
    /// DOF that is enabled before a consumer connects, as `-A` writes it.
    pub anonymous: Vec<u8>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            execname: "dtrace".into(),
            zonename: "0".into(),
            pid: std::process::id().into(),
            ppid: std::os::unix::process::parent_id().into(),
            execargs: "dtrace".into(),
            ustackdepth: 0,
            anonymous: Vec::new(),
            syscalls: false,
        }
    }
}

/// The process as a host.
#[derive(Debug)]
pub struct Process {
    machine: Machine,
    boot: Instant,
    /// Held in probe context: its holder occupies the CPU.
    cpu: Mutex<()>,
    /// Number of threads that wait for the CPU in order to continue outside probe context.
    waiting: AtomicUsize,
    timer: Timer,
}

/// Wakes the thread that reads the clock.
#[derive(Debug, Default)]
struct Timer {
    /// Whether a timer was set or removed since the clock was read; whether the line has ended.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

thread_local! {
    /// Whether this thread occupies the CPU.
    static OFF: Cell<bool> = const { Cell::new(false) };
}

impl Process {
    pub(crate) fn new(machine: Machine) -> Self {
        let timer = Timer::default();
        let (boot, waiting) = (Instant::now(), AtomicUsize::new(0));
        Self { machine, boot, cpu: Mutex::new(()), waiting, timer }
    }

    /// The clock of the one CPU: calls `tick` whenever it is due, until [`end`](Self::end).
    pub(crate) fn keep_time(&self, tick: impl Fn() -> Option<u64>) {
        loop {
            let next = tick();
            let now = Host::timestamp(self);
            let mut state = self.timer.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.0 && !state.1 {
                let left = next.map(|next| Duration::from_nanos(next.saturating_sub(now)));
                let Some(left) = left else {
                    state = self.timer.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let waited = self.timer.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            if state.1 {
                return;
            }
            state.0 = false;
        }
    }

    /// Stops the timer thread.
    pub(crate) fn end(&self) {
        self.timer.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.timer.changed.notify_all();
    }
}

// SAFETY: there is one CPU, and probe context holds the lock `cpu`, which orders all threads; `sync` takes it, too.
unsafe impl Host for Process {
    type Lock = SpinLock<Self>;

    /// Waits while another thread occupies the CPU, as it would on a machine with one CPU.
    fn cpu(&self) -> usize {
        if !OFF.get() {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            drop(self.cpu.lock().unwrap_or_else(PoisonError::into_inner));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        u64::try_from(self.boot.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        if OFF.replace(true) {
            return f();
        }
        // A mutex is not fair: releasing it wakes a thread that waits in `cpu`, but this thread could lock it again before that
        // thread runs. Then the framework would find this thread in probe context and refuse the other one.
        while self.waiting.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let cpu = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f();
        drop(cpu);
        OFF.set(false);
        result
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }

    fn timers_changed(&self) {
        self.timer.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        self.timer.changed.notify_all();
    }

    fn relax() {
        std::thread::yield_now();
    }

    fn sync(&self) {
        drop(self.cpu.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Process {
    /// Copies memory of this process, unless some of it cannot be read.
    fn copy(address: u64, into: &mut [u8]) -> bool {
        let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let from =
            libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: the kernel writes at most `into.len()` bytes to `into`, and returns an error if the other address cannot be
        // read.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        usize::try_from(copied) == Ok(into.len())
    }
}

/// The kernel that programs in D see: the values of [`Machine`], and the memory of this process, both as kernel memory and as
/// user memory.
impl Kernel for Process {
    fn timestamp(&self) -> u64 {
        Host::timestamp(self)
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        Self::copy(address, into)
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        Self::copy(address, into)
    }

    fn number(&self, which: Number) -> Option<u64> {
        let since_1970 =
            || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        Some(match which {
            Number::Vtimestamp => Host::timestamp(self),
            Number::Walltimestamp => since_1970(),
            Number::Ustackdepth => self.machine.ustackdepth,
            Number::Pid => self.machine.pid,
            Number::Ppid => self.machine.ppid,
            // SAFETY: a system call without arguments.
            Number::Tid => u64::from(unsafe { libc::gettid() }.unsigned_abs()),
            // SAFETY: a system call without arguments.
            Number::Uid => unsafe { libc::getuid() }.into(),
            // SAFETY: a system call without arguments.
            Number::Gid => unsafe { libc::getgid() }.into(),
            Number::Curthread
            | Number::Ipl
            | Number::Stackdepth
            | Number::Caller
            | Number::Ucaller
            | Number::Errno
            | Number::Jid => 0,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        match which {
            Text::Execname => Some(self.machine.execname.as_bytes()),
            Text::Execargs => Some(self.machine.execargs.as_bytes()),
            Text::Threadname => None,
            Text::Zonename | Text::Jailname => Some(self.machine.zonename.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_that_ask_for_the_cpu_get_it_before_probe_context() {
        let process = Process::new(Machine::default());
        let asked = || process.waiting.load(Ordering::SeqCst);
        for _ in 0..100 {
            thread::scope(|scope| {
                let held = process.cpu.lock().unwrap();
                scope.spawn(|| process.cpu());
                while asked() == 0 {
                    thread::yield_now();
                }
                let in_probe = scope.spawn(|| process.without_interrupts(asked));
                // Long enough for the other thread to begin to wait for the lock, in case of an error.
                thread::sleep(Duration::from_millis(1));
                drop(held);
                assert_eq!(in_probe.join().unwrap(), 0);
            });
        }
    }
}
