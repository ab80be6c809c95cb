//! The cost of operations for a growing number of probes: these tests count comparisons, and do not measure time.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use std::ffi::CString;

use dtrace_abi::spec::{Field, Spec};
use sdt_core::ops::{Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps};

use super::Control;
use super::config::Config;
use crate::base::host::{Host, SpinLock};
use crate::base::rights::Rights;

const MANY: usize = 100_000;

struct Uniprocessor;

// SAFETY: each test has its framework and uses it from one thread.
unsafe impl Host for Uniprocessor {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        0
    }
    fn cpus(&self) -> usize {
        1
    }
    fn timestamp(&self) -> u64 {
        1
    }
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
    fn sync(&self) {}
}

type Large = Control<Uniprocessor>;

fn large() -> Large {
    let config = Config { providers: 4, probes: MANY, ecbs: MANY, consumers: 2, buffer: 0 };
    let dtrace = Control::new(Uniprocessor);
    let bytes = config.memory::<Uniprocessor>(1, 2);
    dtrace.init(Box::leak(Box::new_uninit_slice(bytes)), &config).unwrap();
    dtrace
}

impl Large {
    fn provider(&self, name: &std::ffi::CStr) -> ProviderId {
        // SAFETY: the ops do nothing, and are statics.
        unsafe {
            self.register(
                name,
                &ProviderAttr::SDT,
                Privileges::USER,
                &ProviderOps::INERT,
                null_mut(),
            )
        }
        .unwrap()
    }

    fn create_named(&self, provider: ProviderId, function: &str, name: &str) -> ProbeId {
        let [function, name] = [function, name].map(|text| CString::new(text).unwrap());
        self.probe_create(provider, [c"m", &function, &name], 1, null_mut()).unwrap()
    }

    /// Returns the result of `f`, and the number of probes that were compared with names or descriptions meanwhile.
    fn counted<R>(&self, f: impl FnOnce() -> R) -> (R, usize) {
        let now = || self.tables.lock().registry.compared.load(Ordering::Relaxed);
        let before = now();
        let result = f();
        (result, now() - before)
    }
}

fn name(n: usize) -> String {
    format!("probe-{n}")
}

/// One provider with the greatest number of probes, as sdt creates them: each name once, always the same function.
#[test]
fn one_of_many_is_found_without_looking_at_all() {
    let dtrace = &large();
    let ((many, few), creating) = dtrace.counted(|| {
        let (many, few) = (dtrace.provider(c"many"), dtrace.provider(c"few"));
        for n in 0..MANY - 2 {
            dtrace.create_named(many, "none", &name(n));
        }
        dtrace.create_named(few, "none", "one");
        dtrace.create_named(few, "none", "two");
        (many, few)
    });
    assert_eq!(creating, 0);

    let (_, looking_up) = dtrace.counted(|| {
        for n in (0..MANY - 2).step_by(100) {
            let name = CString::new(name(n)).unwrap();
            let found = dtrace.probe_lookup(many, c"m", c"none", &name);
            assert_eq!(found.map(ProbeId::get), Some(n as u32 + 1));
        }
    });
    assert!(looking_up < 5 * 1000, "{looking_up}");

    let x = dtrace.open_with(Rights::ALL).unwrap();
    for text in ["many:::probe-77777", "probe-12", "few:::", "few:::o*", "m:none:two"] {
        let spec = Spec::parse(text, Field::Name).unwrap();
        let expected = if text == "few:::" { 2 } else { 1 };
        let (enabled, enabling) = dtrace.counted(|| dtrace.enable(x, &spec));
        assert_eq!(enabled, Ok(expected), "{text}");
        assert!(enabling < 50, "{text}: {enabling}");
        let (disabled, disabling) = dtrace.counted(|| dtrace.disable(x, &spec));
        assert_eq!(disabled, Ok(expected), "{text}");
        assert!(disabling < 5, "{text}: {disabling}");
    }

    // All probes: each is visited when it is counted, enabled, disabled or listed.
    let (enabled, enabling) = dtrace.counted(|| dtrace.enable(x, &Spec::ALL));
    assert_eq!((enabled, enabling), (Ok(MANY as u32), 2 * MANY));
    let (disabled, disabling) = dtrace.counted(|| dtrace.disable(x, &Spec::ALL));
    assert_eq!((disabled, disabling), (Ok(MANY as u32), MANY));
    let (listed, listing) = dtrace.counted(|| dtrace.for_each_probe(&Spec::ALL, |_| {}));
    assert_eq!((listed, listing), (MANY as u32, MANY));
    assert_eq!(dtrace.enable(x, &Spec::ALL), Ok(MANY as u32));
    assert_eq!(dtrace.counted(|| dtrace.close(x)), (Ok(()), 0));

    assert_eq!(dtrace.counted(|| dtrace.unregister(many)), (Ok(()), 0));
    assert_eq!(dtrace.for_each_probe(&Spec::ALL, |_| {}), 2);
    // Freed entries are reused, the oldest first.
    assert_eq!(dtrace.create_named(few, "none", "three").get(), 1);
    assert_eq!(dtrace.unregister(few), Ok(()));
}

/// Many functions with a probe `entry` each, as fbt has them.
#[test]
fn one_function_of_many_is_found_by_its_name() {
    let dtrace = &large();
    let fbt = dtrace.provider(c"fbt");
    for n in 0..MANY {
        dtrace.create_named(fbt, &format!("vop_{n}"), "entry");
    }
    let x = dtrace.open_with(Rights::ALL).unwrap();
    let spec = Spec::parse("fbt::vop_4711:entry", Field::Name).unwrap();
    let (enabled, enabling) = dtrace.counted(|| dtrace.enable(x, &spec));
    assert_eq!(enabled, Ok(1));
    assert!(enabling < 50, "{enabling}");
    let (found, looking_up) =
        dtrace.counted(|| dtrace.probe_lookup(fbt, c"m", c"vop_99999", c"entry"));
    assert_eq!(found.map(ProbeId::get), Some(MANY as u32));
    assert!(looking_up < 50, "{looking_up}");
}
