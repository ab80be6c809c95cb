//! The modes of enabled sites: how control reaches the cold block.

/// The mode of an enabled site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A breakpoint exception. Works everywhere.
    #[default]
    Trap,
    /// A jump if the cold block is within the reach of a jump, otherwise a breakpoint exception.
    Jump,
}

impl Mode {
    /// The mode that `SDT_PATCH` selected in the build.
    pub const BUILT: Self = if cfg!(sdt_patch = "jump") { Self::Jump } else { Self::Trap };
}
