//! `dtrace_register` and the other functions for providers, with the types, error messages and locks of illumos
//! (`usr/src/uts/common/dtrace/dtrace.c`).

use alloc::boxed::Box;
use alloc::format;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use sdt_core::ops::{ArgDesc, Framework, Name, ProbeDesc, ProviderId, ProviderOps};
use sdt_framework::registration::{self, RegistrationError};
use stand_in_illumos::errno::EINVAL;

use super::locks::CPU_LOCK;
use crate::console;
use crate::dtrace::DTRACE;

/// illumos's EAGAIN. The framework's error returns the number of the build target, which is different.
const EAGAIN: c_int = 11;

/// Longest function name with its NUL (`DTRACE_FUNCNAMELEN`), which is shorter than the framework's.
const FUNCTION_LEN: usize = 128;

/// `dtrace_probedesc_t`.
#[repr(C)]
struct Description {
    id: u32,
    provider: Name<64>,
    module: Name<64>,
    function: Name<FUNCTION_LEN>,
    name: Name<64>,
}

static_assertions::const_assert_eq!(size_of::<Description>(), 324);

/// A provider of a module. The framework passes a pointer to it as the `arg` of the ops. It is never freed; there are few
/// providers.
struct Provider {
    ops: ProviderOps,
    arg: *mut c_void,
    /// Whether the registration has returned, so that the module has the provider's id. `provide` is not called before: illumos,
    /// too, usually calls it only later, when a consumer lists or enables probes.
    registered: AtomicBool,
}

impl Provider {
    /// Converts the `arg` of an op.
    ///
    /// # Safety
    /// `arg` points to a [`Provider`].
    unsafe fn of<'a>(arg: *mut c_void) -> &'a Self {
        // SAFETY: `arg` is a provider of `dtrace_register`, which is never freed.
        unsafe { &*arg.cast() }
    }
}

/// Returns the reason in illumos's message on the console.
fn words(error: RegistrationError) -> &'static str {
    match error {
        RegistrationError::EmptyName | RegistrationError::BadName | RegistrationError::LongName => {
            "invalid provider name"
        }
        RegistrationError::NoProvide
        | RegistrationError::MissingOp(_)
        | RegistrationError::SuspendWithoutResume => "invalid provider ops",
        RegistrationError::BadAttributes => "invalid provider attributes",
        RegistrationError::NoUsermode => "need dtps_mode() op for given privilege attributes",
        _ => "invalid privilege attributes",
    }
}

/// # Safety
/// Every pointer is NULL or points to a value of its type; the functions in `ops` are sound to
/// call until `dtrace_unregister` has succeeded.
pub(super) unsafe extern "C" fn dtrace_register(
    name: *const c_char,
    attributes: *const [u8; 15],
    privileges: u32,
    _credentials: *mut c_void,
    ops: *const ProviderOps,
    arg: *mut c_void,
    id: *mut usize,
) -> c_int {
    let refuse = |name: &CStr, why: &str| {
        let name = name.to_string_lossy();
        console::print(&format!("WARNING: failed to register provider '{name}': {why}\n"));
        EINVAL
    };
    if name.is_null() || attributes.is_null() || ops.is_null() || id.is_null() {
        // SAFETY: not NULL, and the caller guarantees a string that ends with a NUL.
        let name = if name.is_null() { c"<NULL>" } else { unsafe { CStr::from_ptr(name) } };
        return refuse(name, "invalid arguments");
    }
    // SAFETY: not NULL, and the caller guarantees a valid value of this type.
    let (name, attributes, ops) = unsafe { (CStr::from_ptr(name), &*attributes, *ops) };
    // As in illumos, errors in the ops have precedence over errors in the attributes.
    let raw = registration::from_raw(attributes, privileges);
    let known = raw.map_or(sdt_core::ops::Privileges::empty(), |(_, privileges)| privileges);
    let checked = match registration::check(name, known, &ops) {
        Err(RegistrationError::NoUsermode) | Ok(()) => {
            raw.and_then(|raw| registration::check(name, raw.1, &ops).map(|()| raw))
        }
        Err(error) => Err(error),
    };
    let (attributes, privileges) = match checked {
        Ok(checked) => checked,
        Err(error) => return refuse(name, words(error)),
    };
    let given = adapted(&ops);
    let provider = Box::leak(Box::new(Provider { ops, arg, registered: AtomicBool::new(false) }));
    let given_arg = (&raw mut *provider).cast();
    // SAFETY: the caller guarantees that the ops can be called until `dtrace_unregister` has succeeded.
    match unsafe { DTRACE.register(name, &attributes, privileges, &given, given_arg) } {
        Ok(registered) => {
            // SAFETY: not NULL, and the caller guarantees a writable id.
            unsafe { id.write(registered.get()) };
            provider.registered.store(true, Ordering::Release);
            0
        }
        Err(error) => error.errno(),
    }
}

