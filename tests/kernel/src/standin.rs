//! The kernel's own provider, `standin`, and the counts of its probes: how often each CPU executed a site, and how often the
//! probe was hit.
//!
//! The stand-in kernel is written in Rust; it contains `sdt-core`, and `sdt-framework` as its DTrace. The probes of `standin` are
//! attached only while a test uses them, so that they are not listed otherwise.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sdt_core::Probe;
use sdt_core::arg::Borrows;
use sdt_core::attach::{self, AttachError, Attachment, DetachError};
use sdt_core::ops::{
    Framework, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps,
};
use sdt_core::patch::{self, Mode};
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};
use sdt_framework::Host as _;

use crate::arch::cpu;
use crate::dtrace::DTRACE;
use crate::smp;
use crate::stack::{Origin, frame_pointer};
use crate::text::KernelText;

sdt_provider! {
    /// Probes of the stand-in kernel itself. The arguments of each are the number of the pass (counted per probe and CPU), and
    /// the complement of this number.
    pub standin {
        /// In a loop that contains no other code.
        fn tight(n: u64, not_n: u64);
        /// With arguments that are computed by calls.
        fn costly(n: u64, not_n: u64);
        /// With interrupts off.
        fn masked(n: u64, not_n: u64);
        /// From several sites.
        fn many(n: u64, not_n: u64);
        /// Behind an is-enabled test.
        fn asked(n: u64, not_n: u64);
        /// In the timer's interrupt.
        fn tick(n: u64, not_n: u64);
        /// In a function that the breakpoint exception's handler calls.
        fn breakpoint(n: u64, not_n: u64);
        /// In a function that the framework calls while it records a hit.
        fn recording(n: u64, not_n: u64);
        /// Waits for a timer interrupt while it fires.
        fn waiting(n: u64, not_n: u64);
    }
}

/// The probes of [`standin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Tight,
    Costly,
    Masked,
    Many,
    Asked,
    Tick,
    Breakpoint,
    Recording,
    Waiting,
}

/// Number of probes.
pub(crate) const PROBES: usize = 9;

/// The probes that are tortured: all except those that fire only while a consumer records.
pub(crate) const TORTURED: [Which; 7] = [
    Which::Tight,
    Which::Costly,
    Which::Masked,
    Which::Many,
    Which::Asked,
    Which::Tick,
    Which::Breakpoint,
];
impl Which {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Self; PROBES] = [
        Self::Tight,
        Self::Costly,
        Self::Masked,
        Self::Many,
        Self::Asked,
        Self::Tick,
        Self::Breakpoint,
        Self::Recording,
        Self::Waiting,
    ];

    /// The probe's record.
    pub(crate) fn probe(self) -> &'static Probe {
        match self {
            Self::Tight => &standin::tight,
            Self::Costly => &standin::costly,
            Self::Masked => &standin::masked,
            Self::Many => &standin::many,
            Self::Asked => &standin::asked,
            Self::Tick => &standin::tick,
            Self::Breakpoint => &standin::breakpoint,
            Self::Recording => &standin::recording,
            Self::Waiting => &standin::waiting,
        }
    }

    /// Makes the probe's sites trap or jump while the probe is enabled.
    pub(crate) fn set_mode(self, mode: Mode) {
        // SAFETY: only the CPU that serves consumers calls this function, and it holds no lock for which other CPUs wait.
        let changed = unsafe { patch::set_mode(self.probe(), mode) };
        changed.expect("the kernel's text can be written to");
    }

    /// The probe's name.
    pub(crate) fn name(self) -> &'static str {
        self.probe().name().to_str().unwrap_or("?")
    }

    /// Returns the probe's bit in a set of probes.
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The counts of one probe on one CPU. Only this CPU writes them.
#[derive(Debug)]
pub(crate) struct Account {
    /// The number of times that the CPU executed a site, incremented before the site.
    pub(crate) passes: AtomicU64,
    /// The number of hits that were passed to the framework.
    pub(crate) hits: AtomicU64,
    /// The number of hits whose arguments were wrong.
    pub(crate) garbled: AtomicU64,
}

impl Account {
    const fn new() -> Self {
        Self { passes: AtomicU64::new(0), hits: AtomicU64::new(0), garbled: AtomicU64::new(0) }
    }
}

