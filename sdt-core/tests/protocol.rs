//! A model check of the patching protocol: whatever part of the stores since the last synchronisation a CPU has seen, it fetches
//! the nop, a breakpoint or the jump, never a mixture.

use std::cell::RefCell;
use std::collections::BTreeSet;

use dtrace_abi::site::{Encoding, aarch64, riscv64, x86_64};
use sdt_core::patch::Patcher;
use sdt_core::patch::protocol::{State, Text, Tracepoint};

/// One step of the patcher's.
#[derive(Clone, Debug)]
enum Step {
    /// Bytes stored at an offset from the site.
    Store(usize, Vec<u8>),
    /// All CPUs synchronised.
    Synchronise,
}

/// Stores to a model of the text and counts the stores.
struct Account {
    site: usize,
    steps: RefCell<Vec<Step>>,
}

// SAFETY: used by one thread only.
unsafe impl Sync for Account {}

// SAFETY: stores the given bytes at the given address.
unsafe impl Patcher for Account {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        // SAFETY: bytes of the buffer that stands for the site's text.
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.steps.borrow_mut().push(Step::Store(address - self.site, bytes.to_vec()));
    }

    fn synchronise(&self) {
        self.steps.borrow_mut().push(Step::Synchronise);
    }
}

/// Returns all texts that a CPU can fetch at any moment, if the site contained `before` and the steps are executed in order. A
/// CPU sees a store of the head completely or not at all, and each byte of other stores independently.
fn fetched(encoding: &Encoding, before: &[u8], steps: &[Step]) -> BTreeSet<Vec<u8>> {
    let head = encoding.breakpoint.as_bytes().len();
    let mut all = BTreeSet::from([before.to_vec()]);
    // The code that CPUs may see now, and the code that they see after synchronisation.
    let (mut views, mut memory) = (all.clone(), before.to_vec());
    for step in steps {
        match step {
            Step::Synchronise => views = BTreeSet::from([memory.clone()]),
            Step::Store(offset, bytes) => {
                memory[*offset..offset + bytes.len()].copy_from_slice(bytes);
                let whole = *offset == 0 && bytes.len() == head;
                let parts: Vec<(usize, &[u8])> = if whole {
                    vec![(0, &bytes[..])]
                } else {
                    bytes
                        .iter()
                        .enumerate()
                        .map(|(i, b)| (offset + i, std::slice::from_ref(b)))
                        .collect()
                };
                for (at, part) in parts {
                    let seen = views.iter().map(|view| {
                        let mut view = view.clone();
                        view[at..at + part.len()].copy_from_slice(part);
                        view
                    });
                    views = views.iter().cloned().chain(seen.collect::<Vec<_>>()).collect();
                }
                all.extend(views.iter().cloned());
            }
        }
    }
    all
}

/// Returns whether `text` is one of the intended instructions: the nop, a breakpoint or the jump.
fn is_meant(encoding: &Encoding, text: &[u8], jump: Option<&[u8]>) -> bool {
    text == encoding.nop.as_bytes()
        || text.starts_with(encoding.breakpoint.as_bytes())
        || Some(text) == jump
}

const STATES: [State; 3] = [State::Nop, State::Trap, State::Jump];

