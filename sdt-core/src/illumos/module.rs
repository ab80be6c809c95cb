//! The parts of a kernel module: `_init`, `_info`, `_fini`, and the linkage that they pass to the kernel.
//!
//! `usr/src/uts/common/sys/modctl.h`, `sys/devops.h`, 2025; LP64.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::sync::atomic::AtomicI32;

use static_assertions::const_assert_eq;

use crate::errno::Errno;
use crate::illumos::console;

#[cfg(sdt_route = "native")]
pub use super::native::Probes;
#[cfg(sdt_route = "provider")]
pub use super::provider::Probes;

/// Converts the result of a kernel function.
pub(crate) fn check(errno: c_int) -> Result<(), Errno> {
    Errno::new(errno).map_or(Ok(()), Err)
}

/// A kernel module's own events. Its probes need none of them.
///
/// Both may sleep.
pub trait Module: Sync {
    /// The module has been loaded (`_init`). A driver is attached later.
    ///
    /// # Errors
    /// An error unloads it again.
    fn load(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// The kernel is about to unload the module (`_fini`): unregister all its functions from the kernel. If the kernel
    /// then refuses (an instance of a driver is in use), it calls [`load`](Self::load) again.
    ///
    /// # Errors
    /// An error keeps it loaded; then the module must continue to work.
    fn unload(&self) -> Result<(), Errno> {
        Ok(())
    }
}

unsafe extern "C" {
    fn mod_install(linkage: *const Linkage) -> c_int;
    fn mod_remove(linkage: *const Linkage) -> c_int;
    fn mod_info(linkage: *const Linkage, info: *mut c_void) -> c_int;
    static mod_miscops: c_void;
    static mod_driverops: c_void;
}

/// A module: [`illumos_module!`](crate::illumos_module) exports functions that call its methods.
pub struct Loadable {
    name: &'static CStr,
    module: &'static dyn Module,
    linkage: &'static Linkage,
    probes: Option<&'static Probes>,
}

impl fmt::Debug for Loadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loadable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Loadable {
    /// Returns a module whose name is `name`, and whose probes are `probes`, if it has any.
    pub const fn new(
        name: &'static CStr,
        module: &'static dyn Module,
        linkage: &'static Linkage,
        probes: Option<&'static Probes>,
    ) -> Self {
        Self { name, module, linkage, probes }
    }

    /// `_init`.
    ///
    /// # Safety
    /// Only for the kernel's call of it.
    pub unsafe fn init(&self) -> c_int {
        Errno::code(self.load())
    }

    /// `_info`. Returns 0 on failure.
    ///
    /// # Safety
    /// Only for the kernel's call of it, with its argument.
    pub unsafe fn info(&self, info: *mut c_void) -> c_int {
        // SAFETY: `info` is the kernel's argument, by the contract of this function; the linkage is a static.
        unsafe { mod_info(self.linkage, info) }
    }

    /// `_fini`.
    ///
    /// # Safety
    /// Only for the kernel's call of it.
    pub unsafe fn fini(&self) -> c_int {
        Errno::code(self.unload())
    }

    fn load(&self) -> Result<(), Errno> {
        if let Some(probes) = self.probes {
            probes.check(self.name);
        }
        self.module.load()?;
        // Installed last, because a driver may be attached from then on.
        self.install().inspect_err(|_| {
            if let Err(errno) = self.module.unload() {
                self.warn(format_args!("`unload` of the module failed, too: {errno}"));
            }
        })
    }

    fn unload(&self) -> Result<(), Errno> {
        self.module.unload()?;
        self.remove().inspect_err(|_| {
            if let Err(errno) = self.module.load() {
                self.warn(format_args!("the module stays loaded without its hooks: {errno}"));
            }
        })
    }

    fn install(&self) -> Result<(), Errno> {
        // SAFETY: the linkage is a static. The kernel drops its reference in `remove`, or with the module if this
        // fails.
        check(unsafe { mod_install(self.linkage) })
    }

    fn remove(&self) -> Result<(), Errno> {
        // SAFETY: `install` installed this linkage.
        check(unsafe { mod_remove(self.linkage) })
    }

    fn warn(&self, text: fmt::Arguments<'_>) {
        console::warn(format_args!("{}: {text}", self.name.to_str().unwrap_or("?")));
    }
}

/// `struct modlinkage`. 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Linkage {
    rev: c_int,
    linkage: [*const Part; 7],
}

// SAFETY: nothing writes to it.
unsafe impl Sync for Linkage {}

const_assert_eq!(size_of::<Linkage>(), 64);