/// The accounts of one CPU. They do not share a cache line with the accounts of other CPUs.
#[repr(align(64))]
struct Accounts([Account; PROBES]);

static ACCOUNTS: [Accounts; cpu::MAX_CPUS] =
    [const { Accounts([const { Account::new() }; PROBES]) }; cpu::MAX_CPUS];

/// The set of armed probes. Only `tick`, `breakpoint` and `recording`, which fire in handlers, need to be armed.
static ARMED: AtomicU32 = AtomicU32::new(0);

/// Ids of the probes, 0 while they are not attached.
static IDS: [AtomicU32; PROBES] = [const { AtomicU32::new(0) }; PROBES];

/// Returns the counts of a probe on a CPU.
pub(crate) fn account(cpu: usize, which: Which) -> &'static Account {
    &ACCOUNTS[cpu].0[which as usize]
}

/// The counts of all CPUs, by probe: passes, hits, hits with wrong arguments.
pub(crate) struct Totals([[u64; 3]; PROBES]);

impl Totals {
    pub(crate) fn now() -> Self {
        Self(Which::ALL.map(|which| {
            (0..smp::online()).fold([0; 3], |[passes, hits, garbled], cpu| {
                let account = account(cpu, which);
                [
                    passes + account.passes.load(Ordering::Acquire),
                    hits + account.hits.load(Ordering::Acquire),
                    garbled + account.garbled.load(Ordering::Acquire),
                ]
            })
        }))
    }

    pub(crate) fn since(&self, before: &Self, which: Which) -> [u64; 3] {
        let (now, then) = (self.0[which as usize], before.0[which as usize]);
        core::array::from_fn(|index| now[index] - then[index])
    }
}

/// Arms those of `tick`, `breakpoint` and `recording` that are in `probes`, and disarms the others. Does not wait for a probe
/// that is firing on another CPU.
pub(crate) fn arm(probes: &[Which]) {
    let set = probes.iter().fold(0, |set, which| set | which.bit());
    ARMED.store(set, Ordering::SeqCst);
}

fn is_armed(which: Which) -> bool {
    ARMED.load(Ordering::Relaxed) & which.bit() != 0
}

/// Counts a pass and returns its number.
fn pass(which: Which) -> u64 {
    account(cpu::current(), which).passes.fetch_add(1, Ordering::Relaxed)
}

#[inline(never)]
fn complement(n: u64) -> u64 {
    !n
}

#[inline(never)]
fn same(n: u64) -> u64 {
    n
}

/// One pass of `tight`.
pub(crate) fn tight() {
    let n = pass(Which::Tight);
    sdt_probe!(standin::tight, n, !n);
}

/// One pass of `costly`.
pub(crate) fn costly() {
    let n = pass(Which::Costly);
    sdt_probe!(standin::costly, same(n), complement(n));
}

/// One pass of `masked`. Interrupts are off at the site.
pub(crate) fn masked() {
    let enabled = cpu::interrupts_off();
    let n = pass(Which::Masked);
    sdt_probe!(standin::masked, n, !n);
    cpu::restore_interrupts(enabled);
}

/// One pass of `many`, by one of its sites.
pub(crate) fn many(site: u32) {
    #[inline(never)]
    fn generic<T: Into<u64>>(n: T) {
        let n = n.into();
        sdt_probe!(standin::many, n, !n);
    }
    #[inline(always)]
    fn inlined(n: u64) {
        sdt_probe!(standin::many, n, !n);
    }
    struct Wrapped(u64);
    impl From<Wrapped> for u64 {
        fn from(Wrapped(n): Wrapped) -> Self {
            n
        }
    }
    let n = pass(Which::Many);
    match site % 3 {
        0 => generic(n),
        1 => generic(Wrapped(n)),
        _ => inlined(n),
    }
}

/// One pass of `asked`: fires the probe if the is-enabled test succeeds.
pub(crate) fn asked() {
    let n = pass(Which::Asked);
    if sdt_enabled!(standin::asked) {
        sdt_probe!(standin::asked, n, !n);
    }
}

/// One pass of `waiting`. The evaluation of its argument waits for a timer interrupt on this CPU, so that the interrupt occurs
/// while the probe fires.
pub(crate) fn waiting() {
    #[inline(never)]
    fn after_a_tick(n: u64) -> u64 {
        let ticks = &account(cpu::current(), Which::Tick).passes;
        let before = ticks.load(Ordering::Relaxed);
        while ticks.load(Ordering::Relaxed) == before {
            core::hint::spin_loop();
        }
        n
    }
    let n = pass(Which::Waiting);
    sdt_probe!(standin::waiting, after_a_tick(n), !n);
}

