//! The machine that hosts the framework, and the ops of its providers, which note that they are called.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sdt_core::ops::{ProbeDesc, ProviderOps};
use sdt_framework::{ARGS, Host, SpinLock};

use super::{CPUS, Small};

/// The machine. Each hit advances its clock.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) cpu: AtomicUsize,
    pub(super) time: AtomicU64,
    /// The depth of disabled interrupts.
    pub(super) off: AtomicUsize,
}

// SAFETY: there is only one thread, so probe contexts never overlap.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn timestamp(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.off.fetch_add(1, Ordering::Relaxed);
        let result = f();
        assert_eq!(self.off.fetch_sub(1, Ordering::Relaxed), before + 1);
        result
    }

    fn sync(&self) {
        assert_eq!(self.off.load(Ordering::Relaxed), 0);
    }
}

/// The argument of the ops: their recorded calls, and the framework, which one op calls.
#[derive(Default)]
pub(super) struct Session {
    pub(super) dtrace: OnceCell<Box<Small>>,
    pub(super) calls: RefCell<Vec<Call>>,
    /// The number of hits inside another hit.
    pub(super) reentered: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Enable(u32),
    Disable(u32),
    Destroy(u32),
}

/// Returns the value of `getargval` for the numbers of a probe and of an argument.
pub(super) fn asked(id: u32, argno: usize) -> u64 {
    u64::from(id) * 1000 + argno as u64
}

/// # Safety
/// `arg` is a session's that is still there.
unsafe fn session<'a>(arg: *mut c_void) -> &'a Session {
    // SAFETY: by contract.
    unsafe { &*arg.cast::<Session>() }
}

unsafe extern "C" fn provide(_arg: *mut c_void, _desc: *const ProbeDesc) {}

unsafe extern "C" fn enable(arg: *mut c_void, id: u32, _parg: *mut c_void) -> c_int {
    // SAFETY: all providers are registered with the session.
    unsafe { session(arg) }.calls.borrow_mut().push(Call::Enable(id));
    0
}

unsafe extern "C" fn disable(arg: *mut c_void, id: u32, _parg: *mut c_void) {
    // SAFETY: all providers are registered with the session.
    unsafe { session(arg) }.calls.borrow_mut().push(Call::Disable(id));
}

unsafe extern "C" fn destroy(arg: *mut c_void, id: u32, _parg: *mut c_void) {
    // SAFETY: all providers are registered with the session.
    unsafe { session(arg) }.calls.borrow_mut().push(Call::Destroy(id));
}

/// Hits the probe once more, inside itself.
unsafe extern "C" fn getargval(
    arg: *mut c_void,
    id: u32,
    _parg: *mut c_void,
    argno: c_int,
    aframes: c_int,
) -> u64 {
    let argno = usize::try_from(argno).expect("it counts from 0");
    assert!((5..ARGS).contains(&argno) && aframes == 3, "{argno}, {aframes}");
    // SAFETY: all providers are registered with the session.
    let session = unsafe { session(arg) };
    session.reentered.set(session.reentered.get() + 1);
    // SAFETY: this `getargval` does not read the stack.
    unsafe { session.dtrace.get().expect("it is there, as it calls").probe5(id, [0; 5]) };
    asked(id, argno)
}

/// The calls of all providers.
pub(super) const OPS: ProviderOps = ProviderOps {
    provide: Some(provide),
    provide_module: None,
    enable: Some(enable),
    disable: Some(disable),
    suspend: None,
    resume: None,
    getargdesc: None,
    getargval: Some(getargval),
    usermode: None,
    destroy: Some(destroy),
};
