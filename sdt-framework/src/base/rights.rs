//! What a consumer may do.

use sdt_core::ops::Privileges;

/// A consumer's rights, as its host gives them: for a server (feature `server`) those of the line. They are
/// DTrace's; what each opens is what `dtrace_cred2priv`, `dtrace_match_priv` and `dtrace_priv_probe` of illumos's
/// `usr/src/uts/common/dtrace/dtrace.c` make of `PRIV_DTRACE_PROC`, `PRIV_DTRACE_USER` and `PRIV_DTRACE_KERNEL`.
///
/// - `KERNEL`: all of the kernel's memory and addresses. It has `USER` in it.
/// - `USER`: what processes do, and what is known of them. Probes whose provider has that privilege are listed and enabled,
///   but a hit counts only if it was in user mode, as the provider's `usermode` says.
/// - `PROC`: the like, for providers that have that privilege.
/// - `OWNER`, `ZONEOWNER`: to be taken for the owner of any process, or of any zone, as the framework knows of none.
///
/// Probes that a consumer may not use are not there for it: it can neither list nor enable them. A provider
/// without privileges is anybody's who has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rights {
    privileges: Privileges,
    destructive: bool,
}

impl Rights {
    /// Everything: the kernel's own consumers, and lines that only those reach who may do everything.
    pub const ALL: Self = Self { privileges: Privileges::all(), destructive: true };

    /// Nothing. It cannot open the framework.
    pub const NONE: Self = Self { privileges: Privileges::empty(), destructive: false };

    /// These, to look and not to touch: destructive actions are apart.
    pub const fn new(privileges: Privileges) -> Self {
        let user = if privileges.contains(Privileges::KERNEL) {
            Privileges::USER
        } else {
            Privileges::empty()
        };
        Self { privileges: privileges.union(user), destructive: false }
    }

    /// These, and actions that change what they look at.
    #[must_use]
    pub const fn with_destructive(self) -> Self {
        Self { destructive: true, ..self }
    }

    /// What it may trace.
    pub const fn privileges(self) -> Privileges {
        self.privileges
    }

    /// Whether it may see all of the kernel's memory, and where things are in it.
    pub const fn kernel(self) -> bool {
        self.privileges.contains(Privileges::KERNEL)
    }

    /// Whether it may know which process runs, and what it is.
    pub const fn process(self) -> bool {
        self.any()
    }

    /// Whether it may change what it looks at.
    pub const fn destructive(self) -> bool {
        self.destructive
    }

    /// Whether it may do anything at all.
    pub(crate) const fn any(self) -> bool {
        self.privileges
            .intersects(Privileges::KERNEL.union(Privileges::USER).union(Privileges::PROC))
    }

    /// Whether probes are there for it whose provider has these privileges (`dtrace_match_priv`).
    pub(crate) const fn may_use(self, provider: Privileges) -> bool {
        let matching = self.privileges.intersection(provider);
        let owners = Privileges::OWNER.union(Privileges::ZONEOWNER);
        self.any()
            && (provider.is_empty() || !matching.is_empty())
            && !provider.difference(matching).intersects(owners)
    }

    /// In one word, as it is kept with a consumer.
    pub(crate) const fn to_word(self) -> u32 {
        self.privileges.bits() | if self.destructive { Self::DESTRUCTIVE } else { 0 }
    }

    /// What [`to_word`](Self::to_word) made.
    pub(crate) const fn from_word(word: u32) -> Self {
        let privileges = Privileges::from_bits_truncate(word);
        Self { privileges, destructive: word & Self::DESTRUCTIVE != 0 }
    }

    /// No privilege has this bit.
    const DESTRUCTIVE: u32 = 1 << 31;
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
            for rights in [rights, rights.with_destructive()] {
                assert_eq!(Rights::from_word(rights.to_word()), rights);
            }
        }
    }
}
