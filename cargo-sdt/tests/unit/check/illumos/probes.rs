//! Tests of `src/check/illumos/probes.rs`.

use super::*;

#[test]
fn providers_are_told_by_their_prefixes() {
    for (name, provider, rest) in [
        ("__proc_exec__success", "proc", "exec__success"),
        ("__cpu_sysinfo_pswitch", "sysinfo", "pswitch"),
        ("__smb2_op", "smb2", "op"),
        ("tcp__err", "sdt", "tcp__err"),
        ("_proc_x", "sdt", "_proc_x"),
        ("__procx", "sdt", "__procx"),
        ("__io_", "io", ""),
    ] {
        assert_eq!(split(name), (provider, rest), "{name}");
    }
}

#[test]
fn no_prefix_hides_another() {
    for (at, (_, prefix)) in PROVIDERS.iter().enumerate() {
        assert!(PROVIDERS[..at].iter().all(|(_, before)| !prefix.starts_with(before)));
    }
}
