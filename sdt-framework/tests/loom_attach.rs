//! An image is attached while a consumer enables its probes, under every order in which they can take the
//! framework's locks: each probe is created once.
//!
//! The framework is the real one, with loom's locks. The part of `sdt-core` that registers with it is compiled a second time
//! here, with records that the model defines.

use std::cell::UnsafeCell;
use std::sync::OnceLock;

/// A lock for the framework that loom schedules. It is created at its first use, inside the model, because loom's locks cannot be
/// created in a constant.
struct Lock {
    lock: OnceLock<loom::sync::Mutex<()>>,
    held: UnsafeCell<Option<loom::sync::MutexGuard<'static, ()>>>,
}

// SAFETY: only the thread that holds the lock accesses `held`.
unsafe impl Sync for Lock {}
// SAFETY: it is moved before its first use only.
unsafe impl Send for Lock {}

impl Lock {
    fn inner(&self) -> &loom::sync::Mutex<()> {
        self.lock.get_or_init(Default::default)
    }

    /// # Safety
    /// The guard is this lock's.
    unsafe fn keep(&self, guard: loom::sync::MutexGuard<'_, ()>) {
        // SAFETY: `unlock` drops the guard while the lock still exists.
        let guard = unsafe {
            core::mem::transmute::<
                loom::sync::MutexGuard<'_, ()>,
                loom::sync::MutexGuard<'static, ()>,
            >(guard)
        };
        // SAFETY: the lock is held.
        unsafe { *self.held.get() = Some(guard) };
    }
}

// SAFETY: `inner` is a lock of loom, which gives access to one thread at a time.
unsafe impl RawMutex for Lock {
    const INIT: Self = Self { lock: OnceLock::new(), held: UnsafeCell::new(None) };

    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        let guard = self.inner().lock().unwrap();
        // SAFETY: it is this lock's.
        unsafe { self.keep(guard) };
    }

    fn try_lock(&self) -> bool {
        let Ok(guard) = self.inner().try_lock() else { return false };
        // SAFETY: it is this lock's.
        unsafe { self.keep(guard) };
        true
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock. The guard is removed from the cell before it is dropped, because other threads can
        // take the lock after that.
        drop(unsafe { (*self.held.get()).take() });
    }
}

/// The functions of `sdt-core` that register an image's probes.
#[path = "../../sdt-core/src/provider/table.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod table;

use sdt_core::ops;

/// The items of `sdt-core` with this name.
mod route {
    pub(crate) mod attachment {
        pub(crate) use crate::attach::Attachment;
    }
}

/// The items of `sdt-core` with these names, without linker sets and text.
mod attach {
    use core::ffi::CStr;

    use sdt_core::ops::{FUNCTION_NAME_LEN, Framework, FrameworkError, Name};

    use super::record::Probe;

    pub(crate) struct Attachment {
        pub(crate) framework: &'static dyn Framework,
        pub(crate) module: &'static CStr,
    }

    impl Attachment {
        pub(crate) fn function(&self, _: &Probe) -> Name<FUNCTION_NAME_LEN> {
            Name::cut(b"none")
        }
    }

    #[derive(Debug)]
    #[allow(dead_code, reason = "it is shown when a model fails")]
    pub(crate) struct Refusal {
        pub(crate) provider: &'static CStr,
        pub(crate) probe: Option<&'static CStr>,
        pub(crate) error: FrameworkError,
    }

    impl Refusal {
        pub(crate) fn new(
            provider: &'static CStr,
            probe: Option<&'static CStr>,
            error: FrameworkError,
        ) -> Self {
            Self { provider, probe, error }
        }
    }
}

mod fire {
    pub(crate) const AFRAMES: u32 = 1;
}

mod patch {
    use super::record::Probe;

    pub(crate) struct PatchError;

    impl PatchError {
        pub(crate) fn errno(self) -> i32 {
            22
        }
    }