/// Called by every timer interrupt, interrupts off.
pub(crate) fn on_tick() {
    if is_armed(Which::Tick) {
        let n = pass(Which::Tick);
        sdt_probe!(standin::tick, n, !n);
    }
}

/// Called by the breakpoint exception's handler. Interrupts off, probe context.
///
/// If the site traps, the breakpoint handler runs again inside itself, and would reach the site again without end. Therefore only
/// the outermost handler on a CPU executes the site.
pub(crate) fn inside_breakpoint() {
    static DEPTH: [AtomicU32; cpu::MAX_CPUS] = [const { AtomicU32::new(0) }; cpu::MAX_CPUS];
    if !is_armed(Which::Breakpoint) {
        return;
    }
    let depth = &DEPTH[cpu::current()];
    if depth.fetch_add(1, Ordering::Relaxed) == 0 {
        let n = pass(Which::Breakpoint);
        sdt_probe!(standin::breakpoint, n, !n);
    }
    depth.fetch_sub(1, Ordering::Relaxed);
}

/// Called by the framework while it records a hit. Probe context.
pub(crate) fn inside_probe() {
    if is_armed(Which::Recording) {
        let n = pass(Which::Recording);
        sdt_probe!(standin::recording, n, !n);
    }
}

/// Counts a hit of a probe, and checks its arguments.
fn count(id: ProbeId, args: &[u64; 10]) {
    let Some(which) = IDS.iter().position(|known| known.load(Ordering::Relaxed) == id.get()) else {
        return;
    };
    let account = &ACCOUNTS[cpu::current()].0[which];
    account.hits.fetch_add(1, Ordering::Relaxed);
    let [n, not_n, ..] = *args;
    if not_n != !n || n >= account.passes.load(Ordering::Relaxed) {
        account.garbled.fetch_add(1, Ordering::Relaxed);
    }
}

/// A framework that counts hits and passes all calls to [`DTRACE`].
struct Counted;

// SAFETY: all functions call `DTRACE`, which meets the contract of `Framework`.
unsafe impl Framework for Counted {
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        // SAFETY: the caller guarantees the ops as `Framework::register` asks.
        unsafe { DTRACE.register(name, attr, privileges, ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        DTRACE.unregister(provider)
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        let _ = DTRACE.invalidate(provider);
    }

    unsafe fn condense(&self, provider: ProviderId) {
        DTRACE.condense(provider).ok();
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        DTRACE.probe_lookup(provider, module, function, name)
    }

    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        // SAFETY: the caller guarantees `parg` as `Framework::probe_create` asks.
        unsafe { DTRACE.probe_create(provider, module, function, name, aframes, parg) }
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; 10], _: Borrows) {
        // With interrupts off, the probe cannot be detached between counting and recording.
        let recorded = || {
            let Some(hit) = ProbeId::new(id.load(Ordering::Acquire)) else { return };
            count(hit, args);
            DTRACE.probe(hit, args);
        };
        Origin::called(frame_pointer()).of(|| DTRACE.host().without_interrupts(recorded));
    }
}

static ATTACHMENT: Attachment =
    Attachment { framework: &Counted, patcher: &KernelText, mode: Mode::Trap, module: c"kernel" };

/// Attaches the probes; does nothing if they are attached already.
///
/// # Errors
/// The errors of [`attach::attach`].
pub(crate) fn attach() -> Result<(), AttachError> {
    // SAFETY: the breakpoint exception calls `resume_address`, and the kernel's image is never unmapped.
    match unsafe { attach::attach(&ATTACHMENT) } {
        Ok(()) | Err(AttachError::Attached) => {}
        Err(error) => return Err(error),
    }
    for which in Which::ALL {
        let id = which.probe().id().map_or(0, ProbeId::get);
        IDS[which as usize].store(id, Ordering::Relaxed);
    }
    Ok(())
}

/// Detaches the probes.
///
/// # Errors
/// The errors of [`attach::detach`].
pub(crate) fn detach() -> Result<(), DetachError> {
    attach::detach()
}
