//! `cargo xtask check` accepts any file, reports its faults, and passes none that would make a kernel panic.

use crate::edit::{FREEBSD, Input};
use crate::loader;

/// FreeBSD's newest release.
const NEWEST: u32 = 15;

/// Runs the target.
///
/// # Panics
/// If the check panics, if it reports neither errors nor a summary, or if FreeBSD's loader would panic on a file that
/// passed the check.
pub fn run(input: &[u8]) {
    let Some(Input { machine, file, .. }) = Input::new(FREEBSD, input) else { return };
    match cargo_sdt::internal::check::freebsd_module(
        &file,
        cargo_sdt::internal::check::Against::default(),
    ) {
        Ok(summary) => {
            assert!(!summary.to_string().is_empty());
            if let Err(refusal) = loader::load_alone(machine, NEWEST, &file) {
                assert!(!refusal.would_have_panicked(), "{refusal}");
            }
        }
        Err(findings) => {
            assert!(!findings.is_empty());
            assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
        }
    }
}
