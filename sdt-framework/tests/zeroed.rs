//! A framework takes no room in the file it is linked into.

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use sdt_framework::Dtrace;
use sdt_host::cpus::Uniprocessor;

/// With all capacities as they are by default.
#[used]
static FRAMEWORK_WITH_DEFAULTS: Dtrace<Uniprocessor> =
    // SAFETY: the test has one thread.
    Dtrace::new(unsafe { Uniprocessor::new() });

#[test]
fn a_static_framework_is_in_bss() {
    let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*image).unwrap();
    let symbol = file
        .symbols()
        .find(|symbol| symbol.name().is_ok_and(|name| name.contains("FRAMEWORK_WITH_DEFAULTS")))
        .expect("the static is in the symbol table");
    let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
    assert_eq!(section.kind(), SectionKind::UninitializedData, "{:?}", section.name());
    assert!(FRAMEWORK_WITH_DEFAULTS.open().is_ok());
    // Sixteen CPUs, eight consumers, 512 records of 96 bytes, and the rest not much beside it.
    assert!((6 << 20..8 << 20).contains(&symbol.size()), "{} bytes", symbol.size());
}
