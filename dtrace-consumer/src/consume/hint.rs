//! Hints for probe descriptions that match no probe.

use std::collections::BTreeSet;

use dtrace_abi::spec::{Field, pieces};
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::{closest, did_you_mean};

use crate::client::{Client, Probe};
use crate::kernel::Kernel;

/// The framework's own providers.
const OWN: [&str; 2] = ["dtrace", "profile"];

/// The message if only the framework's own probes exist.
pub(super) const NONE_DECLARED: &str = "no program or module has registered probes: only those of dtrace and profile exist; has the image been attached?";

/// Returns whether a program or module has registered a probe.
pub(super) fn is_declared(probe: &Probe) -> bool {
    !OWN.contains(&&*probe.provider)
}

/// Returns the description in the compiler's message for one that matches no probe.
pub(super) fn description(message: &str) -> Option<&str> {
    let description = message.strip_prefix("probe description ")?;
    description.strip_suffix(" does not match any probes")
}

/// Returns a hint for a description that matches no probe of a kernel.
pub(super) fn of(description: &str, kernel: &Kernel) -> Option<String> {
    functions(description, kernel).or_else(|| {
        // The caller reports an error even if the kernel fails now. Does not send functions to the kernel (`--kernel`).
        let all = |client: &mut Client| client.list(&Description::default().to_string());
        hint(description, &kernel.ask(all).unwrap_or_default())
    })
}

/// Returns a hint for a description of functions that matches none: what of it is wrong.
fn functions(description: &str, kernel: &Kernel) -> Option<String> {
    let mut parts = pieces(description, Field::Name);
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (name, function, module, provider) = (part(), part(), part(), part());
    let wanted = Description { id: 0, provider, module, function, name };
    if let Some(hint) = kernel.wrong_part(&wanted) {
        return Some(hint);
    }
    ["", "entry", "return"].contains(&&*wanted.name).then_some(())?;
    let similar = kernel.similar_functions(&wanted);
    let Description { provider, module, name, .. } = &wanted;
    let each = similar.iter().map(|function| format!("{provider}:{module}:{function}:{name}"));
    let all = each.collect::<Vec<_>>().join(" or ");
    (!all.is_empty()).then(|| did_you_mean(&all))
}

/// The largest number of modules and functions of probes in a hint.
const PLACES: usize = 4;

