//! `cargo xtask check`: says of any file what is wrong with it.

use crate::edit::{FREEBSD, Input};

/// Runs the target.
///
/// # Panics
/// When the check does, or when it finds nothing wrong and says nothing.
pub fn run(input: &[u8]) {
    let Some(Input { file, .. }) = Input::new(FREEBSD, input) else { return };
    match xtask::check::module(&file) {
        Ok(summary) => assert!(!summary.to_string().is_empty()),
        Err(findings) => {
            assert!(!findings.is_empty());
            assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
        }
    }
}
