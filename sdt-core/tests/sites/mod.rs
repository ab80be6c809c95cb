//! Sites, patched and hit in this very process, in the mode the test file names.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sdt_core::Probe;
use sdt_core::arg::CType;
use sdt_core::name::TypeName;
use sdt_core::patch::Mode;
use sdt_core::site::State;
use sdt_core::{attach, sdt_enabled, sdt_probe, sdt_provider};

use crate::MODE;
use recording_host::{Done, Recorder, site_bytes};

sdt_provider!(open);

#[repr(C)]
struct Packet {
    len: u32,
}

impl CType for Packet {
    const NAME: TypeName = TypeName::new("struct packet");
}

sdt_provider! {
    /// A declared provider.
    declared {
        /// No argument.
        fn nothing();
        /// Every kind of argument.
        fn six(a: u8, b: i64, c: bool, d: *const u32, e: &CStr, f: &Packet);
        /// An exact name.
        #[name = "exact_name"]
        fn exact(value: Option<&Packet>);
        /// Sites in several places.
        fn places(site: u32);
        /// For threads.
        fn busy(value: u64);
        /// Brought from mode to mode.
        fn chosen(value: u64);
        /// The same, under threads.
        fn changing(value: u64);
    }
}

/// A site that is not enabled.
const NOP: &[u8; 5] = &[0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Attached once: all tests of this file share one process.
fn recorder() -> &'static Recorder {
    static ATTACHED: Once = Once::new();
    static RECORDER: std::sync::OnceLock<&'static Recorder> = std::sync::OnceLock::new();
    ATTACHED.call_once(|| RECORDER.set(recording_host::attach(MODE)).ok().unwrap());
    RECORDER.get().unwrap()
}

/// Runs `f` with the probe enabled and returns how often it fired.
fn hits(provider: &str, name: &str, f: impl FnOnce()) -> (u64, [u64; 6]) {
    let recorder = recorder();
    let id = recorder.find(provider, name).expect("the probe is known");
    let before = recorder.hits(id);
    recorder.enable(id);
    f();
    recorder.disable(id);
    (recorder.hits(id) - before, recorder.args(id))
}

#[inline(never)]
fn fire_open(n: u32, text: &CStr) {
    sdt_probe!(open::exec_success, n, text);
}

#[test]
fn an_enabled_probe_fires_with_its_arguments() {
    let (count, args) = hits("open", "exec-success", || fire_open(7, c"/bin/sh"));
    assert_eq!(count, 1);
    assert_eq!(args[0], 7);
    // SAFETY: the probe carried the literal's address.
    assert_eq!(unsafe { CStr::from_ptr(args[1] as *const _) }, c"/bin/sh");
    assert_eq!(args[2..], [0; 4]);
}

#[test]
fn a_disabled_probe_does_nothing_and_its_text_comes_back() {
    let recorder = recorder();
    let id = recorder.find("declared", "nothing").unwrap();
    let fire = || sdt_probe!(declared::nothing);
    let before = site_bytes(&declared::nothing);
    assert!(!before.is_empty() && before.iter().all(|text| text == NOP));
    fire();
    assert_eq!(recorder.hits(id), 0);
    recorder.enable(id);
    let (state, head) = match MODE {
        Mode::Trap => (State::Trap, 0xcc),
        Mode::Jump => (State::Jump, 0xe9),
    };
    assert!(site_bytes(&declared::nothing).iter().all(|text| text[0] == head));
    let mut sites = declared::nothing.sites();
    assert!(sites.all(|site| sdt_core::site::state(site) == Some(state)));
    fire();
    recorder.disable(id);
    fire();
    assert_eq!(recorder.hits(id), 1);
    assert_eq!(site_bytes(&declared::nothing), before);
}

#[test]
fn every_kind_of_argument_arrives() {
    let (value, packet) = (5u32, Packet { len: 9 });
    let (count, args) = hits("declared", "six", || {
        sdt_probe!(declared::six, 255, -1, true, &raw const value, c"text", &packet);
    });
    assert_eq!((count, args[..3].to_vec()), (1, vec![255, u64::MAX, 1]));
    assert_eq!(args[3], &raw const value as u64);
    // SAFETY: the probe carried the addresses of values that still live.
    unsafe {
        assert_eq!(CStr::from_ptr(args[4] as *const _), c"text");
        assert_eq!((*(args[5] as *const Packet)).len, 9);
    }
}

