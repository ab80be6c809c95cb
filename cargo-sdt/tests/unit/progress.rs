//! Tests of `src/progress.rs`.

use super::*;

#[test]
fn what_failed_is_not_done() {
    let after = Duration::from_millis(1234);
    assert_eq!(ended("building x", true, after), "building x: done in 1.2 s");
    assert_eq!(ended("building x", false, after), "building x: failed after 1.2 s");
    assert_eq!(step("nothing", || Err::<(), _>("why")), Err("why"));
}
