//! Greets somebody ten times a second, and can be traced: `dtrace -p PID -n 'hello:::greeted'`.

use std::ffi::CStr;
use std::time::Duration;

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    /// What this program does.
    pub hello {
        /// Somebody has been greeted: who, and how often.
        fn greeted(name: &CStr, times: u64);
    }
}

fn main() -> Result<(), sdt_process::StartError> {
    let _traced = sdt_process::start()?;
    for times in 1.. {
        sdt_probe!(hello::greeted, c"world", times);
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
