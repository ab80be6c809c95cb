//! Stacks that the C library did not allocate, and the memory next to them.

use std::ffi::c_void;
use std::sync::Mutex;

use sdt_core::sdt_probe;

/// The size of a page in bytes, or of several pages.
const PAGE: usize = 64 << 10;
/// The size of each part of the memory.
const PART: usize = 16 * PAGE;
/// The value that programs in D read.
const VALUE: u64 = 0x5354_4143_4b21;

// The crate `libc` does not declare them on every architecture.
unsafe extern "C" {
    pub(super) fn getcontext(context: *mut libc::ucontext_t) -> libc::c_int;
    pub(super) fn makecontext(
        context: *mut libc::ucontext_t,
        run: extern "C" fn(),
        count: libc::c_int,
        ...
    );
    pub(super) fn swapcontext(
        from: *mut libc::ucontext_t,
        to: *const libc::ucontext_t,
    ) -> libc::c_int;
}

/// Hits the probe `filled` with an address.
#[inline(never)]
fn fire(address: usize) {
    sdt_probe!(super::subject::filled, address as u64);
}

/// Memory for stacks: an inaccessible part, the stack of a coroutine, other memory, and the stack of a thread. Except for the first, all parts
/// are one mapping.
#[derive(Clone, Copy, Debug)]
struct Arena {
    start: usize,
}

impl Arena {
    /// Maps new memory, or a file that is only in memory.
    fn new(is_file: bool) -> Self {
        // SAFETY: opens a new file and maps new memory.
        let start = unsafe {
            let file = match is_file {
                true => libc::memfd_create(c"stacks".as_ptr(), libc::MFD_CLOEXEC),
                false => -1,
            };
            assert!(!is_file || libc::ftruncate(file, 4 * PART as libc::off_t) == 0);
            let kind =
                if is_file { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
            let all = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(std::ptr::null_mut(), 4 * PART, all, kind, file, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start, PART, libc::PROT_NONE), 0);
            start.expose_provenance()
        };
        Self { start }
    }

    /// Returns the address of a part.
    fn part(self, number: usize) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.start + number * PART)
    }

    /// Runs a function in a thread whose stack is the last part.
    fn run(self, function: impl FnOnce()) {
        extern "C" fn begin(function: *mut c_void) -> *mut c_void {
            // SAFETY: `run` passes its own function, and waits for this thread.
            let function = unsafe { &mut *function.cast::<Option<&mut dyn FnMut()>>() };
            function.take().unwrap()();
            std::ptr::null_mut()
        }
        let mut function = Some(function);
        let mut call = || function.take().unwrap()();
        let mut passed: Option<&mut dyn FnMut()> = Some(&mut call);
        // SAFETY: the stack is memory of this arena that nothing else uses, and `passed` outlives the thread.
        unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
            assert_eq!(libc::pthread_attr_setstack(&mut attributes, self.part(3), PART), 0);
            let mut thread: libc::pthread_t = std::mem::zeroed();
            let argument = (&raw mut passed).cast();
            assert_eq!(libc::pthread_create(&mut thread, &attributes, begin, argument), 0);
            assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
            libc::pthread_attr_destroy(&mut attributes);
        }
    }

    /// Fires with these addresses on the stack of the coroutine.
    fn fire_in_coroutine(self, addresses: &[usize]) {
        static ADDRESSES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        extern "C" fn coroutine() {
            let local = std::hint::black_box(VALUE);
            fire((&raw const local).addr());
            ADDRESSES.lock().unwrap().drain(..).for_each(fire);
            std::hint::black_box(&local);
        }
        ADDRESSES.lock().unwrap().extend(addresses);
        // SAFETY: `getcontext` initialises the context before it is used, and the stack is memory of this arena that nothing else uses. The
        // coroutine ends, and `uc_link` resumes this function.
        unsafe {
            let [mut here, mut there]: [libc::ucontext_t; 2] = std::mem::zeroed();
            assert_eq!(getcontext(&mut there), 0);
            there.uc_stack.ss_sp = self.part(1);
            there.uc_stack.ss_size = PART;
            there.uc_link = &raw mut here;
            makecontext(&mut there, coroutine, 0);
            assert_eq!(swapcontext(&mut here, &there), 0);
        }
    }
}

