//! The provider ops table (`dtrace_pops_t`), and the parameters of its functions.
//!
//! Layouts: FreeBSD `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h` (stable/14, main) and
//! illumos `usr/src/uts/common/sys/dtrace.h`; LP64 in both.

use core::ffi::{c_int, c_void};
use core::num::NonZeroU32;

use static_assertions::const_assert_eq;

use crate::limits::{ARGUMENT_TYPE, FUNCTION_NAME, MODULE_NAME, PROBE_NAME, PROVIDER_NAME};
use crate::name::Name;

/// The value that a provider writes to [`ArgDesc::ndx`] if the probe has no such argument (`DTRACE_ARGNONE`).
pub const ARG_NONE: i32 = -1;

/// A probe's number within its framework (`dtrace_id_t`). 0 is never a probe (`DTRACE_IDNONE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProbeId(NonZeroU32);

impl ProbeId {
    /// Returns the id with this number, or `None` for 0 (`DTRACE_IDNONE`).
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// Returns the number that DTrace lists.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl core::fmt::Display for ProbeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.get().fmt(f)
    }
}

bitflags::bitflags! {
    /// The privileges that a user of a provider's probes needs (`DTRACE_PRIV_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Privileges: u32 {
        /// The privilege to trace the kernel.
        const KERNEL = 1;
        /// The privilege to trace user processes.
        const USER = 2;
        /// The privilege to trace the user's own processes.
        const PROC = 4;
        /// The user owns the traced process.
        const OWNER = 8;
        /// The user owns the zone of the traced process.
        const ZONEOWNER = 0x10;
    }
}

impl Privileges {
    /// The privileges of the kernel's own SDT providers: on FreeBSD to trace processes (`sdt_create_provider` in
    /// `sys/cddl/dev/sdt/sdt.c`), on illumos to trace the kernel (`sdt_providers` in
    /// `usr/src/uts/common/dtrace/sdt_subr.c`).
    pub const SDT: Self = if cfg!(target_os = "illumos") { Self::KERNEL } else { Self::USER };
}

/// A probe's four names as the framework passes them to a provider (`dtrace_probedesc_t`).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ProbeDesc {
    /// The probe's id; 0 in a request.
    pub id: u32,
    /// Provider name.
    pub provider: Name<PROVIDER_NAME>,
    /// Module name.
    pub module: Name<MODULE_NAME>,
    /// Function name.
    pub function: Name<FUNCTION_NAME>,
    /// Probe name.
    pub name: Name<PROBE_NAME>,
}

/// The type of one argument: request and answer of [`ProviderOps::getargdesc`] (`dtrace_argdesc_t`, 268 bytes).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ArgDesc {
    /// In: the probe's id.
    pub id: u32,
    /// In: the index in `args[]`. Out: [`ARG_NONE`] if the probe has no such argument.
    pub ndx: i32,
    /// Out: the index of the probe's native argument.
    pub mapping: i32,
    /// Out: the C type that the kernel passes.
    pub native: Name<ARGUMENT_TYPE>,
    /// Out: the C type in D; empty if the argument is not translated.
    pub xlate: Name<ARGUMENT_TYPE>,
}

impl ArgDesc {
    /// Returns the request for argument `ndx` of probe `id`.
    pub const fn request(id: ProbeId, ndx: i32) -> Self {
        Self { id: id.get(), ndx, mapping: ndx, native: Name::EMPTY, xlate: Name::EMPTY }
    }
}

const_assert_eq!(size_of::<ProbeDesc>(), 4 + 64 + 64 + FUNCTION_NAME + 64);
const_assert_eq!(size_of::<ArgDesc>(), 268);

/// The type of [`ProviderOps::getargval`].
pub type GetArgVal = unsafe extern "C" fn(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
    argno: c_int,
    aframes: c_int,
) -> u64;

/// The functions that a provider passes to the framework (`dtrace_pops_t`, 80 bytes).
///
/// `arg` is the argument of `dtrace_register`, and `parg` that of `dtrace_probe_create` for the probe. The framework
/// copies the table at registration.
///
/// `dtrace_register` demands at least one of the two `provide` functions, and `enable`, `disable` and `destroy`;
/// `suspend` and `resume` must be given together; the others are optional.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProviderOps {
    /// Creates all probes, or those that match the description (NULL: all). Called with registration locked; may look
    /// up and create probes.
    pub provide: Option<unsafe extern "C" fn(arg: *mut c_void, desc: *const ProbeDesc)>,
    /// Creates the probes of a module that was just loaded (FreeBSD: `linker_file_t`; illumos: `modctl_t`).
    pub provide_module: Option<unsafe extern "C" fn(arg: *mut c_void, module: *mut c_void)>,
    /// The probe got its first enabling: makes it fire. Called with the framework locked, so it must not call the
    /// framework. Returns 0; FreeBSD's framework ignores the result, illumos's does not.
    pub enable: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int>,
    /// The probe lost its last enabling: stops it from firing. Called like `enable`.
    pub disable: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
    /// Suspends firing, because a debugger is about to run. Interrupts are off: it must do at most one store.
    pub suspend: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
    /// Resumes firing after `suspend`.
    pub resume: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
    /// Describes one argument. Called in the consumer's system call, with the framework locked.
    pub getargdesc: Option<
        unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void, desc: *mut ArgDesc),
    >,
    /// Returns the value of an argument that `dtrace_probe` does not pass (the sixth and later). Called while a hit of
    /// the probe is recorded, on the stack of that hit. Probe context.
    pub getargval: Option<GetArgVal>,
    /// Returns whether the probe fired in user mode (FreeBSD's `usermode`, illumos's `mode`). Probe context.
    pub usermode:
        Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int>,
    /// The framework has destroyed the probe: its id is invalid. Called with the framework locked, so it must not call
    /// the framework.
    pub destroy: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
}

impl ProviderOps {
    /// Ops that do nothing and ignore `arg`: for a provider that creates its probes itself, and fires them whether or
    /// not they are enabled.
    pub const INERT: Self = Self {
        provide: Some(provide_nothing),
        provide_module: None,
        enable: Some(enable_nothing),
        disable: Some(nothing),
        suspend: None,
        resume: None,
        getargdesc: None,
        getargval: None,
        usermode: None,
        destroy: Some(nothing),
    };
}

extern "C" fn provide_nothing(_arg: *mut c_void, _desc: *const ProbeDesc) {}

extern "C" fn enable_nothing(_arg: *mut c_void, _id: u32, _parg: *mut c_void) -> c_int {
    0
}

extern "C" fn nothing(_arg: *mut c_void, _id: u32, _parg: *mut c_void) {}

const_assert_eq!(size_of::<ProviderOps>(), 10 * size_of::<usize>());
