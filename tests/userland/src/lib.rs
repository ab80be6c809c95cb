//! A process that hosts `sdt-framework` and has nothing to trace but what the framework brings itself: BEGIN, END, ERROR,
//! timers. Programs of D that need no more run here as they would in a kernel with one CPU: DTrace's own test suite, and
//! what a real dtrace(1) was given.
//!
//! It is somebody's kernel for one consumer: [`serve`] answers until the line ends.

mod host;
mod line;
mod syscall;

use std::mem::MaybeUninit;
use std::thread;

use sdt_framework::server::{NoSites, Server};
use sdt_framework::{Config, Dtrace, Rights};

pub use host::{Machine, Userland};
pub use line::Line;
use syscall::Syscalls;

/// Bytes that the framework has: buffers as large as dtrace(1) asks for, and what programs declare.
const MEMORY: usize = 64 << 20;
/// Timers that programs may have set at the same time.
const TIMERS: usize = 64;
/// What the one CPU was doing when a timer came, as it says.
const INTERRUPTED: u64 = 0x1000;
/// Bytes of a frame.
const FRAME: usize = 16 << 10;

/// Answers a consumer at the other end of a line, until it goes.
///
/// # Panics
/// The framework does not take its memory; a process serves system calls twice.
pub fn serve(machine: Machine, mut line: Line) {
    let (syscalls, anonymous) = (machine.syscalls, machine.anonymous.clone());
    let dtrace: &'static Dtrace<Userland> =
        Box::leak(Box::new(Dtrace::new(Userland::new(machine))));
    let memory: &'static mut [MaybeUninit<u8>] = Box::leak(Box::new_uninit_slice(MEMORY));
    let config = Config { consumers: 2, ..Config::DEFAULT };
    dtrace.init(memory, &config).expect("there is enough memory");
    dtrace.register_own().expect("nobody else has");
    dtrace.register_profile(TIMERS).expect("nobody else has");
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
