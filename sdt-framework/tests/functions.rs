//! The provider `fbt`: functions of this process are traced as those of a kernel, with a signal handler in place of the kernel's.
#![cfg(all(feature = "server", target_arch = "x86_64", target_os = "linux"))]

mod common;

use std::arch::global_asm;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use common::{Small, Threads, spec, with_memory};
use dtrace_protocol::{
    Decoder, FunctionProbe, FunctionSite as WireSite, Header, RefusedFunction, Reply, Request,
    VERSION, Why, WhyNoFunction, Writer,
};
use sdt_core::ops::Privileges;
use sdt_core::patch::Patcher;
use sdt_framework::server::{Lost, NoSites, Server, Stream, Tracer};
use sdt_framework::{
    Config, ConsumerId, FunctionError, FunctionSite, FunctionText, Record, Registers, Rights,
    Which, Window, records,
};

// On pages of their own, which the test makes writable.
global_asm!(
    ".pushsection .text.sdt_test_functions, \"ax\"",
    ".balign 4096",
    ".global sdt_test_text",
    "sdt_test_text:",
    // 0: outside of what may be traced.
    "ret",
    ".balign 16",
    // 16: twice the argument, and one call of `leaf`.
    "push rbp",
    "mov rbp, rsp",
    "call 3f",
    "lea rax, [rdi + rdi]",
    "pop rbp",
    "ret",
    ".balign 16",
    // 32: a function of one instruction.
    "3:",
    "ret",
    ".balign 16",
    // 48: calls itself until the argument is 0, and returns how often.
    "4:",
    "sub rsp, 8",
    "test rdi, rdi",
    "jz 5f",
    "dec rdi",
    "call 4b",
    "inc rax",
    "add rsp, 8",
    "ret",
    "5: xor eax, eax",
    "add rsp, 8",
    "ret",
    ".balign 16",
    // 80: jumps to the function at 16.
    "sub rsp, 24",
    "add rsp, 24",
    "jmp sdt_test_text + 16",
    ".balign 4096",
    ".popsection",
);

unsafe extern "C" {
    static sdt_test_text: u8;
}

const PAGE: usize = 4096;
const TWICE: u64 = 16;
const LEAF: u64 = 32;
const RECURSIVE: u64 = 48;
const TAIL: u64 = 80;
/// The difference between addresses in the file and in memory.
fn slide() -> u64 {
    &raw const sdt_test_text as u64
}

const BUILD: &[u8] = b"the build ID of the kernel";

/// The text of the functions above, except the first one.
struct Text {
    synchronised: AtomicUsize,
    /// The addresses that were offered and not withdrawn.
    offered: Mutex<BTreeSet<u64>>,
    /// The addresses of jumps that have to stay.
    jumps: Mutex<BTreeSet<u64>>,
    /// Whether nothing can be stored.
    is_locked: AtomicBool,
}

// SAFETY: stores go to text that the test has made writable; one thread at a time executes it.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        assert_eq!(bytes.len(), 1);
        // SAFETY: text of this test, by the caller's contract.
        unsafe { sdt_core::patch::machine::store(address as *mut u8, bytes) };
    }

    fn synchronise(&self) {
        self.synchronised.fetch_add(1, Ordering::Relaxed);
    }

    fn is_writable(&self, _: usize, _: usize) -> bool {
        !self.is_locked.load(Ordering::Relaxed)
    }
}

// SAFETY: the functions are never unloaded, only this patcher changes them, and the signal handler calls none of them. The kernel
// leaves the red zone of 128 bytes free before it stores a signal's frame.
unsafe impl FunctionText for Text {
    fn build_id(&self) -> &[u8] {
        BUILD
    }

    fn slide(&self) -> u64 {
        slide()
    }

    fn is_traceable(&self, address: u64, length: usize) -> bool {
        let at = address.wrapping_sub(slide());
        at >= 16 && at + length as u64 <= PAGE as u64
    }

    fn free_stack(&self) -> u64 {
        128
    }

    fn handlers(&self) -> &[u64] {
        &[]
    }

    fn offer(&self, address: u64, _: &[u8], _: Option<Window>) -> bool {
        self.offered.lock().unwrap().insert(address);
        false
    }

    fn holds_jump(&self, address: u64) -> bool {
        self.jumps.lock().unwrap().contains(&address)
    }

