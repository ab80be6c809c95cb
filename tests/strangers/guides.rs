//! The guides of `docs/`.

use crate::guide::Guide;

#[test]
fn your_first_probe_on_freebsd() {
    Guide::read("docs/first-probe-freebsd.md", &["freebsd#"]).run();
}

#[test]
fn your_first_probe_on_illumos() {
    Guide::read("docs/first-probe-illumos.md", &["illumos#"]).run();
}
