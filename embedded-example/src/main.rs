//! Probes in flash: a program for a Cortex-M microcontroller that has no operating system, hosts
//! `sdt-framework`, and traces itself.
//!
//! Text in flash cannot be patched, so the sites test a flag (gate mode). Everything an embedded
//! user has to write is here: the [`Host`], one call of `attach`, and, in `memory.x`, where the records go.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::{debug, hio, hprintln};
use sdt_core::attach::{self, Attachment};
use sdt_core::patch::{Mode, NoText};
use sdt_core::{sdt_probe, sdt_provider};
use sdt_framework::console::{Console, ConsoleError};
use sdt_framework::{Config, Dtrace, Host, LONGEST, Memory, SpinLock};

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

static TICKS: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one CPU, and `without_interrupts` keeps everything else from running on it (no probe is in
// an NMI handler or a fault handler).
unsafe impl Host for Board {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        u64::from(TICKS.load(Ordering::Relaxed)) * 1_000_000
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        cortex_m::interrupt::free(|_| f())
    }

    // Probe context runs with interrupts off on the only CPU: whoever calls this is not in it.
    fn sync(&self) {}
}

static DTRACE: Dtrace<Board> = Dtrace::new(Board);

/// Buffers for 32 records.
const CONFIG: Config =
    Config { providers: 4, probes: 8, ecbs: 8, consumers: 1, buffer: 32 * LONGEST };

/// As much as one consumer needs.
static MEMORY: Memory<{ CONFIG.memory::<Board>(1, 1) }> = Memory::new();

static ATTACHMENT: Attachment =
    Attachment { framework: &DTRACE, patcher: &NoText, mode: Mode::Trap, module: c"firmware" };

#[entry]
fn main() -> ! {
    let memory = MEMORY.take().expect("main runs once");
    DTRACE.init(memory, &CONFIG).expect("it is as much as the configuration says");
    // SAFETY: nothing is patched, so no breakpoint has to be handled; the program is never unloaded.
    unsafe { attach::attach(&ATTACHMENT) }.expect("the records hold together");
    start_clock();
    let traced = trace().inspect_err(|error| hprintln!("{}", error));
    debug::exit(if traced.is_ok() { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    loop {
        cortex_m::asm::wfi();
    }
}

/// Has the console's command line look, while the program works, and prints what was recorded.
fn trace() -> Result<(), ConsoleError> {
    let mut out = hio::hstdout().map_err(|()| core::fmt::Error)?;
    let mut console = Console::<_, LONGEST>::new(&DTRACE);
    console.command("-l", &mut out)?;
    work(4); // Nobody is looking.
    for probes in ["-n sensor:::", "-n clock:::tick"] {
        console.command(probes, &mut out)?;
        work(4);
        console.command("stop", &mut out)?;
    }
    work(4); // Nobody is looking any more.
    Ok(())
}

/// Takes readings, each after the next tick of the clock.
fn work(readings: u16) {
    for n in 0..readings {
        let now = TICKS.load(Ordering::Relaxed);
        while TICKS.load(Ordering::Relaxed) == now {
            cortex_m::asm::wfi();
        }
        let raw = 1000 + 8 * n;
        sdt_probe!(sensor::reading, raw, millidegrees(raw));
    }
}

/// Costly, as far as this processor goes: evaluated only when the probe is enabled.
fn millidegrees(raw: u16) -> i32 {
    (i32::from(raw) - 1010) * 250
}

fn start_clock() {
    let Some(mut core) = cortex_m::Peripherals::take() else { return };
    core.SYST.set_clock_source(SystClkSource::Core);
    core.SYST.set_reload(12_000 - 1); // 12 MHz
    core.SYST.clear_current();
    core.SYST.enable_counter();
    core.SYST.enable_interrupt();
}

#[exception]
fn SysTick() {
    let ticks = TICKS.load(Ordering::Relaxed) + 1;
    TICKS.store(ticks, Ordering::Relaxed);
    sdt_probe!(clock::tick, ticks);
}

// Copies the records to RAM before anything runs, as cortex-m-rt does `.data`: `memory.x` bounds them and says
// where they are in flash.
global_asm!(
    ".global __pre_init",
    ".type __pre_init, %function",
    ".thumb_func",
    "__pre_init:",
    "ldr r0, =__sdt_data_start",
    "ldr r1, =__sdt_data_end",
    "ldr r2, =__sdt_data_load",
    "1: cmp r0, r1",
    "bhs 2f",
    "ldr r3, [r2], #4",
    "str r3, [r0], #4",
    "b 1b",
    "2: bx lr",
);

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        cortex_m::asm::bkpt();
    }
}
