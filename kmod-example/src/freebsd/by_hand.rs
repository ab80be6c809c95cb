//! A sysctl that fires the probe: `sysctl proc_example.fire=/some/path` fires it with that path. It shows the probe at work on a
//! machine on which no program is executed.
//!
//! Functions: `sys/kern/kern_sysctl.c`, FreeBSD 10 to 15. The sysctl is a leaf of a node of its own: a name of one part cannot be
//! written to (`sys___sysctl`), and none of the kernel's own nodes has the same name in all releases.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};

use sdt_core::freebsd::VERSION;

const NODE: &CStr = c"proc_example";
const NODE_DESCRIPTION: &CStr = c"The example of SDT probes in Rust";
const LEAF: &CStr = c"fire";
const DESCRIPTION: &CStr = c"Written to: fires proc:::exec-success with this path";

/// `OID_AUTO`: the kernel chooses the number.
const OID_AUTO: c_int = -1;
/// `CTLFLAG_RW | CTLFLAG_MPSAFE`.
const FLAGS: c_int = 0xc000_0000_u32.cast_signed() | 0x0004_0000;
/// `CTLTYPE_NODE` and `CTLTYPE_STRING`, each with its print format.
const TYPE_NODE: (c_int, &CStr) = (1, c"N");
const TYPE_STRING: (c_int, &CStr) = (3, c"A");

/// `PATH_MAX`.
const PATH_LEN: usize = 1024;

/// The beginning of `struct sysctl_oid` (`sys/sys/sysctl.h`). Since 11 the list of a node's children is here; before, the fourth
/// word points to it.
#[repr(C)]
struct Oid {
    words: [*mut c_void; 4],
}

/// `struct sysctl_req`, opaque here.
#[repr(C)]
struct Request {
    _private: [u8; 0],
}

/// `SYSCTL_HANDLER_ARGS`: may sleep; returns an error number.
type Handler = unsafe extern "C" fn(*mut Oid, *mut c_void, isize, *mut Request) -> c_int;

unsafe extern "C" {
    /// `struct sysctl_oid_list` of the top level, which the kernel locks itself.
    static sysctl__children: UnsafeCell<[u8; 0]>;

    // All three may sleep. `label` exists since 12; older kernels ignore it.
    fn sysctl_add_oid(
        context: *mut c_void,
        parent: *mut c_void,
        number: c_int,
        name: *const c_char,
        kind: c_int,
        argument: *mut c_void,
        size: isize,
        handler: Option<Handler>,
        format: *const c_char,
        description: *const c_char,
        label: *const c_char,
    ) -> *mut Oid;
    fn sysctl_remove_oid(oid: *mut Oid, free: c_int, recurse: c_int) -> c_int;
    fn sysctl_handle_string(
        oid: *mut Oid,
        buffer: *mut c_void,
        size: isize,
        request: *mut Request,
    ) -> c_int;
}

/// The registered sysctl.
pub(super) struct ByHand {
    /// Shared with other modules that add a node of this name: the kernel counts references.
    node: NonNull<Oid>,
    leaf: NonNull<Oid>,
}

// SAFETY: the kernel's sysctl functions take the pointers on any CPU.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Adds the sysctl; returns `None` if the name is taken. May sleep.
    ///
    /// # Safety
    /// The module must stay loaded until [`remove`](Self::remove) has returned.
    pub(super) unsafe fn add() -> Option<Self> {
        // SAFETY: the list is the kernel's own; the description is static, and the node has no handler.
        let node = unsafe {
            add_oid(sysctl__children.get().cast(), NODE, TYPE_NODE, None, NODE_DESCRIPTION)
        }?;
        // SAFETY: the list is that of a node which was just added; the caller keeps the module, and with it `handle`, loaded.
        let leaf = unsafe { add_oid(children(node), LEAF, TYPE_STRING, Some(handle), DESCRIPTION) };
        let Some(leaf) = leaf else {
            // SAFETY: `add_oid` returned the node, and no leaf of this module is below it.
            unsafe { remove_oid(node) };
            return None;
        };
        Some(Self { node, leaf })
    }

    /// Removes the sysctl; afterwards no thread is in [`handle`]. May sleep.
    pub(super) fn remove(self) {
        // The leaf first: the node stays if another module uses it as well.
        // SAFETY: `add` added both, and `self` is consumed, so each is removed once.
        unsafe {
            remove_oid(self.leaf);
            remove_oid(self.node);
        }
    }
}

/// Returns the list of a node's children (`SYSCTL_CHILDREN`).
fn children(node: NonNull<Oid>) -> *mut c_void {
    if VERSION >= 1_100_000 {
        return node.as_ptr().cast();
    }
    // SAFETY: `add_oid` returned the node, and it has not been removed.
    unsafe { node.as_ref() }.words[3]
}

/// Removes a sysctl. May sleep.
///
/// # Safety
/// [`add_oid`] returned it, it is removed for the first time, and nothing of this module is below it.
unsafe fn remove_oid(oid: NonNull<Oid>) {
    // SAFETY: the caller guarantees that it was added and not removed. It fails only for nodes that the kernel was built with.
    unsafe { sysctl_remove_oid(oid.as_ptr(), 1, 0) };
}

/// Adds a sysctl to a list.
///
/// # Safety
/// `parent` is a list of the kernel. The handler's code stays loaded until the sysctl is removed.
unsafe fn add_oid(
    parent: *mut c_void,
    name: &'static CStr,
    (kind, format): (c_int, &'static CStr),
    handler: Option<Handler>,
    description: &'static CStr,
) -> Option<NonNull<Oid>> {
    let none = ptr::null_mut();
    // SAFETY: the caller guarantees the list and the handler; the strings are static.
    NonNull::new(unsafe {
        sysctl_add_oid(
            none,
            parent,
            OID_AUTO,
            name.as_ptr(),
            kind | FLAGS,
            none,
            0,
            handler,
            format.as_ptr(),
            description.as_ptr(),
            ptr::null(),
        )
    })
}

/// Fires the probe with the string that is written.
///
/// # Safety
/// `oid` and `request` are those that the kernel passes to a handler.
unsafe extern "C" fn handle(
    oid: *mut Oid,
    _argument: *mut c_void,
    _size: isize,
    request: *mut Request,
) -> c_int {
    let mut path = [0_u8; PATH_LEN];
    // SAFETY: `oid` and `request` come from the kernel, and the buffer has `PATH_LEN` bytes.
    let error =
        unsafe { sysctl_handle_string(oid, path.as_mut_ptr().cast(), PATH_LEN as isize, request) };
    // Empty if the sysctl is only read.
    if let (0, Ok(path)) = (error, CStr::from_bytes_until_nul(&path))
        && !path.is_empty()
    {
        crate::on_exec(Some(path));
    }
    error
}
