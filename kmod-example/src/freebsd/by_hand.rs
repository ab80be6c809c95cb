//! The probe by hand: `sysctl proc_example.fire=/some/path` fires it with that path, so that it can be seen at work on a
//! machine on which nothing is executed, and from a shell.
//!
//! The kernel's functions are those of `sys/kern/kern_sysctl.c`, from 10 to 15. It is a leaf of a node of its own: a name
//! of one part cannot be written to (`sys___sysctl`), and of the kernel's own nodes none is called the same in all
//! releases.

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
/// `CTLTYPE_NODE` and `CTLTYPE_STRING`, and how they are printed.
const TYPE_NODE: (c_int, &CStr) = (1, c"N");
const TYPE_STRING: (c_int, &CStr) = (3, c"A");

/// `PATH_MAX`.
const PATH_LEN: usize = 1024;

/// The beginning of `struct sysctl_oid` (`sys/sys/sysctl.h`): since 11 it is the list of a node's children; before,
/// the fourth word points to that.
#[repr(C)]
struct Oid {
    words: [*mut c_void; 4],
}

/// `struct sysctl_req`, likewise.
#[repr(C)]
struct Request {
    _private: [u8; 0],
}

/// `SYSCTL_HANDLER_ARGS`: may sleep; returns an error number.
type Handler = unsafe extern "C" fn(*mut Oid, *mut c_void, isize, *mut Request) -> c_int;

unsafe extern "C" {
    /// `struct sysctl_oid_list`: the kernel's, under a lock of its own.
    static sysctl__children: UnsafeCell<[u8; 0]>;

    // All three may sleep. The last argument is there since 12, and nothing to those before.
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

/// The sysctl, while it is there.
pub(super) struct ByHand {
    /// Somebody else's as well, if they have one of the same name: the kernel counts who has it.
    node: NonNull<Oid>,
    leaf: NonNull<Oid>,
}

// SAFETY: the kernel's functions may be called with it on any CPU.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Adds it; `None` if the name is taken. May sleep.
    ///
    /// # Safety
    /// The module stays loaded until it has been [removed](Self::remove).
    pub(super) unsafe fn add() -> Option<Self> {
        // SAFETY: the list is the kernel's own; names are copied or live as long as the module.
        let node = unsafe {
            add_oid(sysctl__children.get().cast(), NODE, TYPE_NODE, None, NODE_DESCRIPTION)
        }?;
        // SAFETY: the node's list; the handler lives as long as the module, and takes no argument.
        let leaf = unsafe { add_oid(children(node), LEAF, TYPE_STRING, Some(handle), DESCRIPTION) };
        let Some(leaf) = leaf else {
            // SAFETY: it has just been added.
            unsafe { remove_oid(node) };
            return None;
        };
        Some(Self { node, leaf })
    }

    /// Takes it away; nobody is in its handler any more. May sleep.
    pub(super) fn remove(self) {
        // The leaf is no matter of the node's, which stays, with all that is below, where it is somebody else's as well.
        // SAFETY: both have been added, and are removed once.
        unsafe {
            remove_oid(self.leaf);
            remove_oid(self.node);
        }
    }
}

/// The list of a node's children (`SYSCTL_CHILDREN`).
fn children(node: NonNull<Oid>) -> *mut c_void {
    if VERSION >= 1_100_000 {
        return node.as_ptr().cast();
    }
    // SAFETY: a node that has been added.
    unsafe { node.as_ref() }.words[3]
}

/// Takes one away. May sleep.
///
/// # Safety
/// It has been added, and nothing of ours is below.
unsafe fn remove_oid(oid: NonNull<Oid>) {
    // SAFETY: by contract. It fails for nodes only that the kernel was built with.
    unsafe { sysctl_remove_oid(oid.as_ptr(), 1, 0) };
}

/// Adds a sysctl to a list.
///
/// # Safety
/// The list is one of the kernel's. Handler and description are good until the sysctl is removed.
unsafe fn add_oid(
    parent: *mut c_void,
    name: &'static CStr,
    (kind, format): (c_int, &'static CStr),
    handler: Option<Handler>,
    description: &'static CStr,
) -> Option<NonNull<Oid>> {
    let none = ptr::null_mut();
    // SAFETY: by contract; names are copied or live for ever.
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

/// # Safety
/// As the kernel calls handlers.
unsafe extern "C" fn handle(
    oid: *mut Oid,
    _argument: *mut c_void,
    _size: isize,
    request: *mut Request,
) -> c_int {
    let mut path = [0_u8; PATH_LEN];
    // SAFETY: `oid` and `request` are what the kernel has handed in, and the buffer has this size.
    let error =
        unsafe { sysctl_handle_string(oid, path.as_mut_ptr().cast(), PATH_LEN as isize, request) };
    // Who only reads leaves it empty.
    if let (0, Ok(path)) = (error, CStr::from_bytes_until_nul(&path))
        && !path.is_empty()
    {
        crate::on_exec(Some(path));
    }
    error
}