pub(super) extern "C" fn dtrace_unregister(id: usize) -> c_int {
    DTRACE.unregister(ProviderId::new(id)).map_or_else(errno, |()| 0)
}

pub(super) extern "C" fn dtrace_condense(id: usize) -> c_int {
    DTRACE.condense(ProviderId::new(id)).map_or_else(errno, |_| 0)
}

fn errno(error: sdt_core::ops::FrameworkError) -> c_int {
    match error {
        sdt_core::ops::FrameworkError::Again => EAGAIN,
        other => other.errno(),
    }
}

/// Returns ops that call the ops of a module: `provide` with illumos's probe description, `enable` and `disable` with `cpu_lock`
/// held.
fn adapted(ops: &ProviderOps) -> ProviderOps {
    ProviderOps {
        provide: ops.provide.and(Some(provide)),
        provide_module: ops.provide_module.and(Some(provide_module)),
        enable: Some(enable),
        disable: Some(disable),
        suspend: ops.suspend.and(Some(suspend)),
        resume: ops.resume.and(Some(resume)),
        getargdesc: ops.getargdesc.and(Some(getargdesc)),
        getargval: ops.getargval.and(Some(getargval)),
        usermode: ops.usermode.and(Some(usermode)),
        destroy: Some(destroy),
    }
}

/// # Safety
/// `arg` is a [`Provider`], as for all ops here; the rest is what the framework passes.
unsafe extern "C" fn provide(arg: *mut c_void, desc: *const ProbeDesc) {
    // SAFETY: `arg` is a provider of `dtrace_register`; the framework calls this op as it would call the module's.
    unsafe {
        let provider = Provider::of(arg);
        let known = provider.registered.load(Ordering::Acquire);
        let Some(op) = provider.ops.provide.filter(|_| known) else { return };
        let description = desc.as_ref().map(|desc| {
            let function = Name::cut(desc.function.to_bytes());
            let ProbeDesc { id, provider, module, name, .. } = *desc;
            Description { id, provider, module, function, name }
        });
        op(
            provider.arg,
            description.as_ref().map_or(core::ptr::null(), |of| (&raw const *of).cast()),
        );
    }
}

/// # Safety
/// The same as for [`provide`].
unsafe extern "C" fn enable(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    CPU_LOCK.enter();
    // SAFETY: `arg` is a provider of `dtrace_register`; the framework calls this op as it would call the module's.
    let result = unsafe {
        let provider = Provider::of(arg);
        provider.ops.enable.map_or(0, |op| op(provider.arg, id, parg))
    };
    CPU_LOCK.exit();
    result
}

/// # Safety
/// The same as for [`provide`].
unsafe extern "C" fn disable(arg: *mut c_void, id: u32, parg: *mut c_void) {
    CPU_LOCK.enter();
    // SAFETY: `arg` is a provider of `dtrace_register`; the framework calls this op as it would call the module's.
    unsafe {
        let provider = Provider::of(arg);
        provider.ops.disable.inspect(|op| op(provider.arg, id, parg));
    }
    CPU_LOCK.exit();
}

/// # Safety
/// The same as for [`provide`].
unsafe extern "C" fn getargval(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
    argno: c_int,
    aframes: c_int,
) -> u64 {
    // SAFETY: `arg` is a provider of `dtrace_register`; the framework calls this op as it would call the module's.
    unsafe {
        let provider = Provider::of(arg);
        // Plus 1, because this function adds a frame.
        provider.ops.getargval.map_or(0, |op| op(provider.arg, id, parg, argno, aframes + 1))
    }
}

/// Defines ops that call the module's op of the same name.
macro_rules! forward {
    ($($op:ident($($name:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        /// # Safety
        /// The same as for [`provide`].
        unsafe extern "C" fn $op(arg: *mut c_void, $($name: $type),*) $(-> $result)? {
            // SAFETY: `arg` is a provider of `dtrace_register`; the framework calls this op as it would call the module's.
            unsafe {
                let provider = Provider::of(arg);
                provider.ops.$op.map_or_else(Default::default, |op| op(provider.arg, $($name),*))
            }
        }
    )*};
}

forward! {
    provide_module(module: *mut c_void);
    suspend(id: u32, parg: *mut c_void);
    resume(id: u32, parg: *mut c_void);
    getargdesc(id: u32, parg: *mut c_void, desc: *mut ArgDesc);
    usermode(id: u32, parg: *mut c_void) -> c_int;
    destroy(id: u32, parg: *mut c_void);
}
