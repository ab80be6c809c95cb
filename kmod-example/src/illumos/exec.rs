//! Every exec: a function of the module's between the kernel and what runs ELF files.
//!
//! illumos tells no module of an exec; the kernel's own `proc:::exec-success` needs none of this, and a driver's probes
//! fire where the driver is called. What is here changes the table of the kinds of files that can be run: `execsw`, of
//! `usr/src/uts/common/sys/exec.h` (2025), which is no interface and may change.
//!
//! The table is taken because leaving it is sound. `gexec` (`usr/src/uts/common/os/exec.c`) holds an entry's lock as a
//! reader from before it loads the entry's function until that has returned. [`deregister`] takes the lock as a writer,
//! as `mod_removeexec` (`usr/src/uts/common/os/modconf.c`) does for a module that is unloaded: then no thread is in our
//! function, or on its way there. The table of system calls, which illumos's provider `syscall` changes, has no such
//! lock: a thread can have loaded a function from there, and be preempted before the function's first instruction for
//! any time; nothing says when the function's text may be freed.

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
    /// Written to with the lock held by a writer. NULL while the module that has it is not loaded.
    function: UnsafeCell<Option<Function>>,
    core: *const (),
    lock: *mut RwLock,
}

const _: () = assert!(offset_of!(ExecSw, function) == 16);
const _: () = assert!(offset_of!(ExecSw, lock) == 32);
const _: () = assert!(size_of::<ExecSw>() == 40);

/// `krwlock_t`, the kernel's own.
type RwLock = c_void;

/// `RW_WRITER` of `krw_t`, `usr/src/uts/common/sys/rwlock.h`.
const RW_WRITER: c_int = 0;

unsafe extern "C" {
    // The first of so many.
    static execsw: ExecSw;
    static nexectype: c_int;
    fn rw_enter(lock: *mut RwLock, how: c_int);
    fn rw_exit(lock: *mut RwLock);
}

/// `exec_func`. Of what it is called with, only the name and the depth are looked at here.
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

/// What is called before each exec, of which nobody knows yet whether it succeeds, with the path as it was given to
/// `execve`; of a script the script's. In the context of the process; may sleep.
pub type Handler = fn(path: &CStr);

/// Not now: EBUSY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The handler, while there is one.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// The two kinds of ELF files: 64-bit and 32-bit.
const KINDS: usize = 2;
/// `EI_CLASS`, where ELF files say which of them they are.
const CLASS: usize = 4;

/// What was in the table before ours, by kind. Written to with the entry's lock held by a writer.
static BEFORE: [AtomicPtr<()>; KINDS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; KINDS];

/// Ours, by kind.
static OURS: [Function; KINDS] = [before_exec::<0>, before_exec::<1>];

/// Calls the handler, and goes on with what was there before.
///
/// # Safety
/// For `gexec`, which holds the entry's lock as a reader.
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
        // SAFETY: what `register` stored; and the kernel's copy of the path, good for the call.
        let (handler, path) =
            unsafe { (core::mem::transmute::<*mut (), Handler>(handler), CStr::from_ptr(file)) };
        handler(path);
    }
    // SAFETY: what was in the table, with its own arguments. Not NULL, or this would not be there.
    unsafe {
        let before =
            core::mem::transmute::<*mut (), Function>(BEFORE[KIND].load(Ordering::Acquire));
        before(vnode, uap, args, interpreter, level, size, setid, file, cred, brand)
    }
}

/// An entry of the table, for the files of a kind, with its lock held by us.
struct Entry {
    entry: &'static ExecSw,
    kind: usize,
}

impl Entry {
    /// Does `change` to each entry that is for ELF files, while nobody executes any of its kind.
    fn each(mut change: impl FnMut(&Self)) {
        // SAFETY: the kernel's table, as long as it says.
        let table = unsafe {
            core::slice::from_raw_parts(&raw const execsw, usize::try_from(nexectype).unwrap_or(0))
        };
        for entry in table {
            if let Some(kind) = entry.kind()
                && !entry.lock.is_null()
            {
                // SAFETY: the entry's lock. Execs hold it while they read a file's headers, so this sleeps.
                unsafe { rw_enter(entry.lock, RW_WRITER) };
                change(&Self { entry, kind });
                // SAFETY: taken above.
                unsafe { rw_exit(entry.lock) };
            }
        }
    }

    fn function(&self) -> Option<Function> {
        // SAFETY: the lock is held.
        unsafe { *self.entry.function.get() }
    }

    fn set_function(&self, function: Function) {
        // SAFETY: the lock is held as a writer, so nobody else looks at it.
        unsafe { *self.entry.function.get() = Some(function) };
    }

    fn holds(&self, function: *const ()) -> bool {
        self.function().is_some_and(|held| held as *const () == function)
    }

    fn is_ours(&self) -> bool {
        self.holds(OURS[self.kind] as *const ())
    }

    /// Whether somebody else's function is there, which calls ours. If there is none, or again the one from before,
    /// the module that has it was unloaded, and ours has gone with it.
    fn is_covered(&self) -> bool {
        let before = BEFORE[self.kind].load(Ordering::Acquire);
        !before.is_null() && self.function().is_some() && !self.is_ours() && !self.holds(before)
    }