/// Changes a site to each of `states` in turn. Returns the steps, the text before them, and the jump.
fn walk(
    encoding: &Encoding,
    reachable: bool,
    states: &[State],
) -> (Vec<Step>, Vec<u8>, Option<Vec<u8>>) {
    // Aligned as any architecture wants it.
    #[repr(align(16))]
    struct Buffer([u8; 16]);
    let mut buffer = Box::new(Buffer([0; 16]));
    let nop = encoding.nop.as_bytes();
    buffer.0[..nop.len()].copy_from_slice(nop);
    let patchpoint = buffer.0.as_mut_ptr().expose_provenance();
    let target = patchpoint.wrapping_add(if reachable { 0x124 } else { 1 << 40 });
    let place = Tracepoint { patchpoint, target };
    let account = Account { site: patchpoint, steps: RefCell::default() };
    let text = Text { encoding, patcher: &account };
    let jump = (encoding.jump)(patchpoint, target).ok();
    for &goal in states {
        // SAFETY: a buffer of our own.
        unsafe {
            text.bring([place].into_iter(), goal);
            let expected = if goal == State::Jump && !reachable { State::Trap } else { goal };
            assert_eq!(text.state(place), expected);
        }
        let code = match goal {
            State::Nop => Some(encoding.nop),
            State::Jump => jump,
            State::Trap => None,
        };
        // SAFETY: a buffer of our own, of which this thread changes nothing while `now` exists. In trap the tail is the nop's.
        let now = unsafe { std::slice::from_raw_parts(patchpoint as *const u8, nop.len()) };
        match code {
            Some(code) => assert_eq!(now, code.as_bytes()),
            None => {
                let head = encoding.breakpoint.as_bytes();
                assert_eq!(now, [head, &nop[head.len()..]].concat());
            }
        }
    }
    (account.steps.into_inner(), nop.to_vec(), jump.map(|jump| jump.as_bytes().to_vec()))
}

#[test]
fn no_cpu_fetches_a_mixture() {
    for encoding in [x86_64::ENCODING, aarch64::ENCODING, riscv64::ENCODING] {
        for reachable in [true, false] {
            // All sequences of four changes, which include every pair of consecutive changes.
            for ways in 0..81 {
                let states = [ways / 27, ways / 9 % 3, ways / 3 % 3, ways % 3].map(|i| STATES[i]);
                let (steps, before, jump) = walk(&encoding, reachable, &states);
                for text in fetched(&encoding, &before, &steps) {
                    let meant = is_meant(&encoding, &text, jump.as_deref());
                    assert!(meant, "{text:02x?} on the way through {states:?}: {steps:02x?}");
                }
            }
        }
    }
}

/// The check detects errors: it fails if any breakpoint is missing, or any synchronisation except those that end a change (they
/// are for the caller).
#[test]
fn every_synchronisation_within_a_change_is_needed() {
    let encoding = x86_64::ENCODING;
    let round = [State::Jump, State::Nop, State::Jump];
    let (steps, before, jump) = walk(&encoding, true, &round);
    let bad = |steps: &[Step]| {
        fetched(&encoding, &before, steps)
            .iter()
            .any(|text| !is_meant(&encoding, text, jump.as_deref()))
    };
    assert!(!bad(&steps));
    let is_breakpoint = |step: &Step| matches!(step, Step::Store(0, bytes) if bytes == encoding.breakpoint.as_bytes());
    let mut tried = 0;
    for (i, step) in steps.iter().enumerate() {
        let ends_change = steps.get(i + 1).is_none_or(is_breakpoint);
        if (matches!(step, Step::Synchronise) && !ends_change) || is_breakpoint(step) {
            let mut without = steps.clone();
            without.remove(i);
            assert!(bad(&without), "step {i}, {step:02x?}, is not needed");
            tried += 1;
        }
    }
    assert_eq!(tried, 3 + 3 + 3, "a breakpoint and two synchronisations in each change");
}

/// Several sites share their synchronisations.
#[test]
fn one_synchronisation_serves_all_sites() {
    let encoding = x86_64::ENCODING;
    let mut buffers = [[0u8; 8]; 50];
    for buffer in &mut buffers {
        buffer[..5].copy_from_slice(encoding.nop.as_bytes());
    }
    let places = buffers.each_mut().map(|buffer| {
        let patchpoint = buffer.as_mut_ptr().expose_provenance();
        Tracepoint { patchpoint, target: patchpoint + 64 }
    });
    let account = Account { site: 0, steps: RefCell::default() };
    let text = Text { encoding: &encoding, patcher: &account };
    // SAFETY: buffers of our own.
    unsafe { text.bring(places.into_iter(), State::Jump) };
    let steps = account.steps.into_inner();
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Synchronise)).count(), 3);
    assert_eq!(steps.len(), 3 + 3 * 50);
}
