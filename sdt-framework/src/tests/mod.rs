//! Tests of what is not seen from outside.

mod ring;
mod scale;
