//! The costs of a kernel's functions.

/// The costs of functions of a [`Kernel`](super::Kernel), in units of the budget of a hit. A unit is about a nanosecond on a
/// current processor; the budget is [`Host::BUDGET`](crate::Host::BUDGET) units. A host whose functions make system calls states their
/// duration here, so that no program holds its caller for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Costs {
    /// One call of [`load`](super::Kernel::load) for any length, with [`is_toxic`](super::Kernel::is_toxic).
    pub load: u32,
    /// One call of [`copyin`](super::Kernel::copyin) or [`copyout`](super::Kernel::copyout).
    pub user: u32,
    /// Finding the first frame: one call of [`stack`](super::Kernel::stack) or [`ustack`](super::Kernel::ustack).
    pub stack: u32,
    /// Each frame that these return.
    pub frame: u32,
}

impl Costs {
    /// The default of [`Host::BUDGET`](crate::Host::BUDGET), the budget of all clauses of all consumers at one hit.
    pub const BUDGET: u32 = 1 << 22;

    /// The costs of a kernel that checks ranges, loads, and follows frame pointers.
    pub const DEFAULT: Self = Self { load: 32, user: 64, stack: 128, frame: 32 };
}

impl Default for Costs {
    fn default() -> Self {
        Self::DEFAULT
    }
}
