//! The names in an argument have the same meaning in a separate function as in place.
#![allow(
    clippy::let_and_return,
    clippy::match_single_binding,
    clippy::never_loop,
    clippy::redundant_closure_call,
    clippy::declare_interior_mutable_const,
    clippy::borrow_interior_mutable_const,
    clippy::undocumented_unsafe_blocks,
    reason = "the odd expressions are the test's subject; only one test changes a static"
)]

use std::cell::Cell;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

/// Returns the lock that a thread holds while it runs a site, because all sites belong to one probe.
fn one_by_one() -> MutexGuard<'static, ()> {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the argument of `open::value` when `f` fires it.
fn traced(f: impl FnOnce()) -> u64 {
    static RECORDER: OnceLock<&recording_host::Recorder> = OnceLock::new();
    let _guard = one_by_one();
    let recorder = RECORDER.get_or_init(|| recording_host::attach(Mode::Trap));
    let id = recorder.find("open", "value").unwrap();
    let before = recorder.hits(id);
    recorder.enable(id);
    f();
    recorder.disable(id);
    assert_eq!(recorder.hits(id) - before, 1);
    recorder.args(id)[0]
}

/// Not inlined, so every argument that calls it is evaluated by an evaluator.
#[inline(never)]
fn one(a: u64) -> u64 {
    a
}

#[inline(never)]
fn two(a: u64, b: u64) -> u64 {
    a * 1000 + b
}

#[inline(never)]
fn three(a: u64, b: u64, c: u64) -> u64 {
    two(a, b) * 1000 + c
}

macro_rules! with_its_own {
    ($value:expr) => {{
        let x = 1;
        sdt_probe!(open::value, two(x, $value));
    }};
}

macro_rules! with_another {
    ($value:expr) => {{
        let x = 2;
        with_third!(x, $value);
    }};
}

macro_rules! with_third {
    ($one:expr, $two:expr) => {{
        let x = 3;
        sdt_probe!(open::value, three(x, $one, $two));
    }};
}

macro_rules! firing {
    ($value:expr) => {
        sdt_probe!(open::value, $value)
    };
}

#[test]
fn a_macros_locals_are_its_own() {
    let x = 40;
    assert_eq!(traced(|| with_its_own!(x + 5)), 1045);
    assert_eq!(traced(|| with_its_own!(one(x))), 1040);
}

#[test]
fn names_come_through_several_macros() {
    let x = 40;
    assert_eq!(traced(|| with_another!(x)), 3_002_040);
    assert_eq!(traced(|| with_another!(one(x) + x)), 3_002_080);
    assert_eq!(traced(|| firing!(two(x, 1))), 40_001);
}

#[test]
fn the_innermost_binding_is_meant() {
    let x = 1;
    assert_eq!(
        traced(|| sdt_probe!(
            open::value,
            two(
                {
                    let x = x + 1;
                    x
                },
                x
            )
        )),
        2001
    );
    let y = x;
    let x = 7;
    assert_eq!(traced(|| sdt_probe!(open::value, two(x, y))), 7001);
    {
        let x = 8;
        assert_eq!(traced(|| sdt_probe!(open::value, two(x, y))), 8001);
    }
    assert_eq!(traced(|| sdt_probe!(open::value, two(x, y))), 7001);
}

#[test]
fn bindings_of_the_expression() {
    let (x, n) = (5u64, 10);
    let some = Some(6);
    let values = [1u64, 2];
    assert_eq!(
        traced(|| sdt_probe!(open::value, values.iter().map(|x| one(x + n)).sum::<u64>())),
        23
    );
    assert_eq!(
        traced(|| {
            sdt_probe!(
                open::value,
                match some {
                    Some(x) => two(x, n),
                    None => one(x),
                }
            )
        }),
        6010
    );
    assert_eq!(
        traced(|| sdt_probe!(open::value, if let Some(x) = some { two(x, n) } else { x })),
        6010
    );
    assert_eq!(traced(|| sdt_probe!(open::value, two(x, some.map_or(x, |x| x + 1)))), 5007);
    let sum = traced(|| {
        sdt_probe!(open::value, {
            let mut sum = 0;
            for x in 0..3 {
                sum += one(x);
            }
            sum + x
        });
    });
    assert_eq!(sum, 8);
}

macro_rules! bind {
    ($name:ident) => {
        let $name = 9;
    };
}

macro_rules! some {
    ($name:ident) => {
        Some($name)
    };
}

