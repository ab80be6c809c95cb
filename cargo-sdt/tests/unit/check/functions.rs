//! Tests of `src/check/functions.rs`.

use super::*;

fn symbols() -> [Symbol; 5] {
    let symbol = |name: &str, kind, value, size| {
        let (binding, home) = (elf::STB_LOCAL, Home::Section(1));
        Symbol { name: name.into(), binding, kind, home, value, size }
    };
    [
        symbol("first", elf::STT_FUNC, 0, 16),
        symbol("second", elf::STT_FUNC, 16, 32),
        symbol("label", elf::STT_NOTYPE, 64, 0),
        symbol("$x", elf::STT_NOTYPE, 24, 0),
        symbol("data", elf::STT_OBJECT, 20, 4),
    ]
}

fn astray(pointers: &[(u64, u64)]) -> Vec<u64> {
    let to = |offset| Target { section: 1, offset };
    let pointers = pointers.iter().map(|&(at, offset)| (at, to(offset))).collect();
    let symbols = symbols();
    let functions = Functions::new(symbols.iter());
    functions.astray(&pointers).into_iter().map(|(at, _)| at).collect()
}

#[test]
fn pointers_to_functions_and_labels() {
    assert!(astray(&[(0, 0), (8, 16), (16, 64)]).is_empty());
    assert_eq!(astray(&[(0, 8)]), [0], "a slot of a vtable");
    assert_eq!(astray(&[(0, 0), (8, 24), (16, 16)]), [8]);
    assert!(astray(&[(0, 20), (8, 24), (16, 40)]).is_empty(), "a table of labels");
    assert_eq!(astray(&[(0, 20), (8, 4)]), [0, 8], "of two functions");
    assert_eq!(astray(&[(0, 50), (8, 52)]), [0, 8], "between functions");
    let symbols = symbols();
    let place = Target { section: 1, offset: 20 };
    assert_eq!(Functions::new(symbols.iter()).describe(place), ("second".to_owned(), 4));
}

#[test]
fn nothing_is_said_of_what_has_been_stripped() {
    let pointers = [(0, Target { section: 2, offset: 3 })].into_iter().collect();
    let symbols = symbols();
    assert!(Functions::new(symbols.iter()).astray(&pointers).is_empty());
}
