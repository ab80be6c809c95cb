//! Tests of `src/cmd/dlib.rs`.

use super::*;

#[test]
fn a_library_is_for_one_operating_system() {
    use Os::{FreeBsd, Illumos};
    assert_eq!(common(&[Illumos, Illumos]).unwrap(), Illumos);
    assert_eq!(common(&[FreeBsd]).unwrap(), FreeBsd);
    let error = common(&[FreeBsd, Illumos]).unwrap_err().to_string();
    assert!(error.starts_with("one module is for freebsd, another for illumos: "), "{error}");
}
