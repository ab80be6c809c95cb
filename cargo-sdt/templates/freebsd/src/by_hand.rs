//! Fires the probe by hand: `sysctl my_module.greet=NAME`.
//!
//! The kernel's functions are those of `sys/kern/kern_sysctl.c`, from 10 to 15. The sysctl is a leaf below a node of this
//! module, because sysctl(8) cannot write to a name of one part.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};

use sdt_core::freebsd::VERSION;

const NODE: &CStr = c"my_module";
const NODE_DESCRIPTION: &CStr = c"A module with a probe";
const LEAF: &CStr = c"greet";
const DESCRIPTION: &CStr = c"Write a name to fire my_module:::greeted";

/// `OID_AUTO`: the kernel chooses the number.
const OID_AUTO: c_int = -1;
/// `CTLFLAG_RW | CTLFLAG_MPSAFE`.
const FLAGS: c_int = 0xc000_0000_u32.cast_signed() | 0x0004_0000;
/// `CTLTYPE_NODE` and `CTLTYPE_STRING`, with the formats by which sysctl(8) prints them.
const TYPE_NODE: (c_int, &CStr) = (1, c"N");
const TYPE_STRING: (c_int, &CStr) = (3, c"A");

/// The longest name in bytes, with its NUL.
const NAME_LEN: usize = 64;

/// The beginning of `struct sysctl_oid` (`sys/sys/sysctl.h`). Since 11, the struct begins with the list of a node's children;
/// before, its fourth word points to the list.
#[repr(C)]
struct Oid {
    words: [*mut c_void; 4],
}

/// `struct sysctl_req`, which only the kernel reads.
#[repr(C)]
struct Request {
    _private: [u8; 0],
}

/// `SYSCTL_HANDLER_ARGS`: may sleep; returns an error number.
type Handler = unsafe extern "C" fn(*mut Oid, *mut c_void, isize, *mut Request) -> c_int;

unsafe extern "C" {
    /// `struct sysctl_oid_list`, which the kernel guards with its own lock.
    static sysctl__children: UnsafeCell<[u8; 0]>;

    // All three may sleep. The last argument of the first exists since 12; older kernels ignore it.
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
pub(crate) struct ByHand {
    /// Modules with a node of the same name share it: the kernel counts the references.
    node: NonNull<Oid>,
    leaf: NonNull<Oid>,
}

// SAFETY: the only uses are calls of `sysctl_remove_oid`, which the kernel allows on any CPU.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Adds the sysctl. Returns `None` if the name is in use. May sleep.
    ///
    /// # Safety
    /// The module stays loaded until [`remove`](Self::remove) has returned.
    pub(crate) unsafe fn add() -> Option<Self> {
        // SAFETY: `sysctl__children` is the kernel's root list; the strings are static.
        let node = unsafe {
            add_oid(
                sysctl__children.get().cast(),
                NODE,
                TYPE_NODE,
                None,
                NODE_DESCRIPTION,
            )
        }?;
        // SAFETY: `children` returns the list of the node added above; the caller keeps the module, and so the handler, loaded.
        let leaf = unsafe {
            add_oid(
                children(node),
                LEAF,
                TYPE_STRING,
                Some(handle),
                DESCRIPTION,
            )
        };
        let Some(leaf) = leaf else {
            // SAFETY: `add_oid` above added the node, and nothing is below it.
            unsafe { remove_oid(node) };
            return None;
        };
        Some(Self { node, leaf })
    }

    /// Removes the sysctl, and waits until no thread runs its handler. May sleep.
    pub(crate) fn remove(self) {
        // The leaf first: if another module shares the node, the node stays with everything below it.
        // SAFETY: `add` added both, and `self` is consumed, so that they are removed once.
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
    // SAFETY: `add_oid` returned the node, so that it is a `struct sysctl_oid`.
    unsafe { node.as_ref() }.words[3]
}

/// Removes a sysctl. May sleep.
///
/// # Safety
/// [`add_oid`] returned it, and this module has no sysctl below it.
unsafe fn remove_oid(oid: NonNull<Oid>) {
    // SAFETY: the caller passes a sysctl that `add_oid` returned. The call fails only for static nodes of the kernel.
    unsafe { sysctl_remove_oid(oid.as_ptr(), 1, 0) };
}

/// Adds a sysctl to a list.
///
/// # Safety
/// `parent` is a `struct sysctl_oid_list`, and the handler stays loaded until the sysctl is removed.
unsafe fn add_oid(
    parent: *mut c_void,
    name: &'static CStr,
    (kind, format): (c_int, &'static CStr),
    handler: Option<Handler>,
    description: &'static CStr,
) -> Option<NonNull<Oid>> {
    let none = ptr::null_mut();
    // SAFETY: the caller vouches for the list and the handler; the strings are static.
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

/// Reads the name that sysctl(8) writes, and sends a greeting.
///
/// # Safety
/// The kernel calls it as a `SYSCTL_HANDLER_ARGS` function.
unsafe extern "C" fn handle(
    oid: *mut Oid,
    _argument: *mut c_void,
    _size: isize,
    request: *mut Request,
) -> c_int {
    let mut name = [0_u8; NAME_LEN];
    // SAFETY: `oid` and `request` are the kernel's arguments, and the buffer has `NAME_LEN` bytes.
    let error =
        unsafe { sysctl_handle_string(oid, name.as_mut_ptr().cast(), NAME_LEN as isize, request) };
    // A read of the sysctl leaves the name empty.
    if let (0, Ok(name)) = (error, CStr::from_bytes_until_nul(&name))
        && !name.is_empty()
    {
        crate::greet(name);
    }
    error
}
