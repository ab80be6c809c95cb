//! Calls a handler before every exec on illumos, by hooking the kernel's private table `execsw`.
//!
//! # Warning
//! **Do not copy this crate into a module of yours.** illumos has no interface that tells a module of an exec. `execsw`
//! (`usr/src/uts/common/sys/exec.h`, as of 2025) is not an interface and may change in any release; a module that hooks a changed
//! table crashes the kernel. The crate exists so that the example module and the tests of this project have an event that happens
//! on every machine. A driver needs no hook: its probes fire where the kernel calls the driver. The kernel's own
//! `proc:::exec-success` needs none either.
//!
//! # Why removing the hook is safe
//! `gexec` (`usr/src/uts/common/os/exec.c`) holds the lock of a table entry as a reader from before it loads the entry's
//! function until that function has returned. [`deregister`] takes the lock as a writer, as `mod_removeexec`
//! (`usr/src/uts/common/os/modconf.c`) does before a module is unloaded. After that no thread is in the hook or about to enter
//! it.
//!
//! The table of system calls, which illumos's provider `syscall` changes, has no such lock. A thread can load a function from
//! there and then be preempted for any time before the function's first instruction. No event tells when the function's text may
//! be freed.
#![cfg_attr(not(test), no_std)]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

/// `struct execsw`. 40 bytes.
#[repr(C)]
struct ExecSw {
    magic: *const c_char,
    magic_offset: c_int,
    magic_length: c_int,
    /// Written by the holder of the write lock. NULL while the module that provides it is not loaded.
    function: UnsafeCell<Option<Function>>,
    core: *const (),
    lock: *mut RwLock,
}

const _: () = assert!(offset_of!(ExecSw, function) == 16);
const _: () = assert!(offset_of!(ExecSw, lock) == 32);
const _: () = assert!(size_of::<ExecSw>() == 40);

/// `krwlock_t`, opaque here.
type RwLock = c_void;

/// `RW_WRITER` of `krw_t`, `usr/src/uts/common/sys/rwlock.h`.
const RW_WRITER: c_int = 0;

unsafe extern "C" {
    // The first of `nexectype` entries.
    static execsw: ExecSw;
    static nexectype: c_int;
    fn rw_enter(lock: *mut RwLock, how: c_int);
    fn rw_exit(lock: *mut RwLock);
}

/// `exec_func`. The hook reads only `file`.
type Function = unsafe extern "C" fn(
    vnode: *mut c_void,
    uap: *mut c_void,
    args: *mut c_void,
    interpreter: *mut c_void,
    level: c_int,
    size: *mut c_long,
    setid: c_int,
    file: *const c_char,
    cred: *mut c_void,
    brand: c_int,
) -> c_int;

/// A function that is called before each exec, with the path given to `execve`; for a script with the path of the script. The
/// exec can still fail afterwards. Runs in the context of the process; may sleep.
pub type Handler = fn(path: &CStr);

/// The operation is not possible now: EBUSY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The registered handler, or NULL.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Number of kinds of ELF files: 64-bit and 32-bit.
const KINDS: usize = 2;
/// `EI_CLASS`: the offset of the byte that tells 64-bit from 32-bit files.
const CLASS: usize = 4;

/// The functions that the hook replaced, by kind. Written by the holder of the entry's write lock.
static BEFORE: [AtomicPtr<()>; KINDS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; KINDS];

/// The hook's functions, by kind.
static HOOKS: [Function; KINDS] = [before_exec::<0>, before_exec::<1>];

/// Calls the handler, then the function that the hook replaced.
///
/// # Safety
/// The caller is `gexec`, which holds the entry's lock as a reader.
unsafe extern "C" fn before_exec<const KIND: usize>(
    vnode: *mut c_void,
    uap: *mut c_void,
    args: *mut c_void,
    interpreter: *mut c_void,
    level: c_int,
    size: *mut c_long,
    setid: c_int,
    file: *const c_char,
    cred: *mut c_void,
    brand: c_int,
) -> c_int {
    let handler = HANDLER.load(Ordering::Acquire);
    if !handler.is_null() && !file.is_null() {
        // SAFETY: `register` stored a `Handler` there; `file` is the kernel's copy of the path, which lives until the exec
        // returns.
        let (handler, path) =
            unsafe { (core::mem::transmute::<*mut (), Handler>(handler), CStr::from_ptr(file)) };
        handler(path);
    }
    // SAFETY: `hook` stored the table's function there before it put this one into the table; the arguments are `gexec`'s own.
    unsafe {
        let before =
            core::mem::transmute::<*mut (), Function>(BEFORE[KIND].load(Ordering::Acquire));
        before(vnode, uap, args, interpreter, level, size, setid, file, cred, brand)
    }
}

/// A table entry for ELF files, whose lock this thread holds as a writer.
struct LockedEntry {
    entry: &'static ExecSw,
    kind: usize,
}

