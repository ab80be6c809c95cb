//! Runs the commands of a guide, and compares their output with the guide.
//!
//! A test runs or compares every fenced block of a guide. The text behind the fence selects how:
//!
//! | fence | |
//! |---|---|
//! | `console` | one shell, started in an empty folder, executes the lines that begin with `$ `; the lines below are their output |
//! | `console similar` | the same, but numbers, addresses, the bars of distributions and the order of lines may differ |
//! | `rust src/lib.rs` | an excerpt of that file, as it is now: whole lines |
//! | `rust > src/lib.rs` | the file is written |
//! | `rust >> src/lib.rs` | this is put at its end |
//! | `rust`, `d` or `text` | is only shown |
//!
//! Other languages are possible. In output, `...` matches any part of a line, and a line with only `...` any lines. In an
//! excerpt, a line with only `...`, also in a comment, stands for omitted lines. A command has to succeed, unless `# fails` is
//! at its end. Another prompt, like `freebsd# `, belongs to a machine that the test does not have: it does not run these
//! commands, and accepts only the prompts that it names. It ignores progress messages of the project's tools and of cargo.
//!
//! Programs for targets without an operating system are built with rustup's standard library for the target, as readers of a
//! guide build them; the target is added to the toolchain once. Without rustup, `core` is compiled from its sources.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::linker_variable;
use cargo_sdt::internal::process::clean_cargo_env;
use harness::{setup, workspace};

use crate::packages::{LIMIT, cargo, quickly};

/// The shell prints this text after each command, followed by the status.
const END: &str = "--- status ";

/// A guide.
#[derive(Debug)]
pub struct Guide {
    name: String,
    text: String,
    /// Prompts of machines that the test does not have.
    elsewhere: &'static [&'static str],
    /// The targets without a system that `cargo build` and `cargo run` are for.
    targets: Vec<&'static str>,
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block<'t> {
    /// The number of its first line.
    line: usize,
    /// The text behind the fence.
    info: &'t str,
    lines: Vec<&'t str>,
}

/// A command, and what the guide shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Typed<'t> {
    line: usize,
    prompt: &'t str,
    command: &'t str,
    printed: Vec<&'t str>,
}

impl Guide {
    /// The guide in a file of the workspace.
    pub fn read(file: &str, elsewhere: &'static [&'static str]) -> Self {
        let path = workspace::root().join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        Self { name: file.to_owned(), text, elsewhere, targets: Vec::new() }
    }

    /// Adds a target without an operating system, for which the guide builds programs.
    pub fn for_target(mut self, target: &'static str) -> Self {
        self.targets.push(target);
        self
    }

    /// Runs the guide in an empty folder, in which this workspace is `sdt`.
    ///
    /// # Panics
    /// A step or its output differs from the guide.
    pub fn run(&self) {
        let folder = Folder::new();
        let mut shell = Shell::start(folder.path);
        let has_std = |target: &&str| setup::target(target).is_ok();
        shell.build = (!self.targets.iter().all(has_std)).then(|| building_core(&self.targets));
        let mut ran = 0;
        for block in blocks(&self.text) {
            let at = |line: usize| format!("{}:{line}", self.name);
            match block.info.split_whitespace().collect::<Vec<_>>()[..] {
                ["rust" | "d" | "text"] => {}
                ["console", ref how @ ..] if matches!(how, [] | ["similar"]) => {
                    let compare = if how.is_empty() { matches } else { similar };
                    for typed in typed(&block) {
                        if typed.prompt == "$ " {
                            self.type_in(&mut shell, &typed, compare);
                            ran += 1;
                        } else {
                            let known = self.elsewhere.contains(&typed.prompt.trim_end());
                            assert!(
                                known,
                                "{}: whose prompt is {:?}?",
                                at(typed.line),
                                typed.prompt
                            );
                        }
                    }
                }
                [_, file] => {
                    let file = shell.folder().join(file);
                    let text = std::fs::read_to_string(&file);
                    let text = text
                        .unwrap_or_else(|error| panic!("{}: {file:?}: {error}", at(block.line)));
                    let lines: Vec<_> = text.lines().collect();
                    let there = is_excerpt(&block.lines, &lines);
                    assert!(there, "{}: not in {}:\n{text}", at(block.line), file.display());
                    ran += 1;
                }
                [_, how @ (">" | ">>"), file] => {
                    let mut open = std::fs::OpenOptions::new();
                    open.create(true).write(true).append(how == ">>").truncate(how == ">");
                    let file = shell.folder().join(file);
                    let mut file = open
                        .open(&file)
                        .unwrap_or_else(|error| panic!("{}: {error}", at(block.line)));
                    file.write_all((block.lines.join("\n") + "\n").as_bytes())
                        .expect("it is written");
                }
                _ => panic!("{}: nothing is known of a block of {:?}", at(block.line), block.info),
            }
        }
        assert!(ran > 0, "{} has nothing to do", self.name);
    }

    /// Runs a command in the shell, and compares the lines that it prints with those that the guide shows.
    fn type_in(
        &self,
        shell: &mut Shell,
        typed: &Typed<'_>,
        compare: fn(shown: &[&str], printed: &[&str]) -> bool,
    ) {
        let Typed { line, command, .. } = typed;
        let (printed, status) = shell.run(command);
        let fails = command.ends_with("# fails");
        let all = printed.join("\n");
        assert_eq!(status != 0, fails, "{}:{line}: $ {command}: status {status}\n{all}", self.name);
        let printed: Vec<_> =
            printed.iter().map(String::as_str).filter(|line| !is_progress(line)).collect();
        let same = compare(&typed.printed, &printed);
        let shown = typed.printed.join("\n");
        assert!(same, "{}:{line}: $ {command}\nprints\n{all}\nand not\n{shown}", self.name);
    }
}

