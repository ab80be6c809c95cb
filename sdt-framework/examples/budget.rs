//! Measures the duration of a hit that uses up its budget, for many kinds of work: `cargo run --release --example budget`.
//!
//! Each mix is a program whose clauses repeat one kind of work until the budget is used up. The result is the time of the fastest
//! of several hits, because other work of the machine can only make a hit slower.

use std::time::{Duration, Instant};

use dtrace_abi::Platform;
use dtrace_abi::option::{BufPolicy, OptionId};
use dtrace_compiler::{Compiler, Source, dof, options::Options, surroundings::EveryProbe};
use recording_host::cpus::Uniprocessor;
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};
use sdt_framework::kernel::{Costs, Kernel, Number};
use sdt_framework::{Config, Dtrace};

/// A kernel whose programs can read `TEXT`, with a stack of 100 frames.
struct Own;

/// The memory that programs read.
static TEXT: [u8; 1 << 16] = [b'a'; 1 << 16];

impl Kernel for Own {
    fn timestamp(&self) -> u64 {
        0
    }

    /// Each function of this kernel takes a few instructions, so the measured time is that of the framework.
    fn costs(&self) -> Costs {
        Costs { load: 16, user: 16, stack: 16, frame: 1 }
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        let text = TEXT.get(address as usize..).and_then(|rest| rest.get(..into.len()));
        text.map(|text| into.copy_from_slice(text)).is_some()
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        self.load(address, into)
    }

    fn number(&self, which: Number) -> Option<u64> {
        matches!(which, Number::Pid | Number::Uid).then_some(7)
    }

    fn stack(&self, _: u32, frames: &mut [u64]) -> usize {
        let count = frames.len().min(100);
        (1..).zip(&mut frames[..count]).for_each(|(at, frame)| *frame = at);
        count
    }
}

/// The number of clauses of a program, for which a DOF has room, and the number of programs. Together, they need more than the
/// budget.
const REPEATED: usize = 100;
const PROGRAMS: usize = 64;
/// The number of hits, of which the fastest is reported.
const HITS: u64 = 20;

/// The work of a clause. Each clause repeats it.
const MIXES: [(&str, &str); 27] = [
    ("addition", "x = x + arg0 + arg1 + x;"),
    ("division", "x = (x + 0x7fffffffffff) / (arg0 + 3) % 7;"),
    ("predicate", ""),
    ("count", "@ = count();"),
    ("trace", "trace(arg0);"),
    ("load", "x = *(int *)arg0 + *(int *)arg1;"),
    ("strlen", "x = strlen(s);"),
    ("strlen of memory", "x = strlen((string)arg0);"),
    ("compare", "x = s == t;"),
    ("index", "x = index(s, \"aaaab\");"),
    ("strstr", "x = strstr(s, t) != NULL;"),
    ("strchr", "x = strchr(s, 'q') != NULL;"),
    ("strtok", "x = strtok(s, \"xyz\") != NULL;"),
    ("substr", "u = substr(s, 1);"),
    ("strjoin", "u = strjoin(\"q\", s);"),
    ("toupper", "u = toupper(s);"),
    ("cleanpath", "u = cleanpath(s);"),
    ("basename", "u = basename(s);"),
    ("json", "u = json(s, \"a.b.c\");"),
    ("lltostr", "u = lltostr(arg0 - 9000000000000000000, 2);"),
    ("inet_ntoa6", "u = inet_ntoa6((struct in6_addr *)alloca(16));"),
    ("copyin", "x = *(int *)copyin(arg0, 512);"),
    ("copyinstr", "u = copyinstr(arg0);"),
    ("array", "a[x & 255, s] = 1; x = x + a[7, s];"),
    ("thread", "self->x = arg0; self->x = 0;"),
    ("stack", "stack(100);"),
    ("aggregation by stack", "@[stack(100), x++] = quantize(x);"),
];

/// Returns the time of a hit, and the number of clauses that were stopped because the budget was used up.
fn hit(text: &str, programs: usize) -> Option<(Duration, u64)> {
    let memory = Box::leak(Box::<[u8]>::new_uninit_slice(512 << 20));
    // SAFETY: there is one thread.
    let host = unsafe { Uniprocessor::with(Own) };
    let dtrace: &'static Dtrace<_> = Box::leak(Box::new(Dtrace::new(host)));
    let config = Config { providers: 2, probes: 8, ecbs: 65536, consumers: 2, buffer: 4096 };
    dtrace.init(memory, &config).ok()?;
    let (none, null) = (Privileges::empty(), std::ptr::null_mut());
    // SAFETY: the ops do nothing.
    let provider =
        unsafe { dtrace.register(c"t", &ProviderAttr::SDT, none, &ProviderOps::INERT, null).ok()? };
    // SAFETY: the ops do nothing, with any `parg`.
    let [probe, first] = [c"p", c"first"]
        .map(|name| unsafe { dtrace.probe_create(provider, c"m", c"f", name, 1, null).unwrap() });
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe);
    let program = program.inspect_err(|error| eprintln!("{}", error.with_tag())).ok()?;
    let program = dof::program(&program, compiler.options()).ok()?;
    let consumer = dtrace.open().ok()?;
    for (option, value) in [
        (OptionId::Bufsize, 4 << 20),
        (OptionId::Aggsize, 4 << 20),
        (OptionId::Bufpolicy, BufPolicy::Ring.number().into()),
    ] {
        dtrace.set_option(consumer, option.number(), value).ok()?;
    }
    for _ in 0..programs {
        let sent = dtrace.enable_program(consumer, &program);
        sent.inspect_err(|error| eprintln!("{error}")).ok()?;
    }
    dtrace.go(consumer).ok()?;
    dtrace.probe(first, &[0x100, 0x200]);
    let mut fastest = Duration::MAX;
    for _ in 0..HITS {
        let start = Instant::now();
        dtrace.probe(probe, &[0x100, 0x200]);
        fastest = fastest.min(start.elapsed());
    }
    let status = dtrace.status(consumer).ok()?;
    Some((fastest, (status.errors + status.double_errors) / HITS))
}

fn main() {
    println!("a hit has {} units", Costs::BUDGET);
    for (name, what) in MIXES {
        let many = match name {
            "strstr" | "count" | "stack" | "aggregation by stack" => 4,
            _ => 10,
        };
        let clause = match name {
            "predicate" => "t:::p /pid == 3/ { trace(1); }\n".into(),
            _ => format!("t:::p {{ {} }}\n", format!("{what} ").repeat(many)),
        };
        let clauses = if matches!(name, "predicate" | "trace" | "count") { 500 } else { REPEATED };
        let text = |clauses| {
            format!(
                "string s, t, u; int64_t x; int a[int, string];
                 t:::first {{ s = \"{}\"; t = \"{}b\"; }}\n{}",
                "a".repeat(250),
                "a".repeat(100),
                clause.repeat(clauses),
            )
        };
        match (hit(&text(1), 1), hit(&text(clauses), PROGRAMS)) {
            (Some((_, 0)), Some((time, stopped))) => println!(
                "{name:22} {:8.3} ms, {stopped} of {} clauses stopped",
                time.as_secs_f64() * 1e3,
                clauses * PROGRAMS
            ),
            (Some(_), _) => println!("{name:22} fails by itself"),
            (None, _) => println!("{name:22} could not be enabled"),
        }
    }
}
