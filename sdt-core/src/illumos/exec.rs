//! Every exec: the system call `execve`.
//!
//! illumos tells no module of an exec. What is here is what illumos's own provider `syscall` does
//! (`usr/src/uts/common/dtrace/systrace.c`, 2025): a function of the module's is put into the tables of system calls
//! (`usr/src/uts/common/os/sysent.c`, `sys/systm.h`), which are private to the kernel and may change. The kernel's own
//! `proc:::exec-success` needs none of this; a driver's probes fire where the driver is called.

use core::ffi::{CStr, c_char, c_int};
use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use static_assertions::const_assert_eq;

use crate::illumos::Errno;

/// `struct sysent`, `sys/systm.h`. 32 bytes.
#[repr(C)]
struct SysEnt {
    narg: c_char,
    flags: u16,
    call: *const (),
    lock: *const (),
    callc: AtomicPtr<()>,
}

const_assert_eq!(offset_of!(SysEnt, callc), 24);
const_assert_eq!(size_of::<SysEnt>(), 32);

// SAFETY: of it only `callc` is used.
unsafe impl Sync for SysEnt {}

/// `NSYSCALL`.
const CALLS: usize = 256;
/// `SYS_execve`, `sys/syscall.h`.
const EXECVE: usize = 59;

unsafe extern "C" {
    // Of 64-bit processes and of 32-bit ones.
    safe static sysent: [SysEnt; CALLS];
    safe static sysent32: [SysEnt; CALLS];
    fn copyinstr(from: *const c_char, to: *mut c_char, max: usize, length: *mut usize) -> c_int;
}

/// A system call, as the tables have it: up to six words.
type Call = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> i64;

/// An image about to be run, while its handler is called.
pub struct Exec<'a>(&'a usize);

impl Exec<'_> {
    /// The path as it was given to `execve`, copied from the process; none if there is no string or it does not fit.
    /// Sleeps.
    pub fn path<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b CStr> {
        let from = core::ptr::with_exposed_provenance(*self.0);
        let mut length = 0;
        // SAFETY: the kernel checks the process's address; the buffer is as long as it is said to be.
        let errno =
            unsafe { copyinstr(from, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut length) };
        if errno != 0 {
            return None;
        }
        CStr::from_bytes_with_nul(buffer.get(..length)?).ok()
    }
}

impl fmt::Debug for Exec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exec").field(self.0).finish()
    }
}

/// What is called before each exec, of which nobody knows yet whether it succeeds. In the context of the process; may
/// sleep.
pub type Handler = fn(Exec<'_>);

/// A table of system calls, and what its `execve` was before ours.
struct Table {
    table: &'static [SysEnt; CALLS],
    ours: Call,
    before: AtomicPtr<()>,
}

impl Table {
    fn put(&self, from: *mut (), to: *mut ()) -> bool {
        let callc = &self.table[EXECVE].callc;
        callc.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn hook(&self) {
        loop {
            let before = self.table[EXECVE].callc.load(Ordering::Acquire);
            // First, as the next exec may come as soon as it is ours.
            self.before.store(before, Ordering::Release);
            if self.put(before, self.ours as *mut ()) {
                return;
            }
        }
    }

    fn unhook(&self) -> bool {
        self.put(self.ours as *mut (), self.before.load(Ordering::Acquire))
    }

    /// # Safety
    /// For the wrappers below, with what they were called with.
    #[inline(always)]
    unsafe fn pass_on(&self, args: [usize; 6]) -> i64 {
        RUNNING.fetch_add(1, Ordering::AcqRel);
        let handler = HANDLER.load(Ordering::Acquire);
        if !handler.is_null() {
            // SAFETY: what `register` stored.
            let handler = unsafe { core::mem::transmute::<*mut (), Handler>(handler) };
            handler(Exec(&args[0]));
        }
        // SAFETY: what was in the table; a call of this type, with its own arguments.
        let result = unsafe {
            let before = core::mem::transmute::<*mut (), Call>(self.before.load(Ordering::Acquire));
            before(args[0], args[1], args[2], args[3], args[4], args[5])
        };
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        result
    }
}

static TABLES: [Table; 2] = [
    Table { table: &sysent, ours: exece, before: AtomicPtr::new(core::ptr::null_mut()) },
    Table { table: &sysent32, ours: exece32, before: AtomicPtr::new(core::ptr::null_mut()) },
];

/// The handler, while there is one.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Calls that are in the wrappers.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn exece(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> i64 {
    // SAFETY: the table's arguments.
    unsafe { TABLES[0].pass_on([a, b, c, d, e, f]) }
}

unsafe extern "C" fn exece32(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> i64 {
    // SAFETY: the table's arguments.
    unsafe { TABLES[1].pass_on([a, b, c, d, e, f]) }
}

/// Calls `handler` before every exec, until [`deregister`].
///
/// # Safety
/// Before the module is unloaded, [`deregister`] must have succeeded.
///
/// # Errors
/// [`Errno::EBUSY`]: there is a handler already.
pub unsafe fn register(handler: Handler) -> Result<(), Errno> {
    let (none, handler) = (core::ptr::null_mut(), handler as *mut ());
    HANDLER
        .compare_exchange(none, handler, Ordering::AcqRel, Ordering::Acquire)
        .map_err(|_| Errno::EBUSY)?;
    TABLES.iter().for_each(Table::hook);
    Ok(())
}

/// Puts the tables back as they were.
///
/// Who was in a wrapper has left it but for its last instructions; illumos has nothing to wait for that with, which its
/// own `syscall` provider bears too.
///
/// # Errors
/// [`Errno::EBUSY`]: an exec is running, or somebody else (the provider `syscall`, while `syscall::exece:` is
/// enabled) has put his own function over ours. Everything goes on working then.
pub fn deregister() -> Result<(), Errno> {
    if !TABLES[0].unhook() {
        return Err(Errno::EBUSY);
    }
    if !TABLES[1].unhook() {
        TABLES[0].hook();
        return Err(Errno::EBUSY);
    }
    if RUNNING.load(Ordering::Acquire) != 0 {
        TABLES.iter().for_each(Table::hook);
        return Err(Errno::EBUSY);
    }
    HANDLER.store(core::ptr::null_mut(), Ordering::Release);
    Ok(())
}
