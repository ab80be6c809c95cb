//! Code that the macros refuse, with the messages; and code that they accept.

#[test]
fn expansion() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui-pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
