//! Probes in flash: a program for a Cortex-M microcontroller that has no operating system, hosts `sdt-framework`, prints
//! its own hits on the debugger's console, and is traced by `dtrace` on a workstation at the other end of a serial line.
//!
//! Text in flash cannot be patched, so the sites test a flag (gate mode). Everything an embedded user has to write is
//! here: the [`Machine`], the line, one call of `start`, and, in `memory.x`, where the records go.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use arm_pl011_uart::{DataBits, LineConfig, PL011Registers, Parity, StopBits};
use arm_pl011_uart::{Uart, UniqueMmioPointer};
use cortex_m::peripheral::{Peripherals, syst::SystClkSource};
use cortex_m_rt::entry;
use cortex_m_semihosting::hio;
use panic_semihosting as _;
use sdt_core::{sdt_probe, sdt_provider};
use sdt_framework::console::Console;
use sdt_framework::server::{Lost, MIN_FRAME, NoSites, Server, Stream};
use sdt_framework::smp::{Machine, Smp, Tracing};
use sdt_framework::{Config, Memory, Record, Rights};

sdt_provider! {
    /// The board's clock.
    pub clock {
        /// The timer interrupt. `ticks` counts from 1.
        fn tick(ticks: u32);
    }
}

sdt_provider! {
    /// The sensor this program pretends to have.
    pub sensor {
        /// A reading: the raw value, and in thousandths of a degree.
        fn reading(raw: u16, millidegrees: i32);
    }
}

/// One core without caches. Time is counted in ticks of a millisecond.
struct Board;

/// CPU cycles in a second, ticks from one reading to the next, and the address of the serial port.
const HZ: u32 = 12_000_000;
const PERIOD: u32 = 100;
const UART0: usize = 0x4000_c000;

static TICKS: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one CPU, and `without_interrupts` keeps everything else from running on it (no probe is in
// an NMI handler or a fault handler).
unsafe impl Machine for Board {
    fn cpu() -> usize {
        0
    }

    fn cpus() -> usize {
        1
    }

    fn timestamp() -> u64 {
        u64::from(TICKS.load(Ordering::Relaxed)) * 1_000_000
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        cortex_m::interrupt::free(|_| f())
    }

    fn interrupt_others() {}
}

static TRACING: Tracing<Board, 1> = Tracing::new(c"firmware");

/// The greatest number of timers of D programs.
const TIMERS: usize = 4;

/// Two buffers for 8 hits each: one is read while the other one is filled.
const CONFIG: Config =
    Config { providers: 4, probes: 5 + TIMERS, ecbs: 16, consumers: 2, buffer: 8 * Record::SIZE };

/// Enough for two consumers and their programs.
static MEMORY: Memory<{ CONFIG.memory::<Smp<Board, 1>>(1, 2) + 16 * 1024 }> = Memory::new();

/// The serial line to the workstation.
struct Line(Uart<'static>);

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let arrived = core::iter::from_fn(|| self.0.read_word().ok().flatten());
        Ok(buffer.iter_mut().zip(arrived).map(|(room, byte)| *room = byte).count())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let mut sent = 0;
        while sent < bytes.len() && !self.0.is_tx_fifo_full() {
            self.0.write_word(bytes[sent]);
            sent += 1;
        }
        Ok(sent)
    }
}

#[entry]
fn main() -> ! {
    let memory = MEMORY.take().expect("main runs once");
    // SAFETY: nothing is patched, so no breakpoint has to be handled; the program is never unloaded.
    let dtrace = unsafe { TRACING.start(memory, &CONFIG) }.expect("the records hold together");
    dtrace.register_profile(TIMERS).expect("there is room for the timers");
    let mut line = start_devices();
    let mut server: Server<'_, MIN_FRAME, 2> = Server::new(dtrace, &NoSites, Rights::ALL);
    let mut out = hio::hstderr().expect("a debugger is there");
    let mut console = Console::<{ Record::SIZE }>::new(dtrace);
    for command in ["-l", "-n sensor:::"] {
        console.command(command, &mut out).expect("the debugger prints");
    }
    let mut due = 0;
    loop {
        if TICKS.load(Ordering::Relaxed) >= due {
            let raw = 1000 + 8 * (due / PERIOD % 16) as u16;
            sdt_probe!(sensor::reading, raw, millidegrees(raw));
            due += PERIOD;
        }
        let printed = console.print(&mut out).expect("the debugger prints");
        // This line never closes.
        let served = server.step(&mut line).unwrap_or(false);
        if !printed && !served {
            cortex_m::asm::wfi();
        }
    }
}

/// A costly computation for this processor, evaluated only while the probe is enabled.
fn millidegrees(raw: u16) -> i32 {
    (i32::from(raw) - 1010) * 250
}

fn start_devices() -> Line {
    let mut clock = Peripherals::take().expect("main runs once").SYST;
    clock.set_clock_source(SystClkSource::Core);
    clock.set_reload(HZ / 1000 - 1);
    clock.clear_current();
    clock.enable_counter();
    clock.enable_interrupt();
    let uart = NonNull::new(UART0 as *mut PL011Registers).expect("it is not at 0");
    // SAFETY: nothing else uses UART0.
    let mut uart = Uart::new(unsafe { UniqueMmioPointer::new(uart) });
    let (data_bits, parity, stop_bits) = (DataBits::Bits8, Parity::None, StopBits::One);
    let letters = LineConfig { data_bits, parity, stop_bits };
    uart.enable(letters, 115_200, HZ).expect("the clock makes this rate");
    Line(uart)
}

// The handler of the timer interrupt. The processor has stored the interrupted program counter at `sp + 24`.
global_asm!(
    ".global SysTick",
    ".type SysTick, %function",
    ".thumb_func",
    "SysTick: ldr r0, [sp, #24]",
    "ldr r1, ={on_tick}",
    "bx r1",
    on_tick = sym on_tick,
);

extern "C" fn on_tick(pc: u32) {
    let ticks = TICKS.load(Ordering::Relaxed) + 1;
    TICKS.store(ticks, Ordering::Relaxed);
    sdt_probe!(clock::tick, ticks);
    TRACING.dtrace().tick(pc.into(), 0);
}
