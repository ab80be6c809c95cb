//! Arguments of Rust probes in D programs. The traced process is this test program itself.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::ffi::c_char;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sdt_core::arg::{CType, Shown, show};
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    /// Probes with names of files.
    pub fs {
        /// Something is written.
        fn write(path: &str, data: &[u8]);
        /// Arguments of two words between other arguments, and an optional argument.
        fn between(before: u8, path: &str, text: Option<&str>, numbers: &[u32]);
        /// An operation failed.
        fn failed(err: Shown);
        /// A string that ends with a NUL, and a number that is not its length.
        fn said(text: *const core::ffi::c_char as "char *" => "string", number: usize);
        /// Values that may be missing, and names that are words of D.
        fn optional(tries: Option<i32>, key: u128, string: u8, r#type: Option<&str>);
    }
}

/// A tag in front of a union.
#[derive(Clone, CType)]
#[repr(C, u16)]
enum Address {
    #[allow(dead_code)]
    None,
    V4([u8; 4]) = 4,
    V6 {
        words: [u64; 2],
        #[c_name = "zone"]
        scope: u16,
    },
}

/// An enum whose layout is a union of structs, each of which begins with the tag. It has a const parameter.
#[derive(CType)]
#[repr(u8)]
#[c_type(describe(2, 3))]
enum Event<'a, const COUNT: usize> {
    Counted([u16; COUNT]),
    Followed(u8, Option<&'a Self>),
    #[c_name = "text"]
    String {
        bytes: [c_char; 5],
    },
}

/// An enum whose tag has the size of an enum in C.
#[derive(CType)]
#[repr(C, align(16))]
enum Plain {
    #[allow(dead_code)]
    Small(u8),
    Large(Address),
}

/// A struct with an enum between other fields.
#[derive(CType)]
#[repr(C)]
struct Header {
    before: u8,
    address: Address,
    after: u32,
}

sdt_provider! {
    /// Packets.
    pub packets {
        /// A packet has arrived.
        fn came(header: &Header, event: &Event<'_, 2>, plain: &Plain, other: &Event<'_, 3>);
    }
}

/// Returns a copy of the bytes directly before memory that cannot be accessed.
fn at_the_end(bytes: &[u8]) -> &'static [u8] {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
    const PAGE: usize = 4096;
    // SAFETY: the mapping is new and is never unmapped. Only its first page is accessed: `bytes` are at most a page.
    unsafe {
        let all = mmap_anonymous(
            std::ptr::null_mut(),
            2 * PAGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
        .unwrap()
        .cast::<u8>();
        mprotect(all.add(PAGE).cast(), PAGE, MprotectFlags::empty()).unwrap();
        let place = std::slice::from_raw_parts_mut(all.add(PAGE - bytes.len()), bytes.len());
        place.copy_from_slice(bytes);
        place
    }
}

/// Locked while a test runs dtrace, because all tests fire the same probes.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

/// The hosting of this program's probes, which the first test starts.
static TRACED: OnceLock<sdt_process::Process> = OnceLock::new();

fn traced() -> sdt_process::Process {
    sdt_process::Options::new().module(c"program".to_owned()).start().unwrap()
}

/// Runs `dtrace -p` on a program while the probe fires, until the program ends; returns output and messages.
fn dtrace(program: &str, fire: impl Fn() + Sync, options: &[&str]) -> (String, String) {
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    TRACED.get_or_init(traced);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                fire();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        command.args(["-p", &std::process::id().to_string(), "-q"]).args(options);
        let output = command.args(["-n", program]).output();
        done.store(true, Ordering::Release);
        let output = output.unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut shown = text(&output.stdout);
        // dtrace(1) prints a newline at the end of its output.
        let said = text(&output.stderr);
        assert_eq!(shown.pop(), Some('\n'), "{said}");
        (shown, said)
    })
}

/// Returns the output of a clause for the first hit of `write`.
fn written(path: &'static str, data: &'static [u8], program: &str, options: &[&str]) -> String {
    let program = format!("{program} fs:::write {{ exit(0); }}");
    let (shown, said) = dtrace(&program, || sdt_probe!(fs::write, path, data), options);
    assert_eq!(said, "", "{program}");
    shown
}

