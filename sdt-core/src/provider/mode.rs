//! How an enabled site leads to its cold block.

/// What an enabled site does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A breakpoint exception. Works everywhere.
    #[default]
    Trap,
    /// A jump, where the cold block is within reach of one; a breakpoint exception elsewhere.
    Jump,
}

impl Mode {
    /// What the build chose by `SDT_PATCH`.
    pub const BUILT: Self = if cfg!(sdt_patch = "jump") { Self::Jump } else { Self::Trap };
}
