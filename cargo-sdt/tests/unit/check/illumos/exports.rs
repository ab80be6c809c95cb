//! Tests of `src/check/illumos/exports.rs`.

use super::*;

#[test]
fn the_list_is_sorted_and_names_modules_and_sources() {
    let text: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(text.is_sorted(), "keep illumos-symbols.txt sorted");
    assert_eq!(lines().count(), text.len(), "`symbol module file`");
    for [symbol, module, source] in lines() {
        assert!(is_in_reach(module, &[]) || module.contains('/'), "{symbol} {module}");
        assert!(source.starts_with("usr/src/"), "{symbol} {source}");
    }
}
