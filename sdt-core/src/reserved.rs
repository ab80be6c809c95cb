//! Names of providers that the kernel has itself.

/// Providers that every framework has.
const EVERYWHERE: [&str; 2] = ["dtrace", "profile"];
/// Providers of FreeBSD's kernel or of illumos's.
const FREEBSD_OR_ILLUMOS: [&str; 7] =
    ["dtmalloc", "fasttrap", "fbt", "kinst", "systrace", "syscall", "tick"];

/// Returns whether the kernel has a provider of that name. `pid` with a number is the provider of a process.
const fn is_reserved_on(name: &str, on_freebsd_or_illumos: bool) -> bool {
    is_one_of(name, &EVERYWHERE)
        || (on_freebsd_or_illumos && is_one_of(name, &FREEBSD_OR_ILLUMOS))
        || is_of_a_process(name.as_bytes())
}

const fn is_one_of(name: &str, names: &[&str]) -> bool {
    let mut i = 0;
    while i < names.len() {
        if is_same(name.as_bytes(), names[i].as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([], []) => true,
        ([x, a @ ..], [y, b @ ..]) => *x == *y && is_same(a, b),
        _ => false,
    }
}

const fn is_of_a_process(name: &[u8]) -> bool {
    match name {
        [b'p', b'i', b'd', rest @ ..] => is_number(rest),
        _ => false,
    }
}

const fn is_number(text: &[u8]) -> bool {
    match text {
        [] => true,
        [digit, rest @ ..] => digit.is_ascii_digit() && is_number(rest),
    }
}

/// Returns whether the kernel for which this is built has a provider of that name.
pub const fn is_reserved(name: &str) -> bool {
    is_reserved_on(name, cfg!(any(target_os = "freebsd", target_os = "illumos")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reserved_where_the_kernel_has_such_providers() {
        for name in ["dtrace", "profile", "pid", "pid123"] {
            assert!(is_reserved_on(name, true) && is_reserved_on(name, false), "{name}");
        }
        for name in ["syscall", "tick", "fbt", "kinst"] {
            assert!(is_reserved_on(name, true) && !is_reserved_on(name, false), "{name}");
        }
        for name in ["proc", "pidgin", "fbts", "fb", "ticker"] {
            assert!(!is_reserved_on(name, true), "{name}");
        }
    }
}
