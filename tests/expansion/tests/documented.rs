//! Complete examples in `docs/modules.md` compile unchanged.

use std::fs;
use std::path::Path;

/// Returns the block of Rust code in a text that contains a piece of code.
fn example<'t>(text: &'t str, piece: &str) -> &'t str {
    let blocks = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut found = blocks.filter(|block| block.contains(piece));
    found.next().unwrap_or_else(|| panic!("no example has {piece}"))
}

#[test]
fn the_described_struct_compiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/modules.md")).expect("there is one");
    let program =
        format!("#![allow(dead_code)]\n{}\nfn main() {{}}\n", example(&text, "#[derive(CType)]"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documented_struct.rs");
    fs::write(&file, program).expect("the folder is cargo's");
    trybuild::TestCases::new().pass(file);
}
