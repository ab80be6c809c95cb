//! The names of module and function in probe descriptions, from a symbol.

use dtrace_abi::function::first_crate;

/// The longest name of a function in bytes (`DTRACE_FUNCNAMELEN`, without the terminator).
const FUNCTION: usize = dtrace_abi::limits::FUNCTION_NAME - 1;
/// The longest name of a module in bytes (`DTRACE_MODNAMELEN`, without the terminator).
const MODULE: usize = dtrace_abi::limits::MODULE_NAME - 1;
/// Replaces the middle of a name that is too long.
const GAP: &str = "..";

/// The module and the function of a symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The crate of a Rust function; otherwise the module that the caller supplied.
    pub module: String,
    /// The path of a Rust function without the hash of its symbol; otherwise the symbol. The middle of a name that is
    /// longer than a probe description can have is replaced by two dots.
    pub function: String,
}

impl Name {
    /// Returns the name of a symbol; `other` is the module of functions that are not Rust.
    pub fn of(symbol: &str, other: &str) -> Self {
        let (module, function) = match rustc_demangle::try_demangle(symbol) {
            Ok(path) => {
                let path = format!("{path:#}");
                (first_crate(&path).unwrap_or(other).to_owned(), path)
            }
            Err(_) => (other.to_owned(), symbol.to_owned()),
        };
        Self { module: shortened(&module, MODULE), function: shortened(&function, FUNCTION) }
    }
}

/// Shortens a name to at most `most` bytes: keeps its beginning and its end, and replaces the middle by [`GAP`].
fn shortened(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let half = (most - GAP.len()) / 2;
    let begin = name.floor_char_boundary(half);
    let end = name.ceil_char_boundary(name.len() - half);
    [&name[..begin], GAP, &name[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_and_paths() {
        for (symbol, module, function) in [
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core",
                "core::fmt::Write::write_fmt",
            ),
            ("memcpy", "kernel", "memcpy"),
            (
                "_ZN47_$LT$foo..Bar$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE",
                "foo",
                "<foo::Bar as core::clone::Clone>::clone",
            ),
            (
                "_ZN44_$LT$u32$u20$as$u20$shop..basket..Priced$GT$5price17h0123456789abcdefE",
                "shop",
                "<u32 as shop::basket::Priced>::price",
            ),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate", "mycrate::foo::bar"),
        ] {
            let name = Name::of(symbol, "kernel");
            assert_eq!((&*name.module, &*name.function), (module, function), "{symbol}");
        }
    }

    #[test]
    fn long_names_keep_both_ends() {
        let long = format!("a{}z", "é".repeat(200));
        let name = Name::of(&long, "kernel");
        assert!(name.function.len() <= FUNCTION && name.function.len() > FUNCTION - 6);
        assert!(name.function.starts_with('a') && name.function.ends_with('z'));
        assert!(name.function.contains(GAP));
    }
}