    pub(crate) fn enable(_: &Probe) -> Result<(), PatchError> {
        Ok(())
    }

    pub(crate) fn disable(_: &Probe) -> Result<(), PatchError> {
        Ok(())
    }

    pub(crate) fn is_enabled(_: &Probe) -> bool {
        false
    }
}

mod record {
    use core::ffi::CStr;
    use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    use sdt_core::name::TypeName;
    use sdt_core::ops::{Privileges, ProbeId, ProviderAttr, ProviderId};

    pub(crate) struct ArgType {
        pub(crate) native: TypeName,
        pub(crate) translated: Option<TypeName>,
    }

    pub(crate) struct Probe {
        pub(crate) name: &'static CStr,
        id: AtomicU32,
        enabled: AtomicU32,
    }

    impl Probe {
        pub(crate) fn new(name: &'static CStr) -> Self {
            Self { name, id: AtomicU32::new(0), enabled: AtomicU32::new(0) }
        }

        pub(crate) fn name(&self) -> &'static CStr {
            self.name
        }

        pub(crate) fn id(&self) -> Option<ProbeId> {
            ProbeId::new(self.id.load(Ordering::Acquire))
        }

        pub(crate) fn set_id(&self, id: Option<ProbeId>) {
            self.id.store(id.map_or(0, ProbeId::get), Ordering::Release);
        }

        pub(crate) fn enabled_id(&self) -> &AtomicU32 {
            &self.enabled
        }

        pub(crate) fn primary(&self) -> &Self {
            self
        }

        pub(crate) fn args(&self) -> Option<impl Iterator<Item = &'static ArgType>> {
            None::<core::iter::Empty<_>>
        }
    }

    pub(crate) struct Provider {
        pub(crate) probes: [Probe; 2],
        id: AtomicUsize,
    }

    impl Provider {
        pub(crate) fn new() -> Self {
            Self { probes: [c"start", c"done"].map(Probe::new), id: AtomicUsize::new(0) }
        }

        pub(crate) fn name(&self) -> &'static CStr {
            c"io"
        }

        pub(crate) fn attr(&self) -> &'static ProviderAttr {
            &ProviderAttr::SDT
        }

        pub(crate) fn privileges(&self) -> Privileges {
            Privileges::USER
        }

        pub(crate) fn id(&self) -> Option<ProviderId> {
            Some(self.id.load(Ordering::Acquire)).filter(|id| *id != 0).map(ProviderId::new)
        }

        pub(crate) fn set_id(&self, id: Option<ProviderId>) {
            self.id.store(id.map_or(0, ProviderId::get), Ordering::Release);
        }

        pub(crate) fn probes(&'static self) -> impl Iterator<Item = &'static Probe> {
            self.probes.iter()
        }
    }
}

use core::ffi::{CStr, c_void};
use core::sync::atomic::AtomicU32;

use loom::thread;
use sdt_core::arg::Borrows;
use sdt_core::ops::{
    Framework, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

use sdt_framework::{Config, Dtrace, Host, RawMutex, Spec};

use attach::Attachment;
use record::Provider;

/// No probe fires here.
struct Machine;

// SAFETY: the models fire no probes, so no thread is in probe context.
unsafe impl Host for Machine {
    type Lock = Lock;

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
        f()
    }
    fn sync(&self) {}
}

type Small = Dtrace<Machine>;

/// Room for twice the probes.
const CONFIG: Config = Config { providers: 1, probes: 4, ecbs: 4, consumers: 1, buffer: 0 };

/// The framework, and with it the `provide` op that the image's provider is registered with.
struct Registering {
    dtrace: Small,
    provide: fn(&ProviderOps) -> Provide,
}

type Provide = unsafe extern "C" fn(*mut c_void, *const ProbeDesc);