/// The fenced blocks of a text.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { line: index + 2, info: info.trim(), lines: Vec::new() });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block has no end");
    blocks
}

/// The commands of a block.
fn typed<'t>(block: &Block<'t>) -> Vec<Typed<'t>> {
    let mut all: Vec<Typed<'t>> = Vec::new();
    for (index, line) in block.lines.iter().enumerate() {
        match (split_prompt(line), all.last_mut()) {
            (Some((prompt, command)), _) => {
                all.push(Typed { line: block.line + index, prompt, command, printed: Vec::new() });
            }
            (None, Some(last)) => last.printed.push(line),
            (None, None) => panic!("line {}: printed by what?", block.line + index),
        }
    }
    all
}

/// A line's prompt, if it has one: letters, if any, and then `$ ` or `# `.
fn split_prompt(line: &str) -> Option<(&str, &str)> {
    let letters = line.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit())?;
    let sign =
        line[letters..].starts_with("$ ") || letters > 0 && line[letters..].starts_with("# ");
    sign.then(|| line.split_at(letters + 2))
}

/// Returns whether a line reports the progress of a long step; which of these lines are printed depends on the
/// machine's speed.
fn is_progress(line: &str) -> bool {
    const CARGOS: [&str; 12] = [
        "Blocking",
        "Checking",
        "Compiling",
        "Downloaded",
        "Downloading",
        "Finished",
        "Installed",
        "Installing",
        "Locking",
        "Running",
        "Updating",
        "Adding",
    ];
    let first = line.split_whitespace().next().unwrap_or_default();
    let ours = ["xtask: ", "cargo-sdt: building ", "dtrace: waiting for "];
    let ours = ours.iter().any(|begin| line.starts_with(begin));
    ours || line.starts_with(' ') && CARGOS.contains(&first)
}

/// Returns whether lines are as a guide shows them. White space at the ends of lines is ignored.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.iter().all(|line| line.trim().is_empty()),
        ["...", rest @ ..] => (0..=printed.len()).any(|from| matches(rest, &printed[from..])),
        [line, rest @ ..] => {
            let first = printed.split_first();
            first.is_some_and(|(first, others)| line_matches(line, first) && matches(rest, others))
        }
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (shown.trim_end(), printed.trim_end());
    match shown.split_once("...") {
        None => shown == printed,
        Some((before, behind)) => printed.strip_prefix(before).is_some_and(|rest| {
            let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.any(|at| line_matches(behind, &rest[at..]))
        }),
    }
}

