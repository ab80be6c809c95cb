//! Dynamic variables under every interleaving and every reordering that the memory model allows.
//!
//! This compiles the framework's own source file against loom's atomics.

use loom::thread;
use sync::AtomicU32;

/// What `src/sync.rs` is to the framework.
mod sync {
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

mod dif {
    #[path = "../../src/dif/address.rs"]
    #[allow(dead_code, reason = "the models use a part")]
    pub(crate) mod address;
    #[path = "../../src/dif/dynamic.rs"]
    #[allow(dead_code, reason = "the models use a part")]
    pub(crate) mod dynamic;
    #[path = "../../src/dif/word.rs"]
    #[allow(dead_code, reason = "the models use a part")]
    pub(crate) mod word;
}

use dif::dynamic::{Dynamic, Key, PerCpu};
use dif::word::Word;

const CHUNKS: usize = 3;
const CHUNK: usize = 4;

/// Everything in one chain, so that all gets in each other's way. What loom forgets between two runs is made
/// anew in each.
fn dynamic() -> &'static Dynamic<'static> {
    let links = |count| -> &'static [AtomicU32] {
        Box::leak((0..count).map(|_| AtomicU32::new(0)).collect())
    };
    let words: &'static [Word] = Box::leak((0..CHUNK * CHUNKS).map(|_| Word::new()).collect());
    let cpus: &'static [PerCpu] = Box::leak((0..2).map(|_| PerCpu::new()).collect());
    let dynamic = Dynamic::new(links(1), links(CHUNKS), links(CHUNKS), words, CHUNK, cpus);
    Box::leak(Box::new(dynamic))
}

/// Both CPUs make the same variable: it is one, and the chunk that is not needed is not lost.
#[test]
fn two_make_the_same_variable() {
    loom::model(|| {
        let dynamic = dynamic();
        let other = thread::spawn(move || dynamic.find_or_make(1, Key::new(&[7]), 8));
        let ours = dynamic.find_or_make(0, Key::new(&[7]), 8);
        let theirs = other.join().unwrap();
        assert!(ours.is_some());
        assert_eq!(ours, theirs);
        dynamic.clean(|| ());
        // The other two chunks are there.
        assert!(dynamic.find_or_make(0, Key::new(&[8]), 8).is_some());
        assert!(dynamic.find_or_make(0, Key::new(&[9]), 8).is_some());
        assert_eq!(dynamic.find_or_make(0, Key::new(&[10]), 8), None);
    });
}

/// Neighbours in a chain are removed at once: both are gone, and the third one is still there.
#[test]
fn neighbours_are_removed() {
    loom::model(|| {
        let dynamic = dynamic();
        let made = [1, 2, 3].map(|key| dynamic.find_or_make(0, Key::new(&[key]), 8));
        assert!(made.iter().all(Option::is_some));
        let other = thread::spawn(move || dynamic.remove(1, Key::new(&[2])));
        dynamic.remove(0, Key::new(&[3]));
        other.join().unwrap();
        assert_eq!([1, 2, 3].map(|key| dynamic.find(0, Key::new(&[key]))), [made[0], None, None]);
        dynamic.clean(|| ());
        assert!(dynamic.find_or_make(0, Key::new(&[4]), 8).is_some());
        assert!(dynamic.find_or_make(0, Key::new(&[5]), 8).is_some());
    });
}

/// One makes a variable while the other removes the one beside it.
#[test]
fn one_is_made_beside_one_that_goes() {
    loom::model(|| {
        let dynamic = dynamic();
        dynamic.find_or_make(0, Key::new(&[1]), 8).unwrap();
        let other = thread::spawn(move || dynamic.remove(1, Key::new(&[1])));
        let made = dynamic.find_or_make(0, Key::new(&[2]), 8);
        other.join().unwrap();
        assert!(made.is_some());
        assert_eq!(dynamic.find(0, Key::new(&[2])), made);
        assert_eq!(dynamic.find(0, Key::new(&[1])), None);
    });
}

/// One removes what the other is looking at, and makes another one at once: the reader sees the value of the
/// variable that it asked for, or none.
#[test]
fn a_reader_sees_its_own_variable() {
    loom::model(|| {
        let dynamic = dynamic();
        let chunk = dynamic.find_or_make(0, Key::new(&[1]), 8).unwrap();
        dynamic.set(chunk, 11);
        let other = thread::spawn(move || {
            dynamic.remove(1, Key::new(&[1]));
            let chunk = dynamic.find_or_make(1, Key::new(&[2]), 8).unwrap();
            dynamic.set(chunk, 22);
        });
        if let Some(chunk) = dynamic.find(0, Key::new(&[1])) {
            assert_eq!(dynamic.get(chunk), 11);
        }
        other.join().unwrap();
    });
}