// SAFETY: every function calls the same one of the framework; the models pass sound ops.
unsafe impl Framework for Registering {
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        let ops = ProviderOps { provide: Some((self.provide)(ops)), ..*ops };
        // SAFETY: the caller's contract.
        unsafe { self.dtrace.register(name, attr, privileges, &ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        self.dtrace.unregister(provider)
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        let _ = self.dtrace.invalidate(provider);
    }

    unsafe fn condense(&self, provider: ProviderId) {
        let _ = self.dtrace.condense(provider);
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        self.dtrace.probe_lookup(provider, module, function, name)
    }

    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        // SAFETY: the caller's contract.
        unsafe { self.dtrace.probe_create(provider, module, function, name, aframes, parg) }
    }

    unsafe fn hit(&self, _: &AtomicU32, _: &[u64; 10], _: Borrows) {}
}

/// A thread attaches the image while another one enables all existing probes.
fn attach_and_enable(provide: fn(&ProviderOps) -> Provide) {
    let enabled = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = std::sync::Arc::clone(&enabled);
    loom::model(move || {
        let registering: &'static Registering =
            Box::leak(Box::new(Registering { dtrace: Dtrace::new(Machine), provide }));
        let provider: &'static Provider = Box::leak(Box::new(Provider::new()));
        let memory = Box::leak(Box::new_uninit_slice(CONFIG.memory::<Machine>(1, 1)));
        registering.dtrace.init(memory, &CONFIG).unwrap();
        FRAMEWORK.set(Some(registering));
        let attachment = Attachment { framework: registering, module: c"m" };
        let consumer = registering.dtrace.open().unwrap();
        let enabling =
            thread::spawn(move || registering.dtrace.enable(consumer, &Spec::ALL).unwrap());
        // SAFETY: one thread registers, and the provider is never freed.
        unsafe { table::register(&attachment, provider) }.unwrap();
        seen.lock().unwrap().insert(enabling.join().unwrap());
        let mut names = Vec::new();
        registering
            .dtrace
            .for_each_probe(&Spec::ALL, |probe| names.push(probe.to_string()))
            .unwrap();
        assert_eq!(names, ["io:m:none:start", "io:m:none:done"], "created once each");
        // Both probes are enabled, whether the enabling came first or the registration.
        assert_eq!(registering.dtrace.disable(consumer, &Spec::ALL), Ok(2));
        let ids = provider.probes().map(|probe| probe.id().unwrap().get());
        assert_eq!(ids.collect::<Vec<_>>(), [1, 2]);
    });
    // The models include an enabling before, between and after the creation of the two probes.
    let enabled = enabled.lock().unwrap();
    assert_eq!(enabled.iter().copied().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn no_probe_is_created_twice() {
    attach_and_enable(|ops| ops.provide.unwrap());
}

/// The model detects probes that are created twice, if the op `provide` also creates the probes that it does not find.
#[test]
#[should_panic(expected = "created once each")]
fn with_two_places_that_create_them_they_are() {
    attach_and_enable(|_| look_up_and_create);
}

thread_local! {
    /// The framework in which `look_up_and_create` creates probes. Loom runs its threads on one.
    static FRAMEWORK: std::cell::Cell<Option<&'static Registering>> =
        const { std::cell::Cell::new(None) };
}

unsafe extern "C" fn look_up_and_create(arg: *mut c_void, _: *const ProbeDesc) {
    // SAFETY: `arg` is the provider of the model, which is never freed.
    let provider: &'static Provider = unsafe { &*arg.cast::<Provider>() };
    let (Some(framework), Some(id)) = (FRAMEWORK.get(), provider.id()) else { return };
    for probe in provider.probes() {
        // SAFETY: the provider is registered.
        let found = unsafe { framework.probe_lookup(id, c"m", c"none", probe.name()) };
        if found.is_none() {
            let parg = core::ptr::from_ref(probe).cast_mut().cast();
            // SAFETY: the provider is registered, and the ops accept a probe as `parg`.
            unsafe { framework.probe_create(id, c"m", c"none", probe.name(), 1, parg) }.unwrap();
        }
    }
}
