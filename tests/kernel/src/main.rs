//! The stand-in kernel, on bare metal. What it does with modules is in the library.
#![no_std]
#![no_main]
// printf and panic take C's variable arguments.
#![feature(c_variadic)]

extern crate alloc;

mod arch;
mod clock;
mod console;
mod counters;
mod declared;
mod dtrace;
mod exec;
mod exports;
mod freebsd;
mod heap;
#[cfg(target_arch = "x86_64")]
mod illumos;
mod invop;
mod load;
mod lock;
mod panic;
mod process;
mod reentry;
mod requests;
mod sites;
mod smp;
mod space;
mod stack;
mod standin;
mod symbols;
mod system;
mod text;
mod torture;
mod wire;

use core::sync::atomic::{AtomicU64, Ordering};

use arch::{cpu, paging};
use stand_in_kernel::memory::BootInfo;

use crate::wire::Wire;

/// Kept from the boot code for [`first_cpu_main`].
static FIRMWARE: AtomicU64 = AtomicU64::new(0);

/// Called by the boot code: on the first CPU, interrupts off, with provisional page tables.
pub(crate) fn kernel_main(boot: BootInfo) -> ! {
    let ram = boot
        .ram_from(paging::kernel_image_end(), paging::BOOT_MAP_SIZE.min(arch::SYMBOLS))
        .expect("the kernel does not lie in RAM");
    load::init(text::start() - paging::KERNEL_BASE..ram.end);
    // SAFETY: RAM behind the kernel's image, which the boot protocol leaves to the kernel.
    unsafe {
        heap::init(paging::direct(ram.start) as *mut u8, (ram.end - ram.start) as usize);
    }
    FIRMWARE.store(boot.firmware, Ordering::Relaxed);
    arch::init_first(first_cpu_main)
}

extern "C" fn first_cpu_main() -> ! {
    let wire = Wire::open();
    let cpus = arch::init_machine(FIRMWARE.load(Ordering::Relaxed));
    smp::set_online(cpus);
    cpu::restore_interrupts(true);
    dtrace::init();
    freebsd::init();
    console::print("stand-in kernel is up\n");
    requests::serve(wire)
}

/// Called by the boot code: on each other CPU, interrupts off.
pub(crate) fn other_cpu_main() -> ! {
    exec::work_forever()
}