impl LockedEntry {
    /// Calls `change` for each entry for ELF files, with the entry locked as a writer: no exec of its kind runs meanwhile.
    fn each(mut change: impl FnMut(&Self)) {
        // SAFETY: the kernel's table has `nexectype` entries.
        let table = unsafe {
            core::slice::from_raw_parts(&raw const execsw, usize::try_from(nexectype).unwrap_or(0))
        };
        for entry in table {
            if let Some(kind) = entry.kind()
                && !entry.lock.is_null()
            {
                // SAFETY: `lock` is the entry's lock. Execs hold it while they read a file's headers, so this may sleep.
                unsafe { rw_enter(entry.lock, RW_WRITER) };
                change(&Self { entry, kind });
                // SAFETY: `rw_enter` took it above.
                unsafe { rw_exit(entry.lock) };
            }
        }
    }

    fn function(&self) -> Option<Function> {
        // SAFETY: `each` holds the entry's lock.
        unsafe { *self.entry.function.get() }
    }

    fn set_function(&self, function: Function) {
        // SAFETY: `each` holds the entry's lock as a writer, so no other thread reads the function.
        unsafe { *self.entry.function.get() = Some(function) };
    }

    fn holds(&self, function: *const ()) -> bool {
        self.function().is_some_and(|held| held as *const () == function)
    }

    fn is_hooked(&self) -> bool {
        self.holds(HOOKS[self.kind] as *const ())
    }

    /// Returns whether another module has hooked the entry after this one, so that its function calls ours. An empty entry, or one with
    /// the replaced function again, does not count: the module that provides the function was unloaded and took the hook with it.
    fn is_covered(&self) -> bool {
        let before = BEFORE[self.kind].load(Ordering::Acquire);
        !before.is_null() && self.function().is_some() && !self.is_hooked() && !self.holds(before)
    }

    fn hook(&self) {
        if let Some(before) = self.function()
            && !self.is_hooked()
        {
            BEFORE[self.kind].store(before as *mut (), Ordering::Release);
            self.set_function(HOOKS[self.kind]);
        }
    }

    fn unhook(&self) {
        let before = BEFORE[self.kind].load(Ordering::Acquire);
        // SAFETY: `hook` stored the replaced function there.
        self.set_function(unsafe { core::mem::transmute::<*mut (), Function>(before) });
    }
}

impl ExecSw {
    /// The kind of ELF files that the entry is for; `None` if it is for other files.
    fn kind(&self) -> Option<usize> {
        const MAGIC: &[u8; CLASS] = b"\x7fELF";
        if self.magic_offset != 0 || self.magic_length as usize <= CLASS {
            return None;
        }
        // SAFETY: the table says that the magic has `magic_length` bytes, which are more than these.
        let magic = unsafe { &*self.magic.cast::<[u8; CLASS + 1]>() };
        match magic[CLASS] {
            _ if !magic.starts_with(MAGIC) => None,
            2 => Some(0),
            1 => Some(1),
            _ => None,
        }
    }
}

/// Calls `handler` before every exec, until [`deregister`]. May sleep.
///
/// # Safety
/// Before the module is unloaded, [`deregister`] must have succeeded.
///
/// # Errors
/// A handler is registered already.
pub unsafe fn register(handler: Handler) -> Result<(), Busy> {
    HANDLER
        .compare_exchange(
            core::ptr::null_mut(),
            handler as *mut (),
            Ordering::AcqRel,
            Ordering::Acquire,
        )
        .map_err(|_| Busy)?;
    LockedEntry::each(LockedEntry::hook);
    Ok(())
}

