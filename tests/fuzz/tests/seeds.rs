//! Every kept input runs through its target.

use std::path::Path;

use sdt_fuzz::TARGETS;

#[test]
fn kept_inputs_pass() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, run) in TARGETS {
        let folder = seeds.join(name);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            let input = std::fs::read(&file).unwrap();
            let result = std::panic::catch_unwind(|| run(&input));
            assert!(result.is_ok(), "{} fails; see above", file.display());
        }
    }
}
