//! Probes created at run time, as by an interpreter, on the provider route. The paths of executed images select the steps, and
//! a probe of the module reports the result of each step.

use core::ffi::CStr;

use sdt_core::arg::ArgType;
use sdt_core::ops::{FrameworkError, Privileges, ProviderAttr};
use sdt_core::runtime::{
    AddError, CloseError, FireError, OpenError, Probe, Provider, RemoveError, Slot, arg,
};
use sdt_core::sync::Mutex;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    script_steps {
        /// A step was executed: the length of its path in bytes, and the outcome, which is 0, an error number of the framework,
        /// or a number from 1001 on.
        fn done(path_len: usize, outcome: i32);
    }
}

static SLOTS: [Slot; 2] = [const { Slot::new() }; 2];
static SCRIPT: Provider = Provider::new(&SLOTS);
static STEP: Mutex<Option<Probe>> = Mutex::new(None);

/// The types of ten arguments, more than `dtrace_probe` accepts.
static TYPES: [&ArgType; 10] = [
    arg::<u64>(),
    arg::<&CStr>(),
    arg::<u8>(),
    arg::<u8>(),
    arg::<u8>(),
    arg::<i64>(),
    arg::<u16>(),
    arg::<u8>(),
    arg::<u8>(),
    arg::<u64>(),
];

/// Executes the step that the path of the `n`th exec selects.
pub(crate) fn on_exec(path: &CStr, n: u64) {
    let mut step = STEP.lock();
    let outcome = match path.to_bytes() {
        b"/script/open" => SCRIPT
            .open(c"script", &ProviderAttr::SDT, Privileges::SDT)
            .map_or_else(open_error, |()| 0),
        b"/script/add" => {
            let added = SCRIPT.add(c"main", c"step", &TYPES);
            added.map_or_else(add_error, |probe| {
                *step = Some(probe);
                0
            })
        }
        b"/script/remove" => {
            step.as_ref().map_or(1000, |step| step.remove().map_or_else(remove_error, |()| 0))
        }
        b"/script/close" => {
            let outcome = SCRIPT.close().map_or_else(close_error, |()| 0);
            if outcome == 0 {
                *step = None;
            }
            outcome
        }
        _ => step.as_ref().map_or(0, |step| {
            let path = path.as_ptr().expose_provenance() as u64;
            let words = [n, path, 3, 4, 5, n.wrapping_neg(), 7, 8, 9, n + 10];
            step.fire(&words).map_or_else(fire_error, |()| 0)
        }),
    };
    drop(step);
    sdt_probe!(script_steps::done, path.count_bytes(), outcome);
}

fn open_error(error: OpenError) -> i32 {
    match error {
        OpenError::Framework(error) => FrameworkError::errno(error),
        OpenError::Open => 1001,
        _ => 1999,
    }
}

fn add_error(error: AddError) -> i32 {
    match error {
        AddError::Framework(error) => error.errno(),
        AddError::Twice => 1002,
        _ => 1999,
    }
}

fn remove_error(error: RemoveError) -> i32 {
    match error {
        RemoveError::Enabled => 1003,
        RemoveError::Removed => 1004,
        _ => 1999,
    }
}

fn close_error(error: CloseError) -> i32 {
    match error {
        CloseError::Framework(error) => error.errno(),
        _ => 1999,
    }
}

fn fire_error(error: FireError) -> i32 {
    match error {
        FireError::Removed => 1005,
        _ => 1999,
    }
}