fn text(of: &str) -> &'static str {
    std::str::from_utf8(at_the_end(of.as_bytes())).unwrap()
}

#[test]
fn text_is_one_value() {
    let (path, data) = (text("/etc/motd"), at_the_end(b"hello"));
    let of = |program: &str| written(path, data, program, &[]);
    assert_eq!(of(r#"fs:::write { printf("%s|%s|", args[0], args[2]); }"#), "/etc/motd|hello|");
    assert_eq!(of(r#"fs:::write { trace(args[0]); }"#), "/etc/motd");
    let numbers = r#"fs:::write { printf("%d %d %d", strlen(args[0]), args[1], args[3]); }"#;
    assert_eq!(of(numbers), "9 9 5");
    let compared = r#"fs:::write { printf("%d %d %d %d", args[0] == "/etc/motd", args[0] == "/etc/mot",
        args[0] == "/etc/motd ", args[2] != "hello"); }"#;
    assert_eq!(of(compared), "1 0 0 0");
    let joined = r#"fs:::write { printf("%s %s", basename(args[0]), strjoin(args[2], args[0])); }"#;
    assert_eq!(of(joined), "motd hello/etc/motd");
    let kept = r#"fs:::write { self->path = args[0]; this->data = args[2]; }
        fs:::write { printf("%s %s", self->path, this->data); }"#;
    assert_eq!(of(kept), "/etc/motd hello");
    let keys =
        r#"fs:::write { @[args[0], args[2]] = count(); @sizes = quantize(strlen(args[0])); }"#;
    let shown = of(keys);
    let words: Vec<_> =
        shown.lines().find(|line| line.contains("motd")).unwrap().split_whitespace().collect();
    assert_eq!(words[..2], ["/etc/motd", "hello"], "{shown}");
    let asked = r#"fs:::write /args[0] == "/etc/motd" && strstr(args[2], "ell") != NULL/ { printf("yes"); }"#;
    assert_eq!(of(asked), "yes");
}

/// A string in D cannot contain NULs. Each NUL becomes a `?`, so that the text after it is not lost.
#[test]
fn text_with_nuls_is_whole() {
    let (path, data) = (text("a\0b\0"), at_the_end(b"\0"));
    let program = r#"fs:::write { printf("%s|%d|%d|%s", args[0], strlen(args[0]), args[0] == "a", args[2]); }"#;
    assert_eq!(written(path, data, program, &[]), "a?b?|4|0|?");
}

#[test]
fn text_of_any_length_is_cut_where_strings_are() {
    let program = r#"fs:::write { printf("%s|%d|%d", args[0], strlen(args[0]), args[1]); }"#;
    assert_eq!(written("", &[], program, &[]), "|0|0");
    let long = text(&"x".repeat(3000));
    let x = |times| "x".repeat(times);
    assert_eq!(written(long, &[], program, &[]), format!("{}|255|3000", x(255)));
    let of = |size: &str| written(long, &[], program, &["-x", &format!("strsize={size}")]);
    assert_eq!(of("16"), format!("{}|15|3000", x(15)));
    assert_eq!(of("3000"), format!("{}|2999|3000", x(2999)));
    assert_eq!(of("8k"), format!("{}|3000|3000", x(3000)));
}

#[test]
fn words_in_front_of_text_move_it() {
    let path = text("p");
    let numbers: &[u32] = &[7, 8];
    let fire = || sdt_probe!(fs::between, 5, path, None, numbers);
    let program = r#"fs:::between { printf("%d %s %d [%s] %d %d", args[0], args[1], args[2], args[3], args[4],
        args[5][1]); exit(0); }"#;
    assert_eq!(dtrace(program, fire, &[]), ("5 p 1 [] 0 8".into(), String::new()));
}

/// The length in the next argument limits only arguments that are declared as text.
#[test]
fn a_string_that_was_said_to_be_one_ends_with_its_nul() {
    let fire = || sdt_probe!(fs::said, c"whole".as_ptr(), 2);
    let program = r#"fs:::said { printf("%s %d", args[0], args[1]); exit(0); }"#;
    assert_eq!(dtrace(program, fire, &[]), ("whole 2".into(), String::new()));
}