#[test]
fn what_the_expression_declares() {
    let (x, other) = (5, Some(6));
    assert_eq!(
        traced(|| sdt_probe!(open::value, {
            bind!(x);
            one(x)
        })),
        9
    );
    let declared = traced(|| {
        sdt_probe!(open::value, {
            #[allow(non_upper_case_globals)]
            const x: u64 = 8;
            one(x)
        });
    });
    assert_eq!(declared, 8);
    let imported = traced(|| {
        sdt_probe!(open::value, {
            #[allow(unused_imports)]
            use lower_case::*;
            two(plain, x)
        });
    });
    assert_eq!(imported, 11_005);
    let matched = traced(|| {
        sdt_probe!(
            open::value,
            match other {
                some!(x) => one(x),
                _ => x,
            }
        )
    });
    assert_eq!(matched, 6);
}

#[allow(non_upper_case_globals)]
mod lower_case {
    use super::{AtomicU64, Cell};

    pub static plain: u64 = 11;
    pub static counter: AtomicU64 = AtomicU64::new(12);
    pub static mut changing: u64 = 13;
    pub const constant: u64 = 14;
    pub const not_copy: Cell<u64> = Cell::new(15);
}
#[allow(unused_imports)]
use lower_case::{changing, constant, counter, not_copy, plain};

#[test]
fn statics_and_constants() {
    assert_eq!(traced(|| sdt_probe!(open::value, two(plain, constant))), 11_014);
    assert_eq!(traced(|| sdt_probe!(open::value, counter.fetch_add(1, Ordering::Relaxed))), 12);
    assert_eq!(counter.load(Ordering::Relaxed), 13);
    assert_eq!(traced(|| sdt_probe!(open::value, not_copy.get())), 15);
    assert_eq!(
        traced(|| sdt_probe!(open::value, unsafe { two(constant, core::ptr::read(&plain)) })),
        14_011
    );
}

/// Changes a static.
#[inline(never)]
fn change(to: u64) -> u64 {
    // SAFETY: only one test uses the static, in one thread.
    unsafe { changing = to };
    to
}

#[test]
fn a_static_that_changes_is_read_when_it_is_its_turn() {
    assert_eq!(traced(|| sdt_probe!(open::value, unsafe { one(changing) })), 13);
    assert_eq!(traced(|| sdt_probe!(open::value, unsafe { two(changing, change(20)) })), 13_020);
    assert_eq!(traced(|| sdt_probe!(open::value, unsafe { two(change(21), changing) })), 21_021);
    let (x, p) = (5, &raw const plain);
    assert_eq!(traced(|| sdt_probe!(open::value, unsafe { three(x, change(2), *p) })), 5_002_011);
}

#[allow(non_upper_case_globals)]
fn in_generic<T: Copy + Into<u64>, const n: u64>(value: T) {
    sdt_probe!(open::value, two(value.into(), n));
}

#[allow(non_upper_case_globals)]
fn of_length<const n: usize>(x: u64) {
    sdt_probe!(open::value, one([x; n].iter().sum::<u64>() + const { n as u64 }));
}

#[test]
fn generics() {
    assert_eq!(traced(|| in_generic::<_, 3>(2u8)), 2003);
    assert_eq!(traced(|| of_length::<4>(5)), 24);
}

/// The address of a field is the address of that field, even if other fields are moved.
#[test]
#[allow(clippy::deref_addrof)]
fn a_field_by_its_address_leaves_the_others_alone() {
    struct Queue {
        list: Vec<u64>,
        count: u64,
    }
    impl Queue {
        fn walk(&mut self) {
            for entry in self.list.iter_mut() {
                sdt_probe!(open::value, one(*&self.count));
                *entry += 1;
            }
        }
    }
    let mut queue = Queue { list: vec![1], count: 2 };
    assert_eq!(traced(|| queue.walk()), 2);
    assert_eq!(queue.list, [2]);
    let pair = (String::new(), 5);
    drop(pair.0);
    assert_eq!(traced(|| sdt_probe!(open::value, one(*&pair.1))), 5);
}

/// `self` in all forms.
#[derive(Clone, Copy)]
struct Small(u64);

struct Large(u64, [u64; 20]);

impl Small {
    fn get(&self) -> u64 {
        one(self.0)
    }

    fn by_value(self) {
        sdt_probe!(open::value, two(self.get(), (|| self.0)()));
    }

    fn by_exclusive_reference(&mut self) {
        sdt_probe!(open::value, self.get());
        self.0 += 1;
    }
}

impl Large {
    fn by_value(self) {
        sdt_probe!(open::value, two(self.0, one(self.1[3])));
    }

    fn by_reference(&self) {
        sdt_probe!(open::value, two(self.0, one(self.1[3])));
    }
}

#[test]
fn receivers() {
    assert_eq!(traced(|| Small(4).by_value()), 4004);
    let mut small = Small(5);
    assert_eq!(traced(|| small.by_exclusive_reference()), 5);
    assert_eq!(small.0, 6);
    let large = Large(6, [7; 20]);
    assert_eq!(traced(|| large.by_reference()), 6007);
    assert_eq!(traced(|| large.by_value()), 6007);
}

