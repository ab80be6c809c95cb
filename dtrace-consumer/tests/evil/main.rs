//! `dtrace` traces a hostile kernel: only the user's own program has effects on this machine, no terminal obeys text of the
//! kernel, and the kernel cannot exhaust memory.
#![cfg(target_os = "linux")]

mod kernel;

use std::fs;
use std::path::Path;

use dtrace_abi::action::{Action, LibAction};
use dtrace_abi::option::OptionId;

use kernel::{Data, Evil, datum};

const PROGRAM: &str = "BEGIN { trace(1); }";

/// Returns a kernel for each action that has an effect, and the name of the action.
fn effects(file: &Path) -> Vec<(Evil, &'static str)> {
    let library =
        |action: LibAction, bytes: &[u8]| datum(Action::LibAct, action.number().into(), 0, bytes);
    let path = file.display();
    let with = |format: String, action| Evil {
        format: format.into_bytes(),
        ..Evil::records(vec![datum(action, 0, 1, &[0; 8])])
    };
    let name = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(16, 0);
        bytes
    };
    let mut all = vec![
        (with(format!("touch {path}"), Action::System), "system"),
        (with(path.to_string(), Action::Freopen), "freopen"),
        (Evil::records(vec![library(LibAction::Ftruncate, &[0; 8])]), "ftruncate"),
        (Evil::records(vec![datum(Action::Exit, 0, 0, &7_u32.to_le_bytes())]), "exit"),
        (
            Evil::records(vec![
                library(LibAction::Setopt, &name("quiet")),
                library(LibAction::Setopt, &name("1")),
            ]),
            "setopt",
        ),
    ];
    for action in [LibAction::Clear, LibAction::Denormalize] {
        all.push((Evil::records(vec![library(action, &1_u64.to_le_bytes())]), action.name()));
    }
    for action in [LibAction::Trunc, LibAction::Normalize] {
        let number = library(action, &1_u64.to_le_bytes());
        all.push((Evil::records(vec![number.clone(), number]), action.name()));
    }
    all
}

#[test]
fn a_true_description_is_accepted() {
    let evil = Evil::records(vec![datum(Action::DifExpr, 0, 0, &1_u32.to_le_bytes())]);
    let (out, err, status) = evil.traced(&["-q", "-n", PROGRAM]);
    assert_eq!((&*out, &*err, status), ("1\n", "", Some(0)));
}

#[test]
fn effects_need_a_statement_of_the_program() {
    for allowed in [&[][..], &["-w"]] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made");
        for (evil, name) in effects(&file) {
            let output = folder.path().join("out");
            fs::write(&output, "before\n").unwrap();
            let to = ["-o", output.to_str().unwrap(), "-n", PROGRAM];
            let (_, err, status) = evil.traced(&[allowed, &to[..]].concat());
            assert!(err.contains("the records contradict the program"), "{name}: {err}");
            assert_eq!(status, Some(1), "{name}: {err}");
            assert!(!file.exists(), "{name}");
            let printed = fs::read_to_string(&output).unwrap();
            assert!(printed.starts_with("before\n"), "{name}: {printed}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
        }
    }
}

/// Records with effects of a program that the kernel enabled before this run (`-a`) are shown, but not performed.
#[test]
fn effects_of_other_programs_are_shown_and_not_performed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made");
    for (mut evil, name) in effects(&file) {
        let output = folder.path().join("out");
        fs::write(&output, "before\n").unwrap();
        // The kernel's option `destructive` permits no effects on this machine.
        evil.options = vec![(OptionId::Destructive.number(), 0)];
        let (_, err, status) = evil.traced(&["-w", "-a", "-o", output.to_str().unwrap()]);
        assert_eq!(status, Some(0), "{name}: {err}");
        assert!(!file.exists(), "{name}");
        let printed = fs::read_to_string(&output).unwrap();
        assert!(printed.starts_with("before\n"), "{name}: {printed}");
        let path = file.display();
        let shown = match name {
            "system" => format!("system(\"touch {path}\") (not performed)\n"),
            "freopen" => format!("freopen(\"{path}\") (not performed)\n"),
            "ftruncate" => "ftruncate() (not performed)\n".into(),
            // The other actions print no text. The heading and the newline are printed in any case.
            _ => ":BEGIN \n".into(),
        };
        assert!(printed.contains(&shown), "{name}: {printed}");
        let is_said = ["system", "freopen", "ftruncate", "setopt"].contains(&name);
        let said = format!("{name}( ) not performed: another run compiled the program");
        assert_eq!(err.contains(&said), is_said, "{name}: {err}");
    }
}

