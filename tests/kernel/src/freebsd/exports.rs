//! The symbols that modules can use, with FreeBSD's names and types. Symbols of both systems are in [`crate::exports`], symbols
//! of a single architecture in [`machdep`].

use alloc::format;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicUsize;

use sdt_core::ops::{Framework, ProviderId, ProviderOps};
use sdt_framework::registration;
use stand_in_base::printf;
use stand_in_freebsd::errno::EINVAL;
use stand_in_freebsd::eventhandler::{List, Lists};
use stand_in_freebsd::{Release, release};

use super::machine::LINKER;
use super::{machdep, sdt, sx, sysctl};
use crate::dtrace::DTRACE;
use crate::exports::{self, Variadic, exports, text};
use crate::{console, panic, smp};

type RendezvousFunction = Option<unsafe extern "C" fn(*mut c_void)>;

exports! {
    // sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h
    dtrace_register: unsafe extern "C" fn(
        *const c_char, *const [u8; 15], u32, *mut c_void, *const ProviderOps, *mut c_void, *mut usize,
    ) -> c_int,
    dtrace_unregister: extern "C" fn(usize) -> c_int,
    dtrace_condense: extern "C" fn(usize) -> c_int,
    // sys/sys/module.h
    module_register_init: extern "C" fn(*const c_void),
    // sys/sys/eventhandler.h
    eventhandler_register: unsafe extern "C" fn(
        *const List, *const c_char, *mut c_void, *mut c_void, c_int,
    ) -> usize,
    eventhandler_find_list: unsafe extern "C" fn(*const c_char) -> *const List,
    eventhandler_deregister: unsafe extern "C" fn(*const List, usize),
    // sys/sys/systm.h
    printf: unsafe extern "C" fn(*const c_char, ...) -> c_int,
    panic: unsafe extern "C" fn(*const c_char, ...) -> !,
    // sys/sys/smp.h
    smp_rendezvous: unsafe extern "C" fn(
        RendezvousFunction, RendezvousFunction, RendezvousFunction, *mut c_void,
    ),
}

/// Returns all exported functions: of this module, of both systems, of SDT, of sx locks, of sysctls and of the architecture.
fn all() -> impl Iterator<Item = (&'static str, u64)> {
    table()
        .into_iter()
        .chain(exports::table())
        .chain(sdt::table())
        .chain(sx::table())
        .chain(sysctl::table())
        .chain(machdep::table())
}

/// Returns the address of an exported function or variable; `None` if `release` does not have it.
pub(crate) fn address(name: &str, release: Release) -> Option<u64> {
    if !release::has_symbol(release, name) {
        return None;
    }
    let variables =
        || sdt::variables().into_iter().chain(sysctl::variables()).chain(machdep::variables());
    let is_it = |(symbol, _): &(&str, u64)| *symbol == name;
    let found = if release::is_variable(release, name) {
        variables().find(is_it)
    } else {
        all().chain(variables()).find(is_it)
    };
    found.map(|(_, address)| address)
}

/// Returns whether an exported function has this address.
pub(crate) fn is_exported(address: u64) -> bool {
    all().any(|(_, exported)| exported == address)
}

/// # Safety
/// Every pointer is NULL or points to a value of its type; the functions in `ops` are sound to
/// call until `dtrace_unregister` has succeeded.
unsafe extern "C" fn dtrace_register(
    name: *const c_char,
    attributes: *const [u8; 15],
    privileges: u32,
    _credentials: *mut c_void,
    ops: *const ProviderOps,
    argument: *mut c_void,
    id: *mut usize,
) -> c_int {
    let refuse = |name: &CStr, why: &dyn core::fmt::Display| {
        let name = name.to_string_lossy();
        console::print(&format!("WARNING: failed to register provider '{name}': {why}\n"));
        EINVAL
    };
    if name.is_null() || attributes.is_null() || ops.is_null() || id.is_null() {
        return refuse(c"", &"invalid args");
    }
    // SAFETY: not NULL, and the caller guarantees a valid value of this type.
    let (name, attributes, ops) = unsafe { (CStr::from_ptr(name), &*attributes, &*ops) };
    let raw = registration::from_raw(attributes, privileges);
    let checked = raw.and_then(|(attributes, privileges)| {
        registration::check(name, privileges, ops)?;
        Ok((attributes, privileges))
    });
    let (attributes, privileges) = match checked {
        Ok(checked) => checked,
        Err(error) => return refuse(name, &error),
    };
    // SAFETY: the caller guarantees that the ops can be called until `dtrace_unregister` has succeeded.
    match unsafe { DTRACE.register(name, &attributes, privileges, ops, argument) } {
        Ok(provider) => {
            // SAFETY: not NULL, and the caller guarantees a writable id.
            unsafe { id.write(provider.get()) };
            0
        }
        Err(error) => {
            refuse(name, &error);
            error.errno()
        }
    }
}

extern "C" fn dtrace_unregister(id: usize) -> c_int {
    DTRACE.unregister(ProviderId::new(id)).map_or_else(freebsd_errno, |()| 0)
}

