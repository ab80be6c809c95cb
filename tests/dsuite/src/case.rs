//! A program of the suite, its options and its expectation.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

/// A program of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its path below the suite's folder of tests.
    pub name: String,
    /// Its path.
    pub program: PathBuf,
    /// Options beside the program's name.
    pub options: Vec<String>,
    /// Time limit.
    pub limit: Duration,
    /// A time-out counts as success.
    pub may_time_out: bool,
    /// The expected exit status.
    pub status: i32,
    /// The tag of an error or a drop that the program has to print.
    pub tag: Option<String>,
    /// The suite marks this program as an expected failure.
    pub fails: bool,
    /// The order of the output lines matters.
    pub ordered: bool,
}

/// Reads a list of programs: the last word of each line, except for lines that begin with `#`.
///
/// # Errors
/// An I/O error: the list cannot be read.
pub fn read_list(list: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(list).with_context(|| list.display().to_string())?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect())
}

impl Case {
    /// Reads the program `name` of the suite in the folder `suite`; `limit` is the suite's default time limit.
    ///
    /// # Errors
    /// An I/O error: the program cannot be read.
    pub fn read(suite: &Path, name: &str, limit: Duration) -> anyhow::Result<Self> {
        let program = Path::new("test").join(name);
        let directives = Directives::read(suite, &program)?;
        let base = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let part = |prefix: &str| {
            base.strip_prefix(prefix)
                .map(|rest| rest.split('.').next().unwrap_or_default().to_owned())
        };
        let tag = part("err.").filter(|tag| tag.starts_with("D_")).or_else(|| part("drp."));
        let mut options = vec!["-DARCH_x86_64".to_owned()];
        match (&tag, base.starts_with("err.")) {
            (Some(_), true) => options.push("-xerrtags".into()),
            (Some(_), false) => options.push("-xdroptags".into()),
            (None, _) => {}
        }
        let script = program.to_string_lossy().into_owned();
        // An executable script has options of its own, and the last of them takes the script's name.
        match directives.interpreter() {
            Some(own) => options = [words(own), vec![script], options].concat(),
            None => options.extend(["-s".to_owned(), script]),
        }
        // The options of the nearest folder come last. `words` interprets quotes as the suite's shell does.
        for line in directives.all("runtest-opts") {
            options.extend(words(&line));
        }
        let triggered = ["tst.", "err.", "drp."].iter().any(|prefix| base.starts_with(prefix))
            || directives.first("trigger").is_some();
        if !triggered {
            options.push("-e".into());
        }
        let seconds = directives.first("timeout").and_then(|text| text.parse().ok()).unwrap_or(0);
        let marked = suite.join(program.with_extension("x")).exists();
        Ok(Self {
            name: name.into(),
            options,
            limit: limit.max(Duration::from_secs(seconds)),
            may_time_out: directives.first("timeout-success").is_some(),
            status: i32::from(base.starts_with("err.")),
            tag,
            fails: marked
                || directives.first("xfail").is_some() && directives.first("no-xfail").is_none(),
            ordered: directives.first("nosort").is_some(),
            program,
        })
    }
}

/// The texts that can contain `@@` directives: the program, then `test.options` of its folder and of those above it.
struct Directives(Vec<String>);

impl Directives {
    fn read(suite: &Path, program: &Path) -> anyhow::Result<Self> {
        let path = suite.join(program);
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let mut texts = vec![String::from_utf8_lossy(&text).into_owned()];
        for folder in program.ancestors().skip(1) {
            texts.extend(fs::read_to_string(suite.join(folder).join("test.options")).ok());
        }
        Ok(Self(texts))
    }

    /// The options behind `#!dtrace`.
    fn interpreter(&self) -> Option<&str> {
        self.0.first()?.lines().next()?.strip_prefix("#!dtrace ")
    }

    fn first(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|text| directive(text, name))
    }

    fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter_map(|text| directive(text, name)).collect()
    }
}

/// Returns the text after `@@name` or `@@name:`.
fn directive(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(&format!("@@{name}"))?;
        let rest = match rest.trim_start().strip_prefix(':') {
            Some(rest) => rest,
            None if rest.is_empty() || rest.starts_with(' ') => rest,
            None => return None,
        };
        Some(rest.trim_end().trim_end_matches("*/").trim().to_owned())
    })
}

/// Splits a line into words and removes the shell's quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_found() {
        let text = "/* @@xfail: not there */\n/* @@timeout: 70 */\n/* @@nosort */\n@@trigger-timing: after\n";
        assert_eq!(directive(text, "xfail").as_deref(), Some("not there"));
        assert_eq!(directive(text, "timeout").as_deref(), Some("70"));
        assert_eq!(directive(text, "nosort").as_deref(), Some(""));
        assert_eq!(directive(text, "trigger"), None);
        assert_eq!(directive(text, "time"), None);
    }

    #[test]
    fn words_are_the_shells() {
        assert_eq!(words("-x a=1  'b c' \"\" d\"e f\""), ["-x", "a=1", "b c", "", "de f"]);
    }

    #[test]
    fn names_and_directives_determine_the_expectation() {
        let suite = tempfile::tempdir().unwrap();
        let folder = suite.path().join("test/unittest/x");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("test.options"), "@@runtest-opts: -C\n").unwrap();
        fs::write(folder.join("err.D_SYNTAX.a.d"), "/* @@runtest-opts: -x b='c d' */\n").unwrap();
        fs::write(folder.join("demo.d"), "").unwrap();
        let limit = Duration::from_secs(41);
        let read =
            |name: &str| Case::read(suite.path(), &format!("unittest/x/{name}"), limit).unwrap();
        let case = read("err.D_SYNTAX.a.d");
        assert_eq!((case.status, case.tag.as_deref()), (1, Some("D_SYNTAX")));
        let script = "test/unittest/x/err.D_SYNTAX.a.d";
        assert_eq!(case.options, ["-DARCH_x86_64", "-xerrtags", "-s", script, "-x", "b=c d", "-C"]);
        assert!(read("demo.d").options.ends_with(&["-e".into()]));
    }
}
