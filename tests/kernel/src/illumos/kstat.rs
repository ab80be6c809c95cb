//! kstats that modules add (`usr/src/uts/common/os/kstat_fr.c`): named values.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::offset_of;
use core::ptr;

use sdt_protocol::Refusal;
use stand_in_illumos::errno::ENOENT;
use static_assertions::const_assert_eq;

use crate::system::refusal;

/// `KSTAT_STRLEN`, `KSTAT_TYPE_NAMED`, `KSTAT_READ`.
const NAME_LEN: usize = 31;
const TYPE_NAMED: u8 = 1;
const READ: c_int = 0;

/// `struct kstat` (`sys/kstat.h`).
#[repr(C)]
pub(super) struct Kstat {
    created: i64,
    next: *mut Kstat,
    id: c_int,
    module: [u8; NAME_LEN],
    reserved: u8,
    instance: c_int,
    name: [u8; NAME_LEN],
    kind: u8,
    class: [u8; NAME_LEN],
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

const_assert_eq!(offset_of!(Kstat, data), 120);
const_assert_eq!(offset_of!(Kstat, update), 152);
const_assert_eq!(size_of::<Kstat>(), 184);

/// `struct kstat_named`.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Named {
    name: [u8; NAME_LEN],
    kind: u8,
    value: [u64; 2],
}

const_assert_eq!(size_of::<Named>(), 48);

/// All kstats. The lock is held while a kstat is read, so that it cannot be deleted meanwhile.
static KSTATS: spin::Mutex<Vec<Entry>> = spin::Mutex::new(Vec::new());

struct Entry {
    kstat: *mut Kstat,
    installed: bool,
}

// SAFETY: `kstat_delete` removes the entry before it frees the kstat. After `kstat_install`, a kstat changes only while `KSTATS`
// is locked.
unsafe impl Send for Entry {}

/// Converts a name to a fixed-size field; truncates it if necessary.
fn field(name: &CStr) -> [u8; NAME_LEN] {
    let mut field = [0; NAME_LEN];
    let bytes = name.to_bytes();
    let length = bytes.len().min(NAME_LEN - 1);
    field[..length].copy_from_slice(&bytes[..length]);
    field
}

/// # Safety
/// The names are strings.
pub(super) unsafe extern "C" fn kstat_create(
    module: *const c_char,
    instance: c_int,
    name: *const c_char,
    class: *const c_char,
    kind: u8,
    count: c_uint,
    flags: u8,
) -> *mut Kstat {
    assert!(
        kind == TYPE_NAMED && flags == 0,
        "kstat_create: there are plain named values only here"
    );
    // SAFETY: the names are strings.
    let [module, name, class] =
        [module, name, class].map(|of| field(unsafe { CStr::from_ptr(of) }));
    let mut kstats = KSTATS.lock();
    // SAFETY: `kstat_delete` removes the entry from `KSTATS`, which is locked, before it frees the kstat.
    let is_it = |of: &Entry| unsafe {
        (*of.kstat).module == module && (*of.kstat).instance == instance && (*of.kstat).name == name
    };
    if kstats.iter().any(is_it) {
        return ptr::null_mut();
    }
    let named = Named { name: [0; NAME_LEN], kind: 0, value: [0; 2] };
    let data = Box::leak(vec![named; count as usize].into_boxed_slice()).as_mut_ptr();
    let kstat = Box::into_raw(Box::new(Kstat {
        created: 0,
        next: ptr::null_mut(),
        id: 0,
        module,
        reserved: 0,
        instance,
        name,
        kind,
        class,
        flags,
        data: data.cast(),
        count,
        data_size: count as usize * size_of::<Named>(),
        taken: 0,
        update: None,
        private: ptr::null_mut(),
        snapshot: None,
        lock: ptr::null_mut(),
    }));
    kstats.push(Entry { kstat, installed: false });
    kstat
}

/// Makes a kstat readable.
///
/// # Safety
/// [`kstat_create`] returned `kstat`.
pub(super) unsafe extern "C" fn kstat_install(kstat: *mut Kstat) {
    for entry in KSTATS.lock().iter_mut().filter(|entry| ptr::eq(entry.kstat, kstat)) {
        entry.installed = true;
    }
}

/// Removes a kstat; returns when no CPU is reading it.
///
/// # Safety
/// [`kstat_create`] returned `kstat`, and the caller does not use it afterwards.
pub(super) unsafe extern "C" fn kstat_delete(kstat: *mut Kstat) {
    let mut kstats = KSTATS.lock();
    let index = kstats.iter().position(|entry| ptr::eq(entry.kstat, kstat));
    kstats.remove(index.expect("kstat_delete: no such kstat"));
    // SAFETY: `kstat_create` made the kstat and its data from boxes, and the kstat is no longer in `KSTATS`.
    unsafe {
        let kstat = Box::from_raw(kstat);
        let data = ptr::slice_from_raw_parts_mut(kstat.data.cast::<Named>(), kstat.count as usize);
        drop(Box::from_raw(data));
    }
}

/// Initialises a named value.
///
/// # Safety
/// `named` points to a value of a kstat, and `name` is a string.
pub(super) unsafe extern "C" fn kstat_named_init(named: *mut Named, name: *const c_char, kind: u8) {
    // SAFETY: `named` is a value of a kstat, and `name` a string.
    unsafe {
        (*named).name = field(CStr::from_ptr(name));
        (*named).kind = kind;
    }
}

/// Calls `ks_update` of a kstat and returns the kstat's data. `wanted` has the form `module:instance:name`.
pub(super) fn read(wanted: &str) -> Result<Vec<u8>, Refusal> {
    let refused = |errno, why| refusal(errno, &format_args!("{wanted}: {why}"));
    let text = |field: &[u8]| {
        let length = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        alloc::string::String::from_utf8_lossy(&field[..length]).into_owned()
    };
    let kstats = KSTATS.lock();
    let installed = kstats.iter().filter(|entry| entry.installed);
    let found = installed.map(|entry| entry.kstat).find(|&kstat| {
        // SAFETY: `kstat_delete` removes the entry from `KSTATS`, which is locked, before it frees the kstat.
        let of = unsafe { &*kstat };
        format!("{}:{}:{}", text(&of.module), of.instance, text(&of.name)) == wanted
    });
    let kstat = found.ok_or_else(|| refused(ENOENT, "there is no such kstat"))?;
    // SAFETY: the kstat is in the locked list, and its module keeps the function loaded until `kstat_delete`.
    let error = unsafe { (*kstat).update.map_or(0, |update| update(kstat, READ)) };
    if error != 0 {
        return Err(refused(error, "cannot be read"));
    }
    // SAFETY: `kstat_create` allocated `data_size` bytes at `data`.
    Ok(unsafe {
        core::slice::from_raw_parts((*kstat).data.cast::<u8>(), (*kstat).data_size).to_vec()
    })
}
