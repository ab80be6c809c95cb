//! Fires the probe by hand: `kstat -p my_module:0:greet` reads a kstat, and each read sends a greeting. A driver would use
//! an `ioctl`; a module without a device has kstats.
//!
//! The kernel's functions are those of `usr/src/uts/common/os/kstat_fr.c`, its structures those of
//! `usr/src/uts/common/sys/kstat.h`; LP64.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::offset_of;
use core::ptr::NonNull;

const MODULE: &CStr = c"my_module";
const NAME: &CStr = c"greet";
const CLASS: &CStr = c"misc";
/// The name of its only value: the number of reads.
const GREETED: &CStr = c"greeted";

/// The name in each greeting.
const RECIPIENT: &CStr = c"by hand";

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

/// The registered kstat.
pub(crate) struct ByHand(NonNull<Kstat>);

// SAFETY: the only use is a call of `kstat_delete`, which the kernel allows on any CPU.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Adds the kstat. Returns `None` if the name is in use. May sleep.
    ///
    /// # Safety
    /// The module stays loaded until [`remove`](Self::remove) has returned.
    pub(crate) unsafe fn add() -> Option<Self> {
        let (module, name, class) = (MODULE.as_ptr(), NAME.as_ptr(), CLASS.as_ptr());
        // SAFETY: the names are static strings; `kstat_create` copies them.
        let kstat =
            NonNull::new(unsafe { kstat_create(module, 0, name, class, TYPE_NAMED, 1, 0) })?;
        // SAFETY: no other thread knows the kstat before `kstat_install`; its data is the one value that `kstat_create`
        // allocated; the caller keeps the module, and so `update`, loaded.
        unsafe {
            kstat_named_init((*kstat.as_ptr()).data.cast(), GREETED.as_ptr(), DATA_UINT64);
            (*kstat.as_ptr()).update = Some(update);
            kstat_install(kstat.as_ptr());
        }
        Some(Self(kstat))
    }

    /// Removes the kstat, and waits until no thread runs `update`. May sleep.
    pub(crate) fn remove(self) {
        // SAFETY: `add` created it, and `self` is consumed, so that it is removed once.
        unsafe { kstat_delete(self.0.as_ptr()) };
    }
}

/// Sends a greeting and counts it.
///
/// # Safety
/// The kernel calls it as `ks_update` of the kstat that [`ByHand::add`] installed, in one thread at a time.
unsafe extern "C" fn update(kstat: *mut Kstat, operation: c_int) -> c_int {
    if operation != READ {
        return EACCES;
    }
    crate::greet(RECIPIENT);
    // SAFETY: the kstat has the one value that `add` allocated, and the kernel holds the lock of the kstat.
    unsafe { (*(*kstat).data.cast::<Named>()).value += 1 };
    0
}
