//! The procedural macros behind `sdt-core`: [`sdt_provider!`](macro@sdt_provider), [`sdt_probe!`](macro@sdt_probe),
//! [`sdt_enabled!`](macro@sdt_enabled) and `#[derive(CType)]` and
//! `#[derive(Argument)]`. Use them through that crate.
//!
//! # What this is
//!
//! Expansion goes in two steps, because only the provider knows which probes it has. `sdt_probe!`
//! splits its path and calls the macro that `sdt_provider!` has left in the provider's module. That has a rule for
//! each probe, which adds the provider's knowledge of it and calls [`__sdt_expand!`](macro@__sdt_expand). So a site costs
//! the same to compile, however many others there are.
//!
//! Where `sdt-core` is, the provider knows, too: as `__sdt` it is in the provider's module, and all that a site expands
//! to is reached through that.
//!
//! # What it is not
//!
//! Nothing here depends on an architecture: the macros run on the build host and know nothing of the
//! target, so what differs is chosen by `cfg` in `sdt-core`. There, too, is everything that is there when the program runs.
//!
//! # Where to read on
//!
//! What users write is documented at each macro. `provider` and `site` are their expansions, `locals` what decides how an
//! argument is evaluated; the site itself is `sdt-core`'s `arch`.

use proc_macro::TokenStream;

mod argument;
mod attributes;
mod c_names;
mod configured;
mod ctype;
mod data_enum;
mod derive;
mod describe;
mod group;
mod include;
mod krate;
mod krtld;
mod locals;
mod names;
mod provider;
mod site;
mod translator;
mod unknown;

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
/// Both become a module of the provider's name. In DTrace the provider has the name as it is written; a
/// probe's name has a `-` for every `_` and every `__`. (illumos's own sdt knows some providers, as `proc` and `io`, and lists the
/// probes of all others as `sdt`'s. There the provider's name is in front of the probe's: `disk::full` is
/// `sdt:::disk-full`. Probes of a provider that is called `sdt` have their own names only.) Argument types are those that implement
/// `sdt_core::arg::Argument`.
///
/// # How many arguments
///
/// | where | |
/// |---|---|
/// | `sdt-framework`; illumos; FreeBSD with `SDT_ROUTE=provider` | ten |
/// | FreeBSD 15's own sdt, the default there | six |
/// | FreeBSD's own sdt before 15 | five |
///
/// What is two words (`&str`, slices, integers of 128 bits, numbers in an `Option`) counts as two. One more is a compile
/// error, at the declaration. A declaration can go by the number: build scripts of crates that depend on `sdt-core` find
/// it in `DEP_SDT_CORE_ARGS`, to make a `cfg` of it.
///
/// # Names in a declaration
///
/// The types of arguments are resolved inside the provider's module, which has everything that is in scope where the
/// provider is declared. So a type is named as it is named there; in a path, `self` is the provider's module and
/// `super` the one that it is declared in. What is only in scope in a function is not found: a provider is declared in
/// a module. The names of arguments are for who reads the declaration; any will do, that of a probe of the same
/// provider or a keyword (`r#type`), too.
///
/// # Where `sdt-core` is
///
/// The macros take it for a dependency of that name. A crate that has it by another name, or from a crate that hands it
/// on, says where, in front of everything else:
///
/// ```
/// mod framework {
///     pub use sdt_core as sdt;
/// }
///
/// sdt_core::sdt_provider! {
///     crate = crate::framework::sdt;
///     /// Process lifecycle.
///     pub proc {
///         fn exec_success(path: &core::ffi::CStr);
///     }
/// }
///
/// sdt_core::sdt_provider!(crate = crate::framework::sdt; open);
///
/// fn main() {
///     sdt_core::sdt_probe!(open::started);
/// }
/// ```
///
/// Only declarations say it; `sdt_probe!` and `sdt_enabled!` learn it from the provider. The path can be seen wherever
/// the provider can: for one that is `pub`, it is public. For `#[derive(CType)]` it is `#[c_type(crate = path)]`. A
/// crate that hands `sdt-core` on can spare its users even that, by a macro of its own:
///
/// ```
/// # pub use sdt_core as sdt;
/// #[macro_export]
/// macro_rules! provider {
///     ($($provider:tt)*) => {
///         $crate::sdt::sdt_provider! { crate = $crate::sdt; $($provider)* }
///     };
/// }
/// # provider!(open);
/// # fn main() {}
/// ```
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
/// # C types of arguments
///
/// An argument has the C type that its Rust type says. A declaration can say another one behind it, which is needed for a
/// pointer to what has no C name; and the one that `args[]` has in D, where a `translator` for it exists:
///
/// ```
/// struct Bio; // a binding, of another crate
///
/// sdt_core::sdt_provider! {
///     io {
///         fn start(bio: *const Bio as "struct bio *" => "bufinfo_t *");
///         fn done(error: i32 => "errno_t");
///     }
/// }
/// # fn main() {}
/// ```
///
/// On illumos's native route arguments have no types, and both are only looked at.
///
/// # From a D provider file
///
/// Where C and Rust fire the same probes, both have them from one file, as `dtrace -h` takes it:
///
/// ```ignore
/// sdt_core::sdt_provider!(pub include "proc.d");
/// ```
///
/// The path is from this file's folder, as of `include!`; the crate is compiled again when the file changes. `sdt-build`
/// documents the treatment of C's types, names and pragmas; its `Builder` does the same for files that build scripts make.
/// An error in the file is a compile error with its line and column.
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
/// Names that DTrace would cut (63 bytes) are compile errors, and so are names of providers that the kernel has:
/// `dtrace`, `profile`, `pid` with a number; and on FreeBSD and illumos those of their other providers, `fbt`, `syscall`
/// and so on. A provider's name does not begin or end with an underscore, and has no two in a row: so it can be in
/// front of a probe's name. Both together, where illumos has them so, have at most 63 bytes, too.
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

