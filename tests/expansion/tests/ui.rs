//! What the macros refuse, and how they say so; and what they have to accept.

#[test]
fn expansion() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui-pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
