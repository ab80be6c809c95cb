//! SDT in this kernel: the symbols of `sys/kern/kern_sdt.c` that modules use, and the [`Machdep`] of [`Sdt`].

use core::ffi::c_char;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use dtrace_abi::site::Code;
use sdt_core::patch::machine;
use stand_in_freebsd::kld::FileInfo;
use stand_in_freebsd::loader;
use stand_in_freebsd::sdt::{Machdep, Records, Sdt};
use stand_in_freebsd::{Generation, release};

use super::machdep;
use crate::arch::cpu;
use crate::dtrace::DTRACE;
use crate::exports::{self, dtrace_probe, exports};
use crate::stack::{Origin, frame_pointer};
use crate::{console, smp};

/// Implements [`Machdep`] with the functions of this kernel.
#[derive(Debug)]
pub(crate) struct Machine;

/// SDT, with the probes of all files.
pub(crate) static SDT: Sdt<crate::dtrace::Machine, Machine> = Sdt::new(&DTRACE, Machine);

/// Registers the provider `sdt` of the kernel itself, and selects the default release, FreeBSD 15.0.
pub(crate) fn init() {
    let kernel = FileInfo { id: 1, name: "kernel".into(), base: 0, size: 0 };
    let provider = Records::with_provider(&raw const sdt_provider_sdt as u64, NAME.into());
    SDT.kld_load(&kernel, provider, release::DEFAULT);
    set_generation(release::DEFAULT.generation());
}

/// Sets `sdt_probe_func`, as `sdt.ko` does when it is loaded.
pub(crate) fn set_generation(generation: Generation) {
    let function = match generation {
        Generation::Tested => dtrace_probe as *mut (),
        Generation::Patched => sdt_dtrace_probe as *mut (),
    };
    sdt_probe_func.store(function, Ordering::Release);
}

exports! {
    // sys/sys/sdt.h
    sdt_probe: extern "C" fn(u32, usize, usize, usize, usize, usize),
    sdt_probe6: extern "C" fn(u32, usize, usize, usize, usize, usize, usize),
}

