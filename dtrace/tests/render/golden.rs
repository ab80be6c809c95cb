//! Golden.
