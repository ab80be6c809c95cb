//! What functions of a kernel cost.

/// What functions of a [`Kernel`](super::Kernel) cost, in units of the budget that a hit has. A unit is about a nanosecond of a
/// current processor's, and the budget is [`BUDGET`](Self::BUDGET) of them: a host whose functions make system calls says here
/// how many nanoseconds these take, so that no program holds its caller for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Costs {
    /// One call of [`load`](super::Kernel::load), whatever its length, with [`is_toxic`](super::Kernel::is_toxic).
    pub load: u32,
    /// One call of [`copyin`](super::Kernel::copyin) or [`copyout`](super::Kernel::copyout).
    pub user: u32,
    /// Finding the first frame: one call of [`stack`](super::Kernel::stack) or [`ustack`](super::Kernel::ustack).
    pub stack: u32,
    /// Each frame that these return.
    pub frame: u32,
}

impl Costs {
    /// What all clauses of all consumers may do at one hit, in these units.
    pub const BUDGET: u32 = 1 << 22;

    /// Of a kernel that looks at ranges and loads, and follows frame pointers.
    pub const DEFAULT: Self = Self { load: 32, user: 64, stack: 128, frame: 32 };
}

impl Default for Costs {
    fn default() -> Self {
        Self::DEFAULT
    }
}