/// The description is right except for one field.
#[test]
fn each_contradiction_is_an_error() {
    let right = datum(Action::DifExpr, 0, 0, &1_u32.to_le_bytes());
    let changed = |change: &dyn Fn(&mut dtrace_protocol::Datum)| {
        let (mut desc, bytes) = right.clone();
        change(&mut desc);
        Evil::records(vec![(desc, bytes)])
    };
    let cases: Vec<(Evil, &str)> = vec![
        (changed(&|of| of.uarg = 2), "belongs to no clause of the program"),
        (changed(&|of| of.uarg = 0), "belongs to no clause of the program"),
        (
            changed(&|of| of.action = Action::Tracemem.number()),
            "differ from the actions of its clause",
        ),
        (changed(&|of| of.action = 0x7777), "differ from the actions of its clause"),
        (changed(&|of| of.size = 8), "differ from the actions of its clause"),
        (changed(&|of| of.arg = 1), "differ from the actions of its clause"),
        (changed(&|of| of.format = 1), "differ from the actions of its clause"),
        (changed(&|of| of.alignment = 8), "differ from the actions of its clause"),
        (
            Evil::records(vec![right.clone(), right.clone()]),
            "differ from the actions of its clause",
        ),
        (Evil::records(vec![]), "belongs to no clause of the program"),
    ];
    for (evil, why) in cases {
        let shown = format!("{evil:?}");
        let (out, err, status) = evil.traced(&["-q", "-n", PROGRAM]);
        assert!(err.contains(why) && status == Some(1), "{shown}: {out}{err}");
    }
    // Another probe than the clause is for.
    let (_, err, status) = Evil::records(vec![right]).traced(&["-q", "-n", "END { trace(1); }"]);
    assert!(err.contains("which is not matched by its clause") && status == Some(1), "{err}");
}

/// dtrace uses the format of the program, not that of the kernel.
#[test]
fn the_format_is_the_programs() {
    let evil = Evil {
        format: b"%s%s%s\x1b]0;owned\x07".to_vec(),
        ..Evil::records(vec![datum(Action::Printf, 0, 1, &7_u32.to_le_bytes())])
    };
    let (out, err, status) = evil.traced(&["-q", "-n", "BEGIN { printf(\"x=%d\\n\", 7); }"]);
    assert_eq!((&*out, &*err, status), ("x=7\n\n", "", Some(0)));
}

/// Returns the data of an element of an aggregation such as `@[1] = count()`.
fn aggregation(variable: u64) -> Data {
    let number = datum(Action::DifExpr, 0, 0, &variable.to_le_bytes());
    let key = datum(Action::DifExpr, 0, 0, &1_u32.to_le_bytes());
    let value = datum(Action::Count, 0, 0, &3_u64.to_le_bytes());
    vec![number, key, value]
}

#[test]
fn aggregations_are_those_of_the_program() {
    let program = ["-q", "-n", "BEGIN { @[1] = count(); }"];
    let of =
        |variable, data| Evil { aggregation: Some((variable, data)), tuples: 1, ..Evil::default() };
    let (out, err, status) = of(1, aggregation(1)).traced(&program);
    assert_eq!(
        (out.split_whitespace().collect::<Vec<_>>(), &*err, status),
        (vec!["0", "3"], "", Some(0))
    );
    let mut sum = aggregation(1);
    sum[2].0.action = Action::Sum.number();
    let mut other = aggregation(1);
    other[2].0.uarg = 9;
    let mut short = aggregation(1);
    short.remove(1);
    for (variable, data) in [(2, aggregation(1)), (1, sum), (1, other), (1, short)] {
        let (out, err, status) = of(variable, data).traced(&program);
        assert!(
            err.contains("aggregation 1 differs from the aggregations of the program"),
            "{out}{err}"
        );
        assert_eq!(status, Some(1));
    }
}

