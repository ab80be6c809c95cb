//! The sysctls of modules (`sys/kern/kern_sysctl.c`). Modules can add nodes at the top of the tree, and strings below these
//! nodes. The kernel has no sysctls of its own.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use sdt_protocol::Refusal;
use spin::Mutex;
use stand_in_freebsd::errno::{EINVAL, ENOENT};

use crate::console;
use crate::exports::{exports, text};
use crate::system::refusal;

/// `CTLTYPE`, the mask of the type, and its values `CTLTYPE_NODE` and `CTLTYPE_STRING`.
const TYPE: c_int = 0xf;
const NODE: c_int = 1;
const STRING: c_int = 3;
/// `CTLFLAG_WR`.
const WRITABLE: c_int = 0x4000_0000;
/// `EPERM`, `EBUSY`, `ENOTEMPTY`.
const EPERM: c_int = 1;
const EBUSY: c_int = 16;
const ENOTEMPTY: c_int = 66;

exports! {
    sysctl_add_oid: unsafe extern "C" fn(
        *mut c_void, *mut c_void, c_int, *const c_char, c_int, *mut c_void, isize, Option<Handler>,
        *const c_char, *const c_char, *const c_char,
    ) -> *mut Oid,
    sysctl_remove_oid: unsafe extern "C" fn(*mut Oid, c_int, c_int) -> c_int,
    sysctl_handle_string: unsafe extern "C" fn(*mut Oid, *mut c_void, isize, *mut Request) -> c_int,
}

