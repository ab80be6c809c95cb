//! A process that hosts `sdt-framework` and has only the framework's own probes: BEGIN, END, ERROR, timers. Programs in D that
//! need no other probes run here as in a kernel with one CPU. Examples are DTrace's own test suite and the recorded runs of a real
//! dtrace(1).
//!
//! The process serves one consumer: [`serve`] answers until the line ends.

mod host;
mod line;
mod syscall;

use std::mem::MaybeUninit;
use std::thread;

use sdt_framework::server::{NoSites, Server};
use sdt_framework::{Config, Dtrace, Rights};

pub use host::{Machine, Process};
pub use line::Line;
use syscall::Syscalls;

/// Bytes of the framework's arena: buffers as large as dtrace(1) asks for, and the variables of programs.
const MEMORY: usize = 64 << 20;
/// Maximum number of timers at the same time.
const TIMERS: usize = 64;
/// The kernel program counter that a timer's probe reports.
const INTERRUPTED: u64 = 0x1000;
/// Bytes of a frame.
const FRAME: usize = 16 << 10;

/// Serves a consumer at the other end of a line, until the line ends.
///
/// # Panics
/// The framework refuses its memory, or this process serves with system calls for the second time.
pub fn serve(machine: Machine, mut line: Line) {
    let (syscalls, anonymous) = (machine.syscalls, machine.anonymous.clone());
    let dtrace: &'static Dtrace<Process> = Box::leak(Box::new(Dtrace::new(Process::new(machine))));
    let memory: &'static mut [MaybeUninit<u8>] = Box::leak(Box::new_uninit_slice(MEMORY));
    let config = Config { consumers: 2, ..Config::DEFAULT };
    dtrace.init(memory, &config).expect("there is enough memory");
    dtrace.register_own().expect("registered once");
    dtrace.register_profile(TIMERS).expect("registered once");
    if syscalls {
        line.trace(Syscalls::register(dtrace));
    }
    if !anonymous.is_empty() {
        dtrace.enable_anonymously(&anonymous).expect("a program that can be enabled");
    }
    let mut server: Box<Server<'_, FRAME, 2>> =
        Box::new(Server::new(dtrace, &NoSites, Rights::ALL));
    thread::scope(|scope| {
        scope.spawn(|| dtrace.host().keep_time(|| dtrace.tick(INTERRUPTED, 0)));
        while let Ok(busy) = server.step(&mut line) {
            if !busy {
                line.wait();
            }
        }
        dtrace.host().end();
    });
}
