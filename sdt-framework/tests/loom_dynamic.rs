//! Dynamic variables under every interleaving and every reordering that the memory model allows.
//!
//! This compiles the framework's own source file against loom's atomics.

use base::sync::AtomicU32;
use loom::thread;

/// Stands for the framework's `src/base`.
mod base {
    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

        pub(crate) type AtomicCount = loom::sync::atomic::AtomicU64;

        pub(crate) const fn widen(count: u64) -> u64 {
            count
        }

        macro_rules! const_fn {
            ($(#[$attr:meta])* $vis:vis fn $name:ident() -> $ret:ty $body:block) => {
                $(#[$attr])* $vis fn $name() -> $ret $body
            };
        }
        pub(crate) use const_fn;
    }
    pub(crate) use super::word;
}
#[path = "../src/base/word.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod word;

mod kernel {
    pub(crate) use sdt_framework::kernel::Costs;
}

#[path = "../src/machine/address.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod address;
#[path = "../src/machine/dynamic.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod dynamic;
#[path = "../src/machine/work.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod work;

use dynamic::{Dynamic, Key, PerCpu};
use word::Word;

const CHUNKS: usize = 3;
const CHUNK: usize = 4;

/// Returns dynamic variables with one chain, so that all operations use the same links. They are created in each run, because
/// loom's atomics are valid in one run only.
fn dynamic() -> &'static Dynamic<'static> {
    let links = |count| -> &'static [AtomicU32] {
        Box::leak((0..count).map(|_| AtomicU32::new(0)).collect())
    };
    let words: &'static [Word] = Box::leak((0..CHUNK * CHUNKS).map(|_| Word::new()).collect());
    let cpus: &'static [PerCpu] = Box::leak((0..2).map(|_| PerCpu::new()).collect());
    let dynamic = Dynamic::new(links(1), links(CHUNKS), links(CHUNKS), words, CHUNK, cpus);
    Box::leak(Box::new(dynamic))
}

/// A budget that no operation exceeds.
const WORK: u32 = 1 << 20;

fn make(dynamic: &Dynamic<'_>, cpu: usize, key: u64) -> Option<u32> {
    dynamic.find_or_make(cpu, Key::new(&[key]), 8, &mut WORK.clone()).unwrap()
}

fn find(dynamic: &Dynamic<'_>, cpu: usize, key: u64) -> Option<u32> {
    dynamic.find(cpu, Key::new(&[key]), &mut WORK.clone()).unwrap()
}

fn remove(dynamic: &Dynamic<'_>, cpu: usize, key: u64) {
    dynamic.remove(cpu, Key::new(&[key]), &mut WORK.clone()).unwrap();
}

/// Both CPUs create the same variable: there is one variable, and the superfluous chunk is not lost.
#[test]
fn two_make_the_same_variable() {
    loom::model(|| {
        let dynamic = dynamic();
        let other = thread::spawn(move || make(dynamic, 1, 7));
        let ours = make(dynamic, 0, 7);
        let theirs = other.join().unwrap();
        assert!(ours.is_some());
        assert_eq!(ours, theirs);
        dynamic.clean(|| ());
        // The other two chunks can be allocated.
        assert!(make(dynamic, 0, 8).is_some());
        assert!(make(dynamic, 0, 9).is_some());
        assert_eq!(make(dynamic, 0, 10), None);
    });
}

/// Two adjacent variables in a chain are removed at the same time: neither exists afterwards, and the third one still exists.
#[test]
fn neighbours_are_removed() {
    loom::model(|| {
        let dynamic = dynamic();
        let made = [1, 2, 3].map(|key| make(dynamic, 0, key));
        assert!(made.iter().all(Option::is_some));
        let other = thread::spawn(move || remove(dynamic, 1, 2));
        remove(dynamic, 0, 3);
        other.join().unwrap();
        assert_eq!([1, 2, 3].map(|key| find(dynamic, 0, key)), [made[0], None, None]);
        dynamic.clean(|| ());
        assert!(make(dynamic, 0, 4).is_some());
        assert!(make(dynamic, 0, 5).is_some());
    });
}

/// One CPU creates a variable while the other CPU removes the adjacent one.
#[test]
fn one_is_made_beside_one_that_goes() {
    loom::model(|| {
        let dynamic = dynamic();
        make(dynamic, 0, 1).unwrap();
        let other = thread::spawn(move || remove(dynamic, 1, 1));
        let made = make(dynamic, 0, 2);
        other.join().unwrap();
        assert!(made.is_some());
        assert_eq!(find(dynamic, 0, 2), made);
        assert_eq!(find(dynamic, 0, 1), None);
    });
}

/// One CPU removes the variable that the other CPU is reading, and creates another one at once. The reader gets the value of the
/// variable with its key, or none.
#[test]
fn a_reader_sees_its_own_variable() {
    loom::model(|| {
        let dynamic = dynamic();
        let chunk = make(dynamic, 0, 1).unwrap();
        dynamic.number(chunk).unwrap().set(11);
        let other = thread::spawn(move || {
            remove(dynamic, 1, 1);
            let chunk = make(dynamic, 1, 2).unwrap();
            dynamic.number(chunk).unwrap().set(22);
        });
        if let Some(chunk) = find(dynamic, 0, 1) {
            assert_eq!(dynamic.number(chunk).unwrap().get(), 11);
        }
        other.join().unwrap();
    });
}
