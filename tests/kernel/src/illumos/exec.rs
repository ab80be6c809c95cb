//! Execution of an image. Performs only the step that modules can observe: the system call `execve`.
//!
//! illumos does not notify modules of an exec. A module can replace a function in the table of system calls, as
//! illumos's own `systrace` provider does (`sysent`, `usr/src/uts/common/os/sysent.c`), or in the table of executable
//! formats, as the modules of `kernel/exec` do (`execsw`, `sys/exec.h`).

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU16, Ordering};
use core::{ffi::CStr, mem::offset_of};

use static_assertions::const_assert_eq;

use super::locks::{RW_READER, RwLock, rw_enter, rw_exit};
use crate::arch::cpu;

/// `NSYSCALL` (`sys/systm.h`) and `SYS_execve` (`sys/syscall.h`).
const NSYSCALL: usize = 256;
const SYS_EXECVE: usize = 59;

/// The type of the function of `execve` (`sy_callc`).
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

/// The system calls of 64-bit processes. `SYSENT32` is the table for 32-bit processes, which do not exist here.
pub(super) static SYSENT: [SysEnt; NSYSCALL] = table();
pub(super) static SYSENT32: [SysEnt; NSYSCALL] = table();

/// The process that each CPU runs.
static PIDS: [AtomicI32; cpu::MAX_CPUS] = [const { AtomicI32::new(0) }; cpu::MAX_CPUS];

/// The process that this CPU runs.
pub(super) fn pid() -> c_int {
    PIDS[cpu::current()].load(Ordering::Relaxed)
}

/// Calls the function of `execve` in the table of system calls, on behalf of a process.
pub(super) fn execute(pid: u32, path: &CStr) {
    PIDS[cpu::current()].store(pid as i32, Ordering::Relaxed);
    let call = SYSENT[SYS_EXECVE].callc.load(Ordering::Acquire);
    // SAFETY: this entry contains a function of this type. A module that replaces it must not unload while a CPU can execute the
    // new function.
    unsafe {
        let call = core::mem::transmute::<*mut (), Exece>(call);
        call(path.as_ptr(), core::ptr::null(), core::ptr::null());
    }
    PIDS[cpu::current()].store(0, Ordering::Relaxed);
}

/// The function of `execve`. Treats every file as a 64-bit ELF file. As `gexec` does, it acquires the entry's lock before it
/// reads the entry's function, and releases the lock after the function has returned.
unsafe extern "C" fn exece(
    path: *const c_char,
    _arguments: *const *const c_char,
    _environment: *const *const c_char,
) -> i64 {
    let none = core::ptr::null_mut();
    let entry = &EXECSW.0[ELF64];
    // SAFETY: the lock is static, and protects the function of the same entry.
    unsafe {
        rw_enter(entry.lock, RW_READER);
        let function = (*entry.function.get()).expect("elfexec is loaded");
        let errno = function(none, none, none, none, 0, core::ptr::null_mut(), 0, path, none, 0);
        rw_exit(entry.lock);
        errno.into()
    }
}

/// `exec_func`.
type ExecFunction = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    c_int,
    *mut c_long,
    c_int,
    *const c_char,
    *mut c_void,
    c_int,
) -> c_int;

/// `struct execsw` (`sys/exec.h`).
#[repr(C)]
struct ExecSw {
    /// `exec_magic`, `exec_magoff`, `exec_maglen`.
    magic: *const c_char,
    magic_offset: c_int,
    magic_length: c_int,
    /// `exec_func`, which the lock protects.
    function: UnsafeCell<Option<ExecFunction>>,
    /// `exec_core`.
    core: *const (),
    /// `exec_lock`.
    lock: *const RwLock,
}

const_assert_eq!(offset_of!(ExecSw, function), 16);
const_assert_eq!(size_of::<ExecSw>(), 40);

/// `execsw`, of `usr/src/uts/common/conf/param.c`: scripts, 32-bit and 64-bit ELF files, and a free entry.
pub(super) struct ExecTable([ExecSw; 4]);

// SAFETY: the locks protect `function`, the only field that changes.
unsafe impl Sync for ExecTable {}

const ELF64: usize = 2;

static EXEC_LOCKS: [RwLock; 4] = [const { RwLock::new() }; 4];

const fn kind(magic: &'static CStr, function: Option<ExecFunction>, lock: usize) -> ExecSw {
    ExecSw {
        magic: magic.as_ptr(),
        magic_offset: 0,
        magic_length: magic.count_bytes() as c_int,
        function: UnsafeCell::new(function),
        core: core::ptr::null(),
        lock: &raw const EXEC_LOCKS[lock],
    }
}

pub(super) static EXECSW: ExecTable = ExecTable([
    kind(c"#!", None, 0),
    kind(c"\x7fELF\x01", Some(elfexec), 1),
    kind(c"\x7fELF\x02", Some(elfexec), ELF64),
    kind(c"", None, 3),
]);

/// Number of entries in the table.
pub(super) static NEXECTYPE: c_int = 4;

/// Loads an ELF file (`elfexec`): does nothing and returns success.
unsafe extern "C" fn elfexec(
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: c_int,
    _: *mut c_long,
    _: c_int,
    _: *const c_char,
    _: *mut c_void,
    _: c_int,
) -> c_int {
    0
}

/// The function of a system call that does not exist (`nosys`): returns ENOSYS.
unsafe extern "C" fn nosys() -> i64 {
    89
}
