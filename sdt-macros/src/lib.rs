//! The procedural macros behind `sdt-core`: [`sdt_provider!`](macro@sdt_provider), [`sdt_probe!`](macro@sdt_probe),
//! [`sdt_enabled!`](macro@sdt_enabled) and `#[derive(CType)]` and
//! `#[derive(Argument)]`. Use them through that crate.
//!
//! # What this is
//!
//! Expansion has two steps, because only the provider knows its probes. `sdt_probe!` splits its path and calls the
//! macro that `sdt_provider!` defined in the provider's module. That macro has a rule for each probe, which adds the
//! declaration of the probe and calls [`__sdt_expand!`](macro@__sdt_expand). So the time to compile a site does not
//! depend on the number of probes.
//!
//! The provider also knows the path of `sdt-core`: the provider's module re-exports it as `__sdt`, and the expansion of
//! a site uses this path only.
//!
//! # What it is not
//!
//! Nothing here depends on an architecture: the macros run on the build host and do not know the target, so `cfg`s in
//! `sdt-core` select the differences. All code that runs in the program is also in `sdt-core`.
//!
//! # Where to read on
//!
//! Each macro documents its syntax. `provider` and `site` contain their expansions, and `locals` decides how an
//! argument is evaluated. The code of a site is in `arch` of `sdt-core`.

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
/// An open provider, whose probes are declared by the sites that fire them:
///
/// ```
/// sdt_core::sdt_provider!(proc);
/// ```
///
/// A provider with declared probes, which are typed, documented and checked:
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
/// If a dependency of the crate has the name of the provider, write `sdt_probe!(self::proc::exec_success, path)`.
///
/// Both expand to a module with the name of the provider. In DTrace, the provider has the same name; the name of a
/// probe has a `-` for every `_` and every `__`. (illumos's own sdt knows some providers, such as `proc` and `io`, and
/// lists the probes of all others under `sdt`, with the name of the provider before that of the probe: `disk::full` is
/// `sdt:::disk-full`. Probes of a provider named `sdt` keep their names.) Argument types must implement
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
/// Arguments of two words (`&str`, slices, 128-bit integers, numbers in an `Option`) count as two. More arguments are a
/// compile error at the declaration. A declaration can depend on the limit: build scripts of crates that depend on
/// `sdt-core` find it in `DEP_SDT_CORE_ARGS`, and can set a `cfg`.
///
/// # Names in a declaration
///
/// The types of arguments are resolved inside the provider's module, which imports everything in scope at the
/// declaration. In a path, `self` is the provider's module, and `super` the module that declares the provider. Names
/// that are only in scope in a function are not found: declare a provider in a module. The names of arguments are
/// documentation: any name is allowed, including that of a probe and a keyword (`r#type`).
///
/// # Where `sdt-core` is
///
/// The macros expect a dependency of that name. A crate that renames it, or gets it from a crate that re-exports it,
/// states the path first:
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
/// Only declarations state it; `sdt_probe!` and `sdt_enabled!` get it from the provider. The path must be visible
/// wherever the provider is: for a `pub` provider it must be public. For `#[derive(CType)]` write `#[c_type(crate =
/// path)]`. A crate that re-exports `sdt-core` can define a macro so that its users do not need the path:
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
/// A provider can declare its stability in D's terms: stability of the name, stability of the data, and dependency
/// class. Missing parts have the values that FreeBSD gives all SDT providers.
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
/// On the native routes, the kernel's sdt registers the provider with its own values for all providers: there both
/// attributes are accepted without effect.
///
/// # C types of arguments
///
/// The Rust type of an argument determines its C type. A declaration can set another one with `as`, which is necessary
/// for a pointer to a type without a C name; and with `=>` the type of `args[]` in D, if a `translator` for it exists:
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
/// On illumos's native route arguments have no types, and both are only checked.
///
/// # From a D provider file
///
/// If C and Rust fire the same probes, both can use one file, in the format of `dtrace -h`:
///
/// ```ignore
/// sdt_core::sdt_provider!(pub include "proc.d");
/// ```
///
/// The path is relative to the folder of the source file, as in `include!`. The crate is compiled again when the file
/// changes. `sdt-build` documents the treatment of C's types, names and pragmas; use its `Builder` for files that build
/// scripts generate. An error in the file is a compile error with its line and column.
///
/// # Conditions and other attributes
///
/// A probe with a false `#[cfg(...)]` does not exist: firing it is a compile error, like firing an unknown probe.
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
/// `#[deprecated]` warns at the sites; `#[allow]`, `#[warn]` and `#[deny]` apply to the whole expansion of the
/// declaration. `#[cfg]` and `#[cfg_attr]` can be on the provider, too.
///
/// # Names
///
/// Names longer than DTrace's limit of 63 bytes are compile errors, and so are names of the kernel's providers:
/// `dtrace`, `profile`, `pid` with a number, and on FreeBSD and illumos those of their other providers, `fbt`,
/// `syscall` and so on. The name of a provider must not begin or end with an underscore, or contain two in a row, so
/// that it can precede a probe's name. Where illumos joins both names, they have together at most 63 bytes, too.
#[proc_macro]
pub fn sdt_provider(input: TokenStream) -> TokenStream {
    provider::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The second step of `sdt_provider!` for a provider with conditions. Not part of the interface.
#[doc(hidden)]
#[proc_macro_derive(__SdtProvider, attributes(__sdt, name, stability, privileges))]
pub fn __sdt_provider(input: TokenStream) -> TokenStream {
    provider::expand_configured(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Gives a type a C name for D, so that references and pointers to it can be arguments of probes, and adds a
/// description of its layout to the image, from which `cargo sdt dlib` makes a D library.
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
/// A struct must have `#[repr(C)]` and named fields, no type parameters, and be declared in a module, not in a
/// function. `sdt_core::layout::CField` lists the types that its fields can have.
///
/// # Opaque types
///
/// Use `#[c_type(opaque)]` for unions, and for structs and enums with Rust's layout: D knows only their size.
///
/// # Enums
///
/// An enum without data and with `#[repr(u8)]` or another integer is that integer in memory; D knows its constants by
/// name if it also derives [`Argument`](derive@Argument). An enum with data and `#[repr(C)]`, `#[repr(u8)]` or both is
/// a union of its `tag`, and of a struct for each variant with data, named after the variant in snake case or by its
/// `#[c_name = "..."]`. Fields without names are `_0`, `_1`. The values of the tag have names, too.
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
/// `/args[0]->tag == ADDRESS_V6/ { trace(args[0]->v6.zone); }`, and `args[0]->v4._0[3]`. The tag selects the valid
/// member; the value of another variant's field is undefined in D.
///
/// # Numbers as parameters
///
/// A struct or an enum with constant parameters has them in its name, and is described for the values that `describe`
/// lists:
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
/// `#[c_type(crate = path)]` sets the path of `sdt-core`, if it is not `::sdt_core`.
#[proc_macro_derive(CType, attributes(c_name, c_type))]
pub fn derive_c_type(input: TokenStream) -> TokenStream {
    ctype::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a newtype or an enum without data an argument that probes pass by value.
///
/// A struct with one field is passed and listed as that field; `#[c_name = "port_t"]` gives it another C type. An enum
/// is passed as its number and listed as `enum link_state`, or by its `#[c_name = "..."]`. The image contains the names
/// of its constants, `LINK_STATE_UP` for `LinkState::Up` or their `#[c_name = "..."]`, from which `cargo sdt dlib`
/// makes a D library. The values must fit into a C `int`, and names of constants are global in D. D treats an enum's
/// value as unsigned, so compare a negative one as `(int)arg0`.
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
/// `#[c_type(crate = path)]` sets the path of `sdt-core`, if it is not `::sdt_core`.
#[proc_macro_derive(Argument, attributes(c_name, c_type))]
pub fn derive_argument(input: TokenStream) -> TokenStream {
    derive::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Adds D text to the image: translators from structs that its probes pass, and types and inlines that these need.
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
/// A host of `sdt-framework` passes the text to consumers, with the image's [structs and enums](derive@CType), and
/// their compiler reads it. No file is installed, and two modules may have different translators of one name: for a
/// module's probes, its own come first. For FreeBSD and illumos, `cargo sdt dlib` adds the text to the D library.
///
/// The text is D (Dynamic Tracing Guide, "Translators") without clauses and options. `dtrace` reports errors in it with
/// the line, when it compiles a program for a probe of the module.
///
/// A leading `crate = path;` sets the path of `sdt-core`, if it is not `::sdt_core`.
#[proc_macro]
pub fn sdt_translator(input: TokenStream) -> TokenStream {
    translator::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A firing site: `sdt_probe!(proc::exec_success, path);`
///
/// While the probe is disabled, this is one nop. While it is enabled, the arguments are evaluated, once and in order,
/// and passed to the framework. Their temporaries live until recording has ended.
///
/// An argument with a call is compiled as a separate function, so that it also costs the hot path nothing. It may read
/// and borrow local variables, but not move out of them. An argument that visibly changes a local or leaves the firing
/// function (`return`, `?`, `break`) is evaluated in place, which is correct but may cost the hot path a few
/// instructions. `sdt_probe!` cannot see into a macro in an argument: if that macro returns or breaks out of the
/// function, this is a compile error that names `AMacroInAnArgumentMustNotReturn` or a closure. Evaluate it before the
/// probe then.
///
/// Text and slices are passed as address and length. `sdt_core::arg::show(err)` passes the text of `Display`, and
/// `json(&value)` that of `serde`, in a buffer of fixed size and only while the probe is enabled.
///
/// Names have the same meaning as outside of the macro. `&x` is the address of `x` itself, and is valid as long as `x`.
/// If a method borrows from a local that is `Copy` (`x.as_ptr()`), this may be a copy, which lives until recording has
/// ended.
///
/// # Requirements of a call in an argument
///
/// An argument with a call uses the whole of each local variable that it names, not only a field: the local must not be
/// partly moved, or borrowed exclusively elsewhere. Its type must be known at the probe, not only after it. So the
/// compiler may refuse an expression that is valid elsewhere: the local is borrowed (E0502) or partly moved (E0382), or
/// a type must be `Copy` (E0277, E0599). Remedies: take the address of the place in the argument, `*&self.count`, which
/// borrows only the field; or write the type of the local at its declaration.
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
/// An argument must not panic. In programs, an argument that is evaluated in place unwinds as usual. An argument that
/// is compiled as a separate function cannot unwind through the thunk that called it: the process aborts (`failed to
/// initiate panic`), and `catch_unwind` does not prevent this. Do not rely on which of the two an argument is.
///
/// # Unsafe code
///
/// Unsafe operations need `unsafe` here, too: `sdt_probe!(net::sent, unsafe { bytes_of(queue) })`.
#[proc_macro]
pub fn sdt_probe(input: TokenStream) -> TokenStream {
    site::forward(input.into(), site::Kind::Fire)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Returns whether a probe is enabled: `if sdt_enabled!(proc::exec_success) { ... }`
///
/// It is a patched site like `sdt_probe!`: no load and no test while the probe is disabled.
///
/// It can also test whether any of several probes is enabled: `sdt_enabled!(proc::*)` for all probes of a declared
/// provider, `sdt_enabled!(proc::{start, exit})` for a list of probes of any provider.
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
///     // Look up data that both probes need.
/// }
/// if sdt_core::sdt_enabled!(disk::*) {
///     // Do this if any probe of the provider is enabled.
/// }
/// # }
/// ```
///
/// On the provider route this is one site for any number of probes. The kernel's own sdt does not support groups, so on
/// the native route it is one site for each probe.
#[proc_macro]
pub fn sdt_enabled(input: TokenStream) -> TokenStream {
    site::forward(input.into(), site::Kind::Enabled)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The second step of `sdt_enabled!` of several probes. Not part of the interface.
#[doc(hidden)]
#[proc_macro]
pub fn __sdt_expand_group(input: TokenStream) -> TokenStream {
    group::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The second step of `sdt_probe!` and `sdt_enabled!`. Not part of the interface.
#[doc(hidden)]
#[proc_macro]
pub fn __sdt_expand(input: TokenStream) -> TokenStream {
    site::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
