//! A probe fires. Everything here is probe context.

use core::sync::atomic::Ordering;

use crate::buffer::{ARGS, Event};
use crate::dtrace::{Dtrace, LiveProbe, PerCpu, Shared};
use crate::host::Host;
use crate::registry::{Notify, Origin};

/// The arguments that a hit brings along.
#[derive(Clone, Copy)]
pub(crate) enum Brought<'a> {
    /// All that there are.
    All(&'a [u64; ARGS]),
    /// The first five; the provider may know of more.
    Five(&'a [u64; 5]),
}

impl<H: Host> Dtrace<H> {
    /// A probe was hit, with the five arguments that the kernels' `dtrace_probe` takes. The sixth to
    /// the tenth are asked of the provider's `getargval`, if it has one and somebody records the hit;
    /// otherwise they are 0. It is asked for all of them, for nobody says how many a probe has, and is
    /// given the `aframes` that the probe was created with.
    ///
    /// Probe context, as [`probe`](Self::probe). Any `id` will do: one that is no probe, or not any more, is
    /// counted.
    ///
    /// # Safety
    /// If the probe's provider has a `getargval`, this is a hit that the provider has made.
    pub unsafe fn probe5(&self, id: u32, args: [u64; 5]) {
        self.host.without_interrupts(|| self.record_hit(id, Brought::Five(&args)));
    }

    /// Records a hit, or counts why not. With interrupts off.
    pub(crate) fn record_hit(&self, id: u32, brought: Brought<'_>) {
        let cpu = self.host.cpu();
        let here = self.shared().ok().and_then(|shared| Some((shared, shared.cpus.get(cpu)?)));
        match here {
            Some((shared, this)) => {
                if this.enter() {
                    self.record_once(shared, cpu, this, id, brought);
                    this.leave();
                }
            }
            None => {
                self.stray.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn record_once(
        &self,
        shared: &Shared<H>,
        cpu: usize,
        this: &PerCpu,
        id: u32,
        brought: Brought<'_>,
    ) {
        let probe = id.checked_sub(1).and_then(|index| shared.probes.get(index as usize));
        let Some(probe) = probe.filter(|probe| probe.is_live()) else {
            this.count_unknown();
            return;
        };
        let (mut records, mut drops) = (0, 0);
        // Made for the first enabling that wants it; all see the same time and arguments.
        let mut made: Option<Event> = None;
        probe.chain.for_each(shared.ecbs, |_, ecb| {
            let buffers = shared.consumers.get(ecb.consumer).and_then(|consumer| consumer.going());
            let Some(buffer) = buffers.and_then(|buffers| buffers.get(cpu)) else { return };
            let event = made.get_or_insert_with(|| self.event(cpu, probe, id, brought));
            let (words, len) = event.record(ecb.epid, ecb.recording);
            // SAFETY: only this CPU writes to its buffers, and only here, where it does not
            // re-enter (`enter`) and is not preempted (`Host`).
            match unsafe { buffer.ring.push(words.get(..len).unwrap_or_default()) } {
                true => records += 1,
                false => drops += 1,
            }
        });
        this.count_hit(records, drops);
    }

    fn event(&self, cpu: usize, probe: &LiveProbe, id: u32, brought: Brought<'_>) -> Event {
        let timestamp = self.host.timestamp();
        let args = match brought {
            Brought::All(args) => *args,
            Brought::Five(&[a, b, c, d, e]) => {
                let origin = probe.origin();
                let ask = |argno| {
                    origin.map_or(0, |origin| {
                        // SAFETY: it was live in this probe context, which unregistering waits for.
                        unsafe { origin.arg_value(id, argno) }
                    })
                };
                [a, b, c, d, e, ask(5), ask(6), ask(7), ask(8), ask(9)]
            }
        };
        Event { probe: id, cpu: cpu as u32, timestamp, args }
    }

    /// Calls the `suspend` op of every enabled probe (`dtrace_suspend`): a debugger is about to stop
    /// the machine. Takes no lock; other CPUs may be in any state.
    pub fn suspend(&self) {
        self.for_each_enabled(|origin| origin.suspend);
    }

    /// Calls the `resume` op of every enabled probe (`dtrace_resume`), after [`suspend`](Self::suspend).
    /// Takes no lock.
    pub fn resume(&self) {
        self.for_each_enabled(|origin| origin.resume);
    }

    fn for_each_enabled(&self, op: impl Fn(&Origin) -> Option<Notify>) {
        self.host.without_interrupts(|| {
            for (id, probe) in (1..).zip(self.shared().map_or(&[][..], |shared| shared.probes)) {
                if probe.chain.is_empty() {
                    continue;
                }
                if let Some(origin) = probe.origin()
                    && let Some(op) = op(&origin)
                {
                    // SAFETY: as with `getargval`: the probe was live with interrupts off, so the provider
                    // is registered, and it declared the op sound to call here.
                    unsafe { op(origin.arg, id, origin.parg) };
                }
            }
        });
    }
}
