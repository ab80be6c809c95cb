//! Test of probes in difficult contexts: inside the framework while it records a hit, in an interrupt during a hit, with
//! interrupts off, and in a function that the breakpoint handler calls.

use alloc::string::ToString;
use core::sync::atomic::AtomicUsize;

use sdt_core::patch::Mode;
use sdt_framework::{ConsumerId, Field, Spec};
use sdt_protocol::{Counters, Reentered, Refusal, TorturedProbe};
use stand_in_freebsd::errno::{EBUSY, EINVAL};

use crate::dtrace::DTRACE;
use crate::standin::{self, Totals, Which};
use crate::{counters, smp};

/// The probes that interrupts and handlers fire.
const ARMED: [Which; 3] = [Which::Tick, Which::Breakpoint, Which::Recording];

/// Enables and records all probes, and makes every CPU execute each of them `rounds` times. Called by the first CPU, as a thread.
///
/// # Errors
/// If the probes cannot be attached or detached, or the framework refuses a request.
pub(crate) fn run(rounds: u32, jump: bool) -> Result<Reentered, Refusal> {
    let refuse =
        |errno, error: &dyn core::fmt::Display| Refusal { errno, message: error.to_string() };
    standin::attach().map_err(|error| refuse(EINVAL, &error))?;
    for which in Which::ALL {
        which.set_mode(if jump { Mode::Jump } else { Mode::Trap });
    }
    let consumer = DTRACE.open().map_err(|error| refuse(EBUSY, &error))?;
    let result = reentered(rounds, consumer);
    let closed = DTRACE.close(consumer);
    let result = result.and_then(|result| closed.map(|()| result));
    let result = result.map_err(|error| refuse(EINVAL, &error))?;
    standin::detach().map_err(|error| refuse(EBUSY, &error))?;
    Ok(result)
}

fn reentered(rounds: u32, consumer: ConsumerId) -> Result<Reentered, sdt_framework::ConsumerError> {
    let all = Spec::parse("standin:::", Field::Name).expect("a description");
    DTRACE.enable(consumer, &all)?;
    // Start recording, so that the framework calls the function with the site. Drops because of a full buffer do not matter.
    DTRACE.go(consumer)?;
    let (before, counted) = (Totals::now(), counters::now());
    arm(&ARMED);
    smp::with_others(&|_| passes(rounds), || passes(rounds));
    arm(&[]);
    let (after, counters) = (Totals::now(), counters::now());
    DTRACE.stop(consumer)?;
    DTRACE.disable(consumer, &all)?;
    let mut result = Reentered {
        counters: Counters {
            breakpoints: counters.breakpoints - counted.breakpoints,
            hits: counters.hits - counted.hits,
            unclaimed: counters.unclaimed - counted.unclaimed,
            reentered: counters.reentered - counted.reentered,
            ticks: counters.ticks - counted.ticks,
        },
        ..Reentered::default()
    };
    for which in Which::ALL {
        let [passes, hits, garbled] = after.since(&before, which);
        result.garbled += garbled;
        result.probes.push(TorturedProbe {
            name: which.name().to_string(),
            sites: which.probe().sites().count() as u32,
            passes,
            hits,
            intervals: smp::online() as u64,
            stable_passes: passes,
            stable_hits: hits,
        });
    }
    Ok(result)
}

/// Arms `probes` and disarms all others.
///
/// The change happens in a rendezvous, when no CPU is in another interrupt handler or in the breakpoint handler. So every hit
/// happens completely before or completely after the change.
fn arm(probes: &[Which]) {
    let cpus = smp::online();
    let [arrived, armed] = [const { AtomicUsize::new(0) }; 2];
    smp::rendezvous(&|cpu| {
        smp::barrier(&arrived, cpus);
        if cpu == 0 {
            standin::arm(probes);
        }
        smp::barrier(&armed, cpus);
    });
}

fn passes(rounds: u32) {
    for round in 0..rounds {
        standin::tight();
        standin::costly();
        standin::masked();
        standin::many(round);
        standin::asked();
        standin::waiting();
    }
}
