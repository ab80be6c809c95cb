//! Pictures of what was traced.

mod flame;
mod heat;
mod perfetto;

use std::io;

pub use flame::flame_graph;
pub use heat::HeatMap;
pub use perfetto::Perfetto;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// No aggregation has stacks among its keys, with something to show.
    #[error("no aggregation has a stack() or ustack() among its keys and a value above zero")]
    NoStacks,
    /// Stacks were counted, but the host walks none of this kind.
    #[error(
        "stacks were counted, but none of them has a frame: what is traced walks no stacks, or none of this kind (stack() \
         is the kernel's, ustack() the process's)"
    )]
    NoFrames,
    /// No aggregation of this variable's is a distribution.
    #[error("no quantize(), lquantize() or llquantize() was aggregated")]
    NoDistribution,
    /// It could not be drawn.
    #[error("cannot draw: {0}")]
    Draw(String),
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}
