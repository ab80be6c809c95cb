//! The probes of an allocator that `sdt_allocator!` declares.

use std::alloc::{GlobalAlloc as _, Layout, System};
use std::sync::Mutex;

use sdt_core::patch::Mode;

sdt_core::sdt_allocator! {
    /// The system's allocator, with probes.
    pub struct Probed, provider heap;
}

/// Not the global one, so that nothing else fires its probes.
static ALLOCATOR: Probed<System> = Probed(System);

/// The probe and the first four arguments of each hit.
static HITS: Mutex<Vec<(u32, [u64; 4])>> = Mutex::new(Vec::new());

fn hook(probe: u32, args: &[u64; 10]) {
    HITS.lock().unwrap().push((probe, [args[0], args[1], args[2], args[3]]));
}

#[test]
fn each_call_fires_its_probe() {
    let recorder = recording_host::attach(Mode::Jump);
    let id = |name: &str| recorder.find("heap", name).unwrap();
    let [alloc, realloc, free] = ["alloc", "realloc", "free"].map(id);
    *recorder.hook.write().unwrap() = Some(hook);
    let calls = || {
        let layout = Layout::from_size_align(48, 16).unwrap();
        // SAFETY: the layouts have a size, and each address is used with the layout that it has.
        unsafe {
            let first = ALLOCATOR.alloc(layout);
            first.write_bytes(7, 48);
            let second = ALLOCATOR.realloc(first, layout, 4096);
            assert_eq!((second.read(), second.add(47).read()), (7, 7));
            ALLOCATOR.dealloc(second, Layout::from_size_align(4096, 16).unwrap());
            let zeroed = ALLOCATOR.alloc_zeroed(layout);
            assert_eq!(zeroed.add(47).read(), 0);
            ALLOCATOR.dealloc(zeroed, layout);
            [first, second, zeroed].map(|address| address.addr() as u64)
        }
    };
    calls();
    assert!(HITS.lock().unwrap().is_empty(), "no probe is enabled");
    for probe in [alloc, realloc, free] {
        recorder.enable(probe);
    }
    let [first, second, zeroed] = calls();
    let hits: Vec<_> = HITS.lock().unwrap().iter().map(|(probe, args)| (*probe, *args)).collect();
    let expected = [
        (alloc.get(), [first, 48, 16, 0]),
        (realloc.get(), [first, second, 48, 4096]),
        (free.get(), [second, 4096, 0, 0]),
        (alloc.get(), [zeroed, 48, 16, 0]),
        (free.get(), [zeroed, 48, 0, 0]),
    ];
    assert_eq!(hits, expected);
}
