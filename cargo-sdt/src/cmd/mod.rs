//! The commands, one in each module.

pub mod check;
pub mod dlib;
pub mod kmod;
pub mod new;