#[test]
fn what_is_shown_is_a_string() {
    let error = "x".parse::<u8>().unwrap_err();
    let fire = || sdt_probe!(fs::failed, show(&error));
    for program in [
        r#"fs:::failed { printf("%s", args[0]); exit(0); }"#,
        r#"fs:::failed { printf("%s", stringof(args[0])); exit(0); }"#,
        r#"fs:::failed { trace(args[0]); exit(0); }"#,
        r#"fs:::failed { @[args[0]] = count(); exit(0); } END { printa("%s", @); }"#,
        r#"fs:::failed /args[0] == "invalid digit found in string" && strlen(args[0]) == 29/ { trace(args[0]); exit(0); }"#,
        r#"fs:::failed { printf("%s", stringof((char *)arg0)); exit(0); }"#,
    ] {
        let (shown, said) = dtrace(program, fire, &[]);
        assert_eq!((shown.trim(), &*said), ("invalid digit found in string", ""), "{program}");
    }
}

/// Returns the programs in the block after a heading in the documentation of arguments.
fn documented(heading: &str) -> Vec<String> {
    let text = include_str!("../../sdt-core/src/arg/mod.rs");
    let (_, behind) = text.split_once(heading).expect("the heading is there");
    let (_, block) = behind.split_once("```text\n").expect("a block");
    let (block, _) = block.split_once("//! ```").expect("its end");
    let mut programs: Vec<String> = Vec::new();
    for line in block.lines() {
        let line = line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default();
        match line.starts_with("fs:::") {
            true => programs.push(line.to_owned()),
            false => programs.last_mut().expect("a probe first").push_str(line),
        }
    }
    programs
}

#[test]
fn the_idioms_show_what_is_said_of_them() {
    let (path, data) = (text("/tmp/x"), at_the_end(b"\x01A\x02"));
    let [printed, compared, counted] = &documented("# Text")[..] else { panic!("three programs") };
    assert_eq!(written(path, data, printed, &[]), "/tmp/x");
    assert_eq!(written(text("/etc/passwd"), data, compared, &[]), "11 bytes\n");
    assert!(written(path, data, counted, &[]).contains("/tmp/x"));
}

#[test]
fn the_idioms_of_other_kernels_show_what_is_said_of_them() {
    let behind: &'static str = "/tmp/x\0behind".get(..6).unwrap();
    let (path, data) = (text("/tmp/x"), at_the_end(b"\x01A\x02"));
    let [cut, copied, replaced, dumped] = &documented("## On FreeBSD and illumos")[..] else {
        panic!("four programs")
    };
    // This idiom reads up to the next NUL, which `behind` contains after the text.
    assert_eq!(written(behind, data, cut, &[]), "/tmp/x");
    for path in [path, behind] {
        assert!(written(path, data, copied, &[]).contains("/tmp/x "), "{copied}");
        assert_eq!(written(path, data, replaced, &[]), "/tmp/x");
    }
    assert_eq!(written(text("a\0b"), data, replaced, &[]), "a b");
    let dump = written(path, data, dumped, &[]);
    assert!(dump.contains("0: 01 41 02 ") && dump.contains(".A."), "{dump}");
    // The program does not print the byte after the data.
    assert!(!dump.contains("01 41 02 00"), "{dump}");
    // If no NUL follows the text, the clause has a fault, which dtrace reports.
    let program = format!("{cut} fs:::write {{ exit(0); }}");
    let (shown, said) = dtrace(&program, || sdt_probe!(fs::write, path, data), &[]);
    assert!(said.contains("invalid address"), "{shown}{said}");
}