    fn withdraw(&self, address: u64) {
        self.offered.lock().unwrap().remove(&address);
    }

    fn patcher(&self) -> &'static dyn Patcher {
        &TEXT
    }
}

static TEXT: Text = Text {
    synchronised: AtomicUsize::new(0),
    offered: Mutex::new(BTreeSet::new()),
    jumps: Mutex::new(BTreeSet::new()),
    is_locked: AtomicBool::new(false),
};

/// Returns the addresses of the sites that the host knows.
fn offered() -> BTreeSet<u64> {
    TEXT.offered.lock().unwrap().iter().map(|address| address - slide()).collect()
}
/// The framework whose breakpoints the signal handler handles.
static DTRACE: AtomicPtr<Small> = AtomicPtr::new(std::ptr::null_mut());

/// The handler of SIGTRAP.
extern "C" fn breakpoint(_: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    const NUMBERS: [c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    // SAFETY: the kernel passes the context of the interrupted code.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let saved = &mut context.uc_mcontext.gregs;
    let general = NUMBERS.map(|number| saved[number as usize] as u64);
    let rip = saved[libc::REG_RIP as usize] as u64 - 1;
    let mut registers = Registers { general, rip, rflags: saved[libc::REG_EFL as usize] as u64 };
    // SAFETY: the pointer is null or a framework that is never freed.
    let dtrace = unsafe { DTRACE.load(Ordering::Relaxed).as_ref() };
    // SAFETY: the registers are those of the interrupted code, which resumes with them.
    let is_ours = dtrace.is_some_and(|dtrace| unsafe { dtrace.function_hit(&mut registers) });
    if !is_ours {
        std::process::abort();
    }
    for (number, value) in NUMBERS.into_iter().zip(registers.general) {
        saved[number as usize] = value as i64;
    }
    saved[libc::REG_RIP as usize] = registers.rip as i64;
    saved[libc::REG_EFL as usize] = registers.rflags as i64;
}

const CONFIG: Config =
    Config { providers: 4, probes: 16, ecbs: 32, consumers: 4, buffer: 256 * Record::SIZE };

/// A framework that traces the functions above, and the bytes of their text. One test at a time uses it.
struct Kernel {
    dtrace: &'static Small,
    original: Vec<u8>,
    _alone: MutexGuard<'static, ()>,
}

fn text() -> &'static [u8] {
    // SAFETY: the page of the functions. Tests compare it while no other thread changes it.
    unsafe { std::slice::from_raw_parts(&raw const sdt_test_text, PAGE) }
}

fn kernel() -> Kernel {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the range is the page of the functions; the handler fulfils the contract of signal handlers.
    unsafe {
        let page = (&raw const sdt_test_text).cast_mut().cast();
        assert_eq!(libc::mprotect(page, PAGE, protection), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = breakpoint as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
    Threads::bind(0);
    let dtrace = Box::leak(with_memory(Threads::new(), &CONFIG));
    DTRACE.store(std::ptr::from_ref(dtrace).cast_mut(), Ordering::Relaxed);
    dtrace.register_functions(&TEXT, 8).unwrap();
    Kernel { dtrace, original: text().to_vec(), _alone: alone }
}

fn site<'a>(
    function: &'a str,
    address: u64,
    is_return: bool,
    code: &'static [u8],
) -> FunctionSite<'a> {
    let function = function.as_bytes();
    let window = None;
    FunctionSite { module: b"kernel", function, is_return, address, offset: 3, code, window }
}

fn entry<'a>(function: &'a str, address: u64, code: &'static [u8]) -> FunctionSite<'a> {
    site(function, address, false, code)
}

const PUSH: &[u8] = &[0x55];
const SUB_8: &[u8] = &[0x48, 0x83, 0xec, 0x08];
const SUB_24: &[u8] = &[0x48, 0x83, 0xec, 0x18];
const RET: &[u8] = &[0xc3];

/// The offset in the text, from `from` on, of the first instruction with these bytes.
fn find(from: u64, code: &[u8]) -> u64 {
    let found = text()[from as usize..].windows(code.len()).position(|bytes| bytes == code);
    from + found.unwrap() as u64
}

