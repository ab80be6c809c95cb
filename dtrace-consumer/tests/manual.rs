//! The manual page `docs/dtrace.1`, and the table of options in `docs/d.md`, name all options and no others.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use dtrace_abi::option::OptionId;
use dtrace_compiler::options::OptionError;
use dtrace_consumer::Job;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the options that the manual page describes, as one types them: the items of its lists that are flags.
fn described() -> BTreeSet<String> {
    let page = page("dtrace.1");
    let items = page.lines().filter_map(|line| line.strip_prefix(".It Fl "));
    items.filter_map(|item| Some(format!("-{}", item.split_whitespace().next()?))).collect()
}

/// Returns the options that `dtrace --help` lists, short ones if there are both.
fn listed() -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_dtrace")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words = help.lines().filter_map(|line| line.split_whitespace().next());
    let options = words.filter(|word| word.starts_with('-'));
    options.map(|word| word.trim_end_matches(',').to_owned()).collect()
}

#[test]
fn the_manual_page_describes_each_option_of_the_command() {
    let listed = listed();
    assert!(listed.len() > 30, "{listed:?}");
    assert_eq!(described(), listed);
}

/// Returns the run-time options that the manual page describes, and those that it says have no effect.
fn run_time() -> BTreeSet<String> {
    let page = page("dtrace.1");
    let (_, section) = page.split_once("\n.Sh RUN-TIME OPTIONS\n").unwrap();
    let (section, _) = section.split_once("\n.Sh ").unwrap();
    let (used, unused) = section.split_once("\n.Ss Options without effect\n").unwrap();
    let used = used.lines().filter_map(|line| line.strip_prefix(".It Cm "));
    let unused = unused.lines().filter_map(|line| line.strip_prefix(".Cm "));
    let names = used.chain(unused.flat_map(|line| line.split([' ', ',', '.'])));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns the words in backticks in the section on options in `docs/d.md`.
fn tabulated() -> BTreeSet<String> {
    let page = page("d.md");
    let (_, section) = page.split_once("\n#### Options of -x\n").unwrap();
    let (section, _) = section.split_once("\n### ").unwrap();
    section.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns whether the first word of a line of `dtrace -x help` is the name of an option.
fn is_name(word: &str) -> bool {
    let letters = word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    letters && Job::default().set(word, None) != Err(OptionError::Name)
}

#[test]
fn the_documentation_describes_each_run_time_option() {
    let (manual, table) = (run_time(), tabulated());
    for option in OptionId::ALL {
        // Zones are illumos's; libdtrace has no such option.
        if option.name() != "zone" {
            assert!(manual.contains(option.name()), "dtrace.1: {}", option.name());
        }
    }
    // A `dtrace` that lists its run-time options has no others.
    let help = Command::new(env!("CARGO_BIN_EXE_dtrace")).args(["-x", "help"]).output().unwrap();
    if help.status.success() {
        let text = String::from_utf8(help.stdout).unwrap();
        let words = text.lines().filter_map(|line| line.split(' ').next());
        let names: BTreeSet<String> =
            words.filter(|word| is_name(word)).map(str::to_owned).collect();
        assert_eq!(manual, names);
    }
    for name in &manual {
        assert!(table.contains(name), "d.md: {name}");
        let known = Job::default().set(name, None) != Err(OptionError::Name);
        assert!(known, "dtrace.1: {name} is no option");
    }
}