/// A record cannot name another aggregation than its statement.
#[test]
fn clear_applies_to_the_aggregation_of_its_statement() {
    let evil = |variable: u64| {
        let clear = LibAction::Clear.number().into();
        let mut all = datum(Action::LibAct, clear, 0, &variable.to_le_bytes());
        all.0.uarg = 3;
        Evil::records(vec![all])
    };
    let program = ["-q", "-n", "BEGIN { @a = count(); @b = count(); } BEGIN { clear(@a); }"];
    let (_, err, status) = evil(1).traced(&program);
    assert_eq!((&*err, status), ("", Some(0)));
    let (_, err, status) = evil(2).traced(&program);
    assert!(err.contains("names another aggregation than its statement"), "{err}");
    assert_eq!(status, Some(1));
}

/// Escape sequences, a newline in a name, and a mark that reverses text.
const HIDDEN: &str = "ev\x1b]0;owned\x07\u{9b}2J\n\u{202e}\r";

fn is_clean(text: &str) -> bool {
    let is_hidden = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    !text.contains(is_hidden)
}

#[test]
fn no_terminal_obeys_a_kernel() {
    let evil = || Evil { name: HIDDEN.into(), probes: 2, ..Evil::default() };
    for args in
        [&["-l"][..], &["-l", "-v"], &["-l", "--sites"], &["-l", "-v", "--sites", "-n", "*"]]
    {
        let (out, err, status) = evil().traced(args);
        assert!(is_clean(&out) && is_clean(&err) && status == Some(0), "{out:?}{err:?}");
        assert!(out.contains("ev\\u{1b}]0;owned\\u{7}\\u{9b}2J\\n\\u{202e}\\r"), "{out:?}");
        assert!(out.lines().all(|line| !line.starts_with("\\u{202e}")), "{out:?}");
    }
    // Names of symbols in the output of the user's own program.
    let frames: Vec<u8> = [0x10_u64, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let evil =
        Evil { name: HIDDEN.into(), ..Evil::records(vec![datum(Action::Stack, 2, 0, &frames)]) };
    let (out, err, status) = evil.traced(&["-q", "-n", "BEGIN { stack(2); }"]);
    assert!(
        is_clean(&out) && out.contains("ev\\u{1b}]0;owned") && status == Some(0),
        "{out:?}{err}"
    );
    // Claims about a program, and formats and data of other programs.
    let evil = Evil { refuses: Some("no\x1b[2J\x07"), ..Evil::default() };
    let (out, err, status) = evil.traced(&["-n", PROGRAM]);
    assert!(is_clean(&out) && is_clean(&err) && status == Some(1), "{out:?}{err:?}");
    assert!(err.contains("no\\u{1b}[2J\\u{7}"), "{err}");
    let evil = Evil {
        format: b"\x1b]0;owned\x07%d\n".to_vec(),
        ..Evil::records(vec![datum(Action::Printf, 0, 1, &7_u32.to_le_bytes())])
    };
    let (out, err, status) = evil.traced(&["-a", "-q"]);
    assert_eq!((&*out, status), ("\\u{1b}]0;owned\\u{7}7\n\n", Some(0)), "{err}");
}

/// dtrace escapes the names that a kernel sends: they cannot add markup to a picture, to JSON or to XML.
#[test]
fn documents_and_pictures_hold_a_kernels_names_as_text() {
    const NAME: &str = "<script>\u{1b}]0;a\u{7}&\"'</text>;\u{202e} 9";
    // `Evil` numbers its tuples in the first four bytes of their keys.
    let frames: Vec<u8> = [0x10_u64 << 32, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut stacks = aggregation(1);
    stacks[1] = datum(Action::Stack, 2, 0, &frames);
    let counted =
        Evil { name: NAME.into(), aggregation: Some((1, stacks)), tuples: 1, ..Evil::default() };
    let text = b"\x1b[2J</data><script>\"\0";
    let traced =
        || Evil { name: NAME.into(), ..Evil::records(vec![datum(Action::DifExpr, 0, 0, text)]) };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture");
    let path = file.to_str().unwrap();
    let of_string = ["-x", &format!("strsize={}", text.len()), "-n", "BEGIN { trace(execname); }"];
    let mut all = Vec::new();
    let flame = ["-q", "--flamegraph", path, "-n", "BEGIN { @[stack(2)] = count(); }"];
    for (evil, args) in [
        (counted, flame.to_vec()),
        (traced(), [&["-q", "--perfetto", path][..], &of_string].concat()),
    ] {
        let (out, err, status) = evil.traced(&args);
        assert!(is_clean(&out) && is_clean(&err) && status == Some(0), "{args:?}: {out:?}{err:?}");
        all.push(fs::read_to_string(&file).unwrap());
        fs::remove_file(&file).unwrap();
    }
    for format in ["oformat=json", "oformat=xml"] {
        let (out, err, status) = traced().traced(&[&["-x", format][..], &of_string].concat());
        assert!(is_clean(&out) && is_clean(&err) && status == Some(0), "{format}: {out:?}{err:?}");
        all.push(out);
    }
    let [flame, perfetto, json, xml] = all.try_into().unwrap();
    assert!(is_clean(&flame) && is_clean(&perfetto), "{flame}{perfetto}");
    assert!(flame.contains("&lt;script&gt;") && !flame.contains("<script>"), "{flame}");
    assert!(xml.contains("&lt;script&gt;") && !xml.contains("<script>"), "{xml}");
    assert!(
        perfetto.contains(r#"<script>\""#) && json.contains(r#"<script>\""#),
        "{perfetto}{json}"
    );
}

#[test]
fn a_kernel_cannot_exceed_its_memory() {
    let right = || Evil::records(vec![datum(Action::DifExpr, 0, 0, &1_u32.to_le_bytes())]);
    let cases: Vec<(Evil, &[&str], &str, u64)> = vec![
        // A buffer of 4 GiB; the default limit is 1 GiB.
        (Evil { size: Some(u32::MAX), ..right() }, &["-n", PROGRAM], "buffers", 1 << 30),
        (
            Evil { size: Some(2 << 20), ..right() },
            &["-x", "memory=1m", "-n", PROGRAM],
            "buffers",
            1 << 20,
        ),
        (
            Evil { declares: (1 << 20, u32::MAX), ..right() },
            &["-x", "memory=64m", "-n", PROGRAM],
            "declarations",
            64 << 20,
        ),
        (Evil { probes: u32::MAX, ..right() }, &["-x", "memory=4m", "-l"], "probes", 4 << 20),
        (
            Evil { aggregation: Some((1, aggregation(1))), tuples: 20_000, ..Evil::default() },
            &["-x", "memory=2m", "-n", "BEGIN { @[1] = count(); }"],
            "aggregations",
            2 << 20,
        ),
    ];
    for (evil, args, what, limit) in cases {
        let (out, err, status) = evil.traced(args);
        let said = format!(
            "the {what} exceed the memory that dtrace keeps for one kernel or process ({limit} \
             bytes): -x memory=SIZE raises the limit"
        );
        assert!(err.contains(&said) && status == Some(1), "{what}: {out}{err}");
    }
    // The limit can be raised.
    let evil = Evil { aggregation: Some((1, aggregation(1))), tuples: 20_000, ..Evil::default() };
    let (out, err, status) =
        evil.traced(&["-q", "-x", "memory=64m", "-n", "BEGIN { @[1] = count(); }"]);
    assert_eq!((out.split_whitespace().count(), status), (40_000, Some(0)), "{err}");
}
