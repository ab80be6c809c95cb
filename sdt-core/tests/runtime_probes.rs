//! Probes that are made at run time, in a framework that passes five arguments and asks for the others, like
//! `dtrace_probe` of FreeBSD and illumos. Tests the values of the arguments, and a probe that the framework destroys at
//! once.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use sdt_core::arg::{Borrows, Value as _};
use sdt_core::ops::{
    ARGS, Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};
use sdt_core::runtime::{AddError, Probe, Provider, RemoveError, Slot, arg, pair};

/// Its only provider, and the recorded hits.
#[derive(Debug)]
struct Five {
    registered: Mutex<Option<(ProviderOps, usize)>>,
    created: Mutex<Vec<usize>>,
    hits: Mutex<Vec<(u32, [u64; ARGS])>>,
    /// The number of probes that it destroys before `probe_create` returns, as if another thread had called `condense`.
    destroys: AtomicU32,
    /// Fires once more while a hit is recorded, as an interrupt may.
    nested: Mutex<Option<(Probe, [u64; ARGS])>>,
}

impl Five {
    const fn new(destroys: u32) -> Self {
        Self {
            registered: Mutex::new(None),
            created: Mutex::new(Vec::new()),
            hits: Mutex::new(Vec::new()),
            destroys: AtomicU32::new(destroys),
            nested: Mutex::new(None),
        }
    }
}

/// Replaces the `getargval` of the bindings, which searches for the frame of a site.
unsafe extern "C" fn of_sites(_: *mut c_void, _: u32, _: *mut c_void, _: c_int, _: c_int) -> u64 {
    panic!("no site has fired")
}

impl Five {
    fn enable(&self, id: u32) {
        let (ops, arg) = self.registered.lock().unwrap().expect("registered");
        let parg = self.created.lock().unwrap()[id as usize - 1];
        // SAFETY: as created.
        assert_eq!(unsafe { ops.enable.unwrap()(arg as _, id, parg as _) }, 0);
    }

    /// Calls `getargval` at different depths of the stack, as `dtrace_probe` does.
    #[inline(never)]
    fn ask(&self, id: u32, argno: usize, depth: usize) -> u64 {
        let room = std::hint::black_box([depth; 32]);
        if depth > 0 {
            return std::hint::black_box(self.ask(id, argno, room[7] - 1));
        }
        let (ops, arg) = self.registered.lock().unwrap().expect("registered");
        let parg = self.created.lock().unwrap()[id as usize - 1];
        // SAFETY: called by `hit`.
        unsafe { ops.getargval.unwrap()(arg as _, id, parg as _, argno as c_int, 0) }
    }
}

// SAFETY: it calls the ops with the registered pointers, in their contexts.
unsafe impl Framework for Five {
    fn getargval(&self) -> Option<GetArgVal> {
        Some(of_sites)
    }

    unsafe fn register(
        &self,
        _: &CStr,
        _: &ProviderAttr,
        _: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        *self.registered.lock().unwrap() = Some((*ops, arg as usize));
        Ok(ProviderId::new(1))
    }

    unsafe fn unregister(&self, _: ProviderId) -> Result<(), FrameworkError> {
        Ok(())
    }

    unsafe fn invalidate(&self, _: ProviderId) {}

    /// Destroys all probes.
    unsafe fn condense(&self, _: ProviderId) {
        let (ops, arg) = self.registered.lock().unwrap().expect("registered");
        for (id, parg) in (1..).zip(self.created.lock().unwrap().drain(..)) {
            // SAFETY: as created.
            unsafe { ops.destroy.unwrap()(arg as _, id, parg as _) };
        }
    }

    unsafe fn probe_lookup(&self, _: ProviderId, _: &CStr, _: &CStr, _: &CStr) -> Option<ProbeId> {
        None
    }