#[inline(never)]
fn address<T>(of: *const T) -> u64 {
    of.addr() as u64
}

#[test]
fn an_address_is_that_of_the_local() {
    let (x, pair, array, i) = (7u64, (1u8, 2u64), [3u32; 4], 2);
    assert_eq!(traced(|| sdt_probe!(open::value, from_ref(&x).addr() as u64)), address(&x));
    assert_eq!(traced(|| sdt_probe!(open::value, address(&x))), address(&x));
    assert_eq!(traced(|| sdt_probe!(open::value, address(&raw const x))), address(&x));
    assert_eq!(traced(|| sdt_probe!(open::value, address(&pair.1))), address(&pair.1));
    assert_eq!(traced(|| sdt_probe!(open::value, address(&array[i]))), address(&array[2]));
    assert_eq!(
        traced(|| sdt_probe!(
            open::value,
            match x {
                ref x => address(x),
            }
        )),
        address(&x)
    );
    // A value that the function borrows has the same address in a separate function as in place.
    let text = String::from("a");
    assert_eq!(traced(|| sdt_probe!(open::value, address(text.as_ptr()))), address(text.as_ptr()));
}

#[test]
fn a_static_is_borrowed_for_ever() {
    fn forever(place: &'static u64) -> u64 {
        *place
    }
    fn load(place: &'static AtomicU64) -> u64 {
        place.load(Ordering::Relaxed)
    }
    static ATOMIC: AtomicU64 = AtomicU64::new(21);
    let reference: &'static u64 = &22;
    assert_eq!(traced(|| sdt_probe!(open::value, forever(&plain))), 11);
    assert_eq!(traced(|| sdt_probe!(open::value, load(&ATOMIC))), 21);
    assert_eq!(traced(|| sdt_probe!(open::value, forever(reference))), 22);
    assert_eq!(traced(|| sdt_probe!(open::value, forever(&*reference))), 22);
}

#[test]
fn what_is_in_a_macro_is_found_too() {
    let (x, text) = (12345, "abc");
    assert_eq!(traced(|| sdt_probe!(open::value, format!("{x}{text}").len() as u64)), 8);
    assert_eq!(
        traced(|| sdt_probe!(open::value, two(u64::from(matches!(x, 12345)), one(x)))),
        13_345
    );
}

#[test]
fn more_names_than_go_by_value() {
    let [a, b, c, d, e, f, g] = [1, 2, 3, 4, 5, 6, 7u64];
    assert_eq!(traced(|| sdt_probe!(open::value, three(a, b, one(c + d + e + f + g)))), 1_002_025);
    let sum = traced(|| {
        sdt_probe!(open::value, [&a, &b, &c, &d, &e, &f, &g].map(|n| one(*n)).iter().sum::<u64>());
    });
    assert_eq!(sum, 28);
}

#[test]
fn functions_are_values_too() {
    fn double(n: u64) -> u64 {
        one(2 * n)
    }
    fn same<T>(value: T) -> T {
        value
    }
    let (some, triple) = (Some(4), |n: u64| 3 * n);
    assert_eq!(traced(|| sdt_probe!(open::value, some.map(double).unwrap())), 8);
    assert_eq!(traced(|| sdt_probe!(open::value, some.map(same).unwrap())), 4);
    assert_eq!(traced(|| sdt_probe!(open::value, triple(one(some.unwrap())))), 12);
}

/// Fires a probe whose argument returns from this function if `value` is `None`. `went_on` becomes true if the function continues
/// after its probe.
fn leaves(value: Option<u64>, went_on: &mut bool) -> Option<u64> {
    sdt_probe!(
        open::value,
        one(match value {
            Some(value) => value,
            None => return Some(7),
        })
    );
    sdt_probe!(open::value, one(value?));
    'out: {
        sdt_probe!(
            open::value,
            one('found: loop {
                match value {
                    Some(0) => break 'out,
                    Some(value) => break 'found value,
                    None => unreachable!(),
                }
            })
        );
    }
    *went_on = true;
    None
}

#[test]
fn what_leaves_the_function_leaves_it() {
    let mut went_on = false;
    {
        let _disabled = one_by_one();
        assert_eq!(leaves(Some(3), &mut went_on), None);
    }
    assert!(went_on, "disabled: none of it is evaluated");
    went_on = false;
    // `traced` needs a hit, so this fires one after the function has returned.
    let returned = Cell::new(None);
    traced(|| {
        returned.set(leaves(None, &mut went_on));
        sdt_probe!(open::value, 0u64);
    });
    assert_eq!((returned.get(), went_on), (Some(7), false));
}
