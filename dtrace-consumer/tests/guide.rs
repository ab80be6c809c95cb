//! The examples and the table of options in docs/d.md are true.

use std::fs;
use std::path::Path;

#[path = "oracle/case.rs"]
#[allow(dead_code, reason = "the recorded ones are elsewhere")]
mod case;
#[path = "oracle/host.rs"]
#[allow(dead_code, reason = "how they end is not printed")]
mod host;
#[path = "render/printed.rs"]
#[allow(dead_code, reason = "no file is written")]
mod printed;

use case::Case;
use dtrace_consumer::compiler::options::{ALL, OptionInfo, User};

#[test]
fn lines_to_begin_with() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/d.md");
    let text = fs::read_to_string(guide).unwrap();
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    // `tests/strangers/guides.rs` runs the examples with other commands and processes.
    let is_own = |block: &&str| block.starts_with("$ dtrace ") && !block.contains(" -p $!");
    let blocks: Vec<&str> = blocks.filter(is_own).collect();
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        let (line, printed) = block.split_once('\n').unwrap();
        let line = line.trim_end_matches(" # fails");
        let case = Case {
            name: String::new(),
            line: line.strip_prefix("$ ").unwrap().into(),
            out: String::new(),
            err: String::new(),
            status: 0,
        };
        let run = host::run(&case);
        let hints: String =
            run.hints.iter().map(|hint| format!("dtrace: hint: {hint}\n")).collect();
        assert_eq!(format!("{}{hints}{}", run.err, run.out), printed, "{line}");
    }
}

/// Each `-x NAME` in the documentation is an option.
#[test]
fn options_in_the_documentation_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![root.join("README.md"), root.join("dtrace-consumer/README.md")];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for rest in text.split("-x ").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            if name.is_empty() || name == "help" || !behind.starts_with(['=', '`']) {
                continue;
            }
            assert!(OptionInfo::find(name).is_some(), "{}: -x {name}", file.display());
            count += 1;
        }
    }
    assert!(count >= 10, "{count}");
}

/// The table of options in docs/d.md has exactly the options that there are, with their defaults.
#[test]
fn the_documentation_has_all_options() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/d.md");
    let text = fs::read_to_string(guide).unwrap();
    let (_, section) = text.split_once("#### Options of -x\n").unwrap();
    let (section, _) = section.split_once("\n### ").unwrap();
    let (table, unused) = section.split_once("accepted and have no effect").unwrap();
    let names = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(String::from).collect()
    };
    let mut documented = Vec::new();
    for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let in_row = names(&format!("`{}", cells[0]));
        for (index, name) in in_row.iter().enumerate() {
            let option = OptionInfo::find(name).unwrap_or_else(|| panic!("{name}"));
            assert_ne!(option.user, User::Unused, "{name}");
            let defaults: Vec<&str> =
                cells[2].split(", ").map(|cell| cell.trim_matches('`')).collect();
            let default = defaults.get(index).unwrap_or(&defaults[0]);
            let same = match option.default {
                "-" => ["–", "locale"].contains(default),
                "no" => *default == "off",
                "yes" => *default == "on",
                "the kernel's" => *default == "the host decides",
                own => own == *default,
            };
            assert!(same, "{name}: {default}, not {}", option.default);
        }
        documented.extend(in_row);
    }
    for name in names(unused) {
        assert_eq!(OptionInfo::find(&name).map(|option| option.user), Some(User::Unused), "{name}");
        documented.push(name);
    }
    documented.sort();
    let all: Vec<&str> = ALL.iter().map(|option| option.name).collect();
    assert_eq!(documented, all);
}
