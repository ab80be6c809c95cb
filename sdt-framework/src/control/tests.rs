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

/// The longest names of a probe, different for each number.
fn longest(n: usize) -> [CString; 3] {
    use sdt_core::ops::{FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN};
    [MODULE_NAME_LEN, FUNCTION_NAME_LEN, PROBE_NAME_LEN]
        .map(|room| CString::new(format!("{n:_>width$}", width = room - 1)).unwrap())
}

#[test]
fn the_longest_names_have_room() {
    const PROBES: usize = 1000;
    let config = Config { providers: 1, probes: PROBES, ecbs: 1, consumers: 1, buffer: 0 };
    let dtrace = &Control::new(Uniprocessor);
    let bytes = config.memory::<Uniprocessor>(1, 1) + PROBES * 400;
    dtrace.init(vec![core::mem::MaybeUninit::uninit(); bytes].leak(), &config).unwrap();
    let left = dtrace.memory_left();
    let provider = dtrace.provider(c"long");
    let create = |n| {
        let [module, function, name] = longest(n);
        dtrace.probe_create(provider, [&module, &function, &name], 0, null_mut())
    };
    for n in 0..PROBES {
        create(n).unwrap();
    }
    assert!(create(PROBES).is_err());
    let (mut n, mut wrong) = (0, 0);
    dtrace.for_each_probe(&Spec::ALL, |probe| {
        let [module, function, name] = longest(n);
        let names = [probe.module(), probe.function(), probe.name()];
        wrong += usize::from(names != [&*module, &*function, &*name]);
        n += 1;
    });
    assert_eq!((n, wrong), (PROBES, 0));
    assert_eq!(dtrace.unregister(provider), Ok(()));
    assert_eq!(dtrace.memory_left(), left);
}

/// Functions are traced and no longer traced, a thousand times and with other names each time, while every tenth stays for
/// some rounds: the memory for names stays within a bound.
#[test]
fn other_names_each_time_do_not_use_up_the_memory() {
    const FUNCTIONS: usize = 400;
    const ROUNDS: usize = 1000;
    /// The number of rounds for which one of as many functions stays.
    const STAY: usize = 10;
    const PROBES: usize = 4 * FUNCTIONS;
    let config = Config { providers: 2, probes: PROBES, ecbs: 1, consumers: 1, buffer: 0 };
    let dtrace = &Control::new(Uniprocessor);
    let bytes = config.memory::<Uniprocessor>(1, 1) + (64 << 10);
    dtrace.init(vec![core::mem::MaybeUninit::uninit(); bytes].leak(), &config).unwrap();
    let all = dtrace.memory_left();
    let fbt = dtrace.provider(c"fbt");
    let mut random = 1_u32;
    let mut staying = std::collections::VecDeque::new();
    let mut least = all;
    for round in 0..ROUNDS {
        let mut leaving = Vec::new();
        for n in 0..FUNCTIONS {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let length = 8 + random as usize / 7 % 80;
            let function = format!("{round}::{n:_<length$}");
            for name in ["entry", "return"] {
                let id = dtrace.create_named(fbt, &function, name);
                if n % STAY == 0 { staying.push_back(id) } else { leaving.push(id) }
            }
        }
        least = least.min(dtrace.memory_left());
        if round >= STAY {
            leaving.extend(staying.drain(..2 * FUNCTIONS / STAY));
        }
        for id in leaving {
            assert!(dtrace.destroy_unless_enabled(id), "{id:?}");
        }
    }
    // Names of 14 + 8 to 95 bytes, for one function of each round and one that stays.
    let names = 2 * FUNCTIONS * (14 + 95);
    assert!(all - least < names, "{} bytes beyond those for the usual names", all - least);
    for id in staying {
        assert!(dtrace.destroy_unless_enabled(id));
    }
    assert_eq!(dtrace.memory_left(), all);
    let name = |n: usize| format!("{n:_<20}");
    for n in 0..PROBES / 2 {
        dtrace.create_named(fbt, &name(n), "entry");
    }
    assert_eq!(dtrace.for_each_probe(&Spec::ALL, |_| {}) as usize, PROBES / 2);
}
