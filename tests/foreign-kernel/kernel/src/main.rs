//! A small kernel for PCs: two CPUs, which write each other letters, and a shell.
#![no_std]
#![no_main]

extern crate alloc;

mod boot;
mod letters;
mod machine;
mod shell;
mod tracing;

use core::fmt::Write as _;

use linked_list_allocator::LockedHeap;
use sdt_core::{sdt_probe, sdt_provider};
use uart_16550::{Config, Uart16550, Uart16550Tty, backend::PioBackend};

sdt_provider! {
    /// The clock.
    pub clock {
        /// It has ticked on a CPU.
        fn tick(cpu: usize);
    }
}

#[global_allocator]
static HEAP: LockedHeap = LockedHeap::empty();

/// The clock's interrupt, and where the CPU was.
fn on_tick(pc: u64) {
    sdt_probe!(clock::tick, machine::cpu());
    tracing::TRACING.dtrace().tick(pc, 0);
}

/// Called by the start code on each CPU, with a stack.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(cpu: usize) -> ! {
    machine::start(cpu);
    if cpu != 0 {
        loop {
            letters::work(cpu);
        }
    }
    // SAFETY: RAM that nothing else uses: the second 64 MiB.
    unsafe { HEAP.lock().init((64 << 20) as *mut u8, 64 << 20) };
    machine::start_others();
    let mut server = tracing::start();
    let [line, console] = [0x3f8, 0x2f8].map(|at| port(at).expect("a PC has two"));
    let mut line = tracing::line(line);
    let tracer = tracing::Tracer::new(tracing::TRACING.dtrace());
    let mut shell = shell::Shell { console, line: Default::default(), tracer };
    loop {
        // This line is never gone.
        server.step(&mut line).ok();
        shell.step();
        letters::work(cpu);
    }
}

/// A serial port of a PC.
type Port = Uart16550Tty<PioBackend>;

/// Returns the serial port at this address, if it exists.
fn port(address: u16) -> Option<Port> {
    // SAFETY: each port is opened once; after a panic, the code that had it does not run again.
    let mut uart = unsafe { Uart16550::new_port(address) }.ok()?;
    uart.init(Config::default()).ok()?;
    Some(Port::from_inner(uart))
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    if let Some(mut console) = port(0x2f8) {
        // An error here cannot be reported.
        writeln!(console, "{info}").ok();
    }
    loop {}
}