/// Gives a type the C name by which D knows it, so that probes carry references and pointers to it, and leaves a
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
/// A struct has C's layout, `#[repr(C)]`, and names for all of its fields; it has no type parameters and is declared
/// in a module, not in a function. `sdt_core::layout::CField` lists the types that its fields can have.
///
/// # What D need not look into
///
/// `#[c_type(opaque)]` is for unions, and for structs and enums that Rust lays out: D knows their size.
///
/// # Enums
///
/// An enum without data that has `#[repr(u8)]` or the like is that integer where it is in memory; D knows its constants by name if it
/// derives [`Argument`](derive@Argument) as well. One with data that has
/// `#[repr(C)]`, `#[repr(u8)]` or both is a union: of its `tag`, and of a struct for each variant with data, by the variant's name
/// in snake case or its `#[c_name = "..."]`. Fields without names are `_0`, `_1`. The tag's values have names, too.
///
/// ```
/// use sdt_core::arg::CType;
///
/// /// For D: `union address`.
/// #[derive(CType)]
/// #[repr(C, u16)]
/// enum Address {
///     V4([u8; 4]) = 4,
///     V6 { octets: [u8; 16], zone: u32 } = 6,
/// }
/// # fn main() {}
/// ```
///
/// `/args[0]->tag == ADDRESS_V6/ { trace(args[0]->v6.zone); }`, and `args[0]->v4._0[3]`. Which member is there the tag tells;
/// the value that D reads of another variant's field is undefined.
///
/// # Numbers as parameters
///
/// A struct or an enum with numbers as parameters has them in its name, and is described for those that `describe` lists:
///
/// ```
/// use core::ffi::c_char;
/// use sdt_core::arg::CType;
///
/// /// For D: `struct labels_2` and `struct labels_8`.
/// #[derive(CType)]
/// #[repr(C)]
/// #[c_type(describe(2, 8))]
/// struct Labels<const MOST: usize> {
///     len: usize,
///     entries: [*const c_char; MOST],
/// }
/// # fn main() {}
/// ```
///
/// `#[c_type(crate = path)]` says where `sdt-core` is, if not at `::sdt_core`.
#[proc_macro_derive(CType, attributes(c_name, c_type))]
pub fn derive_c_type(input: TokenStream) -> TokenStream {
    ctype::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a newtype or an enum without data an argument that probes carry by value.
///
/// A struct with one field is carried, and listed, as that field; `#[c_name = "port_t"]` gives it another C type. An enum
/// is carried as its number and listed as `enum link_state`, or by its `#[c_name = "..."]`; the names of its constants,
/// `LINK_STATE_UP` for `LinkState::Up` or by their `#[c_name = "..."]`, are left in the module, of which `cargo sdt dlib`
/// makes a D library. There they are numbers that a C `int` holds, and each name is one of all libraries. D takes an enum's value as
/// unsigned, so a negative one equals its constant as `(int)arg0` only.
///
/// ```
/// use sdt_core::arg::Argument;
///
/// #[derive(Argument)]
/// struct Port(u16);
///
/// #[derive(Argument)]
/// #[c_name = "link_state_t"]
/// enum LinkState {
///     Down,
///     #[c_name = "LINK_UP"]
///     Up = 5,
/// }
/// # fn main() {}
/// ```
///
/// `#[c_type(crate = path)]` says where `sdt-core` is, if not at `::sdt_core`.
#[proc_macro_derive(Argument, attributes(c_name, c_type))]
pub fn derive_argument(input: TokenStream) -> TokenStream {
    derive::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Text in D that travels with the probes: translators from structs that they carry, types and inlines that these need.
///
/// ```
/// use sdt_core::arg::CType;
/// use sdt_core::{sdt_provider, sdt_translator};
///
/// #[derive(CType)]
/// #[repr(C)]
/// struct Sale {
///     pence: u64,
/// }
///
/// sdt_provider! {
///     pub shop {
///         /// For D: `args[0]->pounds`.
///         fn sale(sale: &Sale => "saleinfo_t *");
///     }
/// }
///
/// sdt_translator! {"
///     typedef struct saleinfo { uint64_t pounds; } saleinfo_t;
///     translator saleinfo_t < struct sale *S > { pounds = S->pence / 100; };
/// "}
/// # fn main() {}
/// ```
///
/// A host of `sdt-framework` hands the text to consumers, with the image's [structs and enums](derive@CType). Their compiler
/// reads it; no file is installed, and two modules may have different translators of one name: for a module's own probes
/// its own come first. In modules of FreeBSD's and illumos's it is for `cargo sdt dlib`, which puts it into the D library.
///
/// The text is D (Dynamic Tracing Guide, "Translators"), without clauses and options. The compiler of a program for a probe
/// of the module reports errors in it, with the line.
///
/// `crate = path;` in front says where `sdt-core` is, if not at `::sdt_core`.
#[proc_macro]
pub fn sdt_translator(input: TokenStream) -> TokenStream {
    translator::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A firing site: `sdt_probe!(proc::exec_success, path);`
///
/// While the probe is disabled this is one nop. While it is enabled, the arguments are evaluated, once
/// and in order, and handed to the framework; what they borrow lives until recording has ended.
///
/// An argument that calls something is compiled as a function of its own, so that it costs the hot path
/// nothing either. It may read and borrow local variables, not move out of them. One that visibly changes a local
/// or leaves the firing function (`return`, `?`, `break`) is evaluated in place, which is right but may
/// cost the hot path a few instructions. A macro in an argument cannot be looked into: if it returns or breaks out of the
/// function, that is a compile error, which names `AMacroInAnArgumentMustNotReturn` or a closure; do it in front of the
/// probe then.
///
/// Text and slices are carried as address and length. What else has to be made of a value, `sdt_core::arg::show(err)` makes
/// of what `Display` says, and `json(&value)` by `serde`, in a buffer of fixed size and when the probe is enabled.
///
/// Names mean what they mean where they stand. `&x` is the address of `x` itself, and lives as long as `x` does. What a
/// method borrows of a local that is `Copy` (`x.as_ptr()`) may be a copy, which lives until recording has ended.
///
/// # What a call in an argument asks for
///
/// Of the local variables that an argument with a call names, all is used, and not only the field that is named:
/// the whole local must be there and not be borrowed exclusively elsewhere. And its type must be known at the probe, not
/// only further on. The compiler refuses what the same expression may do elsewhere: it says that the local is borrowed
/// (E0502), or partly moved (E0382), or that a type has to be `Copy` (E0277, E0599). The ways around: the place's address
/// in the argument, `*&self.count`, which borrows just the field; and the local's type where it is declared.
///
/// ```
/// sdt_core::sdt_provider!(queue);
///
/// struct Queue {
///     list: Vec<u64>,
///     count: u64,
/// }
///
/// fn scaled(count: u64) -> u64 {
///     count * 8
/// }
///
/// impl Queue {
///     fn walk(&mut self) {
///         for entry in self.list.iter_mut() {
///             // Not `scaled(self.count)`.
///             sdt_core::sdt_probe!(queue::entry, scaled(*&self.count));
///             *entry += 1;
///         }
///     }
/// }
///
/// fn main() {
///     Queue { list: vec![1], count: 2 }.walk();
///
///     let pair = (String::new(), 5);
///     drop(pair.0);
///     // Not `scaled(pair.1)`.
///     sdt_core::sdt_probe!(queue::rest, scaled(*&pair.1));
///
///     // Not `let mut last = None`.
///     let mut last: Option<String> = None;
///     for i in 0..2 {
///         sdt_core::sdt_probe!(queue::named, last.is_some());
///         last = Some(i.to_string());
///     }
/// }
/// ```
///
/// # Panics
///
/// An argument must not panic. In user-land hosts (a kernel's panic is the end anyhow), one that is evaluated in place
/// unwinds as it would anywhere. One that is compiled as a function of its own cannot unwind through the thunk that
/// called it: the process aborts (`failed to initiate panic`), and no `catch_unwind` prevents that. Which of the two an
/// argument is, is not to be relied on.
///
/// # Unsafe code
///
/// What needs `unsafe` needs it here, too: `sdt_probe!(net::sent, unsafe { bytes_of(queue) })`.
#[proc_macro]
pub fn sdt_probe(input: TokenStream) -> TokenStream {
    site::forward(input.into(), site::Kind::Fire)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Whether a probe is enabled: `if sdt_enabled!(proc::exec_success) { ... }`
///
/// A patched site like `sdt_probe!`: no load and no test while the probe is disabled.
///
/// Whether any of several is: `sdt_enabled!(proc::*)` of all that a declared provider has,
/// `sdt_enabled!(proc::{start, exit})` of those of any.
///
/// ```
/// sdt_core::sdt_provider! {
///     disk {
///         fn read(bytes: u64);
///         fn write(bytes: u64);
///         fn trim(sectors: u64);
///     }
/// }
///
/// # fn main() {
/// if sdt_core::sdt_enabled!(disk::{read, write}) {
///     // Look up what both of them tell.
/// }
/// if sdt_core::sdt_enabled!(disk::*) {
///     // What is done for anybody who traces any of it.
/// }
/// # }
/// ```
///
/// On the provider route that is one site, for any number of probes. The kernel's own sdt knows no groups, so on the native
/// route it is a site for each probe, one behind the other.
#[proc_macro]
pub fn sdt_enabled(input: TokenStream) -> TokenStream {
    site::forward(input.into(), site::Kind::Enabled)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The second step of `sdt_enabled!` of several probes. No part of the interface.
#[doc(hidden)]
#[proc_macro]
pub fn __sdt_expand_group(input: TokenStream) -> TokenStream {
    group::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The second step of `sdt_probe!` and `sdt_enabled!`. No part of the interface.
#[doc(hidden)]
#[proc_macro]
pub fn __sdt_expand(input: TokenStream) -> TokenStream {
    site::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