/// Fires with the address of a local variable.
#[inline(never)]
fn fire_here() {
    let local = std::hint::black_box(VALUE);
    fire((&raw const local).addr());
    std::hint::black_box(&local);
}

/// A thread runs a coroutine whose stack is in the same mapping as its own. The memory between both stacks is inaccessible at the
/// second hit: it is unmapped (`unmapped`), or has guard pages (`guarded`), as glibc 2.42 installs them below a stack.
pub(super) fn beside_a_coroutine(how: &str) -> &'static str {
    const GUARD_INSTALL: libc::c_int = 102;
    let arena = Arena::new(false);
    let mut answer = "done";
    arena.run(|| {
        fire_here();
        arena.fire_in_coroutine(&[]);
        // SAFETY: nothing uses the part between the stacks.
        let result = unsafe {
            match how {
                "guarded" => libc::madvise(arena.part(2), PART, GUARD_INSTALL),
                _ => libc::munmap(arena.part(2), PART),
            }
        };
        if result == 0 {
            arena.fire_in_coroutine(&[arena.part(2).addr(), arena.part(2).addr() + PART - 64]);
        } else {
            answer = "not possible";
        }
        fire_here();
    });
    answer
}

/// A thread whose stack is a file in memory.
pub(super) fn in_a_file() {
    Arena::new(true).run(fire_here);
}

/// A handler runs on an alternate stack within the thread's own, above which a page is inaccessible.
pub(super) fn beside_a_guard() {
    static GUARD: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    extern "C" fn handler(_: libc::c_int) {
        fire_here();
        fire(GUARD.load(std::sync::atomic::Ordering::Relaxed));
    }
    fn within() {
        let mut memory = [0_u8; 6 * PAGE];
        fire_here();
        let start = memory.as_mut_ptr().expose_provenance().next_multiple_of(PAGE);
        let [stack, guard] =
            [start, start + 4 * PAGE].map(std::ptr::with_exposed_provenance_mut::<c_void>);
        GUARD.store(guard.addr(), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: nothing else uses the array, and the page is accessible again before it ends. The handler hits probes only.
        unsafe {
            assert_eq!(libc::mprotect(guard, PAGE, libc::PROT_NONE), 0);
            let own = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: 4 * PAGE };
            let mut before: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&own, &mut before), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
            libc::raise(libc::SIGUSR2);
            assert_eq!(libc::sigaltstack(&before, std::ptr::null_mut()), 0);
            assert_eq!(libc::mprotect(guard, PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
        }
        std::hint::black_box(&mut memory);
    }
    std::thread::Builder::new().stack_size(PART).spawn(within).unwrap().join().unwrap();
}

/// The stack grows far beyond its size at the first hit, in the first thread under another limit and in threads of many sizes, which reuse
/// each other's stacks. Returns the number of hits.
pub(super) fn growing() -> u64 {
    #[inline(never)]
    fn deeper(levels: u64) {
        let room = std::hint::black_box([0_u8; 4096]);
        fire_here();
        if levels > 1 {
            deeper(levels - 1);
        }
        std::hint::black_box(&room);
    }
    // SAFETY: reads and sets the limit of the first thread's stack, which is larger than the part in use.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_STACK, &mut limit), 0);
        fire_here();
        let lower = libc::rlimit { rlim_cur: 2 << 20, ..limit };
        assert_eq!(libc::setrlimit(libc::RLIMIT_STACK, &lower), 0);
        deeper(100);
        assert_eq!(libc::setrlimit(libc::RLIMIT_STACK, &limit), 0);
        deeper(50);
    }
    for pages in [4, 16, 8, 2, 32, 4] {
        let thread = std::thread::Builder::new().stack_size(pages * PAGE);
        thread.spawn(|| deeper(10)).unwrap().join().unwrap();
    }
    211
}