/// Restores the table. Sleeps until no thread is in the hook or about to enter it.
///
/// # Errors
/// Another module has hooked the table after this one. The handler stays registered then.
pub fn deregister() -> Result<(), Busy> {
    let (mut unhooked, mut covered) = ([false; KINDS], false);
    LockedEntry::each(|entry| {
        covered |= entry.is_covered();
        if entry.is_hooked() {
            entry.unhook();
            unhooked[entry.kind] = true;
        }
    });
    if covered {
        LockedEntry::each(|entry| {
            if unhooked[entry.kind] {
                entry.hook();
            }
        });
        return Err(Busy);
    }
    for before in &BEFORE {
        before.store(core::ptr::null_mut(), Ordering::Release);
    }
    HANDLER.store(core::ptr::null_mut(), Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
    use std::time::Duration;

    /// A `krwlock_t` of the test: the number of readers, or -1 for a writer.
    struct Lock(AtomicI32);

    #[unsafe(no_mangle)]
    unsafe extern "C" fn rw_enter(lock: *mut RwLock, how: c_int) {
        // SAFETY: the entries of `TABLE` point to locks of this type.
        let lock = unsafe { &(*lock.cast::<Lock>()).0 };
        let step = |readers: i32| match (how, readers) {
            (RW_WRITER, 0) => Some(-1),
            (RW_WRITER, _) | (_, -1) => None,
            (_, readers) => Some(readers + 1),
        };
        while lock.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_err() {
            std::thread::yield_now();
        }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn rw_exit(lock: *mut RwLock) {
        // SAFETY: the entries of `TABLE` point to locks of this type.
        let lock = unsafe { &(*lock.cast::<Lock>()).0 };
        let step = |held: i32| Some(if held < 0 { 0 } else { held - 1 });
        lock.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).unwrap();
    }

    const RW_READER: c_int = 1;

    struct Table([ExecSw; 3]);

    // SAFETY: `function` changes only under the entry's lock.
    unsafe impl Sync for Table {}

    static LOCKS: [Lock; 3] = [const { Lock(AtomicI32::new(0)) }; 3];

    const fn entry(magic: &'static CStr, function: Function, lock: usize) -> ExecSw {
        ExecSw {
            magic: magic.as_ptr(),
            magic_offset: 0,
            magic_length: magic.count_bytes() as c_int,
            function: UnsafeCell::new(Some(function)),
            core: core::ptr::null(),
            lock: (&raw const LOCKS[lock]).cast_mut().cast(),
        }
    }

    #[unsafe(export_name = "execsw")]
    static TABLE: Table = Table([
        entry(c"#!", kernel_exec::<0>, 0),
        entry(c"\x7fELF\x01", kernel_exec::<0>, 1),
        entry(c"\x7fELF\x02", kernel_exec::<0>, 2),
    ]);

    #[unsafe(export_name = "nexectype")]
    static TYPES: c_int = 3;

    static EXECS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    /// Whether the module with the handler is loaded.
    static LOADED: AtomicBool = AtomicBool::new(true);

    /// The kernel's function (0), or the one of another hook (1).
    unsafe extern "C" fn kernel_exec<const OWNER: usize>(
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: c_int,
        _: *mut c_long,
        _: c_int,
        _: *const c_char,
        _: *mut c_void,
        _: c_int,
    ) -> c_int {
        EXECS[OWNER].fetch_add(1, Ordering::Relaxed);
        0
    }

    fn handle(path: &CStr) {
        assert!(LOADED.load(Ordering::Acquire), "the module has been unloaded");
        assert_eq!(path, c"/bin/sh");
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    /// `gexec`, preempted for a while between loading the entry's function and calling it.
    fn gexec(kind: usize, preempted: impl FnOnce()) {
        let entry = &TABLE.0[kind];
        let none = core::ptr::null_mut();
        // SAFETY: the lock is held around the call, as `gexec` does it, and the function takes these arguments.
        unsafe {
            rw_enter(entry.lock, RW_READER);
            let function = (*entry.function.get()).unwrap();
            preempted();
            let path = c"/bin/sh".as_ptr();
            function(none, none, none, none, 0, core::ptr::null_mut(), 0, path, none, 0);
            rw_exit(entry.lock);
        }
    }

    #[test]
    fn deregistering_waits_for_a_thread_about_to_enter_the_hook() {
        // SAFETY: `deregister` is called before the test ends.
        unsafe { register(handle) }.unwrap();
        // SAFETY: it is refused.
        assert_eq!(unsafe { register(handle) }, Err(Busy));
        for kind in 0..3 {
            gexec(kind, || ());
        }
        assert_eq!((EXECS[0].load(Ordering::Relaxed), HANDLED.load(Ordering::Relaxed)), (3, 2));

        let on_its_way = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                gexec(2, || {
                    on_its_way.wait();
                    std::thread::sleep(Duration::from_millis(100));
                });
            });
            on_its_way.wait();
            assert_eq!(deregister(), Ok(()));
            LOADED.store(false, Ordering::Release);
        });
        assert_eq!(HANDLED.load(Ordering::Relaxed), 3);
        gexec(2, || ());
        assert_eq!((EXECS[0].load(Ordering::Relaxed), HANDLED.load(Ordering::Relaxed)), (5, 3));

        // Another module hooks the table after this one, then removes its hook.
        LOADED.store(true, Ordering::Release);
        // SAFETY: `deregister` is called before the test ends.
        unsafe { register(handle) }.unwrap();
        // SAFETY: no other thread uses the table now.
        let hook = unsafe { *TABLE.0[2].function.get() };
        // SAFETY: no other thread uses the table now.
        unsafe { *TABLE.0[2].function.get() = Some(kernel_exec::<1>) };
        assert_eq!(deregister(), Err(Busy));
        gexec(1, || ());
        assert_eq!(HANDLED.load(Ordering::Relaxed), 4, "the hook of the other kind still works");
        // SAFETY: no other thread uses the table now.
        unsafe { *TABLE.0[2].function.get() = hook };
        assert_eq!(deregister(), Ok(()));
    }
}