/// Returns whether both have the same lines, in any order, if only the [shapes](shape) of lines count. If `shown` has a line
/// `...`, `printed` may have more.
fn similar(shown: &[&str], printed: &[&str]) -> bool {
    let shapes = |lines: &[&str]| {
        let shapes = lines.iter().map(|line| shape(line));
        shapes.filter(|shape| !shape.is_empty()).collect::<BTreeSet<_>>()
    };
    let (mut shown, printed) = (shapes(shown), shapes(printed));
    let is_excerpt = shown.remove("...");
    shown.is_subset(&printed) && (is_excerpt || printed.is_subset(&shown))
}

/// Returns a line without numbers, addresses, bars of distributions and white space.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '0' && rest.next_if_eq(&'x').is_some() {
            while rest.next_if(char::is_ascii_hexdigit).is_some() {}
        } else if !c.is_ascii_digit() && !c.is_whitespace() && c != '@' {
            shape.push(c);
        }
    }
    shape
}

/// Returns whether the pieces of an excerpt are in a file, in their order.
fn is_excerpt(shown: &[&str], file: &[&str]) -> bool {
    let left_out = |line: &&str| matches!(line.trim().trim_start_matches(['/', '#']).trim(), "...");
    let mut rest = file;
    for piece in shown.split(left_out).filter(|piece| !piece.is_empty()) {
        let Some(at) = rest.windows(piece.len()).position(|lines| lines == piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    true
}

/// The folder of a guide. All guides use the same folder, one after the other: they all build crates below `sdt`, and cargo would
/// compile a crate again if its path changed.
struct Folder {
    path: &'static Path,
    _turn: MutexGuard<'static, ()>,
}

impl Folder {
    fn new() -> Self {
        static PATH: OnceLock<PathBuf> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // A new folder, which no other process uses.
        let path = PATH.get_or_init(|| tempfile::tempdir().expect("a folder").path().to_owned());
        // A program that the previous guide left running may still use the folder.
        std::fs::remove_dir_all(path).ok();
        std::fs::create_dir(path).expect("an empty folder");
        let folder = Self { path, _turn: turn };
        std::os::unix::fs::symlink(workspace::root(), path.join("sdt")).expect("a link");
        // `cargo sdt kmod` finds the macros and the standard library that the modules of the workspace are built with. It removes
        // cargo's variables, so the folder is in a file.
        let build = workspace::project().cargo_target();
        let config = format!("build.build-dir = {build:?}\n");
        std::fs::create_dir(path.join(".cargo")).expect("a folder");
        std::fs::write(path.join(".cargo/config.toml"), config).expect("it is written");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.path).ok();
    }
}

/// A shell, into which commands are typed.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    /// The replacement for `cargo` when it builds for a machine without an operating system.
    build: Option<String>,
}

impl Shell {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        clean_cargo_env(&mut command);
        // The `cargo xtask` of a guide is the one that other tests run meanwhile: with other settings, cargo would compile it
        // again, and replace it.
        command.envs(workspace::settings());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::iter::once(folder.join("installed/bin")).chain(std::env::split_paths(&path));
        // The shell takes the current folder from `PWD`, even if the path contains a symbolic link.
        command.current_dir(folder).env("PWD", folder);
        command.env("PATH", std::env::join_paths(path).expect("folders without colons"));
        // Programs that a guide installs are removed with the folder.
        command.env("CARGO_INSTALL_ROOT", folder.join("installed"));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let (input, output) =
            (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (lines, receiver) = channel();
        std::thread::spawn(move || {
            // Dropping the sender tells the receiver that the output has ended.
            let mut all = BufReader::new(output).lines().map_while(Result::ok);
            all.try_for_each(|line| lines.send(line)).ok();
        });
        let mut shell = Self { child, input, output: receiver, build: None };
        // Standard output and error go to one pipe, as on a terminal.
        let (_, status) = shell.run("exec 2>&1");
        assert_eq!(status, 0);
        shell
    }

