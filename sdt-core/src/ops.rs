//! The provider ops table and the framework it registers with.
//!
//! [`ProviderOps`] is DTrace's `dtrace_pops_t`: the table of functions that a framework calls, to let a provider create
//! probes, and to enable and disable them. [`Framework`] is the opposite direction: `dtrace_register` and its family as
//! a trait, so that the same provider code works with DTrace of FreeBSD and illumos, and with `sdt-framework`.
//!
//! The types of the table, and of the arguments of its functions, are defined in `dtrace-abi`.

use core::ffi::{CStr, c_void};
use core::sync::atomic::AtomicU32;

use crate::arg::Borrows;

pub use dtrace_abi::limits::{
    ARGS, ARGUMENT_TYPE as ARG_TYPE_LEN, FUNCTION_NAME as FUNCTION_NAME_LEN,
    MODULE_NAME as MODULE_NAME_LEN, PROBE_NAME as PROBE_NAME_LEN,
    PROVIDER_NAME as PROVIDER_NAME_LEN,
};
pub use dtrace_abi::name::Name;
pub use dtrace_abi::ops::{
    ARG_NONE, ArgDesc, GetArgVal, Privileges, ProbeDesc, ProbeId, ProviderOps,
};
pub use dtrace_abi::stability::{Attribute, Class, ProviderAttr, Stability};

/// The id of a registered provider (`dtrace_provider_id_t`). Only its framework interprets it. In FreeBSD and illumos
/// it is an address, so the functions of [`Framework`] that take one are `unsafe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ProviderId(usize);

impl ProviderId {
    /// Returns the id with this number.
    pub const fn new(id: usize) -> Self {
        Self(id)
    }

    /// Returns the id as a number.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// The reason why the framework refused a request, with the error number of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameworkError {
    /// EINVAL: a name, an attribute, the privileges or the ops table is not acceptable.
    Invalid,
    /// EBUSY: a probe of the provider is enabled, or a consumer is open; nothing was changed.
    Busy,
    /// EAGAIN: the provider was invalidated and its enablings are being reaped; try again.
    Again,
    /// ENOENT: there is no such provider.
    NotFound,
    /// ENOSPC: one of the framework's fixed tables is full.
    Full,
    /// ENXIO: the framework has no memory yet.
    NotReady,
    /// EDEADLK: the caller runs in probe context, where this function would wait for itself; nothing was changed.
    ProbeContext,
    /// Another error number of the kernel.
    Other(i32),
}

impl FrameworkError {
    /// Returns the error for a kernel's error number, which is not 0. The small numbers are the same on FreeBSD and
    /// illumos; EAGAIN is 35 on FreeBSD and 11 elsewhere.
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            22 => Self::Invalid,
            16 => Self::Busy,
            2 => Self::NotFound,
            28 => Self::Full,
            6 => Self::NotReady,
            n if n == EAGAIN => Self::Again,
            n if n == EDEADLK => Self::ProbeContext,
            n => Self::Other(n),
        }
    }

    /// Returns the error number of the kernel.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Invalid => 22,
            Self::Busy => 16,
            Self::NotFound => 2,
            Self::Full => 28,
            Self::NotReady => 6,
            Self::Again => EAGAIN,
            Self::ProbeContext => EDEADLK,
            Self::Other(n) => n,
        }
    }
}

/// FreeBSD's EAGAIN is 35, illumos's and Linux's 11.
const EAGAIN: i32 = if cfg!(any(target_os = "illumos", target_os = "linux")) { 11 } else { 35 };
/// FreeBSD's EDEADLK is 11, illumos's 45, Linux's 35.
const EDEADLK: i32 = if cfg!(target_os = "illumos") {
    45
} else if cfg!(target_os = "linux") {
    35
} else {
    11
};

