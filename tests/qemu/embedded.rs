//! Runs the embedded example on its board. Checks the output on its console, and the output of `dtrace` at the other end of its
//! serial line.

use std::process::{Command, Output};

use harness::embedded::{self, Board, Target};

use crate::machine::dtrace_program;

const LIST: &str = "   ID   PROVIDER            MODULE                          FUNCTION NAME\n";
const HEADING: &str = "CPU     ID                    FUNCTION:NAME\n";
const READING: &str = "none:reading ";

/// Boots the board. Returns it, and the first lines on its console: the list of probes. Readings follow.
fn boot(target: Target) -> (Board, Vec<String>) {
    // Build it first, so that the board does not wait for the build.
    dtrace_program();
    let mut board = Board::boot(target).unwrap();
    let mut listed = Vec::new();
    loop {
        match &*board.printed().unwrap() {
            "" => panic!("it has ended: {listed:?}"),
            HEADING => break,
            line => listed.push(line.to_owned()),
        }
    }
    assert_eq!(listed.pop().unwrap(), "dtrace: description 'sensor:::' matched 1 probe\n");
    // QEMU itself prints a message about the timer, which has no period yet.
    listed.retain(|line| !line.starts_with("Timer with period zero"));
    (board, listed)
}

/// A reading, raw and in thousandths of a degree, and the readings that follow.
fn readings() -> impl Iterator<Item = (i32, i32)> {
    (0..).map(|n| 1000 + 8 * (n % 16)).map(|raw| (raw, (raw - 1010) * 250))
}

