//! `sdt_probe!` cannot see into a macro in an argument, so that macro must not leave the function.

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

macro_rules! or_return {
    ($option:expr) => {
        match $option {
            Some(value) => value,
            None => return,
        }
    };
}

macro_rules! or_return_value {
    ($option:expr, $value:expr) => {
        match $option {
            Some(value) => value,
            None => return $value,
        }
    };
}

macro_rules! question {
    ($option:expr) => {
        $option?
    };
}

macro_rules! leave {
    ($($how:tt)*) => {
        { $($how)* }
    };
}

fn returns(option: Option<u64>) {
    sdt_probe!(open::returns, or_return!(option));
}

fn returns_a_value(option: Option<u64>) -> u64 {
    sdt_probe!(open::returns_a_value, or_return_value!(option, 7));
    sdt_probe!(open::returns_anything, or_return_value!(option, Default::default()));
    1
}

fn asks(option: Option<u64>) -> Option<()> {
    sdt_probe!(open::asks, question!(option));
    Some(())
}

fn loops() {
    'out: loop {
        sdt_probe!(open::breaks, leave!(break; 1u64));
        sdt_probe!(open::continues, leave!(continue; 1u64));
        sdt_probe!(open::breaks_out, leave!(break 'out; 1u64));
    }
}

fn main() {
    returns(None);
    returns_a_value(None);
    asks(None);
    loops();
}
