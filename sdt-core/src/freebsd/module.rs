//! The parts of a kernel module: metadata, the SYSINIT that registers it, and the handler of its events.
//!
//! `sys/sys/module.h`, `sys/sys/kernel.h`, `sys/sys/linker_set.h`, main; LP64.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use static_assertions::const_assert_eq;

use crate::errno::Errno;
use crate::freebsd::console;

#[cfg(sdt_route = "native")]
pub use super::native::Probes;
#[cfg(sdt_route = "provider")]
pub use super::provider::{DTRACE, Probes};

/// A kernel module's own events. Its probes need none of them.
///
/// All of them may sleep.
pub trait Module: Sync {
    /// The module has been loaded (`MOD_LOAD`).
    ///
    /// # Errors
    /// An error unloads it again.
    fn load(&self) -> Result<(), Errno>;

    /// Returns whether the module may be unloaded (`MOD_QUIESCE`).
    ///
    /// # Errors
    /// An error keeps it loaded.
    fn quiesce(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// The kernel is about to unload the module (`MOD_UNLOAD`): unregister all its functions from the kernel.
    ///
    /// # Errors
    /// An error keeps it loaded; then the module must continue to work.
    fn unload(&self) -> Result<(), Errno>;
}

/// `modeventtype_t`.
mod event {
    use core::ffi::c_int;

    pub(super) const LOAD: c_int = 0;
    pub(super) const UNLOAD: c_int = 1;
    pub(super) const SHUTDOWN: c_int = 2;
    pub(super) const QUIESCE: c_int = 3;
}

/// Whether the module is loaded. After a LOAD that failed, the kernel also sends UNLOAD (`module_register_init` in
/// `sys/kern/kern_module.c`, main), which then has nothing to undo.
static LOADED: AtomicBool = AtomicBool::new(false);

/// Handles one event of module `module`, whose name is `name` and whose probes are `probes`.
/// [`freebsd_module!`](crate::freebsd_module) registers a function that calls this.
///
/// # Safety
/// Only for the kernel's module events, in their order.
pub unsafe fn handle_event(
    name: &'static CStr,
    module: &'static dyn Module,
    probes: &'static Probes,
    event: c_int,
) -> c_int {
    let loaded = LOADED.load(Ordering::Acquire);
    let result = match event {
        // SAFETY: the kernel unloads the file only after UNLOAD has returned 0, or if this fails.
        event::LOAD => unsafe { load(name, module, probes) }
            .inspect(|()| LOADED.store(true, Ordering::Release)),
        event::QUIESCE => module.quiesce(),
        // SAFETY: the kernel has sent `MOD_UNLOAD`, and waits for this function.
        event::UNLOAD if loaded => unsafe { unload(name, module, probes) }
            .inspect(|()| LOADED.store(false, Ordering::Release)),
        event::UNLOAD => Ok(()),
        event::SHUTDOWN => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    };
    Errno::code(result)
}

/// # Safety
/// The file stays loaded until [`unload`] has succeeded or this has failed.
unsafe fn load(name: &CStr, module: &dyn Module, probes: &'static Probes) -> Result<(), Errno> {
    module.load()?;
    // Probes are attached last, so that no consumer can enable a probe of a module that fails to load.
    // SAFETY: by the contract of this function, the file stays loaded until `unload` has succeeded, which calls
    // `detach`, or until this function fails.
    unsafe { probes.attach() }.map_err(|error| {
        print_about(name, format_args!("probes not attached: {error}"));
        if let Err(errno) = module.unload() {
            print_about(name, format_args!("`unload` of the module failed, too: {errno}"));
        }
        Errno::EINVAL
    })
}

/// # Safety
/// The kernel has sent `MOD_UNLOAD`: the file stays loaded until this function returns.
unsafe fn unload(name: &CStr, module: &dyn Module, probes: &'static Probes) -> Result<(), Errno> {
    probes.detach()?;
    module.unload().inspect_err(|_| {
        // SAFETY: the file stays loaded, because this function returns an error.
        if let Err(error) = unsafe { probes.attach() } {
            print_about(name, format_args!("the module stays loaded without probes: {error}"));
        }
    })
}

fn print_about(name: &CStr, text: fmt::Arguments<'_>) {
    console::print(format_args!("{}: {text}", name.to_str().unwrap_or("?")));
}

/// `struct mod_metadata`. 24 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct ModMetadata {
    version: c_int,
    kind: c_int,
    data: *const c_void,
    name: *const c_char,
}

// SAFETY: nothing writes to it.
unsafe impl Sync for ModMetadata {}

const_assert_eq!(size_of::<ModMetadata>(), 24);

impl ModMetadata {
    /// `MODULE_METADATA(..., MDT_DEPEND, ...)`.
    pub const fn depend(name: &'static CStr, versions: &'static ModDepend) -> Self {
        Self::with(1, core::ptr::from_ref(versions).cast(), name)
    }

    /// `MODULE_METADATA(..., MDT_MODULE, ...)`.
    pub const fn module(data: &'static ModuleData) -> Self {
        let name = data.name;
        Self { version: 1, kind: 2, data: core::ptr::from_ref(data).cast(), name }
    }

    /// `MODULE_METADATA(..., MDT_VERSION, ...)`.
    pub const fn version(name: &'static CStr, version: &'static c_int) -> Self {
        Self::with(3, core::ptr::from_ref(version).cast(), name)
    }

    const fn with(kind: c_int, data: *const c_void, name: &'static CStr) -> Self {
        Self { version: 1, kind, data, name: name.as_ptr() }
    }
}

