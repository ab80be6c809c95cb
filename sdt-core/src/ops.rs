//! The provider ops table and the framework it registers with.
//!
//! [`ProviderOps`] is DTrace's `dtrace_pops_t`: the table of functions by which a framework asks
//! a provider for its probes and tells it which of them to enable. [`Framework`] is the other
//! direction: `dtrace_register` and its family, as a trait, so that the same provider code talks to
//! FreeBSD's and illumos's DTrace or to `sdt-framework`.
//!
//! Layouts: FreeBSD `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h` (stable/14, main) and
//! illumos `usr/src/uts/common/sys/dtrace.h`; LP64 in both.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;

use static_assertions::const_assert_eq;

/// Longest provider name, in bytes, including the NUL (`DTRACE_PROVNAMELEN`).
pub const PROVIDER_NAME_LEN: usize = 64;
/// Longest module name, in bytes, including the NUL (`DTRACE_MODNAMELEN`).
pub const MODULE_NAME_LEN: usize = 64;
/// Longest function name, in bytes, including the NUL (`DTRACE_FUNCNAMELEN`): 128 on illumos, 192
/// on FreeBSD and in the embedded framework.
pub const FUNCTION_NAME_LEN: usize = if cfg!(target_os = "illumos") { 128 } else { 192 };
/// Longest probe name, in bytes, including the NUL (`DTRACE_NAMELEN`).
pub const PROBE_NAME_LEN: usize = 64;
/// Longest argument type string, in bytes, including the NUL (`DTRACE_ARGTYPELEN`).
pub const ARG_TYPE_LEN: usize = 128;
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

/// A registered provider (`dtrace_provider_id_t`), opaque to everyone but its framework. In the kernels it is
/// an address, so those functions of a [`Framework`] that take one are `unsafe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ProviderId(usize);

impl ProviderId {
    /// The provider that a framework knows by this number.
    pub const fn new(id: usize) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// How much a name or a datum can be relied on (`dtrace_stability_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stability {
    /// Private to DTrace itself.
    Internal = 0,
    /// Private to the project that defines it.
    Private = 1,
    /// Still there, about to go.
    Obsolete = 2,
    /// Controlled by somebody else.
    External = 3,
    /// New or changing fast.
    Unstable = 4,
    /// May change in a minor release, with notice.
    Evolving = 5,
    /// Changes in a major release only.
    Stable = 6,
    /// An industry standard.
    Standard = 7,
}

/// What a name or a datum depends on (`dtrace_class_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Nobody said.
    Unknown = 0,
    /// The CPU model.
    Cpu = 1,
    /// The platform.
    Platform = 2,
    /// The platform group.
    Group = 3,
    /// The instruction set.
    Isa = 4,
    /// Nothing: common to all systems.
    Common = 5,
}

/// Stability of one part of a probe's description (`dtrace_attribute_t`, 3 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Attribute {
    /// Of the name itself.
    pub name: Stability,
    /// Of the data behind it.
    pub data: Stability,
    /// What both depend on.
    pub class: Class,
}

impl Attribute {
    /// The triple in DTrace's order: name, data, class.
    pub const fn new(name: Stability, data: Stability, class: Class) -> Self {
        Self { name, data, class }
    }
}

/// Stability of a provider's probes, part by part (`dtrace_pattr_t`, 15 bytes, alignment 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ProviderAttr {
    /// Of the provider's name.
    pub provider: Attribute,
    /// Of the module names.
    pub module: Attribute,
    /// Of the function names.
    pub function: Attribute,
    /// Of the probe names.
    pub name: Attribute,
    /// Of the arguments.
    pub args: Attribute,
}