    unsafe fn probe_create(
        &self,
        _: ProviderId,
        _: &CStr,
        _: &CStr,
        _: &CStr,
        _: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let mut created = self.created.lock().unwrap();
        created.push(parg as usize);
        let less = |destroys: u32| destroys.checked_sub(1);
        if self.destroys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            let (ops, arg) = self.registered.lock().unwrap().expect("registered");
            // SAFETY: as created.
            unsafe { ops.destroy.unwrap()(arg as _, created.len() as u32, parg) };
        }
        Ok(ProbeId::new(created.len() as u32).expect("not 0"))
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS], _: Borrows) {
        let id = id.load(Ordering::Acquire);
        // The arguments after the fifth are lost here.
        let five: [u64; 5] = std::array::from_fn(|at| args[at]);
        let seen = |before: u32| {
            std::array::from_fn(|at| match five.get(at) {
                Some(arg) => *arg,
                None => self.ask(id, at, (before + at as u32) as usize % 7),
            })
        };
        let first = seen(0);
        let nested = self.nested.lock().unwrap().take();
        if let Some((probe, words)) = nested {
            probe.fire(&words).unwrap();
        }
        assert_eq!(first, seen(3));
        self.hits.lock().unwrap().push((id, first));
    }
}

fn open(provider: &'static Provider, framework: &'static Five) {
    let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
    // SAFETY: this program is never unloaded.
    unsafe { provider.open_with(framework, c"test", c"script", attr, privileges) }.unwrap();
}

#[test]
fn all_ten_arrive() {
    static FIVE: Five = Five::new(0);
    static SLOTS: [Slot; 3] = [const { Slot::new() }; 3];
    static PROVIDER: Provider = Provider::new(&SLOTS);
    open(&PROVIDER, &FIVE);
    let types = [arg::<u64>(); ARGS];
    let (outer, inner) = (
        PROVIDER.add(c"main", c"outer", &types).unwrap(),
        PROVIDER.add(c"main", c"inner", &types).unwrap(),
    );
    let more = [arg::<u64>(); ARGS + 1];
    assert_eq!(
        PROVIDER.add(c"main", c"more", &more).unwrap_err(),
        AddError::Arguments { given: 11, most: 10 }
    );
    FIVE.enable(1);
    FIVE.enable(2);
    let words = |base: u64| std::array::from_fn::<u64, ARGS, _>(|at| base + at as u64);
    outer.fire(&words(100)).unwrap();
    *FIVE.nested.lock().unwrap() = Some((inner, words(200)));
    outer.fire(&words(300)).unwrap();
    let hits = std::mem::take(&mut *FIVE.hits.lock().unwrap());
    assert_eq!(hits, [(1, words(100)), (2, words(200)), (1, words(300))]);
    // A value of two words is two arguments.
    let [text, length] = pair::<&str>();
    let said = PROVIDER.add(c"main", c"said", &[arg::<u32>(), text, length]).unwrap();
    let types: Vec<_> = said.args().map(|of| of.native.as_str()).collect();
    assert_eq!(types, ["uint32_t", "char *", "size_t"]);
    FIVE.enable(3);
    let [at, length] = "with no NUL".words();
    said.fire(&[7, at, length]).unwrap();
    let (id, args) = FIVE.hits.lock().unwrap().pop().unwrap();
    assert_eq!((id, &args[..3]), (3, &[7, "with no NUL".as_ptr().addr() as u64, 11][..]));

    // And threads do not see each other's.
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let outer = outer.clone();
            scope.spawn(move || {
                (0..200).for_each(|n| outer.fire(&words(thread * 10_000 + n * 20)).unwrap());
            });
        }
    });
    let hits = FIVE.hits.lock().unwrap();
    assert_eq!(hits.len(), 800);
    assert!(hits.iter().all(|(_, args)| *args == words(args[0])));
}

/// A thread creates a probe in the framework. Before it has set the state of the slot, another thread destroys all probes that
/// are not enabled.
#[test]
fn what_is_destroyed_as_it_is_created_is_created_again() {
    static FIVE: Five = Five::new(2);
    static SLOTS: [Slot; 1] = [const { Slot::new() }; 1];
    static PROVIDER: Provider = Provider::new(&SLOTS);
    open(&PROVIDER, &FIVE);
    let probe = PROVIDER.add(c"main", c"probe", &[]).unwrap();
    assert_eq!(FIVE.created.lock().unwrap().len(), 3, "twice destroyed, and then there");
    assert_eq!(probe.remove(), Ok(()));
    assert_eq!(probe.remove(), Err(RemoveError::Removed));
    drop(probe);
    assert_eq!(PROVIDER.room(), 1);
}
