//! Reads the programs of `tests/data/illumos`.

use std::fs;
use std::path::PathBuf;

/// A program, and the records of illumos for it.
pub struct Case {
    pub name: String,
    pub program: String,
    /// The lines of the record. A folded line (`8* LINE`) is repeated.
    pub recorded: Vec<String>,
}

/// A file of `tests/data/illumos`.
pub fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/illumos").join(name)
}

/// All programs.
pub fn all() -> Vec<Case> {
    let files = ["expressions.txt", "speculations.txt", "strings.txt", "structs.txt"];
    files.iter().flat_map(|name| cases(&fs::read_to_string(file(name)).unwrap())).collect()
}

fn cases(text: &str) -> Vec<Case> {
    let text = text.strip_prefix("=== ").expect("a file begins with a program");
    text.split("\n=== ").map(case).collect()
}

fn case(text: &str) -> Case {
    let (name, rest) = text.split_once('\n').expect("a name is followed by the program");
    let (program, recorded) = rest.split_once("\n---\n").expect("--- ends the program");
    let recorded = recorded.lines().flat_map(unfolded).collect();
    Case { name: name.into(), program: program.into(), recorded }
}

/// Returns the lines that a line of the file represents.
fn unfolded(line: &str) -> impl Iterator<Item = String> {
    let folded = line.split_once("* ").and_then(|(count, line)| Some((count.parse().ok()?, line)));
    let (count, line) = folded.unwrap_or((1, line));
    std::iter::repeat_n(line.to_string(), count)
}

/// The arguments of each hit.
pub fn hits() -> Vec<[u64; 10]> {
    let text = fs::read_to_string(file("hits.txt")).unwrap();
    let numbers = |line: &str| -> Vec<u64> {
        line.split_whitespace().map(|number| u64::from_str_radix(number, 16).unwrap()).collect()
    };
    text.lines().map(|line| numbers(line).try_into().expect("ten arguments")).collect()
}
