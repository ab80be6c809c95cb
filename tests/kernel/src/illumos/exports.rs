//! The symbols that modules can use, with illumos's names and types. Symbols with the same name and type on FreeBSD are in
//! [`crate::exports`].

use alloc::alloc::{alloc, dealloc};
use alloc::format;
use core::alloc::Layout;
use core::ffi::{CStr, c_char, c_int, c_void};

use sdt_core::ops::ProviderOps;
use stand_in_base::printf;
use stand_in_illumos::errno::{EFAULT, EINVAL, ENXIO};
use stand_in_illumos::modctl::{ModInfo, UNIX};

use super::dtrace::{dtrace_condense, dtrace_register, dtrace_unregister};
use super::exec;
use super::exec::{EXECSW, NEXECTYPE, SYSENT, SYSENT32};
use super::interrupts::{dtrace_interrupt_disable, dtrace_interrupt_enable};
use super::kstat::{Kstat, Named, kstat_create, kstat_delete, kstat_install, kstat_named_init};
use super::locks::{
    CPU_LOCK, Mutex, RwLock, mutex_enter, mutex_exit, mutex_init, pause_cpus, rw_enter, rw_exit,
    start_cpus,
};
use super::machine::MODULES;
use crate::exports::{self, Variadic, exports, text};
use crate::{console, panic};

exports! {
    // usr/src/uts/common/sys/dtrace.h
    dtrace_register: unsafe extern "C" fn(
        *const c_char, *const [u8; 15], u32, *mut c_void, *const ProviderOps, *mut c_void, *mut usize,
    ) -> c_int,
    dtrace_unregister: extern "C" fn(usize) -> c_int,
    dtrace_condense: extern "C" fn(usize) -> c_int,
    // usr/src/uts/common/sys/modctl.h
    mod_install: unsafe extern "C" fn(*const Linkage) -> c_int,
    mod_remove: unsafe extern "C" fn(*const Linkage) -> c_int,
    mod_info: unsafe extern "C" fn(*const Linkage, *mut ModInfo) -> c_int,
    // usr/src/uts/common/sys/cmn_err.h
    cmn_err: unsafe extern "C" fn(c_int, *const c_char, ...),
    // usr/src/uts/common/sys/kmem.h
    kmem_alloc: unsafe extern "C" fn(usize, c_int) -> *mut c_void,
    kmem_free: unsafe extern "C" fn(*mut c_void, usize),
    // usr/src/uts/common/sys/kstat.h
    kstat_create: unsafe extern "C" fn(
        *const c_char, c_int, *const c_char, *const c_char, u8, core::ffi::c_uint, u8,
    ) -> *mut Kstat,
    kstat_install: unsafe extern "C" fn(*mut Kstat),
    kstat_delete: unsafe extern "C" fn(*mut Kstat),
    kstat_named_init: unsafe extern "C" fn(*mut Named, *const c_char, u8),
    // usr/src/uts/common/sys/mutex.h, cpuvar.h
    mutex_enter: unsafe extern "C" fn(*const Mutex),
    mutex_exit: unsafe extern "C" fn(*const Mutex),
    mutex_init: unsafe extern "C" fn(*mut Mutex, *const c_void, c_int, *const c_void),
    // usr/src/uts/common/sys/rwlock.h
    rw_enter: unsafe extern "C" fn(*const RwLock, c_int),
    rw_exit: unsafe extern "C" fn(*const RwLock),
    pause_cpus: extern "C" fn(*mut c_void, *mut c_void),
    start_cpus: extern "C" fn(),
    // usr/src/uts/common/sys/dtrace.h, but in unix
    dtrace_interrupt_disable: extern "C" fn() -> usize,
    dtrace_interrupt_enable: unsafe extern "C" fn(usize),
    // usr/src/uts/common/sys/systm.h, sunddi.h
    copyinstr: unsafe extern "C" fn(*const c_char, *mut c_char, usize, *mut usize) -> c_int,
    ddi_get_pid: extern "C" fn() -> c_int,
    // Drivers have these in their dev_ops; this kernel calls none of them.
    nulldev: extern "C" fn() -> c_int,
    nodev: extern "C" fn() -> c_int,
    ddi_quiesce_not_needed: extern "C" fn(*mut c_void) -> c_int,
    strcmp: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
}

