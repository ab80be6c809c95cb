//! The procedural macros behind `sdt-core`. Use them through that crate, which they refer to by its
//! name.
//!
//! Expansion goes in two steps, because only the provider knows which probes it has. `sdt_probe!`
//! splits its path and calls the macro that `sdt_provider!` has left in the provider's module; that
//! adds the declaration and calls [`__sdt_expand!`](macro@__sdt_expand), which has everything at hand.
//! Nothing here depends on an architecture: the macros run on the build host and know nothing of the
//! target, so what differs is chosen by `cfg` in `sdt-core`.

use proc_macro::TokenStream;

mod locals;
mod names;
mod provider;
mod site;

/// Declares a provider.
///
/// Open, when probes are declared where they fire:
///
/// ```
/// sdt_core::sdt_provider!(proc);
/// ```
///
/// Declared, when they are typed, documented and checked:
///
/// ```
/// use core::ffi::CStr;
///
/// sdt_core::sdt_provider! {
///     /// Process lifecycle.
///     pub proc {
///         /// A new image has been loaded.
///         fn exec_success(path: &CStr);
///
///         /// Listed with its underscore: `proc:::exec_done`.
///         #[name = "exec_done"]
///         fn exec_done(pid: u32, status: i32);
///     }
/// }
/// # fn main() {}
/// ```
///
/// Where a crate among the dependencies has the provider's name, say which is meant:
/// `sdt_probe!(self::proc::exec_success, path)`.
///
/// Types are looked up where the provider is declared, so that has to be in a module, not in a function.
///
/// Both become a module of the provider's name. In DTrace the provider has the name as it is written; a
/// probe's name has a `-` for every `_` and every `__`. Argument types are those that implement
/// `sdt_core::arg::Argument`, six at most.
///
/// Names that DTrace would cut (63 bytes) or that collide with a reserved one are compile errors.
#[proc_macro]
pub fn sdt_provider(input: TokenStream) -> TokenStream {
    provider::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A firing site: `sdt_probe!(proc::exec_success, path);`
///
/// While the probe is disabled this is one nop. While it is enabled, the arguments are evaluated, once
/// and in order, and handed to the framework; what they borrow lives until recording has ended.
///
/// An argument that calls something is compiled as a function of its own, so that it costs the hot path
/// nothing either. It may read and borrow local variables, not move out of them. One that changes a local
/// or leaves the firing function (`return`, `?`, `break`) is evaluated in place, which is right but may
/// cost the hot path a few instructions.
#[proc_macro]
pub fn sdt_probe(input: TokenStream) -> TokenStream {
    site::forward(input.into(), site::Kind::Fire)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Whether a probe is enabled: `if sdt_enabled!(proc::exec_success) { ... }`
///
/// A patched site like `sdt_probe!`: no load and no test while the probe is disabled.
#[proc_macro]
pub fn sdt_enabled(input: TokenStream) -> TokenStream {
    site::forward(input.into(), site::Kind::Enabled)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The second step of `sdt_probe!` and `sdt_enabled!`. No part of the interface.
#[doc(hidden)]
#[proc_macro]
pub fn __sdt_expand(input: TokenStream) -> TokenStream {
    site::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