/// The exported symbols that are no functions.
pub(crate) fn variables() -> [(&'static str, u64); 3] {
    [
        ("sdt_probe_func", &raw const sdt_probe_func as u64),
        ("sdt_probes_enabled", &raw const sdt_probes_enabled as u64),
        ("sdt_provider_sdt", &raw const sdt_provider_sdt as u64),
    ]
}

/// The function that receives hits. It has 6 arguments since FreeBSD 15, and 5 before.
#[expect(non_upper_case_globals, reason = "FreeBSD's name")]
static sdt_probe_func: AtomicPtr<()> = AtomicPtr::new(sdt_probe_stub as *mut ());

/// Whether any probe is enabled.
#[expect(non_upper_case_globals, reason = "FreeBSD's name")]
static sdt_probes_enabled: AtomicBool = AtomicBool::new(false);

const NAME: &core::ffi::CStr = c"sdt";

/// `struct sdt_provider`. [`Sdt`] keeps its own data about providers elsewhere.
#[repr(C)]
struct Provider {
    name: *const c_char,
    rest: [usize; 4],
}

// SAFETY: no code writes to a `Provider`, and its name is static.
unsafe impl Sync for Provider {}

/// The provider of probes without a provider of their own (`SDT_PROVIDER_DEFINE(sdt)`).
#[expect(non_upper_case_globals, reason = "FreeBSD's name")]
static sdt_provider_sdt: Provider = Provider { name: NAME.as_ptr(), rest: [0; 4] };

/// Receives hits before `sdt.ko` is loaded.
extern "C" fn sdt_probe_stub(
    _id: u32,
    _arg0: usize,
    _arg1: usize,
    _arg2: usize,
    _arg3: usize,
    _arg4: usize,
    _arg5: usize,
) {
    console::print("sdt_probe_stub: unexpectedly called\n");
}

/// Fires a probe with five arguments. Probe context.
extern "C" fn sdt_probe(id: u32, arg0: usize, arg1: usize, arg2: usize, arg3: usize, arg4: usize) {
    Origin::called(frame_pointer()).of(|| hit(id, [arg0, arg1, arg2, arg3, arg4, 0]));
}

/// Fires a probe with six arguments. Probe context.
extern "C" fn sdt_probe6(
    id: u32,
    arg0: usize,
    arg1: usize,
    arg2: usize,
    arg3: usize,
    arg4: usize,
    arg5: usize,
) {
    Origin::called(frame_pointer()).of(|| hit(id, [arg0, arg1, arg2, arg3, arg4, arg5]));
}

/// Passes a hit on to `sdt_probe_func`.
fn hit(id: u32, [arg0, arg1, arg2, arg3, arg4, arg5]: [usize; 6]) {
    type Function = extern "C" fn(u32, usize, usize, usize, usize, usize, usize);
    let function = sdt_probe_func.load(Ordering::Acquire);
    // SAFETY: `sdt_probe` and `sdt_probe6` are exported for 15 only, and `set_generation` has stored a function of this type for
    // 15.
    let function = unsafe { core::mem::transmute::<*mut (), Function>(function) };
    function(id, arg0, arg1, arg2, arg3, arg4, arg5);
}

/// The sixth argument of the hit on each CPU. On FreeBSD, it is `t_dtrace_sdt_arg[0]` of the current thread. An interrupt handler
/// uses the data of the interrupted thread, on FreeBSD and here.
static SIXTH: [AtomicU64; cpu::MAX_CPUS] = [const { AtomicU64::new(0) }; cpu::MAX_CPUS];

/// The value of `sdt_probe_func` on FreeBSD 15: stores the sixth argument and fires the probe. Probe context.
extern "C" fn sdt_dtrace_probe(
    id: u32,
    arg0: usize,
    arg1: usize,
    arg2: usize,
    arg3: usize,
    arg4: usize,
    arg5: usize,
) {
    SIXTH[cpu::current()].store(arg5 as u64, Ordering::Relaxed);
    exports::probe(id, [arg0, arg1, arg2, arg3, arg4]);
}

impl Machdep for Machine {
    fn machine(&self) -> loader::Machine {
        loader::Machine::HERE
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        console::print(&alloc::format!("{line}\n"));
    }

    unsafe fn write(&self, address: u64, word: u64) {
        // SAFETY: the caller passes data of a mapped file, which other CPUs only read.
        unsafe { (address as *mut u64).write_volatile(word) };
    }

    fn set_probes_enabled(&self, enabled: bool) {
        sdt_probes_enabled.store(enabled, Ordering::Release);
    }

    /// Writes the text of sites, as `sdt_probe_update_cb` does: this CPU waits until all other CPUs have entered the rendezvous,
    /// and they wait until it has written.
    unsafe fn patch(&self, sites: &[(u64, Code)]) {
        let (owner, others) = (cpu::current(), smp::online() - 1);
        let arrived = AtomicUsize::new(0);
        let done = AtomicBool::new(false);
        smp::rendezvous(&|cpu| {
            if cpu == owner {
                while arrived.load(Ordering::Acquire) != others {
                    core::hint::spin_loop();
                }
                for (address, code) in sites {
                    // SAFETY: the caller passes sites in mapped text; all other CPUs spin in this rendezvous.
                    unsafe { machdep::overwrite(*address, code.as_bytes()) };
                }
                done.store(true, Ordering::Release);
            } else {
                arrived.fetch_add(1, Ordering::Release);
                while !done.load(Ordering::Acquire) {
                    core::hint::spin_loop();
                }
            }
            machine::synchronise_cpu();
        });
    }

    fn sixth_argument(&self) -> u64 {
        SIXTH[cpu::current()].load(Ordering::Relaxed)
    }
}