impl ProviderAttr {
    /// What FreeBSD gives every SDT provider (`sdt_attr` in `sys/cddl/dev/sdt/sdt.c`).
    pub const SDT: Self = {
        use Class::{Common, Isa, Unknown};
        use Stability::{Evolving, Private};
        Self {
            provider: Attribute::new(Evolving, Evolving, Common),
            module: Attribute::new(Private, Private, Unknown),
            function: Attribute::new(Private, Private, Isa),
            name: Attribute::new(Evolving, Evolving, Common),
            args: Attribute::new(Private, Private, Isa),
        }
    };
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
    /// Provider name, NUL-terminated.
    pub provider: [c_char; PROVIDER_NAME_LEN],
    /// Module name, NUL-terminated.
    pub module: [c_char; MODULE_NAME_LEN],
    /// Function name, NUL-terminated.
    pub function: [c_char; FUNCTION_NAME_LEN],
    /// Probe name, NUL-terminated.
    pub name: [c_char; PROBE_NAME_LEN],
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
    /// Out: the C type the kernel passes, NUL-terminated.
    pub native: [c_char; ARG_TYPE_LEN],
    /// Out: the C type D sees, NUL-terminated; empty when nothing is translated.
    pub xlate: [c_char; ARG_TYPE_LEN],
}

impl ArgDesc {
    /// The request for argument `ndx` of probe `id`.
    pub const fn request(id: ProbeId, ndx: i32) -> Self {
        Self {
            id: id.get(),
            ndx,
            mapping: ndx,
            native: [0; ARG_TYPE_LEN],
            xlate: [0; ARG_TYPE_LEN],
        }
    }
}

const_assert_eq!(size_of::<Attribute>(), 3);
const_assert_eq!(size_of::<ProviderAttr>(), 15);
const_assert_eq!(align_of::<ProviderAttr>(), 1);
const_assert_eq!(size_of::<ProbeDesc>(), 4 + 64 + 64 + FUNCTION_NAME_LEN + 64);
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
/// `arg` is what was given to [`Framework::register`], `parg` what was given to
/// [`Framework::probe_create`] for the probe. The framework copies the table at registration.
///
/// [`dtrace_register`](Framework::register) demands at least one of the two `provide` functions,
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

const_assert_eq!(size_of::<ProviderOps>(), 10 * size_of::<usize>());

/// Why the framework refused, with the number the kernels use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameworkError {
    /// EINVAL: a name, an attribute, the privileges or the ops table is not acceptable.
    Invalid,
    /// EBUSY: a probe of the provider is enabled, or a consumer is there; nothing was changed.
    Busy,
    /// EAGAIN: the provider was invalidated and its enablings are being reaped; try again.
    Again,
    /// ENOENT: there is no such provider.
    NotFound,
    /// ENOSPC: one of the framework's fixed tables is full.
    Full,
    /// Another error number of the kernel's.
    Other(i32),
}

impl FrameworkError {
    /// From an error number that is not 0. The small numbers are the same on FreeBSD and illumos;
    /// EAGAIN is 35 on FreeBSD and 11 elsewhere.
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            22 => Self::Invalid,
            16 => Self::Busy,
            2 => Self::NotFound,
            28 => Self::Full,
            n if n == EAGAIN => Self::Again,
            n => Self::Other(n),
        }
    }

    /// The kernel's number for it.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Invalid => 22,
            Self::Busy => 16,
            Self::NotFound => 2,
            Self::Full => 28,
            Self::Again => EAGAIN,
            Self::Other(n) => n,
        }
    }
}

/// FreeBSD's EAGAIN is 35, illumos's and Linux's 11.
const EAGAIN: i32 = if cfg!(any(target_os = "illumos", target_os = "linux")) { 11 } else { 35 };

impl core::fmt::Display for FrameworkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = match self {
            Self::Invalid => "a name, attribute, privilege or op was not acceptable (EINVAL)",
            Self::Busy => "a probe is enabled or a consumer is there (EBUSY)",
            Self::Again => "enablings are still being reaped, try again (EAGAIN)",
            Self::NotFound => "no such provider (ENOENT)",
            Self::Full => "a table of the framework is full (ENOSPC)",
            Self::Other(n) => return write!(f, "error {n}"),
        };
        f.write_str(text)
    }
}

impl core::error::Error for FrameworkError {}

