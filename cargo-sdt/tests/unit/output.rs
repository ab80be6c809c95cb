//! Tests of `src/output.rs`.

use super::*;

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let error = OutputError::from(io::Error::from(io::ErrorKind::BrokenPipe));
    assert!(matches!(error, OutputError::Closed));
    let error = OutputError::from(io::Error::from(io::ErrorKind::StorageFull));
    assert_eq!(error.to_string(), "failed to write to <stdout>: no storage space");
}

#[test]
fn causes_are_told_once() {
    let told = anyhow::anyhow!("disk full").context("cannot write: disk full");
    assert_eq!(message(&told), "cannot write: disk full");
    let untold = anyhow::anyhow!("disk full").context("cannot write");
    assert_eq!(message(&untold), "cannot write: disk full");
}