    /// Types a command; returns the lines that it prints, and its status.
    fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        // Variables in front of a command stay in front of it.
        let is_variable = |word: &str| {
            word.split_once('=').is_some_and(|(name, _)| {
                name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            })
        };
        let (variables, command) = match command.split_once(' ') {
            Some((first, rest)) if is_variable(first) => (format!("{first} "), rest),
            _ => (String::new(), command),
        };
        let command = match (command.split_once(' '), &self.build) {
            (Some(("cargo", what)), _) if what.starts_with("install ") => {
                format!("{}cargo {what} --debug", assignments(quickly()))
            }
            (Some(("cargo", what)), _) if is_of_the_workspace(what) => {
                format!("cargo {}", with_its_features(what))
            }
            (Some(("cargo", what)), cargo) if is_build(what) => {
                format!("{}{} {what}", assignments(shared()), cargo.as_deref().unwrap_or("cargo"))
            }
            _ => command.to_owned(),
        };
        // The command gets no input, because the input belongs to the shell.
        writeln!(self.input, "{{ {variables}{command}\n}} </dev/null\nprintf '\\n{END}%d\\n' $?")
            .expect("the shell is there");
        let mut printed = Vec::new();
        loop {
            let line = self.output.recv_timeout(LIMIT);
            let line =
                line.unwrap_or_else(|error| panic!("{command}: {error}\n{}", printed.join("\n")));
            if let Some(status) = line.strip_prefix(END) {
                return (printed, status.parse().expect("a number"));
            }
            printed.push(line);
        }
    }

    /// Returns the current folder.
    fn folder(&mut self) -> std::path::PathBuf {
        self.run("pwd").0.swap_remove(0).into()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Its commands end with it, or have ended. If the shell cannot be killed, there is nothing left to do.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns whether cargo builds programs of this workspace, which a guide names by their packages.
fn is_of_the_workspace(what: &str) -> bool {
    what.starts_with("build ") && what.contains(" -p ")
}

/// Returns the arguments of the same build with the features that all tests use, so that cargo compiles nothing twice. Cargo
/// adds the features that dev-dependencies need only if it builds examples.
fn with_its_features(what: &str) -> String {
    let mut words = what.split(' ');
    let mut line = Vec::new();
    while let Some(word) = words.next() {
        // Leaves out `-p` and the package.
        if word != "-p" || words.next().is_none() {
            line.push(word);
        }
    }
    line.extend(workspace::TESTED);
    line.push("--examples");
    line.join(" ")
}

/// Returns whether cargo builds the reader's own program.
fn is_build(what: &str) -> bool {
    ["build ", "run "].iter().any(|begin| what.starts_with(begin))
}

/// Variables that make cargo compile the crates of the registry once for all guides. The result is still in the target folder of
/// the guide's project.
fn shared() -> [(&'static str, String); 1] {
    let folder = workspace::build_dir().join("guides");
    [("CARGO_BUILD_BUILD_DIR", folder.display().to_string())]
}

/// Variables of a command, in front of it.
fn assignments<const N: usize>(of: [(&str, String); N]) -> String {
    of.map(|(variable, value)| format!("{variable}='{value}' ")).concat()
}

/// Returns shell words that run a cargo which builds `core` for targets.
fn building_core(targets: &[&str]) -> String {
    let toolchain =
        setup::toolchain(Arch::default()).expect("a toolchain with the sources of core");
    let lld = cargo_sdt::internal::setup::lld().expect("a linker");
    let cargo = toolchain.cargo("build", "core");
    let rustc = cargo.get_envs().find(|(variable, _)| *variable == "RUSTC");
    let rustc = rustc.and_then(|(_, rustc)| rustc).expect("the command sets RUSTC");
    let linkers = targets.iter().map(|target| {
        assignments([(&linker_variable(Path::new(target)), lld.program().display().to_string())])
    });
    let linkers = linkers.collect::<String>();
    let set = assignments([
        ("RUSTC_BOOTSTRAP", "1".to_owned()),
        ("RUSTC", rustc.display().to_string()),
        ("CARGO_UNSTABLE_BUILD_STD", "core,alloc".to_owned()),
        ("CARGO_UNSTABLE_BUILD_STD_FEATURES", "compiler-builtins-mem".to_owned()),
    ]);
    format!("{linkers}{set}'{}'", cargo.get_program().display())
}

#[test]
fn a_guide_is_taken_apart() {
    let text = "# A guide\n\n```console\n$ ls\na b\n$ cd a\nfreebsd# ls\nc\n```\n\ntext\n\n```rust > a.rs\nx\n```\n";
    let blocks = blocks(text);
    assert_eq!((blocks[1].info, &*blocks[1].lines), ("rust > a.rs", &["x"][..]));
    let typed: Vec<_> = typed(&blocks[0])
        .into_iter()
        .map(|of| (of.line, of.prompt, of.command, of.printed))
        .collect();
    let expected = [
        (4, "$ ", "ls", vec!["a b"]),
        (6, "$ ", "cd a", vec![]),
        (7, "freebsd# ", "ls", vec!["c"]),
    ];
    assert_eq!(typed, expected);
}

#[test]
fn programs_of_the_workspace_are_built_with_its_features() {
    let typed = "build -q -p dtrace-consumer -p sdt-process --bin dtrace";
    assert!(is_of_the_workspace(typed) && !is_of_the_workspace("build --release"));
    let expected = "build -q --bin dtrace --workspace --exclude bench --examples";
    assert_eq!(with_its_features(typed), expected);
}

#[test]
fn what_is_shown_is_compared() {
    let printed = ["CPU     ID   NAME", "  1     14   greeted ", ""];
    for shown in [
        &["CPU     ID   NAME", "  1     14   greeted"][..],
        &["CPU     ID   NAME", "... ...   greeted"],
        &["...", "...greeted"],
        &["..."],
    ] {
        assert!(matches(shown, &printed), "{shown:?}");
    }
    for shown in
        [&[][..], &["CPU     ID   NAME"], &["...", "greeted"], &["...", "...greeted", "more"]]
    {
        assert!(!matches(shown, &printed), "{shown:?}");
    }
    let file = ["a", "b", "c", "d"];
    for shown in [&["a", "b"][..], &["b", "// ...", "d"], &["a", "...", "c", "d"], &[]] {
        assert!(is_excerpt(shown, &file), "{shown:?}");
    }
    for shown in [&["b", "a"][..], &["a", "c"], &["c", "...", "b"], &["e"]] {
        assert!(!is_excerpt(shown, &file), "{shown:?}");
    }
}

#[test]
fn lines_are_similar_without_their_numbers() {
    let printed = ["  /cart      23", "  16 |@@@    4", "  32 |@      1", "f+0x2a", ""];
    for shown in
        [&["f+0x7", "/cart 5", "64 |    0"][..], &["/cart 1", "..."], &["...", "|", "f+0xff"]]
    {
        assert!(similar(shown, &printed), "{shown:?}");
    }
    for shown in [&["/cart 23", "|"][..], &["/checkout 1", "..."], &["/cart", "|", "f+", "g"], &[]]
    {
        assert!(!similar(shown, &printed), "{shown:?}");
    }
}

#[test]
fn a_shell_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("below")).expect("a folder");
    let mut shell = Shell::start(folder.path());
    assert_eq!(shell.run("cd below; x=3; echo out; echo err >&2").0, ["out", "err", ""]);
    assert_eq!(shell.run("echo $x; false"), (vec!["3".into(), String::new()], 1));
    assert_eq!(shell.run("cat").0, [""], "there is no input");
    assert!(shell.folder().ends_with("below"));
    // The toolchain is that which runs this test.
    assert!(cargo(folder.path()).arg("-V").status().expect("cargo").success());
}

#[test]
fn a_guide_that_is_not_true_fails() {
    let fails = |text: &str| {
        let text = text.to_owned();
        let guide =
            Guide { name: "guide".into(), text, elsewhere: &["board#"], targets: Vec::new() };
        std::panic::catch_unwind(|| guide.run()).is_err()
    };
    let all = "```console\n$ echo a > b\nboard# x\ny\n```\n\n```text b\na\n```\n\n```text >> b\nc\n```\n\n```console\n$ cat b\na\nc\n```\n";
    assert!(!fails(all));
    for text in [
        all.replace("$ cat b\na", "$ cat b\nb"),
        all.replace("board#", "moon#"),
        all.replace("```text b", "```text c"),
        all.replace("text b\na", "text b\nb"),
        all.replace("```text b", "```toml"),
        "```console\n$ false\n```\n".to_owned(),
        "```console\n$ true # fails\n```\n".to_owned(),
        "nothing\n".to_owned(),
    ] {
        assert!(fails(&text), "{text}");
    }
}
