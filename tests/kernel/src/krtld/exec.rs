//! Executing an image as far as modules see it: the system call.
//!
//! illumos tells no module of an exec. What a module can do is what illumos's own `systrace` provider does: put
//! a function of its own into the table of system calls (`sysent`, `usr/src/uts/common/os/sysent.c`).

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU16, Ordering};
use core::{ffi::CStr, mem::offset_of};

use static_assertions::const_assert_eq;

use crate::arch::cpu;

/// `NSYSCALL` (`sys/systm.h`) and `SYS_execve` (`sys/syscall.h`).
const NSYSCALL: usize = 256;
const SYS_EXECVE: usize = 59;

/// `sy_callc` of the call.
type Exece = unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> i64;

/// `struct sysent` (`sys/systm.h`).
#[derive(Debug)]
#[repr(C)]
pub(super) struct SysEnt {
    /// `sy_narg`.
    arguments: u8,
    /// `sy_flags`.
    flags: AtomicU16,
    /// `sy_call`.
    call: AtomicPtr<()>,
    /// `sy_lock`.
    lock: AtomicPtr<()>,
    /// `sy_callc`.
    callc: AtomicPtr<()>,
}

const_assert_eq!(offset_of!(SysEnt, flags), 2);
const_assert_eq!(offset_of!(SysEnt, callc), 24);
const_assert_eq!(size_of::<SysEnt>(), 32);

const fn entry(arguments: u8, callc: *mut ()) -> SysEnt {
    let none = core::ptr::null_mut();
    SysEnt {
        arguments,
        flags: AtomicU16::new(0),
        call: AtomicPtr::new(none),
        lock: AtomicPtr::new(none),
        callc: AtomicPtr::new(callc),
    }
}

const fn table() -> [SysEnt; NSYSCALL] {
    let mut table = [const { entry(0, nosys as *mut ()) }; NSYSCALL];
    table[SYS_EXECVE] = entry(3, exece as *mut ());
    table
}

/// System calls of 64-bit processes, and of 32-bit ones, of which there are none here.
pub(super) static SYSENT: [SysEnt; NSYSCALL] = table();
pub(super) static SYSENT32: [SysEnt; NSYSCALL] = table();

/// The process that each CPU runs.
static PIDS: [AtomicI32; cpu::MAX_CPUS] = [const { AtomicI32::new(0) }; cpu::MAX_CPUS];

/// The process that this CPU runs.
pub(super) fn pid() -> c_int {
    PIDS[cpu::current()].load(Ordering::Relaxed)
}

/// Has a process execute an image as illumos does, if this kernel is illumos's; says whether it is.
pub(crate) fn execute(pid: u32, path: &CStr) -> bool {
    if !super::is_chosen() {
        return false;
    }
    PIDS[cpu::current()].store(pid as i32, Ordering::Relaxed);
    let call = SYSENT[SYS_EXECVE].callc.load(Ordering::Acquire);
    // SAFETY: whoever put it there says that it is of this type, and keeps it loaded until nobody is in it.
    unsafe {
        let call = core::mem::transmute::<*mut (), Exece>(call);
        call(path.as_ptr(), core::ptr::null(), core::ptr::null());
    }
    PIDS[cpu::current()].store(0, Ordering::Relaxed);
    true
}

/// `exece`: succeeds.
unsafe extern "C" fn exece(
    _path: *const c_char,
    _arguments: *const *const c_char,
    _environment: *const *const c_char,
) -> i64 {
    0
}

/// `nosys`: ENOSYS.
unsafe extern "C" fn nosys() -> i64 {
    89
}