impl core::fmt::Display for FrameworkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = match self {
            Self::Invalid => "a name, attribute, privilege or op is invalid (EINVAL)",
            Self::Busy => "a probe is enabled, or a consumer is open (EBUSY)",
            Self::Again => "enablings are still being removed; try again (EAGAIN)",
            Self::NotFound => "no such provider (ENOENT)",
            Self::Full => "a table of the framework is full (ENOSPC)",
            Self::NotReady => "the framework has no memory yet (ENXIO)",
            Self::ProbeContext => "called in probe context; call it from a thread (EDEADLK)",
            Self::Other(n) => return write!(f, "error {n}"),
        };
        f.write_str(text)
    }
}

impl core::error::Error for FrameworkError {}

/// The framework with which a provider registers: `dtrace_register(9)` and its family.
///
/// Implemented by the bindings to FreeBSD's and illumos's DTrace and by `sdt-framework`. All functions except [`hit`](Self::hit)
/// may sleep and take the framework's locks. They must not be called from an ops function unless that function's documentation
/// allows it.
///
/// # Safety
/// An image is unloaded after its providers are unregistered. Therefore an implementation calls the ops of
/// [`register`](Self::register) only with the `arg` and the `parg`s that were passed with them, in the contexts that
/// [`ProviderOps`] states, and never after [`unregister`](Self::unregister) has returned `Ok`. [`hit`](Self::hit)
/// treats the id as its documentation states.
pub unsafe trait Framework: Sync {
    /// Returns the op `getargval` for providers that register here. A framework whose [`hit`](Self::hit) drops
    /// arguments supplies a function that finds them again.
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

    /// Unregisters a provider and destroys its probes (`dtrace_unregister`). On an error nothing has changed and the
    /// provider continues to work. On success no CPU is in probe context for any of its probes any more.
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

    /// Invalidates a provider (`dtrace_invalidate`): no description matches its probes any more, so consumers cannot enable
    /// further probes of it. Enabled probes stay enabled, and the framework calls the ops as before. The provider can be
    /// [unregistered](Self::unregister) while consumers are open, once none of its probes is enabled.
    ///
    /// # Safety
    /// As [`unregister`](Self::unregister).
    unsafe fn invalidate(&self, provider: ProviderId);

    /// Destroys the probes of a provider that are not enabled (`dtrace_condense`), with
    /// [`ProviderOps::destroy`] for each.
    ///
    /// # Safety
    /// As [`unregister`](Self::unregister).
    unsafe fn condense(&self, provider: ProviderId);

    /// Returns the id of the probe with these names, if it exists (`dtrace_probe_lookup`).
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
    /// Those of [`unregister`](Self::unregister). The provider's ops must be sound to call with `parg`.
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

    /// Records a hit of a probe (`dtrace_probe`). `id` is the variable in which the provider stores the probe's id
    /// while the probe is enabled. At other times it is 0, and the framework ignores the hit.
    ///
    /// The framework loads the id once, with interrupts off, and they stay off until the hit is recorded. A probe is
    /// destroyed only after it was disabled and every CPU has since had interrupts on. Therefore the loaded id still
    /// belongs to the probe.
    ///
    /// `borrows` marks the arguments that are addresses of memory that the site borrows. A framework that cannot read any address
    /// safely can read that memory.
    ///
    /// Arguments the probe does not have are 0. FreeBSD's and illumos's `dtrace_probe` carry five;
    /// their bindings leave the others to [`ProviderOps::getargval`].
    ///
    /// Probe context: callable anywhere, with interrupts off and any lock held. Takes no lock,
    /// allocates nothing.
    ///
    /// # Safety
    /// Only the `enable` and `disable` ops of one probe of this framework change `id`: `enable` sets it to the probe's
    /// id, and `disable` sets it to 0 before it returns. (The kernels' `dtrace_probe` does not check ids.)
    ///
    /// The [ranges](Borrows::ranges) of `borrows` in `args` are mapped and readable until the function returns.
    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS], borrows: Borrows);
}
