//! A kernel for QEMU's RISC-V board, which sends a greeting ten times a second.
#![no_std]
#![no_main]

mod board;

use core::ffi::CStr;

/// Called by the start code, with a stack.
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    loop {
        let next = board::now() + 100_000_000;
        while board::now() < next {}
        greet(c"world");
    }
}

fn greet(name: &CStr) {
    for &byte in name.to_bytes().iter().chain(b"\n") {
        board::Uart.send(byte);
    }
}

/// A trap at `pc`: says where to go on.
#[unsafe(no_mangle)]
extern "C" fn trap(cause: usize, pc: usize) -> usize {
    panic!("trap {cause} at {pc:#x}")
}