#[test]
fn enums_with_data_can_be_looked_into() {
    let v4 = || Header { before: 1, address: Address::V4([192, 168, 0, 9]), after: 77 };
    let v6 = Address::V6 { words: [5, 6], scope: 7 };
    let (first, text) = (Event::Counted([8, 9]), Event::String { bytes: [b'w' as c_char; 5] });
    let followed = Event::Followed(3, Some(&first));
    let wide = Event::Counted([1, 2, 3]);
    let of = |header: &Header, event: &Event<'_, 2>, plain: &Plain, program: &str| {
        let fire = || sdt_probe!(packets::came, header, event, plain, &wide);
        dtrace(&format!("packets:::came {{ {program}; exit(0); }}"), fire, &[])
    };
    let plain = Plain::Large(v6.clone());
    let shown = |event: &Event<'_, 2>, program: &str| {
        let (shown, said) = of(&v4(), event, &plain, program);
        assert_eq!(said, "", "{program}");
        shown
    };
    assert_eq!(
        shown(
            &first,
            r#"printf("%d %d %d %d", args[0]->before, args[0]->address.tag == ADDRESS_V4,
            args[0]->address.v4._0[3], args[0]->after)"#
        ),
        "1 1 9 77"
    );
    assert_eq!(
        shown(
            &first,
            r#"printf("%d %d %d %d", args[2]->tag == PLAIN_LARGE, args[2]->large._0.tag,
            args[2]->large._0.v6.words[1], args[2]->large._0.v6.zone)"#
        ),
        "1 5 6 7"
    );
    assert_eq!(
        shown(
            &followed,
            r#"printf("%d %d %d %d", args[1]->tag == EVENT_FOLLOWED, args[1]->followed._0,
            args[1]->followed._1->tag == EVENT_COUNTED, args[1]->followed._1->counted._0[1])"#
        ),
        "1 3 1 9"
    );
    assert_eq!(
        shown(&text, r#"printf("%d %s", args[1]->tag == EVENT_TEXT, args[1]->text.bytes)"#),
        "1 wwwww"
    );
    assert_eq!(shown(&first, r#"printf("%d", args[3]->counted._0[2])"#), "3");
    let sizes = format!(
        "{} {} {} {}",
        size_of::<Header>(),
        size_of::<Event<'_, 2>>(),
        size_of::<Plain>(),
        size_of::<Event<'_, 3>>()
    );
    let asked = r#"printf("%d %d %d %d", sizeof(struct header), sizeof(union event_2), sizeof(union plain),
        sizeof(union event_3))"#;
    assert_eq!(shown(&first, asked), sizes);
}

/// Returns the output of a clause for the first hit of `between` and of `optional`.
fn by_name(program: &str, options: &[&str]) -> (String, String) {
    let path = text("p");
    let numbers: &[u32] = &[7, 8];
    let fire = || {
        sdt_probe!(fs::between, 5, path, None, numbers);
        sdt_probe!(fs::optional, Some(-3), 9 << 64 | 4, 6, Some(path));
    };
    dtrace(program, fire, options)
}

#[test]
fn arguments_have_names() {
    for (program, expected) in [
        (
            r#"fs:::between { printf("%d %s %d %d|%s|%d", args.before, args.path, args.path.len,
                args.text.is_some, args.text, args.text.len); exit(0); }"#,
            "5 p 1 0||0",
        ),
        (
            r#"fs:::between { printf("%d %d %d %d", args.numbers[1], args.numbers.len, args->numbers->len,
                *args->numbers); exit(0); }"#,
            "8 2 2 7",
        ),
        (
            r#"fs:::optional /args.tries.is_some && args.tries < 0/ { printf("%d %d %d %d %s %d",
                args.tries, args.key.low, args.key.high, args.string, args.type, args.type.is_some);
                exit(0); }"#,
            "-3 4 9 6 p 1",
        ),
        (r#"fs:::between { printf("%c", args.path[0]); exit(0); }"#, "p"),
    ] {
        assert_eq!(by_name(program, &[]), (expected.into(), String::new()), "{program}");
    }
    let nothing = || sdt_probe!(fs::optional, None, 0, 0, None);
    let program =
        r#"fs:::optional { printf("%d %d", args.tries.is_some, args.type.is_some); exit(0); }"#;
    assert_eq!(dtrace(program, nothing, &[]), ("0 0".into(), String::new()));
}

#[test]
fn an_element_outside_of_a_slice_is_a_fault() {
    for index in ["2", "-1", "args.numbers.len"] {
        let program =
            format!("fs:::between {{ trace(args.numbers[{index}]); }} fs:::between {{ exit(0); }}");
        let (shown, said) = by_name(&program, &[]);
        assert!(said.contains("invalid address (0xfffffffffffff000)"), "{index}: {shown}{said}");
    }
}