/// The framework a provider registers with: `dtrace_register(9)` and its family.
///
/// Implemented by the bindings to FreeBSD's and illumos's DTrace and by `sdt-framework`.
/// All functions but [`hit`](Self::hit) may sleep and take the framework's locks; none of them
/// may be called from an ops function unless that function's documentation allows it.
///
/// # Safety
/// An image is unloaded once its providers are unregistered. So an implementation calls the ops that
/// [`register`](Self::register) was given with the `arg` and the `parg`s that belong to them, in the contexts
/// that [`ProviderOps`] states, and never again after [`unregister`](Self::unregister) has returned `Ok`; and it
/// does with an id what [`hit`](Self::hit) says.
pub unsafe trait Framework: Sync {
    /// The `getargval` to put into the ops tables of providers that register here: a framework whose
    /// [`hit`](Self::hit) drops an argument supplies a function that finds it again.
    fn getargval(&self) -> Option<GetArgVal> {
        None
    }

    /// Registers a provider (`dtrace_register`). The framework calls [`ProviderOps::provide`] during
    /// this call or later, whenever a consumer asks for probes.
    ///
    /// # Safety
    /// The functions in `ops` must be sound to call with `arg`, in the contexts [`ProviderOps`]
    /// states, until [`unregister`](Self::unregister) has succeeded; code and data they use must
    /// not be unloaded before that.
    ///
    /// # Errors
    /// [`FrameworkError::Invalid`] when a name, an attribute or the table is not acceptable,
    /// [`FrameworkError::Full`] when there is no room.
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError>;

    /// Unregisters a provider and destroys its probes (`dtrace_unregister`). On an error nothing has
    /// changed and the provider goes on working. On success no CPU is in probe context for any of
    /// its probes any more.
    ///
    /// # Safety
    /// [`register`](Self::register) of this framework has returned the id, and the provider was not
    /// unregistered since.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] while a probe is enabled or, on some frameworks, a consumer is open;
    /// [`FrameworkError::Busy`] or [`FrameworkError::Again`] while a probe of an
    /// [invalidated](Self::invalidate) provider is enabled.
    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError>;

    /// Invalidates a provider (`dtrace_invalidate`): no description matches its probes any more, so none
    /// is enabled from here on. Those that are enabled stay so, and its ops are called as before. It can
    /// be [unregistered](Self::unregister) while consumers are open, once none of its probes is enabled.
    ///
    /// # Safety
    /// As [`unregister`](Self::unregister).
    unsafe fn invalidate(&self, provider: ProviderId);

    /// The id of the probe with these names, if it exists (`dtrace_probe_lookup`).
    ///
    /// # Safety
    /// As [`unregister`](Self::unregister).
    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId>;

    /// Creates a probe (`dtrace_probe_create`). `aframes` is the number of artificial frames that
    /// `stack()` has to skip between [`hit`](Self::hit) and the function that fired.
    ///
    /// # Safety
    /// As [`unregister`](Self::unregister); and the provider's ops are sound to call with `parg`, as
    /// with the `arg` that it was registered with.
    ///
    /// # Errors
    /// [`FrameworkError::Full`] when there is no room, [`FrameworkError::NotFound`] when the
    /// provider is not registered.
    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError>;

    /// A probe was hit (`dtrace_probe`). `id` is where its provider keeps the probe's id while it is
    /// enabled; at other times it is 0, and the hit is none.
    ///
    /// The id is loaded once, with interrupts off, and they stay off until the hit is recorded. A probe
    /// is destroyed only after it was disabled and every CPU has since had interrupts on, so the id that
    /// is found is still that of the probe.
    ///
    /// Arguments the probe does not have are 0. FreeBSD's and illumos's `dtrace_probe` carry five;
    /// their bindings leave the sixth to [`ProviderOps::getargval`].
    ///
    /// Probe context: callable anywhere, with interrupts off and any lock held. Takes no lock,
    /// allocates nothing.
    ///
    /// # Safety
    /// `id` is set to the id of a probe of this framework by the `enable` op of that probe, and to 0 by its
    /// `disable` op before that returns, and by nobody else. (The kernels' `dtrace_probe` does not check
    /// an id.)
    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; 6]);
}
