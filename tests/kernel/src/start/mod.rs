//! From the boot code to the first CPU's loop.
//!
//! Each architecture's module contains the boot code and the two steps that set up the machine.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::sync::atomic::{AtomicU64, Ordering};

use stand_in_kernel::memory::BootInfo;

#[cfg(target_arch = "aarch64")]
use self::aarch64 as machine;
#[cfg(target_arch = "riscv64")]
use self::riscv64 as machine;
#[cfg(target_arch = "x86_64")]
use self::x86_64 as machine;
use crate::arch::{self, cpu};
use crate::wire::Wire;
use crate::{console, dtrace, freebsd, functions, heap, load, paging, requests, smp, text};

/// The address of the firmware's description of the machine, from the boot code, for [`first_cpu_main`].
static FIRMWARE: AtomicU64 = AtomicU64::new(0);

/// Starts the kernel. The boot code calls this function on the first CPU, with interrupts off and provisional page tables.
fn kernel_main(boot: BootInfo) -> ! {
    let ram = boot
        .ram_from(paging::kernel_image_end(), paging::BOOT_MAP_SIZE.min(arch::SYMBOLS))
        .expect("the kernel does not lie in RAM");
    load::init(text::start() - paging::KERNEL_BASE..ram.end);
    // SAFETY: the range is RAM after the kernel's image. By the boot protocol, no other code uses it.
    unsafe {
        heap::init(paging::direct(ram.start) as *mut u8, (ram.end - ram.start) as usize);
    }
    FIRMWARE.store(boot.firmware, Ordering::Relaxed);
    machine::init_first(first_cpu_main)
}

extern "C" fn first_cpu_main() -> ! {
    let wire = Wire::open();
    let cpus = machine::init_machine(FIRMWARE.load(Ordering::Relaxed));
    smp::set_online(cpus);
    cpu::restore_interrupts(true);
    dtrace::init();
    functions::init();
    freebsd::init();
    console::print("stand-in kernel is up\n");
    requests::serve(wire)
}