/// Returns whether a part of a description is a name, and not a pattern.
fn is_literal(text: &str) -> bool {
    !text.is_empty() && !text.contains(['*', '?', '[', '\\'])
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a hint for a description that matches none of these probes.
fn hint(description: &str, probes: &[Probe]) -> Option<String> {
    let (provider, rest) = description.split_once(':')?;
    let name = rest.rsplit(':').next()?;
    if provider.strip_prefix("pid").is_some_and(is_number) {
        return Some(
            "the provider pid has the probes entry and return of functions in a process that hosts sdt-process: \
             with -p PID, pid$target:a.out:NAME:entry. NAME is the whole path of a function, with a ? for each colon \
             (shop??checksum) or with * (*checksum*); a.out may be the file name of a library, with -Z also of one that the process loads later; \
             a function that is inlined everywhere does not exist (#[inline(never)] keeps it); offsets in functions are not traced"
                .to_owned(),
        );
    }
    if ["", "profile"].contains(&provider)
        && ["tick-", "profile-"].iter().any(|prefix| name.starts_with(prefix))
    {
        return Some(
            "the name is not a rate such as tick-1s or profile-97, or the host provides no timers \
             or no more of them (register_profile and tick)"
                .to_owned(),
        );
    }
    let providers: BTreeSet<&str> = probes.iter().map(|probe| &*probe.provider).collect();
    if is_literal(provider) && !providers.contains(provider) {
        return Some(unknown_provider(provider, &providers));
    }
    if !is_literal(name) {
        return None;
    }
    // A Rust name with underscores has a probe name with dashes.
    let dashed = name.replace("__", "-").replace('_', "-");
    let names = || {
        let probes =
            probes.iter().filter(|probe| !is_literal(provider) || probe.provider == provider);
        probes.map(|probe| &*probe.name)
    };
    // If the name itself exists, the module or the function is wrong.
    let other = names().find(|other| *other == dashed && *other != name);
    let similar = other.map(String::from);
    match similar.or_else(|| closest(name, names())) {
        Some(found) => Some(did_you_mean(&found)),
        None if names().any(|other| other == name) => {
            let same = probes
                .iter()
                .filter(|of| of.name == name && (!is_literal(provider) || of.provider == provider));
            let places: BTreeSet<_> =
                same.map(|of| format!("{}:{}", of.module, of.function)).collect();
            let all = places.into_iter().take(PLACES).collect::<Vec<_>>().join(", ");
            Some(format!("{name} exists in another module or function: {all}"))
        }
        None if is_literal(provider) => {
            Some(format!("-l -P {provider} lists the probes of {provider}"))
        }
        None => None,
    }
}

/// Returns a hint for a provider that does not exist: a similar one, or all that exist.
fn unknown_provider(provider: &str, providers: &BTreeSet<&str>) -> String {
    let declared: Vec<&str> =
        providers.iter().copied().filter(|provider| !OWN.contains(provider)).collect();
    if provider == "pid" {
        return "functions of a process have the provider pid$target, with -p or -c".to_owned();
    }
    if let Some(found) = closest(provider, providers.iter().copied()) {
        return did_you_mean(&format!("provider {found}"));
    }
    match &declared[..] {
        [] => format!(
            "there is no provider {provider}, and no program or module has registered probes: only \
             the framework's own probes exist"
        ),
        all => format!("there is no provider {provider}; the providers are {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes() -> Vec<Probe> {
        [
            ("shop", "request-done"),
            ("shop", "order-start"),
            ("stock", "reserved"),
            ("dtrace", "BEGIN"),
        ]
        .iter()
        .zip(1..)
        .map(|((provider, name), id)| Probe {
            id,
            provider: (*provider).into(),
            module: "m".into(),
            function: "none".into(),
            name: (*name).into(),
        })
        .collect()
    }

    #[test]
    fn descriptions_get_hints() {
        let says = |wanted: &str, text: &str| {
            let message = format!("probe description {wanted} does not match any probes");
            let hint = hint(description(&message).unwrap(), &probes());
            assert!(hint.as_deref().is_some_and(|hint| hint.contains(text)), "{wanted}: {hint:?}");
        };
        says("shop:::request_done", "did you mean request-done?");
        says("shop:::request__done", "did you mean request-done?");
        says(":::order_start", "did you mean order-start?");
        says("shop:::request-don", "did you mean request-done?");
        says("shpo:::request-done", "did you mean provider shop?");
        says("syscall::open*:entry", "there is no provider syscall; the providers are shop, stock");
        says("io:::start", "the providers are shop, stock");
        says("pid:a.out:main:entry", "pid$target");
        says("pid42::main:entry", "pid$target:a.out:NAME:entry");
        says("pid42:libplugin.so:run:entry", "with -Z also of one that the process loads later");
        says(":::tick-1x", "register_profile");
        says("profile:::profile-97", "register_profile");
        says("shop:::nothing-like-it", "-l -P shop lists the probes of shop");
        says("shop:x::request-done", "request-done exists in another module or function: m:none");
        says("stock:::request_done", "-l -P stock lists the probes of stock");
        for other in [":::nothing-like-it", ":::", "shop*:::x*"] {
            assert_eq!(hint(other, &probes()), None, "{other}");
        }
        assert_eq!(description("failed to resolve x: Unknown variable name"), None);
    }

    #[test]
    fn a_host_without_probes_is_told() {
        let own = &probes()[3..];
        let hint = hint("io:::start", own).unwrap();
        assert!(hint.contains("no program or module has registered probes"), "{hint}");
    }
}
