//! Hints for descriptions of functions in a process that match none.

use dtrace_compiler::surroundings::Description;
use dtrace_compiler::{closest, did_you_mean};

/// The names of a function's probes. An empty name matches both.
const NAMES: [&str; 3] = ["", "entry", "return"];

/// Returns whether a part of a description is a name, and not a pattern.
fn is_literal(text: &str) -> bool {
    !text.is_empty() && !text.contains(['*', '?', '[', '\\'])
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a hint if the provider, the module, or the name of a description of functions in a process is wrong.
pub(super) fn wrong_part(wanted: &Description, provider: &str, modules: &[&str]) -> Option<String> {
    let Description { provider: wanted_provider, module, name, .. } = wanted;
    let number = wanted_provider.strip_prefix("pid")?;
    if is_literal(number) && !is_number(number) {
        return None;
    }
    if is_number(number) && wanted_provider != provider {
        return Some(format!(
            "the provider of this process is {provider}, or pid$target with -p or -c"
        ));
    }
    if is_literal(name) && !NAMES.contains(&&**name) {
        let known =
            NAMES.into_iter().find(|known| !known.is_empty() && name.starts_with(&known[..3]));
        return Some(match known {
            Some(known) => did_you_mean(known),
            None => {
                "the probes of a function are entry and return; offsets in functions are not traced"
                    .to_owned()
            }
        });
    }
    if is_literal(module) && !modules.contains(&&**module) {
        return Some(match closest(module, modules.iter().copied()) {
            Some(found) => did_you_mean(&found),
            None => format!(
                "the process has no file {module}, only {}; with -Z, dtrace waits for a library that the process loads later",
                modules.join(", ")
            ),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrong_part_of_a_function_is_named() {
        let says = |wanted: &str, text: &str| {
            let mut parts = wanted.split(':').map(str::to_owned);
            let mut part = || parts.next().unwrap();
            let (provider, module, function, name) = (part(), part(), part(), part());
            let wanted = Description { id: 0, provider, module, function, name };
            let hint = wrong_part(&wanted, "pid42", &["a.out", "libc.so.6"]);
            assert_eq!(hint.as_deref().unwrap_or_default(), text, "{wanted}");
        };
        says(
            "pid7:a.out:main:entry",
            "the provider of this process is pid42, or pid$target with -p or -c",
        );
        says("pid42:a.out:main:enter", "did you mean entry?");
        says("pid42:a.out:main:ret", "did you mean return?");
        says(
            "pid42:a.out:main:4",
            "the probes of a function are entry and return; offsets in functions are not traced",
        );
        says("pid42:libc.so6:malloc:entry", "did you mean libc.so.6?");
        says(
            "pid42:shop:main:entry",
            "the process has no file shop, only a.out, libc.so.6; with -Z, dtrace waits for a library that the process loads later",
        );
        for right in [
            "pidgin:a.out::none",
            "pid42:a.out:none:entry",
            "pid*:lib*:none:",
            "pid42::none:return",
        ] {
            says(right, "");
        }
    }
}
