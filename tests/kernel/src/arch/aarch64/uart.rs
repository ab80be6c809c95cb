//! The first PL011: the line to the host.

use core::ptr::NonNull;

use arm_pl011_uart::{DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits};
use arm_pl011_uart::{Uart as Pl011, UniqueMmioPointer};

use super::layout;

/// The physical address of the PL011 on QEMU's `virt` machine.
const ADDRESS: u64 = 0x0900_0000;
const BAUD_RATE: u32 = 115_200;
/// The clock of the PL011 on `virt`, in hertz.
const CLOCK: u32 = 24_000_000;

/// The serial port. Its receive interrupt only ends the first CPU's sleep; the owner of this value reads and writes the bytes.
pub(crate) struct Uart(Pl011<'static>);

impl Uart {
    /// Sets the port up.
    ///
    /// # Panics
    /// If there is no PL011 at the address.
    ///
    /// # Safety
    /// Only one `Uart` may be in use at a time.
    pub(crate) unsafe fn new() -> Self {
        let registers = NonNull::new(layout::direct(ADDRESS) as *mut PL011Registers);
        let registers = registers.expect("the direct map is not at 0");
        // SAFETY: device memory in the direct map; the contract of `new` gives this port to one owner.
        let mut uart = Pl011::new(unsafe { UniqueMmioPointer::new(registers) });
        assert!(uart.read_identification().is_valid(), "no PL011 at {ADDRESS:#x}");
        let config = LineConfig {
            data_bits: DataBits::Bits8,
            parity: Parity::None,
            stop_bits: StopBits::One,
        };
        uart.enable(config, BAUD_RATE, CLOCK).expect("the baud rate is one that the clock makes");
        uart.set_interrupt_masks(Interrupts::RXI | Interrupts::RTI);
        Self(uart)
    }

    /// Moves bytes that have arrived into `buffer`, and returns their number. A damaged byte is
    /// left out: the frame that it belongs to has a checksum.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let mut length = 0;
        while length < buffer.len() {
            match self.0.read_word() {
                Ok(Some(byte)) => {
                    buffer[length] = byte;
                    length += 1;
                }
                Ok(None) => break,
                Err(_) => {}
            }
        }
        length
    }

    /// Sends as many of the bytes as the port accepts at once, and returns their number.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        for &byte in bytes {
            if self.0.is_tx_fifo_full() {
                break;
            }
            self.0.write_word(byte);
            sent += 1;
        }
        sent
    }
}
