//! The parts of a program without the standard library, and the panic handler.

// For `main`, and for copies of memory.
#[link(name = "c")]
unsafe extern "C" {
    safe fn a_panic_can_be_reached() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    a_panic_can_be_reached()
}

/// Compiled into `core`, which is made for programs that unwind; never called.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