/// `struct mod_depend`: the supported versions of another module. 12 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct ModDepend {
    /// The lowest version that is accepted.
    pub minimum: c_int,
    /// The version that is preferred if there are several.
    pub preferred: c_int,
    /// The highest version that is accepted.
    pub maximum: c_int,
}

const_assert_eq!(size_of::<ModDepend>(), 12);

include!(concat!(env!("OUT_DIR"), "/freebsd_version.rs"));

/// The supported kernels: those of the release for which the module is built, from its version on
/// (`MODULE_KERNEL_MAXVER` in `sys/sys/module.h`).
pub static KERNEL: ModDepend = ModDepend {
    minimum: VERSION,
    preferred: VERSION,
    maximum: VERSION / 100_000 * 100_000 + 99_999,
};

/// `moduledata_t`. 24 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct ModuleData {
    name: *const c_char,
    handler: EventHandler,
    private: *mut c_void,
}

/// `modeventhand_t`.
pub type EventHandler = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;

// SAFETY: nothing writes to it.
unsafe impl Sync for ModuleData {}

const_assert_eq!(size_of::<ModuleData>(), 24);

impl ModuleData {
    /// Returns the data of a module with this name. The kernel passes its events to `handler`.
    pub const fn new(name: &'static CStr, handler: EventHandler) -> Self {
        Self { name: name.as_ptr(), handler, private: core::ptr::null_mut() }
    }
}

/// `struct sysinit`. 32 bytes since 14, where the kernel links it into a list; 24 before (`sys/sys/kernel.h` of
/// 13.2 and main).
#[derive(Debug)]
#[repr(C)]
pub struct SysInit {
    subsystem: u32,
    order: u32,
    #[cfg(sdt_freebsd_since = "14")]
    next: core::cell::UnsafeCell<*mut SysInit>,
    function: unsafe extern "C" fn(*const c_void),
    argument: core::cell::UnsafeCell<*const c_void>,
}

// SAFETY: only the kernel writes to it, under its own lock.
unsafe impl Sync for SysInit {}

const_assert_eq!(size_of::<SysInit>(), if cfg!(sdt_freebsd_since = "14") { 32 } else { 24 });

unsafe extern "C" {
    fn module_register_init(data: *const c_void);
}

/// `SI_SUB_DRIVERS`, `SI_ORDER_MIDDLE`: where `DECLARE_MODULE` puts most modules.
const SI_SUB_DRIVERS: u32 = 0x310_0000;
const SI_ORDER_MIDDLE: u32 = 0x100_0000;

impl SysInit {
    /// The SYSINIT that registers a module with the kernel, which then sends `MOD_LOAD`.
    pub const fn register(data: &'static ModuleData) -> Self {
        Self {
            subsystem: SI_SUB_DRIVERS,
            order: SI_ORDER_MIDDLE,
            #[cfg(sdt_freebsd_since = "14")]
            next: core::cell::UnsafeCell::new(core::ptr::null_mut()),
            function: module_register_init,
            argument: core::cell::UnsafeCell::new(core::ptr::from_ref(data).cast()),
        }
    }
}

/// An element of a linker set: a pointer.
#[derive(Debug)]
#[repr(transparent)]
pub struct SetEntry<T: 'static>(pub &'static T);

/// Makes this crate a FreeBSD kernel module, with its probes.
///
/// ```ignore
/// struct Example;
/// impl Module for Example { ... }
/// static EXAMPLE: Example = Example;
/// freebsd_module!(proc_example, EXAMPLE);
/// ```
///
/// The name must be that of the file, without `.ko`; the module is a static.
#[macro_export]
macro_rules! freebsd_module {
    ($name:ident, $module:path) => {
        const _: () = {
            // The module's own expressions are here, outside of the scope of the macro's names.
            static __SDT_MODULE: &dyn $crate::__private::module::Module = &$module;

            const _: () = {
                use ::core::ffi::{CStr, c_int, c_void};
                use $crate::__private::module::*;

                const NAME: &CStr =
                    $crate::__private::c_str(::core::concat!(::core::stringify!($name), "\0"));

                static PROBES: Probes = Probes::new(NAME);

                unsafe extern "C" fn on_event(
                    _: *mut c_void,
                    __sdt_event: c_int,
                    _: *mut c_void,
                ) -> c_int {
                    // SAFETY: the kernel calls this for the module's events.
                    unsafe { handle_event(NAME, __SDT_MODULE, &PROBES, __sdt_event) }
                }

                static DATA: ModuleData = ModuleData::new(NAME, on_event);
                static VERSION: c_int = 1;
                static IS_MODULE: ModMetadata = ModMetadata::module(&DATA);
                static HAS_VERSION: ModMetadata = ModMetadata::version(NAME, &VERSION);
                static NEEDS_KERNEL: ModMetadata = ModMetadata::depend(c"kernel", &KERNEL);
                static REGISTER: SysInit = SysInit::register(&DATA);

                #[used]
                #[unsafe(link_section = "set_modmetadata_set")]
                static METADATA: [SetEntry<ModMetadata>; 3] =
                    [SetEntry(&IS_MODULE), SetEntry(&HAS_VERSION), SetEntry(&NEEDS_KERNEL)];

                $crate::__sdt_module_needs!();

                #[used]
                #[unsafe(link_section = "set_sysinit_set")]
                static SYSINITS: [SetEntry<SysInit>; 1] = [SetEntry(&REGISTER)];
            };
        };

        // Like `__MAKE_SET` in C: if modules are shared objects, the kernel finds a set by these symbols, and the
        // linker defines them only if something refers to them.
        ::core::arch::global_asm!(
            ".weak __start_set_modmetadata_set, __stop_set_modmetadata_set",
            ".weak __start_set_sysinit_set, __stop_set_sysinit_set",
        );
    };
}
