//! Records that a CPU writes for programs and the consumer reads, in every order of steps that loom explores.
//!
//! The modules are compiled a second time, against loom's types.

/// Loom's types in place of the real ones.
mod base {
    pub(crate) mod sync {
        pub(crate) use loom::cell::UnsafeCell;
        pub(crate) use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
    }
}

#[path = "../src/run/pair.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod pair;
#[path = "../src/run/speculation.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod speculation;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use pair::Pair;
use speculation::{Cleaning, Speculation};

/// CPUs that enter and leave probe context, and a thread that waits for them as [`Host::sync`](sdt_framework::Host)
/// requires.
struct Cpus<const N: usize>([AtomicUsize; N]);

impl<const N: usize> Cpus<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicUsize::new(0)))
    }

    fn probe<R>(&self, cpu: usize, f: impl FnOnce() -> R) -> R {
        self.0[cpu].fetch_add(1, Ordering::AcqRel);
        let result = f();
        self.0[cpu].fetch_add(1, Ordering::AcqRel);
        result
    }

    fn sync(&self) {
        for crossings in &self.0 {
            let seen = crossings.fetch_add(0, Ordering::AcqRel);
            while seen % 2 == 1 && crossings.load(Ordering::Acquire) == seen {
                loom::thread::yield_now();
            }
        }
    }
}

/// A buffer is switched while its CPU records: each value is read once, in order, and no value is read while it is written.
#[test]
fn a_switch_loses_nothing() {
    loom::model(|| {
        let cpus = Arc::new(Cpus::<1>::new());
        let pair = Arc::new(Pair::new(Vec::new(), Vec::new()));
        let writer = loom::thread::spawn({
            let (cpus, pair) = (cpus.clone(), pair.clone());
            move || {
                for value in 0..3 {
                    cpus.probe(0, || {
                        // SAFETY: this thread is the CPU.
                        unsafe { pair.write(|values| values.push(value)) };
                    });
                }
            }
        });
        let mut all = Vec::new();
        let mut take = || {
            // SAFETY: this thread is the reader.
            unsafe {
                pair.switch(Vec::clear, || cpus.sync());
                pair.read(|values| all.extend(values.iter().copied()));
            }
        };
        take();
        writer.join().unwrap();
        take();
        take();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// The records of two CPUs in a speculation, and its state.
struct Model {
    cpus: Cpus<2>,
    speculation: [Speculation; 1],
    /// The number of records of each CPU, and whether it has any.
    parts: [(UnsafeCell<u32>, AtomicU32); 2],
    kept: AtomicU32,
}

impl Model {
    fn new() -> Self {
        Self {
            cpus: Cpus::new(),
            speculation: [Speculation::new()],
            parts: std::array::from_fn(|_| (UnsafeCell::new(0), AtomicU32::new(0))),
            kept: AtomicU32::new(0),
        }
    }

    fn is_there(&self, cpu: usize) -> bool {
        self.parts[cpu].1.load(Ordering::Relaxed) != 0
    }

    /// Returns whether it was recorded.
    fn record(&self, cpu: usize) -> bool {
        self.cpus.probe(cpu, || {
            let [speculation] = &self.speculation;
            let may = speculation.record(|| self.is_there(cpu));
            if may {
                // SAFETY: the speculation is active, and the part belongs to this CPU.
                self.parts[cpu].0.with_mut(|count| unsafe { *count += 1 });
                self.parts[cpu].1.store(1, Ordering::Relaxed);
            }
            may
        })
    }

    fn empty(&self, cpu: usize) -> u32 {
        self.parts[cpu].1.store(0, Ordering::Relaxed);
        // SAFETY: the speculation has ended or belongs to this CPU, so no other thread accesses the part.
        self.parts[cpu].0.with_mut(|count| unsafe { count.replace(0) })
    }

    fn commit(&self, cpu: usize) -> bool {
        self.cpus.probe(cpu, || {
            let [speculation] = &self.speculation;
            let does = speculation.commit(|| self.is_there(cpu));
            if does {
                self.kept.fetch_add(self.empty(cpu), Ordering::Relaxed);
                speculation.committed();
            }
            does
        })
    }

    fn discard(&self, cpu: usize) {
        self.cpus.probe(cpu, || {
            let [speculation] = &self.speculation;
            speculation.discard(
                || self.is_there(cpu),
                || {
                    self.empty(cpu);
                },
            );
        });
    }

    fn clean(&self) {
        let [speculation] = &self.speculation;
        if !speculation.begin_cleaning() {
            return;
        }
        self.cpus.sync();
        for cpu in 0..2 {
            let count = self.empty(cpu);
            if speculation.cleaning() == Some(Cleaning::Commit) {
                self.kept.fetch_add(count, Ordering::Relaxed);
            }
        }
        speculation.cleaned();
    }
}

/// Two CPUs record, one commits, the consumer's thread cleans: every record from before the commit is kept once.
#[test]
fn what_is_committed_is_kept_once() {
    let mut builder = loom::model::Builder::new();
    // All orders of three threads are too many.
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Arc::new(Model::new());
        assert_eq!(Speculation::take(&model.speculation), Ok(1));
        let other = loom::thread::spawn({
            let model = model.clone();
            move || u32::from(model.record(1))
        });
        let cleaner = loom::thread::spawn({
            let model = model.clone();
            move || model.clean()
        });
        let mut recorded = u32::from(model.record(0));
        assert!(model.commit(0));
        recorded += other.join().unwrap();
        cleaner.join().unwrap();
        model.clean();
        assert_eq!(model.kept.load(Ordering::Relaxed), recorded);
        assert_eq!(Speculation::take(&model.speculation), Ok(1), "it is free");
        assert!((0..2).all(|cpu| !model.is_there(cpu)));
    });
}

/// The same, with a speculation that is discarded and reused at once: it contains no earlier records.
#[test]
fn what_is_discarded_is_in_nothing_else() {
    loom::model(|| {
        let model = Arc::new(Model::new());
        assert_eq!(Speculation::take(&model.speculation), Ok(1));
        assert!(model.record(0));
        let other = loom::thread::spawn({
            let model = model.clone();
            move || {
                let mut recorded = 0;
                model.discard(1);
                if Speculation::take(&model.speculation).is_ok() {
                    recorded += u32::from(model.record(1));
                    assert!(model.commit(1));
                }
                recorded
            }
        });
        model.clean();
        let recorded = other.join().unwrap();
        model.clean();
        assert_eq!(model.kept.load(Ordering::Relaxed), recorded);
    });
}
