//! `cargo xtask docs`: builds all pages as one book with search, and the documentation of the crates as a part of it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context as _;
use cargo_metadata::MetadataCommand;
use cargo_sdt::internal::output;
use cargo_sdt::internal::process;
use cargo_sdt::internal::progress::step;
use harness::workspace::{build_dir, root};

use crate::book::{self, Book};

/// The published crates.
const CRATES: [&str; 11] = [
    "cargo-sdt",
    "dtrace-consumer",
    "dtrace-abi",
    "dtrace-compiler",
    "dtrace-protocol",
    "sdt-build",
    "sdt-core",
    "sdt-framework",
    "sdt-macros",
    "sdt-process",
    "sdt-tracing",
];
/// The version of mdBook to install if it is missing.
const MDBOOK: &str = "0.5.4";
/// Compiling mdBook takes minutes.
const LIMIT: Duration = Duration::from_secs(1800);

/// The beginning of each page of rustdoc: a link to the book, which is two or more folders above.
const LINK: &str = r#"<p style="margin: 0; padding: 0.3em 1em"><a id="the-book" href="">The book of this project</a></p>
<script>
    const root = document.querySelector('meta[name="rustdoc-vars"]').dataset.rootPath;
    document.getElementById("the-book").href = root + "../index.html";
</script>
"#;

/// Options of `cargo xtask docs`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command: prints the path of the book's first page.
///
/// # Errors
/// mdBook cannot be installed, a page or a crate's documentation cannot be built, or a link leads nowhere.
pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
    let mdbook = mdbook()?;
    let folder = build_dir().join("book");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let api = crates(&folder)?;
    Book::prepare(root(), &api, folder.join("src"))?;
    std::fs::copy(root().join("docs/book.toml"), folder.join("book.toml"))
        .with_context(|| folder.display().to_string())?;
    let mut build = Command::new(mdbook);
    step("building the book", || process::run(build.arg("build").arg(&folder), LIMIT))?;
    let html = folder.join("html");
    book::add_api(&api, &html)?;
    let dead = book::dead_links(&html)?;
    anyhow::ensure!(dead.is_empty(), "these links have no target:\n{}", dead.join("\n"));
    output::print(format_args!("{}\n", html.join("index.html").display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns mdBook, which is installed into the build folder if it is missing.
fn mdbook() -> anyhow::Result<PathBuf> {
    let tools = build_dir().join("tools");
    let own = tools.join("bin/mdbook");
    if let Some(found) = process::find("mdbook").or_else(|| own.is_file().then(|| own.clone())) {
        return Ok(found);
    }
    let mut install = Command::new("cargo");
    install.args(["install", "mdbook", "--locked", "--version", MDBOOK]);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
    process::clean_cargo_env(&mut install);
    step("installing mdBook from crates.io", || process::run(&mut install, LIMIT))?;
    Ok(own)
}

/// Builds the documentation of the crates, with a link to the book on each page; returns its folder.
fn crates(folder: &Path) -> anyhow::Result<PathBuf> {
    let link = folder.join("link.html");
    std::fs::write(&link, LINK).with_context(|| link.display().to_string())?;
    let mut doc = Command::new("cargo");
    // Only the library has documentation, not the command `dtrace` of the same name.
    doc.current_dir(root()).args(["doc", "--no-deps", "--lib"]);
    for package in CRATES {
        doc.args(["-p", package]);
    }
    // The separator is a character that no path contains.
    doc.env("CARGO_ENCODED_RUSTDOCFLAGS", format!("--html-before-content\u{1f}{}", link.display()));
    step("building the documentation of the crates", || process::run(&mut doc, LIMIT))?;
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    Ok(metadata.target_directory.join("doc").into())
}
