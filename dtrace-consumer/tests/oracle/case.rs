//! The recorded cases: a command line, and its output.

use std::fs;
use std::path::{Path, PathBuf};

/// A recorded case.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    /// The command line, unchanged.
    pub line: String,
    pub out: String,
    pub err: String,
    /// Its exit status; 124 if it never ended by itself.
    pub status: i32,
}

/// The folders of the outputs and of the programs.
pub fn folders() -> [PathBuf; 2] {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["tests/data/oracle", "../dtrace-compiler/tests/data/oracle"].map(|folder| here.join(folder))
}

/// Returns the file of this name from one of the folders.
fn find(name: &str, extension: &str) -> Option<PathBuf> {
    let paths = folders().map(|folder| folder.join(format!("{name}.{extension}")));
    paths.into_iter().find(|path| path.exists())
}

fn text(name: &str, extension: &str) -> Option<String> {
    let bytes = fs::read(find(name, extension)?).unwrap();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl Case {
    pub fn all() -> Vec<Self> {
        let mut names: Vec<String> = folders()
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "cmd"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.dedup();
        names.into_iter().map(Self::read).collect()
    }

    fn read(name: String) -> Self {
        let text = |extension| text(&name, extension);
        Self {
            line: text("cmd").unwrap().trim_end().into(),
            out: text("ours").or_else(|| text("out")).unwrap_or_default(),
            err: text("ours-err").or_else(|| text("err")).unwrap_or_default(),
            status: text("ours-rc")
                .or_else(|| text("rc"))
                .map_or(0, |rc| rc.trim().parse().unwrap()),
            name,
        }
    }

    /// Returns the words of the command line, with the shell's quotes removed.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let (mut word, mut quoted): (Option<String>, bool) = (None, false);
        for c in self.line.chars() {
            match c {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                c if c.is_whitespace() && !quoted => words.extend(word.take()),
                c => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }
}
