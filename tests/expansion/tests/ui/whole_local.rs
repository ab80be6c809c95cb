//! An argument with a call needs the whole local, and its type, as the documentation of `sdt_probe!` explains.

use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

struct Queue {
    list: Vec<u64>,
    count: u64,
}

fn same(value: u64) -> u64 {
    value
}

impl Queue {
    fn walk(&mut self) {
        for entry in self.list.iter_mut() {
            sdt_probe!(open::entry, same(self.count));
            *entry += 1;
        }
    }
}

fn partly_moved(pair: (String, u64)) {
    drop(pair.0);
    sdt_probe!(open::rest, same(pair.1));
}

fn known_later() {
    let mut last = None;
    for i in 0..2 {
        sdt_probe!(open::named, last.is_some());
        last = Some(i.to_string());
    }
}

fn main() {
    Queue { list: Vec::new(), count: 1 }.walk();
    partly_moved((String::new(), 1));
    known_later();
}
