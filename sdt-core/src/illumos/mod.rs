//! illumos: the routes by which a module's probes reach its kernel's DTrace, and the parts of the kernel's module
//! interface that a module in Rust needs. x86_64.

#[cfg(sdt_route = "illumos")]
pub mod native;
