//! The rights of a consumer.

use sdt_core::ops::Privileges;

/// The rights that a host grants a consumer; a server (feature `server`) grants those of its line. They have the meaning of
/// DTrace's `PRIV_DTRACE_PROC`, `PRIV_DTRACE_USER` and `PRIV_DTRACE_KERNEL` in `dtrace_cred2priv`, `dtrace_match_priv` and
/// `dtrace_priv_probe` of illumos's `usr/src/uts/common/dtrace/dtrace.c`.
///
/// - `KERNEL`: all of the kernel's memory and addresses. It includes `USER`.
/// - `USER`: processes. The consumer can list and enable probes whose provider has this privilege, but their hits count only
///   in user mode, as the provider's `usermode` op returns.
/// - `PROC`: the same, for providers that have this privilege.
/// - `OWNER`, `ZONEOWNER`: the consumer counts as the owner of any process or zone, because the framework does not record owners.
///
/// A consumer can neither list nor enable a probe that it may not use. Any right is enough for a provider without privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rights {
    privileges: Privileges,
    destructive: bool,
    functions: bool,
}

impl Rights {
    /// All rights: for the kernel's own consumers, and for lines that only trusted users reach.
    pub const ALL: Self =
        Self { privileges: Privileges::all(), destructive: true, functions: true };

    /// No rights: the consumer cannot open the framework.
    pub const NONE: Self =
        Self { privileges: Privileges::empty(), destructive: false, functions: false };

    /// Returns rights with these privileges, without destructive actions, and without the right to trace functions.
    pub const fn new(privileges: Privileges) -> Self {
        let user = if privileges.contains(Privileges::KERNEL) {
            Privileges::USER
        } else {
            Privileges::empty()
        };
        Self { privileges: privileges.union(user), ..Self::NONE }
    }

    /// Adds the right to destructive actions.
    #[must_use]
    pub const fn with_destructive(self) -> Self {
        Self { destructive: true, ..self }
    }

    /// Adds the right to send functions to trace, on hosts that [let](crate::Dtrace::register_functions) consumers do so. It also
    /// needs `KERNEL`.
    ///
    /// The kernel checks each function that a consumer sends, but it cannot know where instructions begin. On x86_64,
    /// and on riscv64 with instructions of 2 bytes, a consumer that sends false data can make the kernel replace the
    /// middle of an instruction. This can crash the kernel or change its behaviour. Therefore grant this right only to
    /// consumers that may control the kernel.
    #[must_use]
    pub const fn with_functions(self) -> Self {
        Self { functions: true, ..self }
    }

    /// Returns whether the consumer may send functions to trace.
    pub const fn functions(self) -> bool {
        self.functions && self.kernel()
    }

    /// Returns the privileges.
    pub const fn privileges(self) -> Privileges {
        self.privileges
    }

    /// Returns whether the consumer may read kernel memory and kernel addresses.
    pub const fn kernel(self) -> bool {
        self.privileges.contains(Privileges::KERNEL)
    }

    /// Returns whether the consumer may read the properties of the current process.
    pub const fn process(self) -> bool {
        self.any()
    }

    /// Returns whether destructive actions are allowed.
    pub const fn destructive(self) -> bool {
        self.destructive
    }

    /// Returns whether the consumer has any right to trace.
    pub(crate) const fn any(self) -> bool {
        self.privileges
            .intersects(Privileges::KERNEL.union(Privileges::USER).union(Privileges::PROC))
    }

    /// Returns whether the consumer may use probes whose provider has these privileges (`dtrace_match_priv`).
    pub(crate) const fn may_use(self, provider: Privileges) -> bool {
        let matching = self.privileges.intersection(provider);
        let owners = Privileges::OWNER.union(Privileges::ZONEOWNER);
        self.any()
            && (provider.is_empty() || !matching.is_empty())
            && !provider.difference(matching).intersects(owners)
    }

    /// Encodes the rights in one word.
    pub(crate) const fn to_word(self) -> u32 {
        self.privileges.bits()
            | if self.destructive { Self::DESTRUCTIVE } else { 0 }
            | if self.functions { Self::FUNCTIONS } else { 0 }
    }

    /// Decodes the result of [`to_word`](Self::to_word).
    pub(crate) const fn from_word(word: u32) -> Self {
        let privileges = Privileges::from_bits_truncate(word);
        let (destructive, functions) = (word & Self::DESTRUCTIVE, word & Self::FUNCTIONS);
        Self { privileges, destructive: destructive != 0, functions: functions != 0 }
    }

    /// The bit for destructive actions, which no privilege uses.
    const DESTRUCTIVE: u32 = 1 << 31;

    /// The bit for functions, which no privilege uses.
    const FUNCTIONS: u32 = 1 << 30;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_used() {
        let (kernel, user, process) = (Privileges::KERNEL, Privileges::USER, Privileges::PROC);
        let (owner, none) = (Privileges::OWNER, Privileges::empty());
        let cases = [
            (Rights::ALL, Privileges::all(), true),
            (Rights::NONE, none, false),
            (Rights::NONE, user, false),
            (Rights::new(owner), owner, false),
            (Rights::new(process), none, true),
            (Rights::new(process), user, false),
            (Rights::new(process), process | user, true),
            (Rights::new(process), process | owner, false),
            (Rights::new(process | owner), process | owner, true),
            (Rights::new(user), user, true),
            (Rights::new(user), kernel, false),
            (Rights::new(kernel), kernel, true),
            (Rights::new(kernel), user, true),
            (Rights::new(kernel), process, false),
        ];
        for (rights, provider, may) in cases {
            assert_eq!(rights.may_use(provider), may, "{rights:?} {provider:?}");
        }
    }

    #[test]
    fn a_word_keeps_them() {
        for bits in 0..=Privileges::all().bits() {
            let rights = Rights::new(Privileges::from_bits_truncate(bits));
            let all = rights.with_destructive().with_functions();
            for rights in [rights, rights.with_destructive(), rights.with_functions(), all] {
                assert_eq!(Rights::from_word(rights.to_word()), rights);
            }
        }
    }
}
