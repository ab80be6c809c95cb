//! Evaluators of all kinds, over captures of all kinds.

use core::cell::Cell;

use super::*;

const DONE: AMacroInAnArgumentMustNotReturn = AMacroInAnArgumentMustNotReturn(());

/// Expands like an argument in a site's macro, but without a probe. Returns the value of `$value` in the evaluator.
macro_rules! evaluated {
    ($([$local:ident = $of:expr])* => $value:expr) => {{
        let got = Cell::new(None);
        $(let $local = $of.capture();)*
        evaluated!(@run got $value, () (), $($local)*);
        got.take().expect("the evaluator has run")
    }};
    (@run $got:ident $value:expr, $list:tt $places:tt, $last:ident $($local:ident)*) => {
        evaluated!(@run $got $value, (&$last, $list) ($last, $places), $($local)*)
    };
    (@run $got:ident $value:expr, $list:tt $places:tt,) => {
        evaluated!(@places $list $places, $got $value)
    };
    (@places $list:tt $places:tt, $got:ident $value:expr) => {
        Evaluate::evaluate($list, |evaluated!(@pattern $places), frame| {
            evaluated!(@within frame $places);
            $got.set(Some($value));
            DONE
        }, ())
    };
    (@pattern ()) => { () };
    (@pattern ($local:ident, $rest:tt)) => { ($local, evaluated!(@pattern $rest)) };
    (@within $frame:ident ()) => { _ = &$frame; };
    (@within $frame:ident ($local:ident, $rest:tt)) => {
        // SAFETY: the accesses and the frame belong to this run of the evaluator.
        let $local = unsafe { $local.within(&$frame) };
        evaluated!(@within $frame $rest);
    };
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bits<const WORDS: usize>([u64; WORDS], u8);

fn bits_of<const WORDS: usize>() -> Bits<WORDS> {
    Bits(core::array::from_fn(|i| i as u64 + 1), 77)
}

#[test]
fn copies_of_all_sizes_arrive() {
    let (byte, pair, text) = (5u8, (6u64, 7u16), "text");
    assert_eq!(evaluated!([byte = Local::new(&byte)] => * byte), 5);
    assert_eq!(evaluated!([pair = Local::new(&pair)] => * pair), (6, 7));
    assert_eq!(evaluated!([text = Local::new(&text)] => text.len()), 4);
    let (small, middle, large) = (bits_of::<1>(), bits_of::<7>(), bits_of::<8>());
    assert_eq!(evaluated!([small = Local::new(&small)] => * small), small);
    assert_eq!(evaluated!([middle = Local::new(&middle)] => * middle), middle);
    assert_eq!(evaluated!([large = Local::new(&large)] => * large), large);
    assert_eq!(evaluated!([nothing = Local::new(&())] => * nothing), ());
}

/// Padding is copied, but never read. A value with a larger alignment than a word is passed by address.
#[test]
fn padding_and_alignment_do_not_matter() {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Aligned(u8);
    let (padded, aligned) = ((1u8, 2u32, 3u8), Aligned(4));
    assert_eq!(evaluated!([padded = Local::new(&padded)] => * padded), padded);
    let (value, misaligned) = evaluated!([aligned = Local::new(&aligned)] => (
        aligned.0,
        core::ptr::from_ref(aligned).addr() % 64
    ));
    assert_eq!((value, misaligned), (4, 0));
}

#[test]
fn what_is_not_copied_is_the_local_itself() {
    let vector = vec![1, 2];
    let (sum, place) = evaluated!([vector = Local::new(&vector)] => (
        vector.iter().sum::<i32>(),
        core::ptr::from_ref(vector)
    ));
    assert_eq!((sum, place), (3, &raw const vector));
}

#[test]
fn an_exclusive_reference_is_read_through() {
    let mut value = vec![1];
    let exclusive = &mut value;
    assert_eq!(evaluated!([exclusive = Local::new(&exclusive)] => exclusive.len()), 1);
    exclusive.push(2);
    assert_eq!(value, [1, 2]);
}

#[test]
fn a_static_is_not_copied() {
    let value = 9u64;
    let place = evaluated!(
        [place = Local::unless_static(&value, ())] => core::ptr::from_ref(place)
    );
    assert_eq!(place, &raw const value);
    let copy = evaluated!(
        [copy = Local::unless_static(&value, || _ = &value)] => core::ptr::from_ref(copy)
    );
    assert_ne!(copy, &raw const value);
}

#[test]
fn several_come_in_order() {
    let (a, b, c, d, e) = (1u8, vec![2u8], 3u8, [4u64; 5], 5u8);
    let list = evaluated!(
        [a = Local::new(&a)] [b = Local::new(&b)] [c = Local::new(&c)] [d = Local::new(&d)]
        [e = Local::new(&e)] => [u64::from(*a), u64::from(b[0]), u64::from(*c), d[4], u64::from(*e)]
    );
    assert_eq!(list, [1, 2, 3, 4, 5]);
}

/// An evaluator is passed as nothing, as its bits, and by its address.
#[test]
fn evaluators_of_all_sizes_run() {
    static RUNS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    let count = || RUNS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    ().evaluate(
        |(), _: Frame| {
            count();
            DONE
        },
        (),
    );
    assert_eq!(RUNS.load(core::sync::atomic::Ordering::Relaxed), 1);
    let (a, b, c) = (Cell::new(0), Cell::new(0), Cell::new(0));
    ().evaluate(
        |(), _: Frame| {
            a.set(1);
            b.set(2);
            DONE
        },
        (),
    );
    assert_eq!((a.get(), b.get()), (1, 2));
    ().evaluate(
        |(), _: Frame| {
            a.set(3);
            b.set(4);
            c.set(5);
            DONE
        },
        (),
    );
    assert_eq!((a.get(), b.get(), c.get()), (3, 4, 5));
}
