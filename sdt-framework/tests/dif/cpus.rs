//! Programs on several CPUs at once: no dynamic variable is lost or mixed up with another one, and every chunk is freed again.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use recording_host::Done;
use sdt_framework::testing::{Access, DynamicDrops, Firing, Memory, Program};

use crate::programs::{compile, validate};
use crate::world::{self, World};

const CPUS: usize = 4;

/// Waits until every CPU has been outside of its firings, as a host's `sync` does.
struct Outside {
    /// Even: outside.
    turns: [AtomicUsize; CPUS],
}

impl Outside {
    fn firing<R>(&self, cpu: usize, f: impl FnOnce() -> R) -> R {
        /// Passes the turn on when it is dropped, so that no thread waits forever after a failure.
        struct Turn<'t>(&'t AtomicUsize);

        impl Drop for Turn<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }

        self.turns[cpu].fetch_add(1, Ordering::SeqCst);
        let _turn = Turn(&self.turns[cpu]);
        f()
    }

    fn sync(&self) {
        for turn in &self.turns {
            let seen = turn.load(Ordering::SeqCst);
            while seen % 2 == 1 && turn.load(Ordering::SeqCst) == seen {
                std::thread::yield_now();
            }
        }
    }
}

struct Programs {
    all: Vec<Program<'static>>,
}

fn programs(memory: &'static Memory<'static>, text: &str) -> Programs {
    let mut declarations = world::declarations(memory);
    let compiled = compile(text);
    let difos =
        compiled.ecbs.iter().flat_map(|ecb| &ecb.actions).filter_map(|act| act.difo.as_ref());
    Programs { all: difos.map(|difo| validate(difo, &mut declarations)).collect() }
}

/// Each CPU is a thread that counts in its own thread-local variables and in its own elements, and removes and creates them
/// again, while another thread cleans.
#[test]
fn dynamic_variables() {
    const ROUNDS: u64 = 3000;
    let memory = world::memory(32, CPUS, 64);
    let programs = programs(
        memory,
        "self uint64_t n; uint64_t a[uint64_t, string];
         BEGIN { self->n = self->n + 1; a[self->n % 3, \"x\"] = self->n; trace(self->n); }
         BEGIN { a[self->n % 3, \"x\"] = 0; trace(a[77, \"y\"]); }",
    );
    let outside = Outside { turns: Default::default() };
    let (barrier, done) = (Barrier::new(CPUS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let cpus: Vec<_> = (0..CPUS)
            .map(|cpu| {
                let (outside, barrier, programs) = (&outside, &barrier, &programs);
                scope.spawn(move || {
                    let world = World::default();
                    world.thread.set(cpu as u64);
                    let mut firing = world::firing(&world, memory, Access::ALL, 1, cpu);
                    barrier.wait();
                    let mut counted = 0;
                    while counted < ROUNDS {
                        let fired = outside.firing(cpu, || fire(&mut firing, programs));
                        if let Some(value) = fired {
                            counted += 1;
                            assert_eq!(value, counted, "a thread's variable is its alone");
                        } else {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let cleaner = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                memory.dynamic.clean(|| outside.sync());
                std::thread::yield_now();
            }
        });
        let done = Done(&done);
        for cpu in cpus {
            cpu.join().unwrap();
        }
        drop(done);
        cleaner.join().unwrap();
    });
    // Four variables are left; all other chunks can be allocated again.
    let world = World::default();
    world.thread.set(100);
    let before = memory.dynamic.drops();
    let mut firing = world::firing(&world, memory, Access::ALL, 1, 0);
    let (mut made, mut cleaned) = (0, false);
    loop {
        world.thread.set(100 + made);
        firing.begin(1);
        // Only the variable of this thread.
        firing.run(&programs.all[0]).unwrap();
        if !firing.dropped() {
            (made, cleaned) = (made + 1, false);
        } else if cleaned {
            break;
        } else {
            // Clean chunks are used up before dirty ones are cleaned.
            memory.dynamic.clean(|| ());
            cleaned = true;
        }
    }
    assert_eq!(made, 64 - CPUS as u64);
    assert_ne!(memory.dynamic.drops(), before);
}

/// The value that the first clause traces; `None` if there was no room for its variables.
fn fire(firing: &mut Firing<'_, World>, programs: &Programs) -> Option<u64> {
    firing.begin(1);
    let mut traced = None;
    for (index, program) in programs.all.iter().enumerate() {
        let value = firing.run(program).unwrap();
        if index == 2 {
            traced = Some(value);
        }
        if firing.dropped() && index == 0 {
            return None;
        }
    }
    traced
}

#[test]
fn drops_say_what_the_chunks_were() {
    let memory = world::memory(32, 2, 4);
    let programs = programs(
        memory,
        "int x; uint64_t a[int]; BEGIN { x = x + 1; a[x] = 1; } END { a[1] = 0; }",
    );
    let world = World::default();
    let mut firing = world::firing(&world, memory, Access::ALL, 1, 0);
    let mut make = |expect: bool| {
        firing.begin(1);
        firing.run(&programs.all[0]).unwrap();
        firing.run(&programs.all[1]).unwrap();
        assert_eq!(firing.dropped(), expect);
    };
    for _ in 0..4 {
        make(false);
    }
    make(true);
    assert_eq!(memory.dynamic.drops(), DynamicDrops { empty: 1, ..Default::default() });
    let remove = || {
        let mut firing = world::firing(&world, memory, Access::ALL, 2, 0);
        firing.begin(1);
        firing.run(&programs.all[2]).unwrap();
    };
    remove();
    make(true);
    assert_eq!(memory.dynamic.drops(), DynamicDrops { empty: 1, dirty: 1, ..Default::default() });
    memory.dynamic.clean(|| make(true));
    assert_eq!(memory.dynamic.drops(), DynamicDrops { empty: 1, dirty: 1, rinsing: 1 });
    make(false);
}

#[test]
fn on_one_cpu_a_chunk_is_free_at_once() {
    let memory = world::memory(32, 1, 4);
    let programs = programs(
        memory,
        "int x; uint64_t a[int]; BEGIN { x = x + 1; a[x] = 1; } END { a[x] = 0; }",
    );
    let world = World::default();
    let mut firing = world::firing(&world, memory, Access::ALL, 1, 0);
    for _ in 0..100 {
        firing.begin(1);
        for program in &programs.all {
            firing.run(program).unwrap();
        }
        assert!(!firing.dropped());
    }
    assert_eq!(memory.dynamic.drops(), DynamicDrops::default());
}

/// A hit that has found a thread-local variable uses its chunk again, but not after the hit has removed the variable.
#[test]
fn a_removed_variable_is_gone_in_the_same_hit() {
    let memory = world::memory(32, 1, 4);
    let programs = programs(
        memory,
        "self uint64_t x, y;
         BEGIN { self->x = 1; self->x = 0; trace(self->x); self->y = 7; self->x = self->y + 1; trace(self->x + self->y); }",
    );
    let world = World::default();
    let mut firing = world::firing(&world, memory, Access::ALL, 1, 0);
    for thread in 0..2 {
        world.thread.set(thread);
        firing.begin(1);
        let values: Vec<_> = programs.all.iter().map(|all| firing.run(all).unwrap()).collect();
        assert_eq!((values[2], values[5]), (0, 15));
    }
}
