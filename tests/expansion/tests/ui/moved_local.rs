use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

fn consume(text: String) -> usize {
    text.len()
}

fn main() {
    let text = String::from("x");
    // An argument may borrow a local, not move out of it.
    sdt_probe!(open::start, consume(text));
}
