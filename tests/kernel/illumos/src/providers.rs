//! The providers of `sdt`, and the function that finds a probe's provider by the name of its symbol (`sdt_providers` of
//! `usr/src/uts/common/dtrace/sdt_subr.c`).

use alloc::string::String;
use core::ffi::CStr;

use sdt_core::ops::{Attribute, Class, Privileges, ProviderAttr, Stability};

/// A provider.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    /// The name of the provider.
    pub name: &'static CStr,
    /// The prefix of the names of its probes, after [`PREFIX`](super::PREFIX); empty for `sdt`.
    pub prefix: &'static str,
    /// The stability of its probes.
    pub attributes: ProviderAttr,
    /// The privileges that its consumers need.
    pub privileges: Privileges,
}

/// All providers, in the order in which `sdt` tries them. The last one matches all probes that no other matches.
pub const PROVIDERS: [Provider; 22] = {
    use Kind::*;
    [
        provider(c"vtrace", "__vtrace_", Vtrace),
        for_users(c"sysinfo", "__cpu_sysinfo_", Info),
        for_users(c"vminfo", "__cpu_vminfo_", Info),
        provider(c"fpuinfo", "__fpuinfo_", Fpu),
        for_users(c"sched", "__sched_", Stable),
        for_users(c"proc", "__proc_", Stable),
        provider(c"io", "__io_", Stable),
        provider(c"ip", "__ip_", Stable),
        provider(c"tcp", "__tcp_", Stable),
        provider(c"udp", "__udp_", Stable),
        provider(c"mib", "__mib_", Stable),
        provider(c"fsinfo", "__fsinfo_", Fsinfo),
        provider(c"iscsi", "__iscsi_", Protocol),
        provider(c"nfsv3", "__nfsv3_", Protocol),
        provider(c"nfsv4", "__nfsv4_", Protocol),
        provider(c"smb", "__smb_", Protocol),
        provider(c"smb2", "__smb2_", Protocol),
        provider(c"xpv", "__xpv_", Xpv),
        provider(c"fc", "__fc_", Protocol),
        provider(c"srp", "__srp_", Protocol),
        provider(c"sysevent", "__sysevent_", Stable),
        provider(c"sdt", "", Sdt),
    ]
};

/// Providers of equal stability.
#[derive(Clone, Copy)]
enum Kind {
    Vtrace,
    Info,
    Fpu,
    Fsinfo,
    Stable,
    Protocol,
    Xpv,
    Sdt,
}

const fn provider(name: &'static CStr, prefix: &'static str, kind: Kind) -> Provider {
    // The table in illumos has DTRACE_PRIV_NONE, which `sdt_attach` replaces by DTRACE_PRIV_KERNEL.
    Provider { name, prefix, attributes: attributes(kind), privileges: Privileges::KERNEL }
}

const fn for_users(name: &'static CStr, prefix: &'static str, kind: Kind) -> Provider {
    Provider { name, prefix, attributes: attributes(kind), privileges: Privileges::USER }
}

const fn attributes(kind: Kind) -> ProviderAttr {
    use Class::{Cpu, Isa, Platform, Unknown};
    use Stability::{Evolving, Private, Unstable};
    const fn both(stability: Stability, class: Class) -> Attribute {
        Attribute::new(stability, stability, class)
    }
    let (provider, name, args) = match kind {
        Kind::Vtrace => (both(Unstable, Isa), both(Private, Unknown), both(Unstable, Isa)),
        Kind::Info => (both(Evolving, Isa), both(Evolving, Isa), both(Private, Isa)),
        Kind::Fpu => (both(Evolving, Isa), both(Evolving, Cpu), both(Private, Isa)),
        Kind::Fsinfo => (both(Evolving, Isa), both(Private, Unknown), both(Evolving, Isa)),
        Kind::Stable => (both(Evolving, Isa), both(Evolving, Isa), both(Evolving, Isa)),
        Kind::Protocol => (both(Evolving, Isa), both(Private, Isa), both(Evolving, Isa)),
        Kind::Xpv => (both(Evolving, Platform), both(Private, Platform), both(Private, Platform)),
        Kind::Sdt => (both(Evolving, Isa), both(Private, Isa), both(Private, Isa)),
    };
    let module = both(Private, Unknown);
    ProviderAttr { provider, module, function: module, name, args }
}

/// Returns the index of a probe's provider and the name of the probe. `symbol` is the name of the symbol without the prefix.
pub fn name_of(symbol: &str) -> (usize, String) {
    let last = PROVIDERS.len() - 1;
    let index =
        PROVIDERS[..last].iter().position(|of| symbol.starts_with(of.prefix)).unwrap_or(last);
    // `replace` scans from left to right, so the last of three underscores remains.
    (index, symbol[PROVIDERS[index].prefix.len()..].replace("__", "-"))
}

#[cfg(test)]
#[allow(dead_code, reason = "one of them is not asked for here")]
#[path = "../../../../sdt-macros/src/krtld.rs"]
mod krtld;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_macros_and_the_check_know_the_same() {
        let (last, known) = PROVIDERS.split_last().unwrap();
        assert_eq!((last.name, last.prefix), (c"sdt", ""));
        let known: Vec<_> = known.iter().map(|of| (of.name.to_str().unwrap(), of.prefix)).collect();
        assert_eq!(known, krtld::PROVIDERS);
        assert_eq!(crate::PREFIX, krtld::PREFIX);
    }

    fn named(symbol: &str) -> (&'static str, String) {
        let (index, name) = name_of(symbol);
        (PROVIDERS[index].name.to_str().unwrap(), name)
    }

    #[test]
    fn symbols_tell_provider_and_name() {
        for (symbol, provider, name) in [
            ("__proc_exec__success", "proc", "exec-success"),
            ("foo__bar", "sdt", "foo-bar"),
            ("__cpu_vminfo_pgin", "vminfo", "pgin"),
            ("tcp__err", "sdt", "tcp-err"),
            ("a___b", "sdt", "a-_b"),
            ("a____b", "sdt", "a--b"),
            ("__odd", "sdt", "-odd"),
            ("__smb2_op", "smb2", "op"),
        ] {
            assert_eq!(named(symbol), (provider, name.to_string()), "{symbol}");
        }
    }

    #[test]
    fn users_may_use_four() {
        let users = PROVIDERS.iter().filter(|of| of.privileges.contains(Privileges::USER));
        let names: Vec<_> = users.map(|of| of.name.to_str().unwrap()).collect();
        assert_eq!(names, ["sysinfo", "vminfo", "sched", "proc"]);
    }
}
