//! Many probes are enabled and disabled together.
#![cfg(not(sdt_site = "gate"))]

use std::sync::atomic::Ordering;

use recording_host::{REFUSED, Recorder, SYNCHRONISED, WRITABLE, turning_read_only};
use sdt_core::patch::{Mode, PatchError, batch, set_mode};
use sdt_core::site::{self, State};
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    many {
        fn one();
        fn two();
        fn three(n: u32);
        fn jumping();
    }
}

#[inline(never)]
fn fire() {
    sdt_probe!(many::one);
    sdt_probe!(many::two);
    sdt_probe!(many::three, 1);
    sdt_probe!(many::three, 2);
    sdt_probe!(many::jumping);
}

const NAMES: [&str; 4] = ["one", "two", "three", "jumping"];

fn states() -> Vec<State> {
    [many::one.sites(), many::two.sites(), many::three.sites(), many::jumping.sites()]
        .into_iter()
        .flatten()
        .filter_map(site::state)
        .collect()
}

/// Returns the number of synchronisations during `change`.
fn synchronised(change: impl FnOnce()) -> u64 {
    let before = SYNCHRONISED.load(Ordering::Relaxed);
    change();
    SYNCHRONISED.load(Ordering::Relaxed) - before
}

fn hits(recorder: &Recorder) -> [u64; 4] {
    NAMES.map(|name| recorder.hits(recorder.find("many", name).unwrap()))
}

#[test]
fn threads_are_synchronised_for_all_of_them() {
    use State::{Jump, Nop, Trap};

    let recorder = recording_host::attach(Mode::Trap);
    let all = NAMES.map(|name| recorder.find("many", name).unwrap());
    let enable = || all.iter().for_each(|&id| recorder.enable(id));
    let disable = || all.iter().for_each(|&id| recorder.disable(id));
    assert_eq!(synchronised(enable), 4);
    assert_eq!(synchronised(disable), 4);

    let enabled = synchronised(|| {
        batch(|| {
            enable();
            assert_eq!(states(), [Nop; 5], "at the end");
            fire();
        });
    });
    assert_eq!((enabled, states()), (1, vec![Trap; 5]));
    fire();
    assert_eq!(hits(recorder), [1, 1, 2, 1]);

    // The mode of a site changes before the end of the batch, and the end does not change it back.
    // SAFETY: no thread is in a hit.
    batch(|| unsafe { set_mode(&many::jumping, Mode::Jump) }).unwrap();
    assert_eq!(states(), [Trap, Trap, Trap, Trap, Jump]);

    // One site stays enabled, four are disabled. The jump needs three synchronisations, and the other nops share the last one.
    let mixed = synchronised(|| {
        batch(|| {
            disable();
            fire();
            recorder.enable(all[0]);
        });
    });
    assert_eq!(mixed, 3, "breakpoint, nop of its tail, nops");
    assert_eq!(states(), [Trap, Nop, Nop, Nop, Nop]);
    assert_eq!(hits(recorder), [1, 1, 2, 1], "hits of disabled probes are turned back");
    fire();
    assert_eq!(hits(recorder), [2, 1, 2, 1]);

    // A site that cannot be written to is refused at the request, and unchanged at the end.
    WRITABLE.store(false, Ordering::Relaxed);
    assert_eq!(synchronised(|| batch(|| recorder.disable(all[0]))), 0);
    assert_eq!(batch(|| recorder.try_enable(all[1])), libc::EACCES);
    assert_eq!(states(), [Trap, Nop, Nop, Nop, Nop]);
    WRITABLE.store(true, Ordering::Relaxed);

    // This change is late, and is done with the next batch.
    batch(|| recorder.enable(all[2]));
    assert_eq!(states(), [Nop, Nop, Trap, Trap, Nop]);
    assert_eq!(synchronised(|| batch(|| ())), 0, "nothing is late");

    // A site that becomes read-only before the end is unchanged and reported, and is changed as soon as it is writable.
    batch(|| {
        recorder.enable(all[0]);
        WRITABLE.store(false, Ordering::Relaxed);
    });
    assert_eq!(states(), [Nop, Nop, Trap, Trap, Nop]);
    let patchpoint = many::one.sites().next().unwrap().patchpoint();
    let refused = REFUSED.lock().unwrap().take();
    assert_eq!(refused, Some(PatchError::ReadOnly { patchpoint }));
    WRITABLE.store(true, Ordering::Relaxed);
    batch(|| ());
    assert_eq!(states(), [Trap, Nop, Trap, Trap, Nop]);

    // The host is not called again for text that becomes read-only during a change, so no site is left between two states.
    recorder.disable(all[0]);
    turning_read_only(|| {
        batch(|| {
            recorder.enable(all[0]);
            recorder.enable(all[3]);
        });
    });
    assert_eq!(states(), [Trap, Nop, Trap, Trap, Jump]);
    turning_read_only(|| {
        batch(|| {
            recorder.disable(all[0]);
            recorder.disable(all[3]);
        });
    });
    assert_eq!(states(), [Nop, Nop, Trap, Trap, Nop]);
    assert_eq!(*REFUSED.lock().unwrap(), None);

    // A batch that panics has an end, too.
    let panicked = std::panic::catch_unwind(|| {
        batch(|| {
            recorder.disable(all[2]);
            panic!("in the midst");
        })
    });
    assert!(panicked.is_err());
    assert_eq!(states(), [Nop; 5]);
}
