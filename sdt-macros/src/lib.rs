//! The procedural macros behind sdt-core.
