//! A host that cannot write to text says so, and nothing has changed.
#![cfg(not(sdt_site = "gate"))]

use std::sync::atomic::Ordering;

use recording_host::{REFUSED, WRITABLE};
use sdt_core::patch::{Mode, PatchError};
use sdt_core::site::{self, State};
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    stubborn {
        fn twice(n: u32);
    }
}

#[inline(never)]
fn fire(n: u32) {
    sdt_probe!(stubborn::twice, n);
    if n > 1 {
        sdt_probe!(stubborn::twice, n + 1);
    }
}

fn states() -> Vec<State> {
    stubborn::twice.sites().filter_map(site::state).collect()
}

#[test]
fn what_cannot_be_written_is_an_error_of_enabling() {
    assert!(site::all().is_empty(), "nothing has been sorted yet");
    assert_eq!(stubborn::twice.sites().count(), 0);
    let recorder = recording_host::attach(Mode::Trap);
    let id = recorder.find("stubborn", "twice").unwrap();

    WRITABLE.store(false, Ordering::Relaxed);
    assert_eq!(recorder.try_enable(id), libc::EACCES);
    let first = stubborn::twice.sites().next().unwrap().patchpoint();
    assert_eq!(REFUSED.lock().unwrap().take(), Some(PatchError::ReadOnly { patchpoint: first }));
    assert_eq!(states(), [State::Nop; 2]);
    fire(2);
    assert_eq!(recorder.hits(id), 0);

    // A failed attempt does not count: this is the first enabling.
    WRITABLE.store(true, Ordering::Relaxed);
    recorder.enable(id);
    fire(2);
    assert_eq!((recorder.hits(id), states()), (2, vec![State::Trap; 2]));

    // Neither a change of the mode nor disabling is done in part.
    WRITABLE.store(false, Ordering::Relaxed);
    // SAFETY: no thread is in a hit.
    let jump = unsafe { sdt_core::patch::set_mode(&stubborn::twice, Mode::Jump) };
    assert_eq!(jump, Err(PatchError::ReadOnly { patchpoint: first }));
    recorder.disable(id);
    assert!(REFUSED.lock().unwrap().is_some());
    fire(2);
    assert_eq!((recorder.hits(id), states()), (2, vec![State::Trap; 2]), "they trap for nothing");

    WRITABLE.store(true, Ordering::Relaxed);
    recorder.enable(id);
    recorder.disable(id);
    assert_eq!(states(), [State::Nop; 2]);
}
