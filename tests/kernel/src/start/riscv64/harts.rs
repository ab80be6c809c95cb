//! Starting the other CPUs: SBI's hart state management.
//!
//! OpenSBI before 1.3 may start a hart at the kernel's `start` instead of `hart_start`. It marks the hart as started before it
//! stores the start address (`sbi_hsm_hart_start` in lib/sbi/sbi_hsm.c of 1.1 and 1.2). If the hart checks the mark between these
//! two steps, which can happen on a busy host, it uses the start address of the first hart. `start` then jumps to `hart_misled`.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Stack;
use crate::arch::{cpu, machine, timer};
use crate::{exec, paging, traps};

/// The time limit for the start of a CPU, in nanoseconds.
const START_TIMEOUT_NS: u64 = 60_000_000_000;

/// Parameters of a CPU that is being started; a1 holds their physical address.
#[repr(C)]
struct Variables {
    /// Physical address of the kernel's root table.
    root: u64,
    stack_bottom: u64,
    stack_top: u64,
    number: u64,
}

global_asm!(
    r#"
    // Entered at `start`, after the first hart.
    .section .text.hart_misled, "ax"
    .balign 4
    .global hart_misled
hart_misled:
    fence
    lla a1, {starting}
    ld a1, 0(a1)
    j hart_start

    // Entered with satp 0, a0 the hart's id.
    .section .text.hart_start, "ax"
    .balign 4
    .global hart_start
hart_start:
    csrw sie, zero
    ld a2, {root}(a1)
    ld s0, {stack_top}(a1)
    ld s1, {number}(a1)
    ld s2, {stack_bottom}(a1)
    call enable_paging
    mv sp, s0
    li s0, 0
    mv a0, s1
    mv a1, s2
    call hart_main
    unimp
    "#,
    starting = sym STARTING,
    root = const offset_of!(Variables, root),
    stack_top = const offset_of!(Variables, stack_top),
    stack_bottom = const offset_of!(Variables, stack_bottom),
    number = const offset_of!(Variables, number),
);

unsafe extern "C" {
    static hart_start: u8;
}

/// Physical address of the variables of the CPU that is being started.
static STARTING: AtomicU64 = AtomicU64::new(0);

/// Whether the CPU that is being started has read the variables. That CPU sets it.
static UP: AtomicBool = AtomicBool::new(false);

/// Starts all harts except the first, one after the other, and numbers them from 1. Returns the number of CPUs, including the
/// first.
///
/// # Panics
/// If a CPU does not start within [`START_TIMEOUT_NS`].
pub(super) fn start_others() -> usize {
    let harts = machine::get().harts();
    let entry = paging::kernel_physical(&raw const hart_start as u64);
    for (number, &hart) in harts.iter().enumerate().skip(1) {
        let stack = Stack::new(number);
        // The variables are at the top of the CPU's new stack, which is still empty.
        let at = stack.top - size_of::<Variables>() as u64;
        let variables = Variables {
            root: paging::root(),
            stack_bottom: stack.bottom,
            stack_top: stack.top,
            number: number as u64,
        };
        // SAFETY: the address is in the new stack, which no CPU uses yet.
        unsafe { (at as *mut Variables).write(variables) };
        let physical = paging::physical(at).expect("the stack is mapped");
        UP.store(false, Ordering::Release);
        STARTING.store(physical, Ordering::SeqCst);
        let started = sbi_rt::hart_start(hart, entry as usize, physical as usize);
        assert!(started.is_ok(), "SBI does not start hart {hart}: {:?}", started.err());
        let deadline = timer::now_ns() + START_TIMEOUT_NS;
        while !UP.load(Ordering::Acquire) {
            assert!(timer::now_ns() < deadline, "CPU {number} (hart {hart}) does not start");
            core::hint::spin_loop();
        }
    }
    harts.len()
}

/// First Rust code of another CPU, on its own stack and in the kernel's tables.
///
/// # Safety
/// Called once on each CPU by the code above.
#[unsafe(no_mangle)]
unsafe extern "C" fn hart_main(number: usize, stack_bottom: u64) -> ! {
    cpu::init(number, stack_bottom);
    traps::init();
    timer::start();
    UP.store(true, Ordering::Release);
    exec::work_forever()
}
