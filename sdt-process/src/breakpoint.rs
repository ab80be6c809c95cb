//! SIGTRAP: the breakpoint exception of a process.
//!
//! No crate for signals hands the interrupted registers to a handler, so this is `sigaction` itself. A SIGTRAP that is no
//! site's goes where it would have gone: to the handler that was there before, or the process ends by it.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The action that was there before.
static EARLIER: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Breakpoints that were sites'.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// How many hits came by a breakpoint so far, in this process.
pub fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// Signals that instructions raise.
pub(crate) const RAISED: [libc::c_int; 6] =
    [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// A handler with all its arguments.
type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Makes this the process's handler of SIGTRAP, once. Signals that are no site's go on to the one that was there.
///
/// # Errors
/// The system refuses.
pub fn install() -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !EARLIER.load(Ordering::Relaxed).is_null() {
        return Ok(());
    }
    // Known before the handler is there, and stays.
    EARLIER.store(Box::leak(Box::new(action(None)?)), Ordering::Release);
    // SAFETY: all zeros is an action.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = on_trap as Handler as usize;
    // Not deferred, as an earlier handler may hit a site, and the kernel kills who hits a breakpoint while SIGTRAP is
    // blocked. On the alternate stack, as programs that have one may have small stacks.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK | libc::SA_RESTART;
    // A handler of another signal that came now would run on the alternate stack, which is small, and may hit a site there: it
    // comes when this has returned. What an instruction raises is not put off.
    // SAFETY: a set of its own.
    unsafe {
        libc::sigfillset(&mut ours.sa_mask);
        for signal in RAISED {
            libc::sigdelset(&mut ours.sa_mask, signal);
        }
    }
    action(Some(&ours)).inspect_err(|_| EARLIER.store(ptr::null_mut(), Ordering::Release))?;
    Ok(())
}

/// Whether the handler is there. Who replaces it afterwards gets our breakpoints, and does not know them.
pub(crate) fn is_installed() -> bool {
    action(None).is_ok_and(|now| now.sa_sigaction == on_trap as Handler as usize)
}

/// Returns a signal whose handler runs with SIGTRAP blocked: at a breakpoint in it the kernel would end the process.
pub(crate) fn blocking_handler() -> Option<libc::c_int> {
    (1..=libc::SIGRTMAX()).find(|&signal| {
        // SAFETY: all zeros is an action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks, and changes nothing. The signals that the C library keeps for itself are an error.
        let is_known = unsafe { libc::sigaction(signal, ptr::null(), &mut action) } == 0;
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        // SAFETY: a set that the kernel has filled in.
        is_known && is_handled && unsafe { libc::sigismember(&action.sa_mask, libc::SIGTRAP) } == 1
    })
}

/// Sets the action of SIGTRAP, if there is one to set. Returns the one before.
fn action(new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: all zeros is an action.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: an action whose handler keeps to what handlers may do, or none; and room for the one before.
    match unsafe { libc::sigaction(libc::SIGTRAP, new, &mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over both.
    let (code, counter) = unsafe { ((*info).si_code, program_counter(context)) };
    // Of the kernel's SIGTRAPs those that a breakpoint instruction raises. Who sends one means something else by it.
    if matches!(code, libc::TRAP_BRKPT | libc::SI_KERNEL) {
        let breakpoint = (*counter as usize).wrapping_sub(sdt_core::trap::BREAKPOINT_LEN);
        if let Some(resume) = sdt_core::trap::resume_address(breakpoint) {
            TAKEN.fetch_add(1, Ordering::Relaxed);
            *counter = resume as Word;
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Does what would have been done without us.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: stored before this became the handler, and never freed.
    let earlier = unsafe { &*EARLIER.load(Ordering::Acquire) };
    // SAFETY: as the kernel called us.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match earlier.sa_sigaction {
        // A breakpoint that is ignored would be met again.
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action, then the signal, which is not blocked: the process ends.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(libc::SIGTRAP, &default, ptr::null_mut());
                libc::raise(signal);
            }
        }
        // SAFETY: by its flags what kind of handler it is, and it gets what the kernel gave us.
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

/// Where the interrupted program goes on.
///
/// # Safety
/// `context` is what the kernel has handed to a handler, which is still running.
unsafe fn program_counter<'a>(context: *mut c_void) -> &'a mut Word {
    // SAFETY: by contract a ucontext.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return &mut context.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    return &mut context.pc;
    #[cfg(target_arch = "riscv64")]
    return &mut context.__gregs[libc::REG_PC];
}