impl Linkage {
    /// Returns the linkage of a module with one part.
    pub const fn new(part: &'static Part) -> Self {
        let mut linkage = [core::ptr::null(); 7];
        linkage[0] = core::ptr::from_ref(part);
        // MODREV_1
        Self { rev: 1, linkage }
    }
}

/// `struct modlmisc` (16 bytes) or `struct modldrv` (24).
#[derive(Debug)]
#[repr(C)]
pub struct Part {
    ops: *const c_void,
    info: *const c_char,
    driver: *const DevOps,
}

// SAFETY: only the kernel writes through its pointers, under its own locks.
unsafe impl Sync for Part {}

impl Part {
    /// The greatest length in bytes of the text that `modinfo(8)` shows (`MODMAXLINKINFOLEN`, without the NUL).
    const INFO_LEN: usize = 31;

    /// Returns a miscellaneous module (`/kernel/misc`) with the description `info`.
    ///
    /// # Panics
    /// At compile time: the text is longer than 31 bytes.
    pub const fn misc(info: &'static CStr) -> Self {
        Self::with(&raw const mod_miscops, info, core::ptr::null())
    }

    /// Returns a driver (`/kernel/drv`) with the description `info`.
    ///
    /// # Panics
    /// As [`misc`](Self::misc).
    pub const fn driver(info: &'static CStr, ops: &'static DevOps) -> Self {
        Self::with(&raw const mod_driverops, info, core::ptr::from_ref(ops))
    }

    const fn with(ops: *const c_void, info: &'static CStr, driver: *const DevOps) -> Self {
        assert!(
            info.count_bytes() <= Self::INFO_LEN,
            "the description of the module is longer \
             than the 31 bytes that modinfo shows"
        );
        Self { ops, info: info.as_ptr(), driver }
    }
}

/// An instance of a driver (`dev_info_t`), opaque.
pub type DevInfo = c_void;

/// `struct dev_ops`: the entry points of a driver. 88 bytes.
///
/// ```ignore
/// static OPS: DevOps = DevOps::none().attach(attach).detach(detach);
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct DevOps {
    /// `DEVO_REV`.
    rev: c_int,
    /// A count that the kernel uses.
    refcnt: AtomicI32,
    getinfo: Entry,
    /// Obsolete.
    identify: Entry,
    probe: Entry,
    attach: Entry,
    detach: Entry,
    /// Obsolete.
    reset: Entry,
    cb_ops: *const c_void,
    bus_ops: *const c_void,
    power: Entry,
    quiesce: Entry,
}

// SAFETY: the kernel changes it under its own locks. The contracts of the functions that set its pointers make them valid.
unsafe impl Sync for DevOps {}

const_assert_eq!(size_of::<DevOps>(), 88);

/// An entry point of a driver: a C function with the type in its manual page.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Entry(*const ());

impl Entry {
    /// Returns an entry point.
    ///
    /// # Safety
    /// The function has the type with which the kernel calls this entry point.
    pub const unsafe fn new(function: *const ()) -> Self {
        Self(function)
    }
}

/// `attach(9E)` or `detach(9E)`: gets the instance and the command. May sleep. Returns 0
/// (`DDI_SUCCESS`) or -1 (`DDI_FAILURE`).
pub type Command = extern "C" fn(*mut DevInfo, c_int) -> c_int;

impl DevOps {
    /// Returns a driver without entry points.
    pub const fn none() -> Self {
        unsafe extern "C" {
            // Return 0, ENXIO, and 0 for `quiesce`.
            fn nulldev();
            fn nodev();
            fn ddi_quiesce_not_needed();
        }
        const NULLDEV: Entry = Entry(nulldev as *const ());
        const NODEV: Entry = Entry(nodev as *const ());
        Self {
            // DEVO_REV
            rev: 4,
            refcnt: AtomicI32::new(0),
            getinfo: NODEV,
            identify: NULLDEV,
            probe: NULLDEV,
            attach: NODEV,
            detach: NODEV,
            reset: NODEV,
            cb_ops: core::ptr::null(),
            bus_ops: core::ptr::null(),
            power: NODEV,
            quiesce: Entry(ddi_quiesce_not_needed as *const ()),
        }
    }

    /// Sets `attach(9E)`.
    #[must_use]
    pub const fn attach(mut self, attach: Command) -> Self {
        self.attach = Entry(attach as *const ());
        self
    }

    /// Sets `detach(9E)`.
    #[must_use]
    pub const fn detach(mut self, detach: Command) -> Self {
        self.detach = Entry(detach as *const ());
        self
    }