/// The symbols that are in `drv/dtrace` and not in the kernel itself.
const OF_DTRACE: [&str; 7] = [
    "dtrace_condense",
    "dtrace_invalidate",
    "dtrace_probe",
    "dtrace_probe_create",
    "dtrace_probe_lookup",
    "dtrace_register",
    "dtrace_unregister",
];

/// The address of a symbol that one of the kernel's modules exports.
pub(super) fn address(module: &str, name: &str) -> Option<u64> {
    let home = if OF_DTRACE.contains(&name) { "dtrace" } else { UNIX };
    if module != home {
        return None;
    }
    let data = match name {
        "cpu_lock" => &raw const CPU_LOCK as u64,
        "execsw" => &raw const EXECSW as u64,
        "nexectype" => &raw const NEXECTYPE as u64,
        "mod_driverops" => &raw const MOD_DRIVEROPS as u64,
        "mod_miscops" => &raw const MOD_MISCOPS as u64,
        "sysent" => SYSENT.as_ptr() as u64,
        "sysent32" => SYSENT32.as_ptr() as u64,
        _ => 0,
    };
    if data != 0 {
        return Some(data);
    }
    let mut functions = table().into_iter().chain(exports::table());
    functions.find(|(symbol, _)| *symbol == name).map(|(_, address)| address)
}

/// `struct mod_ops`: three functions that this kernel does not call. This kernel uses only the address of the structure.
#[repr(C)]
pub(super) struct ModOps([usize; 3]);

static MOD_DRIVEROPS: ModOps = ModOps([0; 3]);
static MOD_MISCOPS: ModOps = ModOps([0; 3]);

/// `MODREV_1`.
const MODREV_1: c_int = 1;

/// `struct modlinkage`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Linkage {
    /// `ml_rev`.
    rev: c_int,
    /// `ml_linkage`: pointers to linkages, terminated by NULL. A linkage starts with the address of its `struct mod_ops`.
    linkage: [*const *const ModOps; 7],
}

static_assertions::const_assert_eq!(size_of::<Linkage>(), 64);

impl Linkage {
    /// Returns the address of the `struct mod_ops` of each linkage.
    fn parts(&self) -> impl Iterator<Item = *const ModOps> {
        let parts = self.linkage.iter().take_while(|part| !part.is_null());
        // SAFETY: the caller of `mod_install` guarantees that the pointers point to linkages.
        parts.map(|&part| unsafe { *part })
    }
}

/// # Safety
/// `linkage` is a valid `struct modlinkage`.
unsafe extern "C" fn mod_install(linkage: *const Linkage) -> c_int {
    // SAFETY: `linkage` is a `struct modlinkage`.
    let this = unsafe { &*linkage };
    if this.rev != MODREV_1 {
        console::print("mod_install:  modlinkage structure is not MODREV_1\n");
        return EINVAL;
    }
    let install = |ops: *const ModOps| {
        if core::ptr::eq(ops, &MOD_MISCOPS) {
            return 0;
        }
        let driver = core::ptr::eq(ops, &MOD_DRIVEROPS);
        assert!(driver, "mod_install: a module that is neither mod_miscops nor mod_driverops");
        // illumos returns ENXIO if the driver has no major number. Here, modules of the class `drv` have one.
        let class = MODULES.class_of(linkage as u64);
        if class.as_deref() == Some("drv") { 0 } else { ENXIO }
    };
    this.parts()
        .map(install)
        .try_fold(-1, |_, part| if part == 0 { Ok(0) } else { Err(part) })
        .unwrap_or_else(|error| error)
}