/// Calls the function at an offset.
fn call(at: u64, argument: u64) -> u64 {
    // SAFETY: the functions above take an argument and return a number.
    let function: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute((slide() + at) as *const ()) };
    function(argument)
}

impl Kernel {
    fn add(&self, consumer: ConsumerId, sites: &[FunctionSite<'_>]) {
        for site in sites {
            assert_eq!(self.dtrace.add_function(consumer, BUILD, site), Ok(()), "{site:?}");
        }
    }

    /// Returns the records of a consumer on CPU 0: the names of the probe, and its first two arguments.
    fn recorded(&self, consumer: ConsumerId) -> Vec<(String, u64, u64)> {
        let mut bytes = vec![0; CONFIG.buffer];
        let found = self.dtrace.snapshot(consumer, 0, Which::Records, 0, &mut bytes).unwrap();
        assert_eq!(found.drops, 0);
        let all = records(&bytes[..found.size]);
        all.map(|record| {
            let of = self.dtrace.eprobe(consumer, record.epid, 0, &mut []).unwrap().unwrap();
            let id = sdt_core::ops::ProbeId::new(of.probe).unwrap();
            let info = self.dtrace.describe(id).unwrap().info;
            let name =
                format!("{}:{}", info.function().to_str().unwrap(), info.name().to_str().unwrap());
            (name, record.args[0], record.args[1])
        })
        .collect()
    }
}

#[test]
fn entries_and_returns_are_recorded() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let consumer = dtrace.open().unwrap();
    let twice_return = find(TWICE, RET);
    kernel.add(
        consumer,
        &[
            entry("twice", TWICE, PUSH),
            site("twice", twice_return, true, RET),
            entry("leaf", LEAF, RET),
            site("leaf", LEAF, true, RET),
        ],
    );
    // Nothing changes before a probe is enabled.
    assert_eq!(text(), kernel.original);
    assert_eq!(dtrace.enable(consumer, &spec("fbt:kernel::")), Ok(4));
    assert_eq!(text()[TWICE as usize], 0xcc);
    dtrace.go(consumer).unwrap();
    let before = dtrace.counters();
    for argument in [1, 2, 1 << 40] {
        assert_eq!(call(TWICE, argument), 2 * argument);
    }
    let hits = dtrace.counters().hits - before.hits;
    assert_eq!(hits, 12);
    let recorded = kernel.recorded(consumer);
    let names: Vec<_> = recorded.iter().map(|(name, ..)| &**name).collect();
    let one = ["twice:entry", "leaf:entry", "leaf:return", "twice:return"];
    assert_eq!(names, [one, one, one].concat());
    let (entry, leave) = (&recorded[8], &recorded[11]);
    assert_eq!((entry.1, leave.1, leave.2), (1 << 40, 3, 2 << 40));
    dtrace.close(consumer).unwrap();
    assert_eq!(text(), kernel.original);
    assert_eq!(call(TWICE, 7), 14);
    assert_eq!(dtrace.for_each_probe(&spec("fbt:::"), |_| {}), Ok(0));
}

/// The host unloads a part of the text, while the functions there and elsewhere are traced.
#[test]
fn unloaded_text_is_restored_and_forgotten() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let consumer = dtrace.open().unwrap();
    let twice_return = find(TWICE, RET);
    // Both are the entry of one probe.
    let sites = [
        entry("both", TWICE, PUSH),
        entry("both", LEAF, RET),
        site("twice", twice_return, true, RET),
    ];
    kernel.add(consumer, &sites);
    assert_eq!(dtrace.enable(consumer, &spec("fbt:kernel::")), Ok(2));
    dtrace.go(consumer).unwrap();
    assert_eq!(call(TWICE, 1), 2);
    assert_eq!(dtrace.remove_functions(slide() + TWICE..slide() + TWICE + 1), Ok(()));
    assert_eq!(text()[TWICE as usize], kernel.original[TWICE as usize]);
    assert_eq!(text()[LEAF as usize], 0xcc);
    assert_eq!(call(TWICE, 2), 4);
    let recorded = kernel.recorded(consumer);
    let names: Vec<_> = recorded.iter().map(|(name, ..)| &**name).collect();
    let leaf = "both:entry";
    assert_eq!(names, ["both:entry", leaf, "twice:return", leaf, "twice:return"]);
    // The text is loaded again, and its site joins the enabled probe.
    kernel.add(consumer, &sites[..1]);
    assert_eq!(text()[TWICE as usize], 0xcc);
    assert_eq!(dtrace.remove_functions(0..u64::MAX), Ok(()));
    assert_eq!(text(), kernel.original);
    assert_eq!(call(TWICE, 3), 6);
    dtrace.close(consumer).unwrap();
    // All rooms are free again.
    let consumer = dtrace.open().unwrap();
    let all: Vec<_> = (0..8).map(|at| entry("f", TWICE + at, PUSH)).collect();
    let added = all.iter().filter(|site| dtrace.add_function(consumer, BUILD, site).is_ok());
    assert_eq!(added.count(), 1);
    dtrace.close(consumer).unwrap();
    assert_eq!(dtrace.for_each_probe(&spec("fbt:::"), |_| {}), Ok(0));
}

