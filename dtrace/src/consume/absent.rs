//! Probes that whoever knows DTrace expects everywhere, and that are not there.

/// What to do instead, by what the compiler says of a description that matches nothing.
pub(super) fn hint(message: &str) -> Option<String> {
    let description = message.strip_prefix("probe description ")?;
    let description = description.strip_suffix(" does not match any probes")?;
    let (provider, rest) = description.split_once(':')?;
    let name = rest.rsplit(':').next()?;
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if provider.strip_prefix("pid").is_some_and(number) {
        return Some(
            "there is no provider pid here: what a process can be asked for are the probes that it declares; \
             trace it with -p"
                .to_owned(),
        );
    }
    if ["syscall", "fbt"].contains(&provider) {
        return Some(format!(
            "there is no provider {provider} here: a host has the probes that it declares, which -l lists"
        ));
    }
    if name.contains('_') {
        let listed = name.replace("__", "-").replace('_', "-");
        return Some(format!("what a declaration in Rust calls {name} is {listed} for DTrace"));
    }
    let is_timer = name.starts_with("tick-") || name.starts_with("profile-");
    (is_timer && ["", "profile"].contains(&provider)).then(|| {
        "either the name is no rate (tick-1s, profile-97), or this host has no room for another timer, or none at all: it \
         registers them with register_profile, and calls tick"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_providers_are_told_of() {
        let says = |description: &str, what: &str| {
            let message = format!("probe description {description} does not match any probes");
            let said = hint(&message).unwrap_or_else(|| panic!("{description}"));
            assert!(said.contains(what), "{description}: {said}");
        };
        says("pid42::main:entry", "no provider pid");
        says("syscall::open*:entry", "no provider syscall");
        says("fbt:kernel::", "no provider fbt");
        says(":::tick-1s", "register_profile");
        says("profile:::profile-97", "register_profile");
        says("shop:::order_start", "order_start is order-start");
        says(":::order__start_*", "order__start_* is order-start-*");
        for other in
            ["pid::main:entry", "pidx:::", "hello:::tick-1s", "syscalls:::", ":::ticks", ":::"]
        {
            let message = format!("probe description {other} does not match any probes");
            assert_eq!(hint(&message), None, "{other}");
        }
        assert_eq!(hint("failed to resolve x: Unknown variable name"), None);
    }
}