#[test]
fn argument_types_have_their_c_names() {
    let recorder = recorder();
    let types = |provider, name| recorder.types(recorder.find(provider, name).unwrap());
    let six = ["uint8_t", "int64_t", "_Bool", "uint32_t *", "char *", "struct packet *"];
    assert_eq!(types("declared", "six"), six);
    assert_eq!(types("declared", "exact_name"), ["struct packet *"]);
    // The types of an open provider are those of the expressions.
    assert_eq!(types("open", "exec-success"), ["uint32_t", "char *"]);
    assert_eq!(types("declared", "nothing"), [""; 0]);
}

#[test]
fn arguments_are_evaluated_once_and_only_when_enabled() {
    let evaluated = Cell::new(0);
    let count = |n: u64| {
        evaluated.set(evaluated.get() + 1);
        n
    };
    let fire = || sdt_probe!(open::side_effects, count(3), 4u8);
    fire();
    assert_eq!(evaluated.get(), 0);
    let (fired, args) = hits("open", "side-effects", fire);
    assert_eq!((fired, evaluated.get(), args[0], args[1]), (1, 1, 3, 4));
}

#[test]
fn an_argument_may_change_a_local() {
    let mut n = 1u32;
    let (fired, args) = hits("open", "changes", || {
        sdt_probe!(open::changes, {
            n += 1;
            n
        });
    });
    assert_eq!((fired, args[0], n), (1, 2, 2));
}

#[test]
fn costly_arguments_see_the_locals_whatever_their_type() {
    #[expect(clippy::ptr_arg, reason = "the evaluator captures a reference to a Vec")]
    fn sum(small: u8, text: &str, list: &[u64], big: &[u64; 9], unique: &Vec<u64>) -> u64 {
        let parts = u64::from(small) + text.len() as u64 + list.iter().sum::<u64>();
        parts + big.iter().sum::<u64>() + unique.iter().sum::<u64>()
    }
    let (small, text, big) = (3u8, "four", [2u64; 9]);
    let list: &[u64] = &[10, 20];
    let mut owned = vec![100u64];
    let unique = &mut owned;
    let (fired, args) = hits("open", "locals", || {
        sdt_probe!(open::locals, sum(small, text, list, &big, unique));
    });
    assert_eq!((fired, args[0]), (1, 3 + 4 + 30 + 18 + 100));
    unique.push(1);
    assert_eq!(owned.len(), 2);
}

#[test]
fn a_temporary_lives_until_the_probe_has_fired() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    fn read(id: u32, args: &[u64; 10]) {
        if recorder().find("open", "temporary").unwrap().get() == id {
            // SAFETY: the argument is the address of a temporary that lives while the probe fires.
            let text = unsafe { CStr::from_ptr(args[0] as *const _) };
            SEEN.store(u64::from(text == c"made up"), Ordering::Relaxed);
        }
    }
    *recorder().hook.write().unwrap() = Some(read);
    let make = |text: &str| std::ffi::CString::new(text).unwrap();
    hits("open", "temporary", || sdt_probe!(open::temporary, make("made up").as_c_str()));
    *recorder().hook.write().unwrap() = None;
    assert_eq!(SEEN.load(Ordering::Relaxed), 1);
}

/// Fires a probe while the values in `v` occupy all registers. The values must not change.
#[inline(never)]
fn under_pressure(v: [u64; 12], f: fn(u64) -> u64) -> u64 {
    let [a, b, c, d, e, g, h, i, j, k, l, m] = v.map(std::hint::black_box);
    let x = (a as f64).sqrt();
    sdt_probe!(open::pressure, a, b, f(c));
    let y = x * 2.0;
    let ints = [a, b, c, d, e, g, h, i, j, k, l, m];
    ints.iter().enumerate().fold(y as u64, |sum, (n, v)| sum.wrapping_mul(31) ^ (v + n as u64))
}

#[test]
fn no_register_is_lost() {
    fn clobber(x: u64) -> u64 {
        // Uses integer and vector registers.
        let v: Vec<f64> = (0..16).map(|i| i as f64 * x as f64).collect();
        std::hint::black_box(v).iter().sum::<f64>() as u64
    }
    let v = std::array::from_fn(|i| i as u64 * 1_000_003 + 17);
    let disabled = under_pressure(v, clobber);
    let mut enabled = 0;
    let (fired, args) = hits("open", "pressure", || enabled = under_pressure(v, clobber));
    assert_eq!((fired, enabled), (1, disabled));
    assert_eq!(args[..3], [v[0], v[1], clobber(v[2])]);
}