fn dtrace(board: &Board, args: &[&str]) -> Output {
    let mut command = Command::new(dtrace_program());
    let line = format!("unix:{}", board.line().display());
    command.args(["--connect", &line]).args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn a_board_prints_its_own_hits() {
    let (mut board, listed) = boot(Target::Armv7m);
    assert_eq!(listed[0], LIST);
    // The order of the program's own probes depends on the linker.
    let mut probes: Vec<_> = listed[1..].iter().map(|line| line.split_whitespace()).collect();
    let mut names: Vec<_> = probes.iter_mut().map(|row| row.skip(1).collect::<Vec<_>>()).collect();
    names.sort_unstable();
    let mut expected = vec![
        vec!["clock", "firmware", "none", "tick"],
        vec!["sensor", "firmware", "none", "reading"],
    ];
    expected.extend(["BEGIN", "END", "ERROR"].map(|name| vec!["dtrace", name]));
    expected.sort_unstable();
    assert_eq!(names, expected);
    for (raw, millidegrees) in readings().take(20) {
        let printed = board.printed().unwrap();
        let (_, hit) = printed.split_once(READING).unwrap_or_else(|| panic!("{printed}"));
        assert_eq!(hit, format!("{raw} {millidegrees}\n"));
    }
}

#[test]
fn a_board_is_traced_from_a_workstation() {
    is_traced_from_a_workstation(Target::Armv7m);
}

#[test]
fn a_processor_without_compare_and_swap_is_traced() {
    is_traced_from_a_workstation(Target::Armv6m);
}

fn is_traced_from_a_workstation(target: Target) {
    let (mut board, listed) = boot(target);
    let output = dtrace(&board, &["-l"]);
    assert_eq!(stdout(&output), listed.concat());

    // Arguments, by a predicate; in the order in which they were read.
    let program = "sensor:::reading /arg0 > 1050/ { printf(\"%d %d\", arg0, (int)arg1); }
        sensor:::reading /arg0 > 1050 && ++n == 12/ { exit(0); }";
    let output = dtrace(&board, &["-qn", program]);
    let text = stdout(&output).replace('\n', "");
    let mut warm = readings().filter(|(raw, _)| *raw > 1050).take(9);
    for (raw, millidegrees) in warm.by_ref() {
        assert!(text.contains(&format!("{raw} {millidegrees}")), "{text}");
    }

    // Aggregations, timers, BEGIN and END. The timers interrupt the program itself.
    let program = "BEGIN { printf(\"begins \"); }
        sensor:::reading { @by[arg0 < 1064 ? \"cold\" : \"warm\"] = count(); n++; }
        profile-97 { @where[arg0 != 0 && arg1 == 0] = count(); }
        clock:::tick { @ticks = max(arg0); }
        tick-10 /n > 31/ { exit(0); }
        END { printa(\"%s %@d \", @by); printa(\"%d:%@d \", @where); printf(\"ends\"); }";
    let output = dtrace(&board, &["-qn", program]);
    let text = stdout(&output);
    assert!(text.starts_with("begins ") && text.contains("ends"), "{text}");
    let count = |of: &str| -> u32 {
        let (_, rest) = text.split_once(of).unwrap_or_else(|| panic!("{of}: {text}"));
        rest.split_whitespace().next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
    };
    let (cold, warm) = (count("cold "), count("warm "));
    assert!(cold + warm >= 32 && cold >= 16 && warm >= 16, "{text}");
    assert!(count("1:") > 100, "{text}");

    // It continues to print meanwhile, and keeps no state of the earlier consumer.
    assert!(board.printed().unwrap().contains(READING));
    assert_eq!(stdout(&dtrace(&board, &["-l", "-P", "dtrace"])).lines().count(), 4);
}

/// The description of a type for D: `size`, and each field's name, offset, size and type.
fn described(text: &str, kind: &str, name: &str) -> (usize, Vec<(String, usize, usize, String)>) {
    let head = format!("{kind}\t{name}\t");
    let (_, rest) = text.split_once(&head).unwrap_or_else(|| panic!("{name} is not described"));
    let mut lines = rest.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let size = lines.next().unwrap()[0];
    let number = |word: &str| word.parse().unwrap();
    let fields = lines.map_while(|line| match line[..] {
        ["field", name, offset, size, _, of] => {
            Some((name.to_owned(), number(offset), number(size), of.to_owned()))
        }
        _ => None,
    });
    (number(size), fields.collect())
}

/// C enums are as short as their constants allow on these processors, and so is the tag of an enum with data.
#[test]
fn short_enums_are_described_as_they_are() {
    let library = embedded::build_example(Target::Armv7m, "short_enums").unwrap();
    // Text from the section with the descriptions. The NULs between it have no meaning.
    let bytes: Vec<_> =
        std::fs::read(library).unwrap().into_iter().filter(|&byte| byte != 0).collect();
    let text = String::from_utf8_lossy(&bytes);
    let fields = |of: &[(&str, usize, usize, &str)]| {
        let owned =
            |&(name, at, size, ty): &(&str, _, _, &str)| (name.to_owned(), at, size, ty.to_owned());
        of.iter().map(owned).collect::<Vec<_>>()
    };
    assert_eq!(
        described(&text, "union", "union reading"),
        (4, fields(&[("tag", 0, 1, "uint8_t"), ("raw", 0, 4, "struct reading_raw")]))
    );
    assert_eq!(
        described(&text, "struct", "struct reading_raw"),
        (
            4,
            fields(&[
                ("tag", 0, 1, "uint8_t"),
                ("bytes", 1, 2, "char"),
                ("phase", 3, 1, "uint8_t")
            ])
        )
    );
    assert_eq!(
        described(&text, "union", "union event"),
        (
            12,
            fields(&[
                ("tag", 0, 1, "uint8_t"),
                ("timer", 0, 12, "struct event_timer"),
                ("failed", 0, 6, "struct event_failed"),
            ])
        )
    );
    assert_eq!(
        described(&text, "struct", "struct event_timer"),
        (
            12,
            fields(&[
                ("tag", 0, 1, "uint8_t"),
                ("ticks", 4, 4, "uint32_t"),
                ("level", 8, 2, "int16_t")
            ])
        )
    );
}

#[test]
fn a_board_refuses_what_it_has_no_room_for() {
    let (mut board, _) = boot(Target::Armv7m);
    let program = "sensor:::reading { @[arg0] = count(); self->x = arg0; } tick-1 { exit(0); }";
    let output = dtrace(&board, &["-x", "bufresize=manual", "-qn", program]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr.contains("bytes are needed and "), "{stderr}");
    // The refused consumer leaves no data on the board.
    assert!(board.printed().unwrap().contains(READING));
    let output = dtrace(&board, &["-qn", "sensor:::reading { trace(arg0); exit(0); }"]);
    assert!(stdout(&output).trim().parse::<u32>().is_ok_and(|raw| raw >= 1000), "{output:?}");
}

/// The framework without its DIF interpreter runs clauses of numbers, and refuses the others.
#[test]
fn a_board_without_an_interpreter_traces_numbers() {
    let (mut board, listed) = boot(Target::WithoutInterpreter);
    assert_eq!(stdout(&dtrace(&board, &["-l"])), listed.concat());
    let program = "BEGIN { printf(\"begins %d \", 7); }
        sensor:::reading /arg0 > 1050/ { printf(\"%d %d;\", arg0, arg1); @[arg0] = count(); @all = max(arg0); }
        tick-5s { exit(0); }
        END { printf(\"ends \"); printa(\"%d:%@d \", @); printa(\"all %@d\", @all); }";
    let text = stdout(&dtrace(&board, &["-qn", program])).replace('\n', "");
    assert!(text.starts_with("begins 7 ") && text.contains("ends "), "{text}");
    for (raw, millidegrees) in readings().filter(|(raw, _)| *raw > 1050).take(9) {
        assert!(text.contains(&format!("{raw} {millidegrees};")), "{text}");
        assert!(text.contains(&format!("{raw}:")), "{text}");
    }
    assert!(text.ends_with("all 1120"), "{text}");

    for clause in [
        "{ @[arg0 / 2] = count(); }",
        "/arg0 > 1050 && arg1 > 0/ { trace(arg0); }",
        "{ trace(probename); }",
    ] {
        let program = format!("tick-1s {{ exit(0); }} sensor:::reading {clause}");
        let output = dtrace(&board, &["-qn", &program]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr.contains("clause 1 needs the DIF interpreter"), "{stderr}");
    }
    assert!(board.printed().unwrap().contains(READING));
}