/// Each call of a function is one entry and one return, also if it calls itself, and a jump out of a function is its return.
#[test]
fn counts_are_those_of_the_calls() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let consumer = dtrace.open().unwrap();
    let first = find(RECURSIVE, RET);
    let second = find(first + 1, RET);
    let jump = TAIL + 8;
    let code: &'static [u8] = kernel.original[jump as usize..].to_vec().leak();
    let code = match code[0] {
        0xe9 => &code[..5],
        _ => &code[..2],
    };
    kernel.add(
        consumer,
        &[
            entry("recursive", RECURSIVE, SUB_8),
            site("recursive", first, true, RET),
            site("recursive", second, true, RET),
            entry("tail", TAIL, SUB_24),
            site("tail", jump, true, code),
        ],
    );
    assert_eq!(dtrace.enable(consumer, &spec("fbt:::")), Ok(4));
    dtrace.go(consumer).unwrap();
    assert_eq!(call(RECURSIVE, 9), 9);
    assert_eq!(call(TAIL, 21), 42);
    let recorded = kernel.recorded(consumer);
    let count = |name: &str| recorded.iter().filter(|(of, ..)| of == name).count();
    assert_eq!(count("recursive:entry"), 10);
    assert_eq!(count("recursive:return"), 10);
    assert_eq!((count("tail:entry"), count("tail:return")), (1, 1));
    // All CPUs synchronise once for all probes.
    for _ in 0..1000 {
        assert_eq!(dtrace.disable(consumer, &spec("fbt:::")), Ok(4));
        assert_eq!(text(), kernel.original);
        assert_eq!(call(RECURSIVE, 2), 2);
        let before = TEXT.synchronised.load(Ordering::Relaxed);
        assert_eq!(dtrace.enable(consumer, &spec("fbt:::")), Ok(4));
        assert_eq!(TEXT.synchronised.load(Ordering::Relaxed), before + 1);
        assert_eq!(call(TAIL, 4), 8);
    }
    dtrace.close(consumer).unwrap();
    assert_eq!(text(), kernel.original);
}