    /// Sets `getinfo(9E)`, `probe(9E)`, `power(9E)` and `quiesce(9E)`; `None` leaves the entry as it was.
    #[must_use]
    pub const fn entries(
        mut self,
        getinfo: Option<Entry>,
        probe: Option<Entry>,
        power: Option<Entry>,
        quiesce: Option<Entry>,
    ) -> Self {
        if let Some(getinfo) = getinfo {
            self.getinfo = getinfo;
        }
        if let Some(probe) = probe {
            self.probe = probe;
        }
        if let Some(power) = power {
            self.power = power;
        }
        if let Some(quiesce) = quiesce {
            self.quiesce = quiesce;
        }
        self
    }

    /// Sets the `struct cb_ops` of drivers with minor nodes, and the `struct bus_ops` of nexus drivers; NULL for none.
    ///
    /// # Safety
    /// The pointers are to such structures, which live as long as the module. The kernel may write to them.
    #[must_use]
    pub const unsafe fn tables(mut self, cb_ops: *const c_void, bus_ops: *const c_void) -> Self {
        self.cb_ops = cb_ops;
        self.bus_ops = bus_ops;
        self
    }
}

/// Makes this crate an illumos kernel module, with its probes.
///
/// ```ignore
/// struct Example;
/// impl Module for Example { ... }
/// static EXAMPLE: Example = Example;
/// illumos_module!(proc_example, EXAMPLE);
/// illumos_module!(my_driver, DRIVER, info = c"my driver", depends = ["drv/ip", "misc/mac"], driver = OPS);
/// ```
///
/// The name is that of the file; the module is a static. Optional parameters follow, in this order: the text that
/// `modinfo(8)` shows (default: the name); the modules on which this one depends; and the [`DevOps`] of a driver, a
/// static (default: a `misc` module).
#[macro_export]
macro_rules! illumos_module {
    (
        $name:ident, $module:path
        $(, info = $info:literal)? $(, depends = [$($depend:literal),* $(,)?])? $(, driver = $driver:path)? $(,)?
    ) => {
        const _: () = {
            // The module's own expressions are here, outside of the scope of the macro's names.
            const __SDT_NAME: &::core::ffi::CStr = $crate::__sdt_module!(@c_name $name, "");
            static __SDT_MODULE: &dyn $crate::__private::module::Module = &$module;

            const fn __sdt_part() -> $crate::__private::module::Part {
                $crate::__sdt_module!(@part __SDT_NAME $(, $info)?; $($driver)?)
            }

            const _: () = {
                use $crate::__private::module::Probes;

                static PROBES: Probes = Probes::new($crate::__sdt_module!(@c_name $name, "_dtrace"));

                $crate::__sdt_module!(
                    @entries
                    __SDT_NAME,
                    *__SDT_MODULE,
                    __sdt_part(),
                    ::core::option::Option::Some(&PROBES)
                );
                $crate::__sdt_illumos_exports!($name, PROBES);
            };
        };

        // An input of the link step, which passes it to krtld.
        $(::core::arch::global_asm!(
            ".pushsection .sdt_depends, \"\", @progbits",
            $(::core::concat!(".asciz \"", $depend, "\""),)*
            ".popsection",
        );)?
    };
}

/// The common parts of `illumos_module!` and `illumos_companion!`.
///
/// `@c_name` joins two texts to a C string, `@entries` emits the symbols that krtld and the kernel look up in a module,
/// and `@part` selects the kind of module.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_module {
    (@c_name $name:ident, $more:literal) => {
        $crate::__private::c_str(::core::concat!(::core::stringify!($name), $more, "\0"))
    };
    (@entries $name:expr, $module:expr, $part:expr, $probes:expr) => {
        use ::core::ffi::{c_int, c_void};
        use $crate::__private::module::{Linkage, Loadable, Part};

        static PART: Part = $part;
        static LINKAGE: Linkage = Linkage::new(&PART);
        static LOADABLE: Loadable = Loadable::new($name, &$module, &LINKAGE, $probes);

        #[unsafe(no_mangle)]
        unsafe extern "C" fn _init() -> c_int {
            // SAFETY: only the kernel calls it.
            unsafe { LOADABLE.init() }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn _info(__sdt_info: *mut c_void) -> c_int {
            // SAFETY: only the kernel calls it, with this argument.
            unsafe { LOADABLE.info(__sdt_info) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn _fini() -> c_int {
            // SAFETY: only the kernel calls it, with this argument.
            unsafe { LOADABLE.fini() }
        }
    };
    (@part $name:ident;) => {
        $crate::__private::module::Part::misc($name)
    };
    (@part $name:ident, $info:literal;) => {
        $crate::__private::module::Part::misc($info)
    };
    (@part $name:ident; $driver:path) => {
        $crate::__private::module::Part::driver($name, &$driver)
    };
    (@part $name:ident, $info:literal; $driver:path) => {
        $crate::__private::module::Part::driver($info, &$driver)
    };
}
