//! Checks the records of the probes that this crate and its facade declare.

use facade::sdt::__private::record::PROBES;

#[test]
fn all_probes_are_in_the_set() {
    facade_user::fire(1);
    facade::start();
    let text = |name: &'static core::ffi::CStr| name.to_str().unwrap();
    let mut names: Vec<_> = PROBES
        .iter()
        .map(|probe| format!("{}:{}", text(probe.provider().name()), text(probe.name())))
        .collect();
    names.sort_unstable();
    names.dedup();
    let expected = [
        "by_crate:fired",
        "by_self:fired",
        "by_super:fired",
        "declared:values",
        "framework:started",
        "framework:task",
        "framework_open:started",
        "framework_open:task",
        "open:costly",
        "short:fired",
    ];
    assert_eq!(names, expected);
}

#[test]
fn types_are_as_without_it() {
    let probe = &facade_user::declared::values;
    let types: Vec<_> = probe.args().unwrap().collect();
    assert_eq!(types[0].native.as_str(), "struct packet *");
    assert_eq!(types[1].translated.unwrap().as_str(), "bufinfo_t *");
}
