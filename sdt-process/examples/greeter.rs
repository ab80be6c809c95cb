//! Prints a greeting ten times a second, and can be traced: `dtrace -p PID -n 'hello:::greeted'`.

use std::time::Duration;

use sdt_core::arg::Argument;
use sdt_core::{sdt_probe, sdt_provider};

#[derive(Clone, Copy, Argument)]
enum Manner {
    Plain,
    Warm,
}

sdt_provider! {
    /// The work of this program.
    pub hello {
        /// The program has printed a greeting: the name, the manner, and the number of greetings so far.
        fn greeted(name: &str, manner: Manner, times: u64);
    }
}

fn main() -> Result<(), sdt_process::StartError> {
    let _traced = sdt_process::start()?;
    for times in 1.. {
        let manner = if times % 3 == 0 { Manner::Warm } else { Manner::Plain };
        sdt_probe!(hello::greeted, "world", manner, times);
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
