//! Conversion of names from Rust to DTrace, and their checks.

use dtrace_abi::freebsd::Generation;
use dtrace_abi::limits::{ARGUMENT_TYPE, MAX_NAME};
use proc_macro2::{Literal, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Error, Ident, LitCStr, LitStr, Result};

use crate::krtld;

/// The length in bytes of the longest C type of an argument, without the terminating zero.
const MAX_TYPE: usize = ARGUMENT_TYPE - 1;

/// The most arguments of a probe that every route carries: those of FreeBSD's sdt before 15. `sdt-core` checks larger
/// numbers against the route for which it is built.
pub(crate) const ALWAYS_CARRIED: usize = Generation::Tested.arguments();

/// Returns a name, as DTrace lists it, as a C string literal.
pub(crate) fn literal(name: &str, span: Span) -> TokenStream {
    let name = std::ffi::CString::new(name).expect("names made of identifiers hold no NUL");
    let literal = LitCStr::new(&name, span);
    quote!(#literal)
}

/// The names of a probe, in all forms that records need.
pub(crate) struct Names {
    /// The name in DTrace, a C string.
    pub(crate) listed: TokenStream,
    /// The name in C, a C string for records in Rust.
    pub(crate) c: TokenStream,
    /// The same as text, for records in assembly.
    pub(crate) text: Literal,
    /// A hash that identifies the probe in all crates.
    pub(crate) hash: Literal,
    /// The symbol of its record, with the hash, for routes on which the record must be unique.
    pub(crate) symbol: Literal,
    /// Provider, name and semaphore in SystemTap's notes.
    pub(crate) stap: TokenStream,
    /// The symbol that illumos's krtld recognises.
    pub(crate) krtld: Literal,
    /// The name under which illumos lists it.
    pub(crate) krtld_listed: String,
    /// Its line in a description of the module's probes: hash, symbol, provider and name, with tabs between them.
    pub(crate) described: Literal,
}

impl Names {
    /// Returns the names of the probe that DTrace lists as `name`.
    pub(crate) fn new(provider: &str, name: &str, span: Span) -> Self {
        let hash = hash(&format!("{provider}:{name}"));
        let krtld = krtld_symbol(provider, name);
        // Names in SystemTap notes are as in C, because users of tracers would have to quote a `-`.
        let (stap_name, semaphore) = (name.replace('-', "_"), format!("__sdt_semaphore_{hash}"));
        Self {
            listed: literal(name, span),
            c: literal(&c_name(name), span),
            text: Literal::string(&c_name(name)),
            hash: Literal::u64_unsuffixed(hash),
            stap: quote!(#provider #stap_name #semaphore),
            symbol: Literal::string(&format!("__sdt_probe_{hash}")),
            krtld_listed: krtld_name(provider, name),
            described: Literal::string(&format!("{hash}\t{krtld}\t{provider}\t{name}")),
            krtld: Literal::string(&krtld),
        }
    }
}

/// Returns the C name that FreeBSD's and illumos's sdt list as `name`: they replace every `__` by `-`, from left to
/// right.
fn c_name(name: &str) -> String {
    name.replace('-', "__")
}

/// Returns the prefix by which illumos's krtld recognises the probes of a provider, if it knows the provider.
fn krtld_prefix(provider: &str) -> Option<&'static str> {
    let known = krtld::PROVIDERS.iter().find(|(known, _)| *known == provider);
    known.map(|(_, prefix)| *prefix)
}

/// Returns the symbol that illumos's krtld turns into the probe. Neither names of probes nor of providers begin with an
/// underscore, so none is mistaken for a prefix.
fn krtld_symbol(provider: &str, name: &str) -> String {
    let prefix = krtld_prefix(provider).unwrap_or_default();
    format!("{}{prefix}{}", krtld::PREFIX, c_name(&krtld_name(provider, name)))
}

/// Returns the name under which illumos's sdt lists the probe. It lists probes of unknown providers under `sdt`: there
/// the name begins with that of the provider, so that probes of two providers cannot collide.
fn krtld_name(provider: &str, name: &str) -> String {
    if provider == krtld::OTHERS || krtld_prefix(provider).is_some() {
        name.to_owned()
    } else {
        format!("{provider}-{name}")
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns the provider's name in DTrace: the unchanged identifier. `sdt-core` checks which names the kernel reserves.
pub(crate) fn provider(ident: &Ident) -> Result<String> {
    let name = ident.unraw().to_string();
    if name.starts_with('_') || name.ends_with('_') || name.contains("__") {
        let message = format!(
            "the provider name `{name}` begins or ends with an underscore, or has two in a row: \
             illumos would read `__` as `-`, and a prefix such as `__proc_` as another provider; \
             choose another name"
        );
        return Err(Error::new(ident.span(), message));
    }
    check_text(&name, "provider", ident.span())?;
    Ok(name)
}

/// Returns the probe's name in DTrace: a `-` for every `__` and every other `_`.
pub(crate) fn probe(ident: &Ident) -> Result<String> {
    let rust = ident.unraw().to_string();
    if rust.starts_with('_') {
        let message = format!(
            "`{rust}` begins with an underscore: such names are reserved, as illumos reads a \
             prefix such as `__proc_` as a provider"
        );
        return Err(Error::new(ident.span(), message));
    }
    let name = rust.replace("__", "-").replace('_', "-");
    check_text(&name, "probe", ident.span())?;
    Ok(name)
}

/// Returns a probe's exact name from `#[name = "..."]`.
pub(crate) fn exact_probe(name: &str, span: Span) -> Result<String> {
    if name.is_empty() {
        return Err(Error::new(span, "the name of the probe is empty"));
    }
    if name.starts_with(['_', '-']) {
        return Err(Error::new(span, "the name of a probe must begin with a letter"));
    }
    let odd = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if let Some(pair) = ["__", "_-"].into_iter().find(|pair| name.contains(pair)) {
        let message = format!(
            "the name of a probe must not contain `{pair}`: FreeBSD and illumos read `__` as `-`, \
             from left to right"
        );
        return Err(Error::new(span, message));
    }
    if let Some(c) = name.chars().find(odd) {
        let message = format!(
            "the name of a probe can contain letters, digits, `_`, `-` and `.`, \
             but not {c:?}"
        );
        return Err(Error::new(span, message));
    }
    check_text(name, "probe", span)?;
    Ok(name.to_owned())
}

/// Returns the name of the function that checks a declared probe's arguments.
pub(crate) fn check(probe: &Ident) -> Ident {
    format_ident!("__sdt_args_{}", probe.unraw())
}

/// Returns the name of the function that returns the words of a declared probe's arguments. `provider` is the [unique
/// name](crate::provider::place) of the provider, so that a module that reexports several providers does not combine the
/// function of one with the record of another, whose arguments have other types.
pub(crate) fn words(probe: &Ident, provider: &str) -> Ident {
    format_ident!("__sdt_words_{}_{provider}", probe.unraw())
}

/// Returns the name by which sites refer to the record of a declared probe.
pub(crate) fn record(probe: &Ident, provider: &str) -> Ident {
    format_ident!("__sdt_record_{}_{provider}", probe.unraw())
}

/// Checks that a C type can have this name in D.
pub(crate) fn check_type(name: &LitStr) -> Result<()> {
    let text = name.value();
    let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | '*'));
    let message = if text.is_empty()
        || !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    {
        "the name of a C type must begin with a letter".to_owned()
    } else if let Some(c) = text.chars().find(|&c| odd(c)) {
        format!(
            "the name of a C type can contain letters, digits, `_`, blanks and `*`, but not \
                 {c:?}"
        )
    } else if text.len() > MAX_TYPE {
        let length = text.len();
        format!("the name of the C type has {length} bytes, more than DTrace's limit of {MAX_TYPE}")
    } else {
        return Ok(());
    };
    Err(Error::new(name.span(), message))
}

fn check_text(name: &str, what: &str, span: Span) -> Result<()> {
    if !name.is_ascii() {
        let message = format!("the {what} name `{name}` is not ASCII");
        return Err(Error::new(span, message));
    }
    if name.len() > MAX_NAME {
        let message = format!(
            "the {what} name `{name}` has {} bytes, more than DTrace's limit of {MAX_NAME}",
            name.len()
        );
        return Err(Error::new(span, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(name: &str) -> Ident {
        Ident::new(name, Span::call_site())
    }

    #[test]
    fn underscores_become_dashes() {
        for (rust, dtrace) in [
            ("exec_success", "exec-success"),
            ("exec__success", "exec-success"),
            ("a___b", "a--b"),
            ("start", "start"),
        ] {
            assert_eq!(probe(&ident(rust)).unwrap(), dtrace);
        }
    }

    /// The name that FreeBSD's and illumos's sdt make of a C name.
    fn listed(c: &str) -> String {
        c.replace("__", "-")
    }

    #[test]
    fn the_c_name_is_listed_as_the_name() {
        for name in ["exec-success", "exec_done", "a--b", "a-_b", "a---b", "x", "a-", "a-b_c"] {
            assert_eq!(listed(&c_name(name)), name, "{}", c_name(name));
        }
        assert_eq!(c_name("exec-success"), "exec__success");
    }

    #[test]
    fn krtld_symbols_name_the_providers_that_illumos_knows() {
        assert_eq!(krtld_symbol("proc", "exec-success"), "__dtrace_probe___proc_exec__success");
        assert_eq!(krtld_symbol("sysinfo", "xcalls"), "__dtrace_probe___cpu_sysinfo_xcalls");
        assert_eq!(krtld_symbol("sdt", "a"), "__dtrace_probe_a");
    }

    #[test]
    fn what_krtld_puts_into_one_provider_stays_apart() {
        assert_eq!(krtld_symbol("my_driver", "a-b"), "__dtrace_probe_my_driver__a__b");
        assert_eq!(krtld_name("my_driver", "a-b"), "my_driver-a-b");
        for (provider, name) in [("sdt", "a-b"), ("proc", "a-b"), ("sysinfo", "a-b")] {
            assert_eq!(krtld_name(provider, name), name);
        }
        assert_ne!(krtld_symbol("opte", "hit"), krtld_symbol("xde", "hit"));
        for (provider, name) in [("opte", "hit"), ("a_b", "c_d"), ("o", "a--b")] {
            let symbol = krtld_symbol(provider, name);
            let behind = symbol.strip_prefix(krtld::PREFIX).unwrap();
            assert_eq!(listed(behind), krtld_name(provider, name));
            assert!(krtld::PROVIDERS.iter().all(|(_, prefix)| !behind.starts_with(prefix)));
        }
    }

    #[test]
    fn symbols_tell_probes_apart() {
        let symbol = |provider: &str, name: &str| {
            Names::new(provider, name, Span::call_site()).symbol.to_string()
        };
        assert_eq!(symbol("a", "b"), symbol("a", "b"));
        assert_ne!(symbol("a", "b"), symbol("b", "a"));
        assert_ne!(symbol("ab", "c"), symbol("a", "bc"));
    }

    #[test]
    fn providers_keep_their_underscores() {
        assert_eq!(provider(&ident("my_driver")).unwrap(), "my_driver");
        for bad in ["_driver", "driver_", "my__driver", "__io_x"] {
            assert!(provider(&ident(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn reserved_and_long_names_are_refused() {
        assert!(probe(&ident("__proc_exec")).is_err());
        assert!(probe(&ident(&"x".repeat(63))).is_ok());
        assert!(probe(&ident(&"x".repeat(64))).is_err());
        assert!(provider(&ident(&"x".repeat(64))).is_err());
    }

    #[test]
    fn exact_names_are_checked_too() {
        assert_eq!(exact_probe("exec_success", Span::call_site()).unwrap(), "exec_success");
        for bad in ["", "_x", "-x", "a:b", "a b", "a\0", "a__b", "a_-b"] {
            assert!(exact_probe(bad, Span::call_site()).is_err(), "{bad:?}");
        }
    }
}
