//! The procedural macros behind `sdt-core`. Use them through that crate, which they refer to by its
//! name.
//!
//! Expansion goes in two steps, because only the provider knows which probes it has. `sdt_probe!`
//! splits its path and calls the macro that `sdt_provider!` has left in the provider's module; that
//! adds the declaration and calls [`__sdt_expand!`](macro@__sdt_expand), which has everything at hand.
//! Nothing here depends on an architecture: the macros run on the build host and know nothing of the
//! target, so what differs is chosen by `cfg` in `sdt-core`.

use proc_macro::TokenStream;

mod attributes;
mod configured;
mod ctype;
mod krtld;
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
/// # Stability and privileges
///
/// A provider of its own, and one of a kernel without DTrace, says how much its names can be relied on, as D
/// does: stability of the name, stability of the data, dependency class. What is left out is as FreeBSD
/// has it for all SDT providers.
///
/// ```
/// sdt_core::sdt_provider! {
///     #[stability(provider = "Stable/Stable/Common", args = "Evolving/Evolving/ISA")]
///     #[privileges(kernel)]
///     pub disk {
///         fn full(bytes: u64);
///     }
/// }
/// # fn main() {}
/// ```
///
/// The parts are `provider`, `module`, `function`, `name` and `args`; stabilities `Internal`, `Private`,
/// `Obsolete`, `External`, `Unstable`, `Evolving`, `Stable` and `Standard`; classes `Unknown`, `CPU`, `Platform`,
/// `Group`, `ISA` and `Common`; privileges `kernel`, `user` (the default), `proc`, `owner` and `zoneowner`.
///
/// On the native routes it is the kernel's sdt that registers the provider, with what it gives to all of
/// its providers: there both are accepted and have no effect.
///
/// # Translated arguments
///
/// `#[translated("...")]` on an argument names the C type that `args[]` has in D, where a `translator` for it
/// exists: `fn start(#[translated("bufinfo_t *")] bio: &Bio);`
///
/// # Conditions and other attributes
///
/// A probe with a `#[cfg(...)]` that does not hold is not there: firing it is the compile error that an unknown probe is.
///
/// ```
/// sdt_core::sdt_provider! {
///     pub disk {
///         fn full(bytes: u64);
///         #[cfg(target_os = "freebsd")]
///         fn geom(sectors: u64);
///         #[deprecated(note = "fire `full`")]
///         fn out_of_space();
///     }
/// }
/// # fn main() {}
/// ```
///
/// `#[deprecated]` warns where the probe is fired; `#[allow]`, `#[warn]` and `#[deny]` are for all that is made of it.
/// `#[cfg]` and `#[cfg_attr]` can be on the provider, too.
///
/// # Names
///
/// Names that DTrace would cut (63 bytes) or that collide with a reserved one are compile errors.
#[proc_macro]
pub fn sdt_provider(input: TokenStream) -> TokenStream {
    provider::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The second step of `sdt_provider!` where a provider has conditions. No part of the interface.
#[doc(hidden)]
#[proc_macro_derive(__SdtProvider, attributes(__sdt, name, stability, privileges))]
pub fn __sdt_provider(input: TokenStream) -> TokenStream {
    provider::expand_configured(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Gives a struct the C name by which D knows it, so that probes carry references and pointers to it, and leaves a
/// description of its layout in the module, of which `cargo xtask dlib` makes a D library.
///
/// ```
/// use core::ffi::c_char;
/// use sdt_core::arg::CType;
///
/// /// For D: `struct packet_header`.
/// #[derive(CType)]
/// #[repr(C)]
/// struct PacketHeader {
///     len: u32,
///     name: [c_char; 16],
///     next: *const PacketHeader,
/// }
///
/// /// For D: `packet_t`.
/// #[derive(CType)]
/// #[repr(C)]
/// #[c_name = "packet_t"]
/// struct Packet {
///     header: PacketHeader,
///     #[c_name = "proto"]
///     protocol: u16,
/// }
/// # fn main() {}
/// ```
///
/// The struct has C's layout, `#[repr(C)]`, and names for all of its fields; it has no type parameters and is declared
/// in a module, not in a function. What its fields can be is said of `sdt_core::layout::CField`.
#[proc_macro_derive(CType, attributes(c_name))]
pub fn derive_c_type(input: TokenStream) -> TokenStream {
    ctype::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
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