#[test]
fn sites_that_are_wrong_are_refused() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let consumer = dtrace.open().unwrap();
    let add = |site: &FunctionSite<'_>| dtrace.add_function(consumer, BUILD, site);
    kernel.add(consumer, &[entry("recursive", RECURSIVE, SUB_8)]);
    let long: &'static str = "f".repeat(300).leak();
    for (site, error) in [
        (entry("", TWICE, PUSH), FunctionError::Name),
        (entry("a\0b", TWICE, PUSH), FunctionError::Name),
        (entry(long, TWICE, PUSH), FunctionError::Name),
        // `hlt`; two instructions; a part of one; no bytes; too many.
        (entry("f", TWICE, &[0xf4]), FunctionError::Instruction),
        (entry("f", TWICE, &[0x55, 0x55]), FunctionError::Instruction),
        (entry("f", RECURSIVE, &[0x48, 0x83, 0xec]), FunctionError::Instruction),
        (entry("f", TWICE, &[]), FunctionError::Instruction),
        (entry("f", TWICE, &[0x90; 16]), FunctionError::Instruction),
        // An excluded function; addresses before and after the text; the end of the address space.
        (entry("f", 0, RET), FunctionError::Address),
        (entry("f", 0u64.wrapping_sub(16), RET), FunctionError::Address),
        (entry("f", PAGE as u64, RET), FunctionError::Address),
        (entry("f", u64::MAX - slide(), SUB_8), FunctionError::Address),
        // Another instruction is there.
        (entry("f", TWICE, RET), FunctionError::Bytes),
        (entry("f", TWICE + 1, PUSH), FunctionError::Bytes),
        // Within, and around, a site.
        (entry("f", RECURSIVE + 3, &[0x90]), FunctionError::Overlap),
        (entry("f", RECURSIVE - 1, &[0x0f, 0x1f, 0x00]), FunctionError::Overlap),
    ] {
        assert_eq!(add(&site), Err(error), "{site:?}");
    }
    assert_eq!(
        dtrace.add_function(consumer, b"another", &entry("f", TWICE, PUSH)),
        Err(FunctionError::Build)
    );
    // The same site is not refused, and takes no room.
    kernel.add(consumer, &[entry("recursive", RECURSIVE, SUB_8), entry("twice", TWICE, PUSH)]);
    for at in 0..6 {
        let name: &'static str = format!("f{at}").leak();
        kernel.add(consumer, &[entry(name, LEAF, RET)]);
    }
    assert_eq!(add(&entry("f7", LEAF, RET)), Err(FunctionError::NoRoom));
    // The host gets no offer of a site that is refused: of a new probe, or of one that exists.
    let known = BTreeSet::from([TWICE, LEAF, RECURSIVE]);
    assert_eq!(add(&entry("f7", TAIL, SUB_24)), Err(FunctionError::NoRoom));
    assert_eq!(add(&entry("twice", TAIL, SUB_24)), Err(FunctionError::NoRoom));
    assert_eq!(offered(), known);
    assert_eq!(text(), kernel.original);
    dtrace.close(consumer).unwrap();
    assert_eq!(offered(), BTreeSet::new());
    // All room is free again.
    let consumer = dtrace.open().unwrap();
    for at in 0..8 {
        let name: &'static str = format!("g{at}").leak();
        kernel.add(consumer, &[entry(name, LEAF, RET)]);
    }
    dtrace.close(consumer).unwrap();
}

/// A CPU that has not synchronised can still hit a breakpoint that was removed, so its site must exist until then.
#[test]
fn sites_are_freed_after_the_text_is_synchronised_also_during_a_batch() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let consumer = dtrace.open().unwrap();
    kernel.add(consumer, &[entry("twice", TWICE, PUSH)]);
    assert_eq!(dtrace.enable(consumer, &spec("fbt:::")), Ok(1));
    let synchronised = || TEXT.synchronised.load(Ordering::Relaxed);
    let tracer: &dyn Tracer = dtrace;
    tracer.adding_functions(&mut || {
        let before = synchronised();
        dtrace.close(consumer).unwrap();
        assert_ne!(synchronised(), before);
    });
    assert_eq!(text(), kernel.original);
}

/// Returns how many further sites there is room for.
fn left(kernel: &Kernel) -> usize {
    let tracer: &dyn Tracer = kernel.dtrace;
    tracer.function_text().unwrap().1
}

/// A host that cannot restore the text of a site keeps the site until the next change.
#[test]
fn sites_that_had_to_stay_are_removed_later() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let change = |while_enabled: &dyn Fn()| {
        let consumer = dtrace.open().unwrap();
        kernel.add(consumer, &[entry("twice", TWICE, PUSH)]);
        assert_eq!(dtrace.enable(consumer, &spec("fbt:::")), Ok(1));
        while_enabled();
        dtrace.close(consumer).unwrap();
    };
    // A jump stays.
    change(&|| _ = TEXT.jumps.lock().unwrap().insert(slide() + TWICE));
    assert_eq!(left(&kernel), 7);
    let consumer = dtrace.open().unwrap();
    kernel.add(consumer, &[entry("leaf", LEAF, RET)]);
    assert_eq!(left(&kernel), 6);
    TEXT.jumps.lock().unwrap().clear();
    kernel.add(consumer, &[entry("recursive", RECURSIVE, SUB_8)]);
    assert_eq!(left(&kernel), 6);
    dtrace.close(consumer).unwrap();
    assert_eq!((left(&kernel), offered()), (8, BTreeSet::new()));
    // A breakpoint stays, and is hit.
    change(&|| TEXT.is_locked.store(true, Ordering::Relaxed));
    TEXT.is_locked.store(false, Ordering::Relaxed);
    assert_ne!(text(), kernel.original);
    assert_eq!((call(TWICE, 3), left(&kernel)), (6, 7));
    // Another consumer sends and enables the same site.
    change(&|| assert_eq!((call(TWICE, 3), left(&kernel)), (6, 7)));
    assert_eq!((text(), left(&kernel)), (&*kernel.original, 8));
}