/// # Safety
/// `linkage` is a `struct modlinkage`.
unsafe extern "C" fn mod_remove(_linkage: *const Linkage) -> c_int {
    0
}

/// # Safety
/// `linkage` is a `struct modlinkage`, and `info` the argument of `_info`.
unsafe extern "C" fn mod_info(linkage: *const Linkage, info: *mut ModInfo) -> c_int {
    // SAFETY: `linkage` is a `struct modlinkage`, and `info` the argument of `_info`.
    let (this, info) = unsafe { (&*linkage, &mut *info) };
    info.rev = this.rev;
    if info.wants_linkage() {
        info.base = linkage.cast_mut().cast();
    }
    1
}

/// # Safety
/// `format` is NULL or a string, and the arguments have the types that it says.
unsafe extern "C" fn cmn_err(level: c_int, format: *const c_char, arguments: ...) {
    // SAFETY: `format` is a string.
    let template = unsafe { text(format) }.to_string_lossy();
    // The first character may select the destination of the message.
    let template = template.trim_start_matches(['!', '^', '?']);
    let message = printf::format(template, &mut Variadic(arguments));
    match level {
        1 => console::print(&format!("NOTICE: {message}\n")),
        2 => console::print(&format!("WARNING: {message}\n")),
        3 => panic::stop(format_args!("{message}")),
        _ => console::print(&message),
    }
}

/// Returns the layout of a block of `size` bytes, with the alignment that illumos guarantees.
fn layout(size: usize) -> Layout {
    let align = if size.is_multiple_of(16) { 16 } else { 8 };
    Layout::from_size_align(size, align).expect("a size that memory can have")
}

unsafe extern "C" fn kmem_alloc(size: usize, _flags: c_int) -> *mut c_void {
    if size == 0 {
        return core::ptr::null_mut();
    }
    // SAFETY: the size is not 0.
    unsafe { alloc(layout(size)) }.cast()
}

/// # Safety
/// `kmem_alloc` returned `memory` for this size.
unsafe extern "C" fn kmem_free(memory: *mut c_void, size: usize) {
    if size != 0 {
        // SAFETY: `kmem_alloc` returned the memory for this size.
        unsafe { dealloc(memory.cast(), layout(size)) };
    }
}

/// Copies a string from a process. Processes have no memory here, so `from` is an address in the kernel.
///
/// # Safety
/// `from` is NULL or a string, `to` has room for `limit` bytes, `copied` is NULL or a number.
unsafe extern "C" fn copyinstr(
    from: *const c_char,
    to: *mut c_char,
    limit: usize,
    copied: *mut usize,
) -> c_int {
    const ENAMETOOLONG: c_int = 78;
    if from.is_null() {
        return EFAULT;
    }
    // SAFETY: `from` is a string, `to` has room for `limit` bytes, `copied` is NULL or a number.
    unsafe {
        let bytes = CStr::from_ptr(from).to_bytes_with_nul();
        let length = bytes.len().min(limit);
        core::ptr::copy_nonoverlapping(from, to, length);
        if let Some(copied) = copied.as_mut() {
            *copied = length;
        }
        if length < bytes.len() { ENAMETOOLONG } else { 0 }
    }
}

extern "C" fn ddi_get_pid() -> c_int {
    exec::pid()
}

extern "C" fn nulldev() -> c_int {
    0
}

extern "C" fn nodev() -> c_int {
    ENXIO
}

/// Returns DDI_SUCCESS.
extern "C" fn ddi_quiesce_not_needed(_device: *mut c_void) -> c_int {
    0
}

/// # Safety
/// Both are strings.
unsafe extern "C" fn strcmp(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: both are strings.
    let (a, b) = unsafe { (CStr::from_ptr(a), CStr::from_ptr(b)) };
    a.cmp(b) as c_int
}
