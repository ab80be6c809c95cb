//! The provider ops table (`dtrace_pops_t`), and what its functions are given.
//!
//! Layouts: FreeBSD `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h` (stable/14, main) and
//! illumos `usr/src/uts/common/sys/dtrace.h`; LP64 in both.

use core::ffi::{c_int, c_void};
use core::num::NonZeroU32;

use static_assertions::const_assert_eq;

use crate::limits::{ARGUMENT_TYPE, FUNCTION_NAME, MODULE_NAME, PROBE_NAME, PROVIDER_NAME};
use crate::name::Name;

/// The index a provider writes into [`ArgDesc::ndx`] past the last argument (`DTRACE_ARGNONE`).
pub const ARG_NONE: i32 = -1;

/// A probe's number within its framework (`dtrace_id_t`). 0 is never a probe (`DTRACE_IDNONE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProbeId(NonZeroU32);

impl ProbeId {
    /// The id with this number, or `None` for 0 (`DTRACE_IDNONE`).
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number, as DTrace lists it.
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
    /// Who may use a provider's probes (`DTRACE_PRIV_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Privileges: u32 {
        /// Only those who may trace the kernel.
        const KERNEL = 1;
        /// Those who may trace user processes.
        const USER = 2;
        /// Those who may trace their own processes.
        const PROC = 4;
        /// The owner of the traced process.
        const OWNER = 8;
        /// The owner of the traced process's zone.
        const ZONEOWNER = 0x10;
    }
}

impl Privileges {
    /// Whom the kernel's own SDT providers are for: on FreeBSD who may trace processes (`sdt_create_provider` in
    /// `sys/cddl/dev/sdt/sdt.c`), on illumos who may trace the kernel (`sdt_providers` in
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

/// One argument's type, asked for by [`ProviderOps::getargdesc`] (`dtrace_argdesc_t`, 268 bytes).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ArgDesc {
    /// In: the probe's id.
    pub id: u32,
    /// In: the index in `args[]`. Out: [`ARG_NONE`] when the probe has no such argument.
    pub ndx: i32,
    /// Out: which argument of the probe this one comes from.
    pub mapping: i32,
    /// Out: the C type the kernel passes.
    pub native: Name<ARGUMENT_TYPE>,
    /// Out: the C type D sees; empty when nothing is translated.
    pub xlate: Name<ARGUMENT_TYPE>,
}

impl ArgDesc {
    /// The request for argument `ndx` of probe `id`.
    pub const fn request(id: ProbeId, ndx: i32) -> Self {
        Self { id: id.get(), ndx, mapping: ndx, native: Name::EMPTY, xlate: Name::EMPTY }
    }
}

const_assert_eq!(size_of::<ProbeDesc>(), 4 + 64 + 64 + FUNCTION_NAME + 64);
const_assert_eq!(size_of::<ArgDesc>(), 268);

/// Type of [`ProviderOps::getargval`].
pub type GetArgVal = unsafe extern "C" fn(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
    argno: c_int,
    aframes: c_int,
) -> u64;

/// The functions a provider gives to the framework (`dtrace_pops_t`, 80 bytes).
///
/// `arg` is what was given to `dtrace_register`, `parg` what was given to `dtrace_probe_create` for
/// the probe. The framework copies the table at registration.
///
/// `dtrace_register` demands at least one of the two `provide` functions,
/// and `enable`, `disable` and `destroy`; `suspend` and `resume` go together; the rest is optional.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProviderOps {
    /// Create all probes, or those that match the description (NULL: all). Called with the framework
    /// locked against (un)registration; may look up and create probes.
    pub provide: Option<unsafe extern "C" fn(arg: *mut c_void, desc: *const ProbeDesc)>,
    /// Create the probes of one module, just loaded (FreeBSD: `linker_file_t`; illumos: `modctl_t`).
    pub provide_module: Option<unsafe extern "C" fn(arg: *mut c_void, module: *mut c_void)>,
    /// The probe got its first enabling: make it fire. Called with the framework locked: no call
    /// back into it. Returns 0; FreeBSD's framework does not look at the result, illumos's does.
    pub enable: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int>,
    /// The probe lost its last enabling: stop it firing. As `enable`.
    pub disable: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
    /// Stop firing for a moment (a debugger is about to enter). Interrupts are off: one store at most.
    pub suspend: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
    /// Fire again after `suspend`.
    pub resume: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
    /// Describe one argument. Called from the consumer's system call, framework locked.
    pub getargdesc: Option<
        unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void, desc: *mut ArgDesc),
    >,
    /// The value of an argument that `dtrace_probe` does not carry (the sixth and later). Called while
    /// a hit of the probe is recorded, on the stack of that hit. Probe context.
    pub getargval: Option<GetArgVal>,
    /// Whether the probe fired in user mode (FreeBSD's `usermode`, illumos's `mode`). Probe context.
    pub usermode:
        Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int>,
    /// The probe is gone: forget its id. Framework locked: no call back into it.
    pub destroy: Option<unsafe extern "C" fn(arg: *mut c_void, id: u32, parg: *mut c_void)>,
}

impl ProviderOps {
    /// Ops that do nothing, whatever `arg` is: of a provider that has created its probes, and fires them whether they are
    /// enabled or not.
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