#[test]
fn a_consumer_needs_the_right() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    for rights in [
        Rights::new(Privileges::KERNEL),
        Rights::new(Privileges::KERNEL).with_destructive(),
        Rights::new(Privileges::USER).with_functions(),
    ] {
        let consumer = dtrace.open_with(rights).unwrap();
        let added = dtrace.add_function(consumer, BUILD, &entry("twice", TWICE, PUSH));
        assert_eq!(added, Err(FunctionError::NotPermitted), "{rights:?}");
        dtrace.close(consumer).unwrap();
    }
    let rights = Rights::new(Privileges::KERNEL).with_functions();
    let consumer = dtrace.open_with(rights).unwrap();
    kernel.add(consumer, &[entry("twice", TWICE, PUSH)]);
    dtrace.close(consumer).unwrap();
    // A framework whose host has no such text.
    let none = Box::leak(with_memory(Threads::new(), &CONFIG));
    let consumer = none.open().unwrap();
    let added = none.add_function(consumer, BUILD, &entry("twice", TWICE, PUSH));
    assert_eq!(added, Err(FunctionError::NotSupported));
}

/// A probe stays as long as a consumer that has sent it or enabled it.
#[test]
fn probes_are_shared() {
    let kernel = kernel();
    let dtrace = kernel.dtrace;
    let probes = || dtrace.for_each_probe(&spec("fbt:::"), |_| {}).unwrap();
    let (one, other) = (dtrace.open().unwrap(), dtrace.open().unwrap());
    kernel.add(one, &[entry("twice", TWICE, PUSH), entry("recursive", RECURSIVE, SUB_8)]);
    kernel.add(other, &[entry("twice", TWICE, PUSH)]);
    assert_eq!(probes(), 2);
    let third = dtrace.open().unwrap();
    assert_eq!(dtrace.enable(third, &spec("fbt::recursive:entry")), Ok(1));
    dtrace.close(one).unwrap();
    assert_eq!(probes(), 2);
    dtrace.close(other).unwrap();
    assert_eq!(probes(), 1);
    dtrace.go(third).unwrap();
    assert_eq!(call(RECURSIVE, 3), 3);
    assert_eq!(kernel.recorded(third).len(), 4);
    dtrace.close(third).unwrap();
    assert_eq!(probes(), 0);
    assert_eq!(text(), kernel.original);
    // An enabling of a consumer matches functions that another one sends later.
    let (early, late) = (dtrace.open().unwrap(), dtrace.open().unwrap());
    assert_eq!(dtrace.enable(early, &spec("fbt::twice:")), Ok(0));
    dtrace.go(early).unwrap();
    kernel.add(late, &[entry("twice", TWICE, PUSH)]);
    assert_eq!(call(TWICE, 3), 6);
    kernel.add(late, &[site("twice", find(TWICE, RET), true, RET)]);
    assert_eq!(call(TWICE, 3), 6);
    assert_eq!(kernel.recorded(early).len(), 3);
    dtrace.close(early).unwrap();
    dtrace.close(late).unwrap();
    assert_eq!(text(), kernel.original);
}

/// The framework does not handle a breakpoint that it has not set.
#[test]
fn other_breakpoints_are_not_ours() {
    let kernel = kernel();
    let mut registers = Registers { rip: slide() + TWICE, ..Registers::default() };
    let before = registers;
    // SAFETY: no site is there, so nothing is emulated.
    assert!(!unsafe { kernel.dtrace.function_hit(&mut registers) });
    assert_eq!(registers, before);
}

/// Both directions of a line.
#[derive(Default)]
struct Line {
    arriving: VecDeque<u8>,
    sent: Vec<u8>,
    lost: bool,
}

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        if self.lost {
            return Err(Lost);
        }
        let length = buffer.len().min(self.arriving.len());
        buffer.iter_mut().zip(self.arriving.drain(..length)).for_each(|(to, from)| *to = from);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        self.sent.extend(bytes);
        Ok(bytes.len())
    }
}

