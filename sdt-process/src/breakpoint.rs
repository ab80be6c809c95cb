//! The handler of SIGTRAP, which the kernel raises at a breakpoint.
//!
//! No crate for signals passes the interrupted registers to a handler, so this module calls `sigaction` itself. For a
//! SIGTRAP that no site raised, this handler calls the earlier handler. If there was none, the default action ends the
//! process.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The action of SIGTRAP before this crate's handler was installed.
static EARLIER: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// The number of breakpoints of sites and of functions.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Returns the number of hits of this process that came through a breakpoint.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// The signals that instructions raise.
pub(crate) const RAISED: [libc::c_int; 6] =
    [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// A handler of breakpoints that do not belong to sites. Gets the address of the breakpoint, and the context that the
/// kernel passed to the signal handler, which has not returned. Returns `false` if it does not know the breakpoint.
pub(crate) type Other = unsafe fn(usize, *mut c_void) -> bool;

/// The handler of breakpoints that are not those of sites.
static OTHER: OnceLock<Other> = OnceLock::new();

/// Sets the handler of breakpoints that do not belong to sites. Only the first call has an effect.
pub(crate) fn set_other(other: Other) {
    OTHER.get_or_init(|| other);
}

/// A signal handler that gets the registers (`SA_SIGINFO`).
type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler of SIGTRAP, once.
///
/// # Errors
/// `sigaction(2)` fails.
pub(crate) fn install() -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !EARLIER.load(Ordering::Relaxed).is_null() {
        return Ok(());
    }
    // Stored before the handler is installed, and never freed, as the handler reads it.
    EARLIER.store(Box::leak(Box::new(action(None)?)), Ordering::Release);
    // SAFETY: all zeros are a valid `sigaction`.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = on_trap as Handler as usize;
    // SA_NODEFER, as the earlier handler may hit a site, and a breakpoint with SIGTRAP blocked ends the process. SA_ONSTACK, as programs
    // with an alternate stack may have small ordinary ones.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK | libc::SA_RESTART;
    // All signals except those that instructions raise wait until this handler has returned. Otherwise their handlers would run on the
    // same alternate stack, which is small, and could hit sites there.
    // SAFETY: the set is a field of `new`, which this function owns.
    unsafe {
        libc::sigfillset(&mut new.sa_mask);
        for signal in RAISED {
            libc::sigdelset(&mut new.sa_mask, signal);
        }
    }
    action(Some(&new)).inspect_err(|_| EARLIER.store(ptr::null_mut(), Ordering::Release))?;
    Ok(())
}

/// Returns whether the handler is installed. A handler that replaced it would get the breakpoints of sites.
pub(crate) fn is_installed() -> bool {
    action(None).is_ok_and(|now| now.sa_sigaction == on_trap as Handler as usize)
}

/// Returns a signal whose handler blocks SIGTRAP. A breakpoint in that handler would end the process.
pub(crate) fn blocking_handler() -> Option<libc::c_int> {
    (1..=libc::SIGRTMAX()).find(|&signal| {
        // SAFETY: all zeros are a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the new action is null, so the call only writes to `action`. It fails for the signals that the C
        // library reserves.
        let is_known = unsafe { libc::sigaction(signal, ptr::null(), &mut action) } == 0;
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        // SAFETY: `sigaction` has filled in the set.
        is_known && is_handled && unsafe { libc::sigismember(&action.sa_mask, libc::SIGTRAP) } == 1
    })
}

/// Sets the action of SIGTRAP if `new` is given. Returns the action before.
fn action(new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: all zeros are a valid `sigaction`.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or an action whose handler is `on_trap`, which is async-signal-safe; `before` has room for the old action.
    match unsafe { libc::sigaction(libc::SIGTRAP, new, &mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) extern "C" fn on_trap(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO.
    let (code, counter) = unsafe { ((*info).si_code, program_counter(context)) };
    // Only the codes of a breakpoint instruction. A SIGTRAP that a process sends has another code.
    if matches!(code, libc::TRAP_BRKPT | libc::SI_KERNEL) {
        let breakpoint = (*counter as usize).wrapping_sub(sdt_core::trap::BREAKPOINT_LEN);
        if let Some(resume) = sdt_core::trap::resume_address(breakpoint) {
            COUNT.fetch_add(1, Ordering::Relaxed);
            *counter = resume as Word;
            return;
        }
        // SAFETY: the kernel passed the context to this handler, which a breakpoint at this address has called.
        if OTHER.get().is_some_and(|other| unsafe { other(breakpoint, context) }) {
            COUNT.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Passes a signal on: calls the earlier handler, or performs the action that the signal had before this handler was
/// installed.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: `install` stored the pointer before it installed this handler, and never frees it.
    let earlier = unsafe { &*EARLIER.load(Ordering::Acquire) };
    // SAFETY: the kernel passed a valid pointer to this handler.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match earlier.sa_sigaction {
        // If the handler ignored a breakpoint, the kernel would raise it again, without end.
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeroes is a valid `sigaction`, and `default` lives until the call returns. `raise` takes no pointers.
            // The default action ends the process: SA_NODEFER leaves the signal unblocked.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(libc::SIGTRAP, &default, ptr::null_mut());
                libc::raise(signal);
            }
        }
        // SAFETY: the flags tell the type of the handler, and it gets the arguments that the kernel passed.
        handler => unsafe {
            if earlier.sa_flags & libc::SA_SIGINFO != 0 {
                std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
            } else {
                std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal);
            }
        },
    }
}

#[cfg(target_arch = "x86_64")]
type Word = libc::greg_t;
#[cfg(not(target_arch = "x86_64"))]
type Word = libc::c_ulong;

/// Returns the program counter of the interrupted program.
///
/// # Safety
/// The kernel passed `context` to a signal handler that has not returned.
unsafe fn program_counter<'a>(context: *mut c_void) -> &'a mut Word {
    // SAFETY: the kernel passes a `ucontext_t` to a handler with SA_SIGINFO, and it is valid until that returns.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return &mut context.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    return &mut context.pc;
    #[cfg(target_arch = "riscv64")]
    return &mut context.__gregs[libc::REG_PC];
}
