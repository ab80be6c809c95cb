//! What docs/d.md says is typed and printed, is.

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

#[test]
fn lines_to_begin_with() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/d.md");
    let text = fs::read_to_string(guide).unwrap();
    let blocks: Vec<&str> =
        text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
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
        assert_eq!(format!("{}{}", run.err, run.out), printed, "{line}");
    }
}
