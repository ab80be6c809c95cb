//! Names, as DTrace and the kernel's sdt take them.

/// Why DTrace would not take a name as it is (`dtrace_badname` and the lengths of `sys/dtrace.h`).
pub(super) fn unusable(name: &str, limit: usize) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".into());
    }
    if name.len() >= limit {
        return Some(format!("is longer than {} bytes", limit - 1));
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return Some("starts with a digit".into());
    }
    let bad =
        name.chars().find(|&c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))?;
    Some(format!("has {bad:?} in it, which no probe description can say"))
}

/// A probe's name as the kernel's sdt makes it from a record's (`sdt_create_probe` of `sys/cddl/dev/sdt/sdt.c`):
/// C's identifiers have no dashes.
pub(super) fn translated(name: &str) -> String {
    name.replace("__", "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged() {
        let usable = |name: &str| unusable(name, 64).is_none();
        for name in ["exec-success", "a", "x_1", "a.b", &"n".repeat(63)] {
            assert!(usable(name), "{name}");
        }
        for name in ["", "9x", "a b", "a:b", "ä", "a*", &"n".repeat(64)] {
            assert!(!usable(name), "{name}");
        }
    }

    #[test]
    fn two_underscores_are_a_dash() {
        for (name, listed) in
            [("exec__success", "exec-success"), ("a_b", "a_b"), ("a___b", "a-_b"), ("____", "--")]
        {
            assert_eq!(translated(name), listed);
        }
    }
}
