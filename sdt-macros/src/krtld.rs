//! The names of symbols by which illumos recognises a probe and its provider. The check of modules uses this file, too.

/// The prefix of undefined symbols that are probes (`sdt_prefix` of `usr/src/uts/common/krtld/kobj.c`, 2025).
pub(crate) const PREFIX: &str = "__dtrace_probe_";

/// The provider of all probes that match none of [`PROVIDERS`].
pub(crate) const OTHERS: &str = "sdt";

/// The providers that illumos's sdt knows besides `sdt`, and the prefix of their probes' names after [`PREFIX`]
/// (`sdt_providers` of `usr/src/uts/common/dtrace/sdt_subr.c`, 2025). The first match counts; names without a match
/// belong to [`OTHERS`].
pub(crate) const PROVIDERS: [(&str, &str); 21] = [
    ("vtrace", "__vtrace_"),
    ("sysinfo", "__cpu_sysinfo_"),
    ("vminfo", "__cpu_vminfo_"),
    ("fpuinfo", "__fpuinfo_"),
    ("sched", "__sched_"),
    ("proc", "__proc_"),
    ("io", "__io_"),
    ("ip", "__ip_"),
    ("tcp", "__tcp_"),
    ("udp", "__udp_"),
    ("mib", "__mib_"),
    ("fsinfo", "__fsinfo_"),
    ("iscsi", "__iscsi_"),
    ("nfsv3", "__nfsv3_"),
    ("nfsv4", "__nfsv4_"),
    ("smb", "__smb_"),
    ("smb2", "__smb2_"),
    ("xpv", "__xpv_"),
    ("fc", "__fc_"),
    ("srp", "__srp_"),
    ("sysevent", "__sysevent_"),
];