    fn hook(&self) {
        if let Some(before) = self.function()
            && !self.is_ours()
        {
            BEFORE[self.kind].store(before as *mut (), Ordering::Release);
            self.set_function(OURS[self.kind]);
        }
    }

    fn unhook(&self) {
        let before = BEFORE[self.kind].load(Ordering::Acquire);
        // SAFETY: what `hook` stored.
        self.set_function(unsafe { core::mem::transmute::<*mut (), Function>(before) });
    }
}

impl ExecSw {
    /// Which of the two, if it is for ELF files.
    fn kind(&self) -> Option<usize> {
        const MAGIC: &[u8; CLASS] = b"\x7fELF";
        if self.magic_offset != 0 || self.magic_length as usize <= CLASS {
            return None;
        }
        // SAFETY: by the table more bytes than these.
        let magic = unsafe { &*self.magic.cast::<[u8; CLASS + 1]>() };
        match magic[CLASS] {
            _ if !magic.starts_with(MAGIC) => None,
            2 => Some(0),
            1 => Some(1),
            _ => None,
        }
    }
}

/// Calls `handler` before every exec, until [`deregister`]. Sleeps.
///
/// # Safety
/// Before the module is unloaded, [`deregister`] must have succeeded.
///
/// # Errors
/// There is a handler already.
pub unsafe fn register(handler: Handler) -> Result<(), Busy> {
    HANDLER
        .compare_exchange(
            core::ptr::null_mut(),
            handler as *mut (),
            Ordering::AcqRel,
            Ordering::Acquire,
        )
        .map_err(|_| Busy)?;
    Entry::each(Entry::hook);
    Ok(())
}

/// Puts the table back as it was. Sleeps until nobody is in our function, or on his way there.
///
/// # Errors
/// Somebody else has put his own function over ours. Everything goes on working then.
pub fn deregister() -> Result<(), Busy> {
    let (mut unhooked, mut covered) = ([false; KINDS], false);
    Entry::each(|entry| {
        covered |= entry.is_covered();
        if entry.is_ours() {
            entry.unhook();
            unhooked[entry.kind] = true;
        }
    });
    if covered {
        Entry::each(|entry| {
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

    /// A lock of the kernel's: readers, or -1.
    struct Lock(AtomicI32);

    #[unsafe(no_mangle)]
    unsafe extern "C" fn rw_enter(lock: *mut RwLock, how: c_int) {
        // SAFETY: the entries below have such.
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
        // SAFETY: as above.
        let lock = unsafe { &(*lock.cast::<Lock>()).0 };
        let step = |held: i32| Some(if held < 0 { 0 } else { held - 1 });
        lock.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).unwrap();
    }

    const RW_READER: c_int = 1;

    struct Table([ExecSw; 3]);

    // SAFETY: behind the locks.
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
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    /// Whether the module's text is still there.
    static LOADED: AtomicBool = AtomicBool::new(true);

    /// The kernel's function (0), or that of another hook.
    unsafe extern "C" fn kernel_exec<const WHOSE: usize>(
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
        EXECS[WHOSE].fetch_add(1, Ordering::Relaxed);
        0
    }

    fn hear(path: &CStr) {
        assert!(LOADED.load(Ordering::Acquire), "the module has been unloaded");
        assert_eq!(path, c"/bin/sh");
        HEARD.fetch_add(1, Ordering::Relaxed);
    }

    /// `gexec`, which is preempted for a while on its way into the function that it has loaded.
    fn gexec(kind: usize, preempted: impl FnOnce()) {
        let entry = &TABLE.0[kind];
        let none = core::ptr::null_mut();
        // SAFETY: as the kernel does it.
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
    fn a_thread_on_its_way_in_holds_the_module() {
        // SAFETY: it is deregistered below.
        unsafe { register(hear) }.unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { register(hear) }, Err(Busy));
        for kind in 0..3 {
            gexec(kind, || ());
        }
        assert_eq!((EXECS[0].load(Ordering::Relaxed), HEARD.load(Ordering::Relaxed)), (3, 2));

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
        assert_eq!(HEARD.load(Ordering::Relaxed), 3);
        gexec(2, || ());
        assert_eq!((EXECS[0].load(Ordering::Relaxed), HEARD.load(Ordering::Relaxed)), (5, 3));

        // Somebody puts his own function over ours, and goes again.
        LOADED.store(true, Ordering::Release);
        // SAFETY: it is deregistered below.
        unsafe { register(hear) }.unwrap();
        // SAFETY: nobody else looks now.
        let ours = unsafe { *TABLE.0[2].function.get() };
        // SAFETY: as above.
        unsafe { *TABLE.0[2].function.get() = Some(kernel_exec::<1>) };
        assert_eq!(deregister(), Err(Busy));
        gexec(1, || ());
        assert_eq!(HEARD.load(Ordering::Relaxed), 4, "the other kind goes on");
        // SAFETY: as above.
        unsafe { *TABLE.0[2].function.get() = ours };
        assert_eq!(deregister(), Ok(()));
    }
}