extern "C" fn dtrace_condense(id: usize) -> c_int {
    DTRACE.condense(ProviderId::new(id)).map_or_else(freebsd_errno, |_| 0)
}

/// Returns FreeBSD's error number. [`FrameworkError::errno`](sdt_core::ops::FrameworkError::errno) returns the number of the
/// build target, which is not FreeBSD.
fn freebsd_errno(error: sdt_core::ops::FrameworkError) -> c_int {
    match error {
        sdt_core::ops::FrameworkError::Again => 35,
        other => other.errno(),
    }
}

extern "C" fn module_register_init(data: *const c_void) {
    LINKER.module_register_init(data as u64);
}

static EVENT_HANDLERS: Lists = Lists::new();

/// Returns the handlers of an event if the event has been looked up.
pub(crate) fn event_handlers(name: &str) -> Option<&'static List> {
    EVENT_HANDLERS.find(name)
}

/// Registers a handler and returns its tag; NULL if the name is empty or not UTF-8 (FreeBSD returns NULL if it has no memory).
///
/// # Safety
/// `list` is NULL or a result of `eventhandler_find_list`; `name` is NULL or a string; `function` has the type of the event's
/// handlers.
unsafe extern "C" fn eventhandler_register(
    list: *const List,
    name: *const c_char,
    function: *mut c_void,
    argument: *mut c_void,
    priority: c_int,
) -> usize {
    let (function, argument) = (function as usize, argument as usize);
    // SAFETY: `list` is NULL or a list of `eventhandler_find_list`, which is never freed.
    if let Some(list) = unsafe { list.as_ref() } {
        return EVENT_HANDLERS.register_in(list, function, argument, priority);
    }
    // SAFETY: `name` is NULL or a string.
    match unsafe { text(name) }.to_str() {
        Ok(name) if !name.is_empty() => EVENT_HANDLERS.register(name, function, argument, priority),
        _ => 0,
    }
}

/// Returns the handlers of an event; NULL if the event does not exist. FreeBSD returns the list locked, and
/// `eventhandler_deregister` unlocks it; here, each operation locks and unlocks the list.
///
/// # Safety
/// `name` is NULL or a string.
unsafe extern "C" fn eventhandler_find_list(name: *const c_char) -> *const List {
    // SAFETY: `name` is NULL or a string.
    let name = unsafe { text(name) }.to_str().unwrap_or_default();
    event_handlers(name).map_or(core::ptr::null(), |list| &raw const *list)
}

/// Deregisters a handler, or all handlers if `tag` is 0. Returns when no CPU can be executing the handler.
///
/// # Safety
/// `list` is a result of `eventhandler_find_list`.
unsafe extern "C" fn eventhandler_deregister(list: *const List, tag: usize) {
    // SAFETY: `list` is a list of `eventhandler_find_list`, which is never freed.
    let list = unsafe { list.as_ref() }.expect("eventhandler_deregister: no list");
    if tag == 0 {
        list.deregister_all();
        while !list.is_settled() {
            core::hint::spin_loop();
        }
        return;
    }
    let was_there = list.deregister(tag);
    assert!(was_there, "eventhandler_deregister: {} has no handler {tag}", list.name());
    while !list.is_gone(tag) {
        core::hint::spin_loop();
    }
}

/// # Safety
/// `format` is NULL or a string, and the arguments have the types that it says.
unsafe extern "C" fn printf(format: *const c_char, arguments: ...) -> c_int {
    // SAFETY: `format` is a string.
    let template = unsafe { text(format) }.to_string_lossy();
    let line = printf::format(&template, &mut Variadic(arguments));
    console::print(&line);
    c_int::try_from(line.len()).unwrap_or(c_int::MAX)
}

/// # Safety
/// `format` is NULL or a string, and the arguments have the types that it says.
unsafe extern "C" fn panic(format: *const c_char, arguments: ...) -> ! {
    // SAFETY: `format` is a string.
    let template = unsafe { text(format) }.to_string_lossy();
    panic::stop(format_args!("{}", printf::format(&template, &mut Variadic(arguments))))
}

/// Calls the three functions on every CPU, with interrupts off. A CPU calls the next function only after the previous one has
/// returned on all CPUs.
///
/// # Safety
/// The functions may be called with the argument, on all CPUs at once.
unsafe extern "C" fn smp_rendezvous(
    setup: RendezvousFunction,
    action: RendezvousFunction,
    teardown: RendezvousFunction,
    argument: *mut c_void,
) {
    let argument = argument as usize;
    let cpus = smp::online();
    let stages = [setup, action, teardown];
    let arrived = [const { AtomicUsize::new(0) }; 2];
    smp::rendezvous(&|_| {
        for (index, stage) in stages.iter().enumerate() {
            if let Some(function) = stage {
                // SAFETY: the caller guarantees that the functions can be called on all CPUs at once.
                unsafe { function(argument as *mut c_void) };
            }
            if let Some(arrived) = arrived.get(index) {
                smp::barrier(arrived, cpus);
            }
        }
    });
}
