//! The board of the kernel: its start, its traps, the clock, the serial port.

use core::arch::{asm, global_asm};
use core::fmt::{self, Write as _};

global_asm!(
    r#"
    .section .text.start, "ax"
    .global start
start:
    csrr t0, mhartid
    bnez t0, 1f
    lla sp, stack_top
    lla t0, trap_entry
    csrw mtvec, t0
    call kernel_main
1:  wfi
    j 1b

    // Interrupts stay off until mret. What a function keeps, `trap` does; the rest is saved here.
    .balign 4
trap_entry:
    addi sp, sp, -128
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    csrr a0, mcause
    csrr a1, mepc
    call trap
    csrw mepc, a0
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    addi sp, sp, 128
    mret
    "#
);

/// Nanoseconds since the board was switched on.
pub fn now() -> u64 {
    let ticks: u64;
    // SAFETY: reads the clock; on this board it has 10 MHz.
    unsafe { asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks * 100
}

/// Runs `f` with interrupts off.
pub fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    let before: usize;
    // SAFETY: disables interrupts on this CPU and changes nothing else.
    unsafe { asm!("csrrci {}, mstatus, 8", out(reg) before) };
    let result = f();
    // SAFETY: restores the earlier state of interrupts.
    unsafe { asm!("csrs mstatus, {}", in(reg) before & 8) };
    result
}

/// The serial port, a 16550.
pub struct Uart;

impl Uart {
    const DATA: *mut u8 = 0x1000_0000 as *mut u8;
    const STATUS: *mut u8 = 0x1000_0005 as *mut u8;

    /// Sends a byte, once there is room for it.
    pub fn send(&mut self, byte: u8) {
        // SAFETY: the port's registers.
        unsafe {
            while Self::STATUS.read_volatile() & 0x20 == 0 {}
            Self::DATA.write_volatile(byte);
        }
    }

    /// A byte that has arrived, if one has.
    pub fn receive(&mut self) -> Option<u8> {
        // SAFETY: the port's registers.
        unsafe { (Self::STATUS.read_volatile() & 1 != 0).then(|| Self::DATA.read_volatile()) }
    }
}

impl fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.send(byte));
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    // An error has no other output.
    writeln!(Uart, "{info}").ok();
    loop {
        core::hint::spin_loop();
    }
}
