//! The probe by hand: whoever reads the kstat `my_module:0:greet` is greeted, `kstat -p my_module:0:greet`. A driver would
//! have an `ioctl` for that; a module without a device has kstats.
//!
//! The kernel's functions are those of `usr/src/uts/common/os/kstat_fr.c`, its structures those of
//! `usr/src/uts/common/sys/kstat.h`; LP64.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::offset_of;
use core::ptr::NonNull;

const MODULE: &CStr = c"my_module";
const NAME: &CStr = c"greet";
const CLASS: &CStr = c"misc";
/// Its only value: how often it has been read.
const GREETED: &CStr = c"greeted";

/// Who is greeted.
const WHO: &CStr = c"by hand";

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

/// The kstat, while it is there.
pub(crate) struct ByHand(NonNull<Kstat>);

// SAFETY: the kernel's functions may be called with it on any CPU.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Adds it; `None` if the name is taken. May sleep.
    ///
    /// # Safety
    /// The module stays loaded until it has been [removed](Self::remove).
    pub(crate) unsafe fn add() -> Option<Self> {
        let (module, name, class) = (MODULE.as_ptr(), NAME.as_ptr(), CLASS.as_ptr());
        // SAFETY: the names are strings, which are copied.
        let kstat =
            NonNull::new(unsafe { kstat_create(module, 0, name, class, TYPE_NAMED, 1, 0) })?;
        // SAFETY: it is ours alone until it is installed; its data is one value, as was asked for; the function is
        // there as long as the module.
        unsafe {
            kstat_named_init((*kstat.as_ptr()).data.cast(), GREETED.as_ptr(), DATA_UINT64);
            (*kstat.as_ptr()).update = Some(update);
            kstat_install(kstat.as_ptr());
        }
        Some(Self(kstat))
    }

    /// Takes it away; nobody is in its function any more. May sleep.
    pub(crate) fn remove(self) {
        // SAFETY: it has been added, and is removed once.
        unsafe { kstat_delete(self.0.as_ptr()) };
    }
}

/// # Safety
/// As the kernel calls `ks_update`: by one thread at a time.
unsafe extern "C" fn update(kstat: *mut Kstat, operation: c_int) -> c_int {
    if operation != READ {
        return EACCES;
    }
    crate::greet(WHO);
    // SAFETY: it is the one that was added, with its one value, and nobody else looks at it meanwhile.
    unsafe { (*(*kstat).data.cast::<Named>()).value += 1 };
    0
}