fn in_generic<T: Copy + Into<u32>>(value: T) {
    sdt_probe!(declared::places, value.into());
}

#[inline(always)]
fn inlined(site: u32) {
    sdt_probe!(declared::places, site);
}

fn copy_one() {
    inlined(1);
}

fn copy_two() {
    inlined(2);
}

#[test]
fn all_copies_of_a_site_belong_to_one_probe() {
    let mut seen = 0;
    let (fired, _) = hits("declared", "places", || {
        copy_one();
        copy_two();
        in_generic(3u8);
        in_generic(4u16);
        (0..3).for_each(|i| sdt_probe!(declared::places, i));
        seen = site_bytes(&declared::places).len();
    });
    assert_eq!(fired, 7);
    // The two instances, the closure and the inlined function: each where it was compiled to.
    assert!(seen >= 4, "{seen}");
    let ids = recorder().names().iter().filter(|n| *n == "declared:test::places").count();
    assert_eq!(ids, 1);
}

mod elsewhere {
    pub(super) fn fire() {
        sdt_core::sdt_probe!(super::open::exec_failure, 8u32);
    }
}

#[test]
fn sites_in_two_places_of_an_open_provider_are_one_probe() {
    let (fired, args) = hits("open", "exec-failure", || {
        sdt_probe!(open::exec_failure, 1u32);
        elsewhere::fire();
    });
    assert_eq!((fired, args[0]), (2, 8));
}

#[test]
fn sdt_enabled_follows_the_probe() {
    let asked = || sdt_enabled!(declared::exact);
    assert!(!asked());
    hits("declared", "exact_name", || assert!(asked()));
    assert!(!asked());
}

#[test]
fn enablings_are_counted() {
    let recorder = recorder();
    let id = recorder.find("open", "counted").unwrap();
    let fire = || sdt_probe!(open::counted);
    recorder.enable(id);
    recorder.enable(id);
    recorder.disable(id);
    fire();
    assert_eq!(recorder.hits(id), 1, "one enabling is left");
    recorder.disable(id);
    recorder.disable(id);
    fire();
    assert_eq!(recorder.hits(id), 1);
    recorder.enable(id);
    fire();
    recorder.disable(id);
    assert_eq!(recorder.hits(id), 2, "a disable too many did no harm");
}

#[test]
fn names_are_as_designed() {
    let names = recorder().names();
    for expected in [
        "open:test::exec-success",
        "declared:test::exact_name",
        "declared:test::nothing",
        "open:test::side-effects",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} in {names:?}");
    }
}

#[test]
fn a_breakpoint_elsewhere_is_not_claimed() {
    recorder();
    let site = declared::six.sites().next().unwrap();
    assert_eq!(sdt_core::trap::resume_address(site.patchpoint() + 1), None);
    assert_eq!(sdt_core::trap::resume_address(0), None);
}

/// The actions of a CPU that fetched the breakpoint before it was removed.
#[test]
fn a_late_hit_resumes_behind_the_nop() {
    recorder();
    sdt_probe!(open::late);
    let probe = sdt_core::attach::probes().iter().find(|p| p.name() == c"late").unwrap();
    let site = probe.sites().next().unwrap();
    assert_eq!(sdt_core::trap::resume_address(site.patchpoint()), Some(site.patchpoint() + 5));
}

#[test]
fn threads_fire_while_others_enable_and_disable() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LOOPS: AtomicU64 = AtomicU64::new(0);
    let recorder = recorder();
    let id = recorder.find("declared", "busy").unwrap();
    let before = (recorder.hits(id), site_bytes(&declared::busy));
    std::thread::scope(|scope| {
        let _stop = Done(&STOP);
        for thread in 0..3u64 {
            scope.spawn(move || {
                let mut n = thread;
                while !STOP.load(Ordering::Relaxed) {
                    n = n.wrapping_add(3);
                    sdt_probe!(declared::busy, n);
                    // Otherwise the threads that enable and disable wait for a turn most of the time.
                    if LOOPS.fetch_add(1, Ordering::Relaxed).is_multiple_of(1024) {
                        std::thread::yield_now();
                    }
                }
                assert_eq!(n % 3, thread % 3 + n % 3 - thread % 3);
            });
        }
        let togglers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        recorder.enable(id);
                        std::thread::yield_now();
                        recorder.disable(id);
                    }
                })
            })
            .collect();
        togglers.into_iter().for_each(|toggler| toggler.join().unwrap());
        // All enablings are gone: from here on no site traps.
        assert_eq!(site_bytes(&declared::busy), before.1);
    });
    let fired = recorder.hits(id) - before.0;
    assert!(fired > 0 && fired <= LOOPS.load(Ordering::Relaxed), "{fired}");

    // Stably enabled: every loop is one hit.
    let (fired, _) = hits("declared", "busy", || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5000).for_each(|n| sdt_probe!(declared::busy, n)));
            }
        });
    });
    assert_eq!(fired, 20_000);
}

