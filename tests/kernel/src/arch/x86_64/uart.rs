//! COM1, a 16550: the line to the host.

use uart_16550::backend::PioBackend;
use uart_16550::spec::registers::IER;
use uart_16550::{BaudRate, Config, Uart16550};

const COM1: u16 = 0x3f8;

/// The serial port. Its data-ready interrupt only ends the first CPU's sleep; the owner of this value reads and writes the bytes.
pub(crate) struct Uart(Uart16550<PioBackend>);

impl Uart {
    /// Sets the port up.
    ///
    /// # Panics
    /// When there is no 16550 at COM1's address.
    ///
    /// # Safety
    /// Only one `Uart` may be in use at a time.
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: the caller guarantees that no other code uses COM1.
        let mut uart = unsafe { Uart16550::new_port(COM1) }.expect("COM1's address is valid");
        let config = Config {
            interrupts: IER::DATA_READY,
            baud_rate: BaudRate::Baud115200,
            ..Config::default()
        };
        uart.init(config).expect("no 16550 at COM1");
        Self(uart)
    }

    /// Moves bytes that have arrived into `buffer`, and returns their number.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> usize {
        self.0.receive_bytes(buffer)
    }

    /// Sends as many of the bytes as the port accepts at once, and returns their number.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> usize {
        self.0.send_bytes(bytes)
    }
}
