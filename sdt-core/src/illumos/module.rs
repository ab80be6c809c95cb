//! What makes a file a kernel module: `_init`, `_info`, `_fini`, and the linkage that they hand to the kernel.
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

/// What a function of the kernel's returned.
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

    /// The module is about to go (`_fini`): let the kernel forget every function of it. Should the kernel still not let
    /// it go (an instance of a driver is in use), [`load`](Self::load) is called again.
    ///
    /// # Errors
    /// An error keeps it loaded; everything must go on working then.
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

/// A module: what [`illumos_module!`](crate::illumos_module) makes the kernel call.
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
    /// A module whose name is `name` and whose probes are `probes`, if it has any.
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
        // Last, as a driver may be attached from then on.
        self.install().inspect_err(|_| {
            if let Err(errno) = self.module.unload() {
                self.warn(format_args!("{errno} on the way out"));
            }
        })
    }

    fn unload(&self) -> Result<(), Errno> {
        self.module.unload()?;
        self.remove().inspect_err(|_| {
            if let Err(errno) = self.module.load() {
                self.warn(format_args!("still loaded, but without its hooks: {errno}"));
            }
        })
    }

    fn install(&self) -> Result<(), Errno> {
        // SAFETY: the linkage is a static; the kernel forgets it in `remove`, or with the module if this fails.
        check(unsafe { mod_install(self.linkage) })
    }

    fn remove(&self) -> Result<(), Errno> {
        // SAFETY: the linkage that was installed.
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

// SAFETY: constant data.
unsafe impl Sync for Linkage {}

const_assert_eq!(size_of::<Linkage>(), 64);

impl Linkage {
    /// A module of one part.
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

// SAFETY: only the kernel writes to what it points to, under its own locks.
unsafe impl Sync for Part {}

impl Part {
    /// Most bytes of the text that `modinfo(8)` shows (`MODMAXLINKINFOLEN`, less the NUL).
    const INFO_LEN: usize = 31;

    /// A miscellaneous module (`/kernel/misc`), described as `info`.
    ///
    /// # Panics
    /// At compile time: the text is longer than 31 bytes.
    pub const fn misc(info: &'static CStr) -> Self {
        Self::with(&raw const mod_miscops, info, core::ptr::null())
    }

    /// A driver (`/kernel/drv`), described as `info`.
    ///
    /// # Panics
    /// As [`misc`](Self::misc).
    pub const fn driver(info: &'static CStr, ops: &'static DevOps) -> Self {
        Self::with(&raw const mod_driverops, info, core::ptr::from_ref(ops))
    }

    const fn with(ops: *const c_void, info: &'static CStr, driver: *const DevOps) -> Self {
        assert!(info.count_bytes() <= Self::INFO_LEN, "modinfo shows 31 bytes of the text");
        Self { ops, info: info.as_ptr(), driver }
    }
}

/// A driver's instance (`dev_info_t`), the kernel's own.
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
    /// The kernel's own count.
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

/// An entry point of a driver: a C function of the type that its manual page says.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Entry(*const ());

impl Entry {
    /// An entry point.
    ///
    /// # Safety
    /// The function is of the type that the kernel calls there.
    pub const unsafe fn new(function: *const ()) -> Self {
        Self(function)
    }
}

/// `attach(9E)` or `detach(9E)`: gets the instance and the command. May sleep. Returns 0
/// (`DDI_SUCCESS`) or -1 (`DDI_FAILURE`).
pub type Command = extern "C" fn(*mut DevInfo, c_int) -> c_int;

impl DevOps {
    /// A driver without entry points, to be filled in.
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

    /// With this `attach(9E)`.
    #[must_use]
    pub const fn attach(mut self, attach: Command) -> Self {
        self.attach = Entry(attach as *const ());
        self
    }

    /// With this `detach(9E)`.
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

    /// With a `struct cb_ops`, of drivers that have minor nodes, and a `struct bus_ops`, of nexus drivers; NULL for none.
    ///
    /// # Safety
    /// They are such structures, and stay as long as the module. The kernel may write to them.
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
/// The name is that of the file; the module is a static. After it may come, in this order: the text that `modinfo(8)`
/// shows, else the name; the modules that this one needs; and the [`DevOps`] of a driver, a static, without which it is
/// a `misc` module.
#[macro_export]
macro_rules! illumos_module {
    (
        $name:ident, $module:path
        $(, info = $info:literal)? $(, depends = [$($depend:literal),* $(,)?])? $(, driver = $driver:path)? $(,)?
    ) => {
        const _: () = {
            // What the module says stands out here, where no name of ours can be taken for one of its own.
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

        // For the link step, which tells krtld.
        $(::core::arch::global_asm!(
            ".pushsection .sdt_depends, \"\", @progbits",
            $(::core::concat!(".asciz \"", $depend, "\""),)*
            ".popsection",
        );)?
    };
}

/// What `illumos_module!` and `illumos_companion!` are made of.
///
/// `@c_name` is two pieces of text as a C string, `@entries` what krtld and the kernel look for in a module, and `@part`
/// what a module is to the kernel.
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