/// The positions of `path` differ.
#[test]
fn probes_of_one_clause_have_their_own_positions() {
    let (path, numbers): (_, &[u32]) = (text("p"), &[7]);
    let fire = || {
        sdt_probe!(fs::write, "written", b"");
        sdt_probe!(fs::between, 5, path, None, numbers);
    };
    for probes in ["fs:::write, fs:::between", "fs:::write*, fs:::betw*"] {
        let program = format!(
            "{probes} {{ @[probename, args.path] = sum(args.path.len > 0); }} tick-50ms {{ exit(0); }}"
        );
        let (shown, said) = dtrace(&program, fire, &[]);
        let words: Vec<_> =
            shown.split_whitespace().filter(|word| word.parse::<u64>().is_err()).collect();
        assert_eq!((words, &*said), (vec!["between", "p", "write", "written"], ""), "{shown}");
    }
    let (_, said) = refused("fs::: { trace(args.path); }");
    let expected = "these probes have no argument path: fs:::failed, fs:::optional, fs:::said";
    assert!(said.contains(expected), "{said}");
    let (_, said) = refused("fs:::write { trace(args.pathh); }");
    assert!(said.contains("fs:::write has no argument pathh, only path, data"), "{said}");
}

/// Returns the messages of dtrace for a program that it refuses.
fn refused(program: &str) -> (String, String) {
    // Only the error ends dtrace, because the program has no `exit`.
    let output = command(&["-n", program]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs dtrace on this program, after starting the hosting of its probes if necessary.
fn command(args: &[&str]) -> std::process::Output {
    TRACED.get_or_init(traced);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.args(["-p", &std::process::id().to_string()]).args(args).output().unwrap()
}

#[test]
fn names_are_listed() {
    let output = command(&["-l", "-v", "-n", "fs:::between,fs:::optional"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    for line in [
        "args[0]: uint8_t (args.before)",
        "args[1]: string (args.path)",
        "args[2]: size_t (args.path.len)",
        "args[5]: uint32_t * (args.numbers)",
        "args[6]: size_t (args.numbers.len)",
        "args[1]: _Bool (args.tries.is_some)",
        "args[3]: uint64_t (args.key.high)",
        "args[4]: uint8_t (args.string)",
        "args[5]: string (args.type)",
    ] {
        assert!(listed.contains(&format!("\t\t{line}\n")), "{line}: {listed}");
    }
}

#[test]
fn documents_and_timelines_have_names() {
    let program = r#"fs:::between { trace(args.path); printf("%d", args.before); @[args.path, 1] = count(); exit(0); }"#;
    let (shown, _) = by_name(program, &["-x", "oformat=json"]);
    for part in [
        r#"{"value": "p", "argument": "path"}"#,
        r#"{"value": 5, "argument": "before"}"#,
        r#""keys": [{"value": "p", "argument": "path"}, {"value": 1}]"#,
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (shown, _) = by_name(program, &["-x", "oformat=xml"]);
    assert!(shown.contains("<value>p</value><argument>path</argument>"), "{shown}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timeline.json");
    by_name(program, &["--perfetto", file.to_str().unwrap()]);
    let timeline = std::fs::read_to_string(file).unwrap();
    assert!(timeline.contains(r#""args":{"output":"p5","path":"p","before":5}"#), "{timeline}");
}

/// A program that another run compiled with names, and that the process enables by itself.
#[test]
fn anonymous_enablings_use_names() {
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let dof = folder.path().join("dof");
    let program = r#"fs:::write { printf("<%s>\n", args.path); }"#;
    let output = command(&["-A", "-o", dof.to_str().unwrap(), "-n", program]);
    assert!(output.status.success(), "{output:?}");
    let dof = std::fs::read(dof).unwrap();
    TRACED.get_or_init(traced).enable_anonymously(&dof).unwrap();
    let done = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                sdt_probe!(fs::write, "written", b"");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut consumer = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        consumer.args(["-p", &std::process::id().to_string(), "-a", "-q"]);
        let mut consumer = consumer.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut shown = std::io::BufReader::new(consumer.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut shown, &mut line).unwrap();
        consumer.kill().unwrap();
        consumer.wait().unwrap();
        done.store(true, Ordering::Release);
        line
    });
    assert_eq!(output, "<written>\n");
}
