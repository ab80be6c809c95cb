//! Any.
