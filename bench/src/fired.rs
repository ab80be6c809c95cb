//! Measures an enabled probe with D programs, from the hit to the record.

use std::hint::black_box;
use std::sync::OnceLock;

use dtrace_compiler::dof;
use dtrace_compiler::options::Options;
use sdt_core::ops::{Framework as _, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::kernel::Kernel;
use sdt_framework::{Config, ConsumerId, Dtrace, Host, SpinLock, Which};

use crate::dif::{PATH, Surrounding, compiled};

/// One CPU that nothing interrupts.
struct One;

// SAFETY: the benchmark has one thread.
unsafe impl Host for One {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        black_box(0)
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        black_box(1_000)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        &Surrounding
    }
}

/// A framework with one probe and an enabled program.
struct Enabled {
    dtrace: Dtrace<One>,
    probe: ProbeId,
    consumer: ConsumerId,
}

const CONFIG: Config =
    Config { providers: 2, probes: 8, ecbs: 8, consumers: 1, buffer: 4 << 20 };

impl Enabled {
    fn new(text: &str) -> Self {
        let dtrace = Dtrace::new(One);
        let memory = vec![std::mem::MaybeUninit::uninit(); 32 << 20].leak();
        dtrace.init(memory, &CONFIG).expect("enough memory");
        let null = std::ptr::null_mut();
        // SAFETY: the ops do nothing.
        let provider = unsafe {
            dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &ProviderOps::INERT, null)
        };
        let provider = provider.expect("a good name");
        // SAFETY: the ops do nothing, with a null argument as well.
        let probe = unsafe { dtrace.probe_create(provider, c"m", c"f", c"n", 1, null) };
        let probe = probe.expect("there is room");
        let consumer = dtrace.open().expect("there is room");
        let image = dof::program(&compiled(text), &Options::default()).expect("it is short");
        assert_eq!(dtrace.enable_program(consumer, &image), Ok(1));
        dtrace.go(consumer).expect("there is memory");
        Self { dtrace, probe, consumer }
    }

    #[inline(always)]
    fn run(&self, calls: u64, first: impl Fn(u64) -> u64) -> u64 {
        let mut args = [11, 22, 33, 44, 55, 66];
        for call in 0..calls {
            args[0] = first(call);
            self.dtrace.probe(black_box(self.probe), black_box(&args));
            if call % 16_384 == 16_383 {
                self.switch();
            }
        }
        self.switch();
        self.dtrace.counters().records
    }

    /// Reads the buffers, like a consumer, so that there is room.
    fn switch(&self) {
        for which in [Which::Records, Which::Aggregations] {
            let snapshot = self.dtrace.snapshot(self.consumer, 0, which, 0, &mut []);
            assert_eq!(snapshot.expect("it is open").drops, 0);
        }
    }
}

macro_rules! programs {
    ($($name:ident($call:ident) = $text:literal, $first:expr;)*) => {
        $(pub fn $name(calls: u64) -> u64 {
            static ENABLED: OnceLock<Enabled> = OnceLock::new();
            ENABLED.get_or_init(|| Enabled::new($text)).run(calls, |$call| $first)
        })*
    };
}

programs! {
    cached(call) = "n /pid == 42/ { }", call & 0xff;
    predicate(call) = "n /arg0 == 1000/ { }", call & 0xff;
    // The gain of the fast paths: the same program with and without them.
    computed_predicate(call) = "n /arg0 * 2 == 2000/ { }", call & 0xff;
    three_computed(call) = "n { trace(arg0 * 2); trace(arg1 * 2); trace(arg2 * 2); }", call & 0xff;
    three_single(call) = "n { trace(id); trace(cpu); trace(epid); }", call & 0xff;
    count(call) = "n { @ = count(); }", call & 0xff;
    three_values(call) = "n { trace(arg0); trace(arg1); trace(pid); }", call & 0xff;
    quantize(call) = "n { @[execname] = quantize(arg0); }", call & 0xff;
    quantize_string(_call) = "n { @[stringof(arg0)] = quantize(arg1); }",
        PATH.0.as_ptr().expose_provenance() as u64;
    arithmetic(call) =
        "n { trace((arg0 + arg1) * 3 - (arg2 ^ arg3) + (arg4 << 2) + arg0 / 7 + arg1 % 5); }",
        call & 0xff;
    thread_local(call) = "self uint64_t n; n { self->n = self->n + 1; }", call & 0xff;
    array(call) = "uint64_t a[uint64_t]; n { a[arg0] = a[arg0] + 1; }", call & 0xff;
}
