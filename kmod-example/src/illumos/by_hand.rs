//! A kstat whose reader fires the probe: `kstat -p proc_example:0:by_hand`. It shows the probe at work on a machine on which no
//! program is executed. A driver would use an `ioctl`; a module without a device can use a kstat.
//!
//! Functions: `usr/src/uts/common/os/kstat_fr.c`; structures: `usr/src/uts/common/sys/kstat.h`, LP64.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::offset_of;
use core::ptr::NonNull;

const MODULE: &CStr = c"proc_example";
const NAME: &CStr = c"by_hand";
const CLASS: &CStr = c"misc";
/// The kstat's only value: the number of reads.
const FIRED: &CStr = c"fired";

/// The path that the probe carries.
const PATH: &CStr = c"by hand";

/// `KSTAT_TYPE_NAMED`, `KSTAT_DATA_UINT64`, `KSTAT_READ`.
const TYPE_NAMED: u8 = 1;
const DATA_UINT64: u8 = 4;
const READ: c_int = 0;
/// `EACCES`.
const EACCES: c_int = 13;
/// `KSTAT_STRLEN`.
const NAME_LEN: usize = 31;

/// `struct kstat`.
#[repr(C)]
struct Kstat {
    created: i64,
    next: *mut Kstat,
    id: c_int,
    module: [c_char; NAME_LEN],
    reserved: u8,
    instance: c_int,
    name: [c_char; NAME_LEN],
    kind: u8,
    class: [c_char; NAME_LEN],
    flags: u8,
    data: *mut c_void,
    count: c_uint,
    data_size: usize,
    taken: i64,
    update: Option<unsafe extern "C" fn(*mut Kstat, c_int) -> c_int>,
    private: *mut c_void,
    snapshot: Option<unsafe extern "C" fn(*mut Kstat, *mut c_void, c_int) -> c_int>,
    lock: *mut c_void,
}

const _: () = assert!(offset_of!(Kstat, instance) == 52 && offset_of!(Kstat, data) == 120);
const _: () = assert!(offset_of!(Kstat, update) == 152 && size_of::<Kstat>() == 184);

/// `struct kstat_named`, with a `uint64_t`.
#[repr(C)]
struct Named {
    name: [c_char; NAME_LEN],
    kind: u8,
    value: u64,
    rest_of_value: u64,
}

const _: () = assert!(offset_of!(Named, value) == 32 && size_of::<Named>() == 48);

unsafe extern "C" {
    // May sleep.
    fn kstat_create(
        module: *const c_char,
        instance: c_int,
        name: *const c_char,
        class: *const c_char,
        kind: u8,
        count: c_uint,
        flags: u8,
    ) -> *mut Kstat;
    fn kstat_install(kstat: *mut Kstat);
    fn kstat_delete(kstat: *mut Kstat);
    fn kstat_named_init(named: *mut Named, name: *const c_char, kind: u8);
}

/// The installed kstat.
pub(super) struct ByHand(NonNull<Kstat>);

// SAFETY: the kernel's kstat functions take the pointer on any CPU.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Installs the kstat; returns `None` if the name is taken. May sleep.
    ///
    /// # Safety
    /// The module must stay loaded until [`remove`](Self::remove) has returned.
    pub(super) unsafe fn add() -> Option<Self> {
        let (module, name, class) = (MODULE.as_ptr(), NAME.as_ptr(), CLASS.as_ptr());
        // SAFETY: the names are C strings, and the kernel copies them.
        let kstat =
            NonNull::new(unsafe { kstat_create(module, 0, name, class, TYPE_NAMED, 1, 0) })?;
        // SAFETY: no other thread knows the kstat before `kstat_install`; its data is the one value that `kstat_create` was asked
        // for; the caller keeps the module, and with it `update`, loaded.
        unsafe {
            kstat_named_init((*kstat.as_ptr()).data.cast(), FIRED.as_ptr(), DATA_UINT64);
            (*kstat.as_ptr()).update = Some(update);
            kstat_install(kstat.as_ptr());
        }
        Some(Self(kstat))
    }

    /// Removes the kstat; afterwards no thread is in [`update`]. May sleep.
    pub(super) fn remove(self) {
        // SAFETY: `add` installed it, and `self` is consumed, so it is removed once.
        unsafe { kstat_delete(self.0.as_ptr()) };
    }
}

/// Fires the probe and counts the read (`ks_update`).
///
/// # Safety
/// `kstat` is the one that [`ByHand::add`] installed, and one thread at a time calls this.
unsafe extern "C" fn update(kstat: *mut Kstat, operation: c_int) -> c_int {
    if operation != READ {
        return EACCES;
    }
    crate::on_exec(Some(PATH));
    // SAFETY: the caller passes the installed kstat, which has one value, and no other thread uses it meanwhile.
    unsafe { (*(*kstat).data.cast::<Named>()).value += 1 };
    0
}