/// Sends a request with items, and shows the answer and the refused items.
fn ask(
    server: &mut Server<'_>,
    line: &mut Line,
    request: &Request<'_>,
    items: &[WireSite<'_>],
) -> (String, Vec<RefusedFunction>) {
    let (mut buffer, mut encoded) = ([0; 1024], [0; 1100]);
    let mut frame = Writer::new(&mut buffer, Header { channel: 1, seq: 1 }, request).unwrap();
    items.iter().for_each(|item| frame.push(item).unwrap());
    let length = frame.seal(&mut encoded).unwrap();
    line.arriving.extend(&encoded[..length]);
    while server.step(line).unwrap() {}
    let mut decoder = Decoder::new([0; 2048]);
    let sent = std::mem::take(&mut line.sent);
    let mut answers = sent.into_iter().filter_map(|byte| {
        let frame = decoder.push(byte)?.unwrap();
        let (reply, items) = frame.message::<Reply<'_>>().unwrap();
        let refused = match reply {
            Reply::Functions => items.iter().map(Result::unwrap).collect(),
            _ => Vec::new(),
        };
        let text = match reply {
            Reply::Refused { why, .. } => format!("{why:?}"),
            reply => format!("{reply:?}"),
        };
        Some((text, refused))
    });
    let answer = answers.next().unwrap();
    assert!(answers.next().is_none());
    answer
}

#[test]
fn functions_arrive_on_a_line() {
    let kernel = kernel();
    let mut line = Line::default();
    let probe = |is_return| FunctionProbe { module: b"kernel", function: b"twice", is_return };
    let item = |probe, address, code| WireSite { probe, address, offset: 0, code, window: None };
    let request = Request::Functions { build_id: BUILD };
    let good = item(Some(probe(false)), TWICE, PUSH);

    let mut server: Server<'_> =
        Server::new(kernel.dtrace, &NoSites, Rights::new(Privileges::KERNEL).with_destructive());
    assert_eq!(ask(&mut server, &mut line, &request, &[good]).0, format!("{:?}", Why::NotGreeted));
    let hello = Request::Hello { version: VERSION };
    ask(&mut server, &mut line, &hello, &[]);
    assert_eq!(ask(&mut server, &mut line, &request, &[good]).0, format!("{:?}", Why::NotOpen));
    ask(&mut server, &mut line, &Request::Open, &[]);
    for request in [Request::FunctionText, request] {
        let items: &[WireSite<'_>] = if request == Request::FunctionText { &[] } else { &[good] };
        let answer = ask(&mut server, &mut line, &request, items);
        assert_eq!(answer.0, format!("{:?}", Why::NotPermitted));
    }
    server.reset();

    let mut server: Server<'_> = Server::new(kernel.dtrace, &NoSites, Rights::ALL);
    ask(&mut server, &mut line, &hello, &[]);
    ask(&mut server, &mut line, &Request::Open, &[]);
    let (shown, _) = ask(&mut server, &mut line, &Request::FunctionText, &[]);
    assert!(shown.contains("left: 8, free_stack: 128"), "{shown}");
    let other = Request::Functions { build_id: b"other" };
    assert_eq!(ask(&mut server, &mut line, &other, &[good]).0, format!("{:?}", Why::Other));
    let (answer, refused) = ask(
        &mut server,
        &mut line,
        &request,
        &[
            // No probe yet.
            item(None, TWICE, PUSH),
            good,
            item(Some(probe(true)), TWICE, RET),
            item(None, find(TWICE, RET), RET),
        ],
    );
    assert_eq!(answer, "Functions");
    let refused: Vec<_> = refused.into_iter().map(|of| (of.index, of.why)).collect();
    assert_eq!(refused, [(0, WhyNoFunction::Name), (2, WhyNoFunction::Bytes)]);
    assert_eq!(kernel.dtrace.for_each_probe(&spec("fbt:kernel:twice:"), |_| {}), Ok(2));
    // The connection breaks: the probes are destroyed.
    line.lost = true;
    assert!(server.step(&mut line).is_err());
    assert_eq!(kernel.dtrace.for_each_probe(&spec("fbt:::"), |_| {}), Ok(0));
    assert_eq!(text(), kernel.original);
}
