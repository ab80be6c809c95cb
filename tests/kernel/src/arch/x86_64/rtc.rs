//! The time of day: the MC146818 that PCs have.

use stand_in_kernel::calendar;
use x86_64::instructions::port::Port;

/// The numbers of its registers.
const FIELDS: [u8; 6] = [9, 8, 7, 4, 2, 0];
const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
/// Status A: the fields are about to change.
const UPDATING: u8 = 0x80;
/// Status B: the fields are binary, and not decimal digits.
const BINARY: u8 = 0x04;

/// Nanoseconds since 1970, to the second, while no other CPU runs. Its years have two digits: these are those from 2000 on.
pub(crate) fn now_ns() -> u64 {
    let fields = loop {
        while read(STATUS_A) & UPDATING != 0 {
            core::hint::spin_loop();
        }
        let once = FIELDS.map(read);
        if once == FIELDS.map(read) {
            break once;
        }
    };
    let is_binary = read(STATUS_B) & BINARY != 0;
    let fields =
        fields.map(|field| if is_binary { field } else { (field >> 4) * 10 + (field & 15) });
    let [year, month, day, hour, minute, second] = fields.map(u64::from);
    let days = calendar::days(2000 + year, month, day);
    (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000
}

fn read(register: u8) -> u8 {
    // SAFETY: the clock is this file's alone, and one CPU's, as the caller says.
    unsafe {
        Port::<u8>::new(0x70).write(register);
        Port::<u8>::new(0x71).read()
    }
}
