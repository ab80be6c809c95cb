//! A borrow of a local is not `'static`, wherever the argument is evaluated.

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider! {
    declared {
        fn forever(place: &'static u64);
    }
}

fn stash(_: &'static [u64; 4]) -> u64 {
    0
}

fn same<T>(value: T) -> T {
    value
}

#[derive(Clone, Copy)]
struct Small(u64);
struct Text(String);

impl Small {
    fn stash(&'static self) -> u64 {
        self.0
    }
}

impl Text {
    fn stash(&'static self) -> u64 {
        self.0.len() as u64
    }
}

fn local() {
    let local = [1, 2, 3, 4];
    sdt_probe!(open::costly, stash(&local));
}

fn in_place() {
    let local = 1u64;
    sdt_probe!(declared::forever, &local);
}

fn declared() {
    let local = 1u64;
    sdt_probe!(declared::forever, same(&local));
}

fn receivers(small: Small, text: Text) {
    sdt_probe!(open::copied, small.stash());
    sdt_probe!(open::borrowed, text.stash());
}

fn through_a_reference(array: &[u64; 4], exclusive: &mut [u64; 4]) {
    sdt_probe!(open::reference, stash(array));
    sdt_probe!(open::exclusive, stash(exclusive));
}

fn kept() {
    let local = [1, 2, 3, 4];
    let mut kept: Option<&[u64; 4]> = None;
    sdt_probe!(open::kept, {
        kept = Some(&local);
        1u8
    });
    drop(local.map(Some));
    let cell = std::cell::Cell::new(None);
    let small = Small(1);
    sdt_probe!(open::copy_kept, same(cell.set(Some(by_reference(small.borrow())))) == ());
    println!("{kept:?} {:?}", cell.get());
}

fn by_reference(place: &u64) -> &u64 {
    place
}

impl Small {
    fn borrow(&self) -> &u64 {
        &self.0
    }
}

fn main() {
    local();
    in_place();
    declared();
    receivers(Small(1), Text(String::new()));
    through_a_reference(&[1; 4], &mut [1; 4]);
    kept();
}