/// Returns the exported variables.
pub(crate) fn variables() -> [(&'static str, u64); 1] {
    [("sysctl__children", &raw const sysctl__children as u64)]
}

/// `SYSCTL_HANDLER_ARGS`.
type Handler = unsafe extern "C" fn(*mut Oid, *mut c_void, isize, *mut Request) -> c_int;

/// A sysctl. Modules identify it by its address.
///
/// For a node, the same address identifies the list of its children. Since FreeBSD 11 the list is the first word of the
/// structure; before, the fourth word points to the list. Here, `children` points to the structure itself, which is correct for
/// both.
#[derive(Debug)]
#[repr(C)]
struct Oid {
    unused: [usize; 3],
    children: *mut c_void,
    /// The full name: for a string, the name of the parent node, a dot, and the last part of the name.
    name: CString,
    kind: c_int,
    argument: *mut c_void,
    size: isize,
    handler: Option<Handler>,
}

/// `struct sysctl_req`.
#[repr(C)]
struct Request {
    thread: *mut c_void,
    lock: c_int,
    old: *mut c_void,
    old_length: usize,
    old_index: usize,
    old_function: *mut c_void,
    new: *const c_void,
    new_length: usize,
    new_index: usize,
    new_function: *mut c_void,
    valid_length: usize,
    flags: c_int,
}

/// The root of all sysctls (`sysctl__children`). Only its address is used; the sysctls are in [`OIDS`].
#[repr(transparent)]
struct Children(UnsafeCell<*mut c_void>);

// SAFETY: only its address is used.
unsafe impl Sync for Children {}

#[expect(non_upper_case_globals, reason = "FreeBSD's name")]
static sysctl__children: Children = Children(UnsafeCell::new(ptr::null_mut()));

/// All registered sysctls.
static OIDS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// A registered sysctl.
struct Entry {
    oid: *mut Oid,
    /// For a node: the number of modules that have added it (`oid_refcnt`).
    holders: u32,
    /// Whether a write is in progress; then the sysctl must not be removed.
    runs: bool,
}

// SAFETY: the oid does not change, and is freed only when its entry is removed from `OIDS`.
unsafe impl Send for Entry {}

/// Adds a sysctl.
///
/// # Safety
/// `name` is a string that ends with a NUL; handler and argument live until the sysctl is removed.
unsafe extern "C" fn sysctl_add_oid(
    _context: *mut c_void,
    parent: *mut c_void,
    _number: c_int,
    name: *const c_char,
    kind: c_int,
    argument: *mut c_void,
    size: isize,
    handler: Option<Handler>,
    _format: *const c_char,
    _description: *const c_char,
    _label: *const c_char,
) -> *mut Oid {
    let mut oids = OIDS.lock();
    // SAFETY: `name` is a string.
    let mut name = CString::from(unsafe { text(name) });
    let expected = if ptr::eq(parent, sysctl__children.0.get().cast()) {
        NODE
    } else {
        let node = oids.iter().find(|entry| ptr::eq(entry.oid.cast(), parent));
        let node = node.expect("sysctl_add_oid: there is no such parent");
        // SAFETY: an oid is freed only when its entry is removed from `OIDS`, which is locked.
        let node = unsafe { &*node.oid };
        let bytes = [node.name.as_bytes(), name.as_bytes()].join(&b'.');
        name = CString::new(bytes).expect("the names of both have no NUL");
        STRING
    };
    assert_eq!(kind & TYPE, expected, "sysctl_add_oid: nodes are at the top, strings below");
    assert_eq!(handler.is_some(), expected == STRING, "sysctl_add_oid: strings have a handler");
    if let Some(index) = find(&oids, &name) {
        if expected == NODE {
            oids[index].holders += 1;
            return oids[index].oid;
        }
        console::print(&format!("can't re-use a leaf ({})!\n", name.to_string_lossy()));
        return ptr::null_mut();
    }
    let (unused, children) = ([0; 3], ptr::null_mut());
    let oid = Oid { unused, children, name, kind, argument, size, handler };
    let oid = Box::into_raw(Box::new(oid));
    // SAFETY: the node is not linked into the tree yet, so no other CPU can reach it.
    unsafe { (*oid).children = oid.cast() };
    oids.push(Entry { oid, holders: 1, runs: false });
    oid
}

fn find(oids: &[Entry], name: &CStr) -> Option<usize> {
    // SAFETY: an oid is freed only when its entry is removed from `OIDS`, which the caller has locked.
    oids.iter().position(|entry| unsafe { (*entry.oid).name.as_c_str() == name })
}

/// Drops a reference to a sysctl. With the last reference, removes the sysctl, and the leaves below it if `recurse`. Returns when
/// no CPU is executing a handler of a removed sysctl.
///
/// # Safety
/// The caller does not use the sysctl afterwards.
unsafe extern "C" fn sysctl_remove_oid(oid: *mut Oid, free: c_int, recurse: c_int) -> c_int {
    loop {
        let mut oids = OIDS.lock();
        let Some(index) = oids.iter().position(|entry| ptr::eq(entry.oid, oid)) else {
            return EINVAL;
        };
        if oids[index].holders > 1 {
            oids[index].holders -= 1;
            return 0;
        }
        // SAFETY: an oid is freed only when its entry is removed from `OIDS`, which is locked.
        let name = unsafe { (*oids[index].oid).name.clone() };
        let below = [name.as_bytes(), b"."].concat();
        // SAFETY: an oid lives while it is in the list.
        let is_below = |entry: &Entry| unsafe { (*entry.oid).name.as_bytes().starts_with(&below) };
        if recurse == 0 && oids.iter().any(is_below) {
            return ENOTEMPTY;
        }
        let goes = |entry: &Entry| ptr::eq(entry.oid, oid) || is_below(entry);
        if !oids.iter().any(|entry| goes(entry) && entry.runs) {
            oids.retain(|entry| {
                if goes(entry) && free != 0 {
                    // SAFETY: `sysctl_add_oid` made the oid from a `Box`, and its entry is being removed.
                    drop(unsafe { Box::from_raw(entry.oid) });
                    return false;
                }
                !goes(entry)
            });
            return 0;
        }
        drop(oids);
        core::hint::spin_loop();
    }
}

/// Copies the written string into the buffer, if it fits. Reading a sysctl is not supported.
///
/// # Safety
/// `buffer` has `size` bytes; `request` is the request that the kernel passed to the handler.
unsafe extern "C" fn sysctl_handle_string(
    _oid: *mut Oid,
    buffer: *mut c_void,
    size: isize,
    request: *mut Request,
) -> c_int {
    // SAFETY: the handler passes the kernel's request, and its own buffer.
    let (request, buffer) = unsafe { (&mut *request, buffer.cast::<u8>()) };
    if request.new.is_null() {
        return 0;
    }
    let length = request.new_length - request.new_index;
    if length >= size.unsigned_abs() {
        return EINVAL;
    }
    // SAFETY: the request has `length` bytes left, and `length` is less than the size of the buffer.
    unsafe {
        let new = request.new.cast::<u8>().add(request.new_index);
        ptr::copy_nonoverlapping(new, buffer, length);
        buffer.add(length).write(0);
    }
    request.new_index += length;
    0
}

/// Writes to a sysctl.
pub(crate) fn write(name: &str, value: &str) -> Result<(), Refusal> {
    let refused = |errno, why| refusal(errno, &format_args!("{name}: {why}"));
    let unknown = || refused(ENOENT, "unknown oid");
    let wanted = CString::new(name).map_err(|_| unknown())?;
    if !name.contains('.') {
        // `sys___sysctl` rejects names of a single part.
        return Err(refused(EINVAL, "Invalid argument"));
    }
    let oid = {
        let mut oids = OIDS.lock();
        let index = find(&oids, &wanted).ok_or_else(unknown)?;
        let entry = &mut oids[index];
        if entry.runs {
            return Err(refused(EBUSY, "is being written to"));
        }
        entry.runs = true;
        entry.oid
    };
    // SAFETY: `sysctl_remove_oid` does not free the oid while `runs` is set.
    let Oid { kind, argument, size, handler, .. } = unsafe { &*oid };
    let error = if let (Some(handler), true) = (handler, kind & WRITABLE != 0) {
        let mut request = Request {
            thread: ptr::null_mut(),
            lock: 0,
            old: ptr::null_mut(),
            old_length: 0,
            old_index: 0,
            old_function: ptr::null_mut(),
            new: value.as_ptr().cast(),
            new_length: value.len(),
            new_index: 0,
            new_function: ptr::null_mut(),
            valid_length: 0,
            flags: 0,
        };
        // SAFETY: the module that added the sysctl guarantees that the handler can be called with this argument.
        unsafe { handler(oid, *argument, *size, &mut request) }
    } else {
        EPERM
    };
    for entry in OIDS.lock().iter_mut().filter(|entry| ptr::eq(entry.oid, oid)) {
        entry.runs = false;
    }
    match error {
        0 => Ok(()),
        errno => Err(refused(errno, "cannot be written to")),
    }
}