#[test]
fn attaching_twice_is_refused() {
    recorder();
    let attachment: &'static attach::Attachment = Box::leak(Box::new(attach::Attachment {
        framework: recorder(),
        patcher: &recording_host::Text,
        mode: MODE,
        module: c"again",
    }));
    // SAFETY: as in `recording_host::attach`.
    assert_eq!(unsafe { attach::attach(attachment) }, Err(attach::AttachError::Attached));
}

#[test]
fn sites_are_listed_with_their_probe() {
    recorder();
    let probe: &Probe = &declared::places;
    assert!(probe.sites().all(|site| std::ptr::eq(site.probe(), probe)));
    let places: Vec<_> = probe.sites().map(|site| site.patchpoint()).collect();
    assert!(places.is_sorted(), "{places:x?}");
}

/// Returns whether all sites of the probe are in this state, including the copies that the compiler has made.
fn all_are(probe: &Probe, state: State) -> bool {
    probe.sites().count() > 0
        && probe.sites().all(|site| sdt_core::site::state(site) == Some(state))
}

#[test]
fn the_mode_can_be_chosen_for_a_probe() {
    let recorder = recorder();
    let id = recorder.find("declared", "chosen").unwrap();
    let fire = || sdt_probe!(declared::chosen, 1);
    let (before, trapped) = (site_bytes(&declared::chosen), recording_host::breakpoints());
    let modes = [(Mode::Jump, State::Jump, 0xe9), (Mode::Trap, State::Trap, 0xcc)];
    for (round, (mode, state, head)) in modes.into_iter().cycle().take(6).enumerate() {
        // Not enabled: only sets the mode for later.
        recording_host::set_mode(&declared::chosen, mode);
        assert_eq!(site_bytes(&declared::chosen), before);
        recorder.enable(id);
        assert!(all_are(&declared::chosen, state));
        assert_eq!(site_bytes(&declared::chosen)[0][0], head);
        fire();
        // While the probe is enabled, changes the mode and back: all bytes are as before.
        let text = site_bytes(&declared::chosen);
        for (mode, state, head) in modes {
            recording_host::set_mode(&declared::chosen, mode);
            assert!(all_are(&declared::chosen, state));
            assert_eq!(site_bytes(&declared::chosen)[0][0], head);
            fire();
        }
        recording_host::set_mode(&declared::chosen, mode);
        assert_eq!(site_bytes(&declared::chosen), text);
        recorder.disable(id);
        assert_eq!(site_bytes(&declared::chosen), before);
        assert_eq!(recorder.hits(id), 3 * (round as u64 + 1));
    }
    assert!(recording_host::breakpoints() > trapped);
}

#[test]
fn no_hit_is_lost_while_the_mode_changes() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LOOPS: AtomicU64 = AtomicU64::new(0);
    let recorder = recorder();
    let id = recorder.find("declared", "changing").unwrap();
    let before = site_bytes(&declared::changing);
    recorder.enable(id);
    std::thread::scope(|scope| {
        let _stop = Done(&STOP);
        for _ in 0..3 {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    sdt_probe!(declared::changing, 1);
                    LOOPS.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // The threads may be late.
        while LOOPS.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        for round in 0..400 {
            let mode = if round % 2 == 0 { Mode::Jump } else { Mode::Trap };
            recording_host::set_mode(&declared::changing, mode);
        }
    });
    recorder.disable(id);
    // It was enabled all the time, in each mode.
    assert_eq!(recorder.hits(id), LOOPS.load(Ordering::Relaxed));
    assert!(recorder.hits(id) > 0);
    assert_eq!(site_bytes(&declared::changing), before);
}
