//! The chain, and the last load of a probe's id, under every interleaving and every reordering that the memory model allows.
//!
//! This compiles the framework's own source files against loom's atomics.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Stands for the framework's `src/base`.
mod base {
    pub(crate) mod sync {
        pub(crate) use loom::cell::UnsafeCell;
        pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU32 as AtomicId, Ordering};
    }
    pub(crate) mod context {
        pub(crate) use sdt_framework::Contexts;
    }
    pub(crate) use super::host;
}
#[path = "../src/base/chain.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod chain;
#[path = "../src/base/host.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod host;
mod kernel {
    pub(crate) use sdt_framework::kernel::{Costs, Kernel, Unknown};
}
#[path = "../src/run/live_id.rs"]
mod live_id;

use base::sync::{AtomicU32, UnsafeCell};
use chain::{Chain, Node};
use host::Host;
use live_id::with_live_id;
use loom::sync::Arc;

/// A CPU that enters and leaves probe context, and a thread that waits until the CPU has left it: the `sync` of a host.
struct Cpu(AtomicUsize);

impl Cpu {
    fn in_probe_context(&self, f: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::AcqRel);
        f();
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn sync(&self) {
        let seen = self.0.fetch_add(0, Ordering::AcqRel);
        while seen % 2 == 1 && self.0.load(Ordering::Acquire) == seen {
            thread::yield_now();
        }
    }
}

/// The chain of a node, and its position there.
type Body = (char, u32);

/// One CPU walks chain `a` while a thread moves the first node of `a` to chain `b`, as the framework moves ECBs.
fn move_a_node(wait: bool) {
    struct World {
        nodes: [Node<Body>; 3],
        a: Chain,
        b: Chain,
        cpu: Cpu,
    }
    loom::model(move || {
        let world = Arc::new(World {
            nodes: core::array::from_fn(|_| Node::new()),
            a: Chain::new(),
            b: Chain::new(),
            cpu: Cpu(AtomicUsize::new(0)),
        });
        let World { nodes, a, b, cpu } = &*world;
        // SAFETY: the other threads are not started yet.
        unsafe {
            nodes[0].fill(('a', 1));
            a.append(nodes, 0);
            nodes[1].fill(('a', 2));
            a.append(nodes, 1);
            nodes[2].fill(('b', 1));
            b.append(nodes, 2);
        }
        let walker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut met = Vec::new();
                world.cpu.in_probe_context(|| {
                    met = world.a.walk(&world.nodes).map(|(_, body)| body).collect();
                });
                met
            })
        };
        // SAFETY: only this thread changes the chains. It fills the node after the wait, except in the test that shows that the
        // wait is necessary.
        unsafe {
            a.unlink(nodes, 0);
            if wait {
                cpu.sync();
            }
            nodes[0].fill(('b', 2));
            b.append(nodes, 0);
        }
        let met = walker.join().unwrap();
        assert!([vec![('a', 1), ('a', 2)], vec![('a', 2)]].contains(&met), "{met:?}");
        let all: Vec<_> = b.walk(nodes).collect();
        assert_eq!(all, [(2, ('b', 1)), (0, ('b', 2))]);
    });
}

#[test]
fn a_walker_never_leaves_its_chain() {
    move_a_node(true);
}

/// The model detects a missing wait: then the walker reads the node while the other thread writes it.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_wait_it_does() {
    move_a_node(false);
}

#[test]
fn an_appended_node_is_met_whole_or_not_at_all() {
    loom::model(|| {
        let world =
            Arc::new((core::array::from_fn::<_, 2, _>(|_| Node::<Body>::new()), Chain::new()));
        let walker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.1.walk(&world.0).map(|(_, body)| body).collect::<Vec<_>>())
        };
        let (nodes, chain) = &*world;
        for (index, place) in [(0, 1), (1, 2)] {
            // SAFETY: this thread alone changes the chain; the nodes are new.
            unsafe {
                nodes[index].fill(('a', place));
                chain.append(nodes, index);
            }
        }
        let met = walker.join().unwrap();
        assert!([('a', 1), ('a', 2)].starts_with(&met), "{met:?}");
    });
}

// SAFETY: `sync` waits until the CPU is outside probe context; one thread of the model is on it at a time.
unsafe impl Host for Cpu {
    type Lock = host::SpinLock<Self>;

    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        0
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Ordering::AcqRel);
        let result = f();
        self.0.fetch_add(1, Ordering::AcqRel);
        result
    }

    fn sync(&self) {
        Self::sync(self);
    }
}

/// A thread hits a probe while another thread disables and destroys the probe. The id is then reused for a probe of another
/// provider.
fn use_an_id_again(hit: fn(&Cpu, &AtomicU32, &mut dyn FnMut(u32))) {
    struct World {
        /// The place where the first provider stores the id.
        id: AtomicU32,
        /// The provider of the probe with this id: an entry of the framework's table.
        entry: UnsafeCell<&'static str>,
        cpu: Cpu,
    }
    // SAFETY: the models check that no thread reads the entry while another one writes it.
    unsafe impl Sync for World {}
    let outcomes = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = std::sync::Arc::clone(&outcomes);
    loom::model(move || {
        let world = Arc::new(World {
            id: AtomicU32::new(1),
            entry: UnsafeCell::new("proc:::exec"),
            cpu: Cpu(AtomicUsize::new(0)),
        });
        let firing = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut recorded = None;
                hit(&world.cpu, &world.id, &mut |id| {
                    assert_eq!(id, 1);
                    // SAFETY: loom detects concurrent accesses, and fails the test.
                    recorded = Some(world.entry.with(|entry| unsafe { *entry }));
                });
                recorded
            })
        };
        // The steps of `disable`, and those of `unregister` before the entry is free.
        world.id.store(0, Ordering::Release);
        world.cpu.sync();
        // SAFETY: loom detects concurrent accesses, and fails the test.
        world.entry.with_mut(|entry| unsafe { *entry = "vault:::unlock" });
        let recorded = firing.join().unwrap();
        assert_ne!(recorded, Some("vault:::unlock"), "recorded as another one's hit");
        seen.lock().unwrap().insert(recorded);
    });
    let outcomes: Vec<_> = outcomes.lock().unwrap().iter().copied().collect();
    assert_eq!(outcomes, [None, Some("proc:::exec")]);
}

#[test]
fn a_hit_is_never_recorded_as_another_provider_s() {
    use_an_id_again(|cpu, id, record| with_live_id(cpu, id, record, || {}));
}

/// The model detects a load of the id before interrupts are off.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_look_before_interrupts_are_off_is_too_early() {
    use_an_id_again(|cpu, id, record| {
        let id = id.load(Ordering::Acquire);
        cpu.without_interrupts(|| {
            if id != 0 {
                record(id);
            }
        });
    });
}
