//! The machine's 16550: the line to the host.

use core::ptr::NonNull;

use uart_16550::backend::MmioBackend;
use uart_16550::spec::registers::IER;
use uart_16550::{BaudRate, Config, Uart16550};

use super::{layout, machine, plic};

/// The serial port. Its data-ready interrupt only ends the first CPU's sleep; the owner of this value reads and writes the bytes.
pub(crate) struct Uart(Uart16550<MmioBackend>);

impl Uart {
    /// Sets the port up.
    ///
    /// # Panics
    /// If the address from the device tree has no 16550.
    ///
    /// # Safety
    /// Only one `Uart` may be in use at a time.
    pub(crate) unsafe fn new() -> Self {
        let registers = layout::direct(machine::get().uart as u64) as *mut u8;
        let registers = NonNull::new(registers).expect("the direct map is not at 0");
        // SAFETY: the direct map always maps the port's registers. The caller guarantees that no other `Uart` uses them.
        let mut uart = unsafe { Uart16550::new_mmio(registers, 1) }.expect("the stride is valid");
        let config = Config {
            interrupts: IER::DATA_READY,
            baud_rate: BaudRate::Baud115200,
            ..Config::default()
        };
        uart.init(config).expect("no 16550 where the device tree says");
        // The output of the firmware is not a frame; this byte ends it.
        uart.send_bytes_exact(&[0]);
        Self(uart)
    }

    /// Moves bytes that have arrived into `buffer`, and returns their number.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.0.receive_bytes(buffer);
        // The handler leaves the interrupt claimed until here, because its cause (unread bytes) exists until they have been read.
        plic::complete();
        length
    }

    /// Sends as many of the bytes as the port accepts at once, and returns their number.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> usize {
        self.0.send_bytes(bytes)
    }
}
