//! `cargo xtask bench --beside-c`: prints the cost of a site in C and in Rust, on every architecture.

use std::fs;

use anyhow::Context as _;
use cargo_sdt::internal::arch::Arch;
use conformance::sources::{self, Build};
use conformance::table::{self, Table};
use harness::workspace;
use harness::zig::Zig;

/// The lines that enclose the tables in the documentation.
const DOCUMENT: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- cargo xtask bench --beside-c --update: from here -->\n";
const END: &str = "<!-- to here -->\n";

fn main() -> anyhow::Result<()> {
    let update = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [option] if option == "--update" => true,
        other => anyhow::bail!("--beside-c takes --update or nothing, not {}", other.join(" ")),
    };
    let zig = Zig::with_headers_of(15)?;
    let mut text = String::new();
    for arch in Arch::ALL {
        let rust = sources::rust(arch, Build::Native(15))?;
        let table = Table { arch, rows: table::rows(&zig, arch, &rust)? };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table.to_string());
    }
    print!("{text}");
    if update {
        write_to_document(&text)?;
    }
    Ok(())
}

fn write_to_document(tables: &str) -> anyhow::Result<()> {
    let file = workspace::root().join(DOCUMENT);
    let old = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let (before, rest) = old.split_once(BEGIN).with_context(|| format!("no {BEGIN:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no {END:?}"))?;
    fs::write(&file, format!("{before}{BEGIN}```\n{tables}```\n{END}{after}"))?;
    Ok(())
}
