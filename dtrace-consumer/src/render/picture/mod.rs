//! Pictures of a trace: flame graphs, heat maps, timelines.

mod flame;
mod heat;
mod perfetto;
mod slices;

use std::io;

pub use flame::flame_graph;
pub use heat::HeatMap;
pub use perfetto::Perfetto;
pub use slices::{SliceError, SliceRule};

/// Why a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// No aggregation has a stack among its keys and a value above zero.
    #[error("no aggregation has a stack() or ustack() among its keys and a value above zero")]
    NoStacks,
    /// Stacks were aggregated, and none has a frame.
    #[error(
        "the aggregated stacks have no frames: the host cannot walk stacks of this kind (stack() walks the kernel's, ustack() the \
         process's)"
    )]
    NoFrames,
    /// The sum of the values is too large for the width of a flame graph.
    #[error(
        "the sum of the aggregated values exceeds 2^63 - 1: aggregate smaller units, such as microseconds"
    )]
    TooLarge,
    /// No aggregation is a distribution.
    #[error("no quantize(), lquantize() or llquantize() was aggregated")]
    NoDistribution,
    /// Drawing failed.
    #[error("cannot draw: {0}")]
    Draw(String),
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] io::Error),
}
