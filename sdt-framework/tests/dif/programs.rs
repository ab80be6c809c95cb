//! Compiled D programs, and the output of a real dtrace(1) for them (FreeBSD 13.0-CURRENT, amd64).
//!
//! The consumer here implements only the actions that these programs need: `trace`, and `printf` with a few conversions.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_abi::fault::Fault;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Act, Ecb, Program as Compiled};
use dtrace_compiler::{Compiler, Source};
use sdt_framework::testing::{Access, Declarations, Difo, Failure, Firing, Program, Slot};

use crate::machine::Machine;
use crate::world::{self, World};

/// The record of an action.
#[derive(Clone, Debug)]
enum Datum {
    Number(i64, u32),
    Text(Vec<u8>),
}

/// Checks a DIFO and leaks it, because the machine borrows it for as long as the program exists.
pub fn validate(
    difo: &dtrace_compiler::program::Difo,
    declarations: &mut Declarations<'_>,
) -> Program<'static> {
    let source = Difo {
        code: &difo.code,
        integers: &difo.integers,
        strings: &difo.strings,
        variables: &difo.variables,
        returns: difo.returns,
    };
    let slots = Box::leak(vec![Slot::EMPTY; difo.code.len()].into());
    Program::new(&source, declarations, true, slots)
        .unwrap_or_else(|error| panic!("{error}: {difo:?}"))
}

pub fn compile(text: &str) -> Compiled {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    compiler.compile(Source::file(text.as_bytes()), &Machine).unwrap()
}

/// The index of an action, and the fault in it.
type Error = (usize, Failure);

struct Consumer {
    world: World,
    declarations: Declarations<'static>,
    quiet: bool,
    out: String,
    err: String,
    exiting: bool,
}

impl Consumer {
    fn clause(&mut self, firing: &mut Firing<'_, World>, ecb: &Ecb, epid: u32) {
        let run = |firing: &mut Firing<'_, World>, this: &mut Self| -> Result<bool, Error> {
            if let Some(predicate) = &ecb.predicate {
                let program = validate(predicate, &mut this.declarations);
                if firing.run(&program).map_err(|failure| (0, failure))? == 0 {
                    return Ok(false);
                }
            }
            let mut data = Vec::new();
            for (index, act) in ecb.actions.iter().enumerate() {
                let datum = this.action(firing, act).map_err(|failure| (index + 1, failure))?;
                data.push(datum);
            }
            this.print(ecb, &data);
            Ok(true)
        };
        firing.begin(epid);
        // A record that is aborted leaves no data in the buffer.
        let before = self.out.len();
        if let Err((action, failure)) = run(firing, self) {
            self.out.truncate(before);
            self.report(epid, action, failure);
        } else if ecb.actions.iter().any(|act| act.kind == Action::Exit) {
            self.exiting = true;
        }
    }

    fn action(
        &mut self,
        firing: &mut Firing<'_, World>,
        act: &Act,
    ) -> Result<Option<Datum>, Failure> {
        let Some(difo) = &act.difo else { return Ok(None) };
        let program = validate(difo, &mut self.declarations);
        let value = firing.run(&program)?;
        let ty = program.returns();
        if ty.size == 0 {
            return Ok(None);
        }
        if !ty.is_by_ref() {
            let number = match ty.size {
                1 => i64::from(value as u8),
                2 => i64::from(value as u16),
                4 => i64::from(value as i32),
                _ => value as i64,
            };
            return Ok(Some(Datum::Number(number, ty.size)));
        }
        let mut bytes = vec![0; ty.size as usize];
        // Converts a fault outside of any instruction.
        let outside = |stop: sdt_framework::testing::Stop| Failure {
            fault: stop.fault,
            offset: u32::MAX,
            address: stop.address,
        };
        if ty.is_string() {
            let length = firing.fetch_string(value, &mut bytes).map_err(outside)?;
            bytes.truncate(length);
            if bytes.last() == Some(&0) {
                bytes.pop();
            }
        } else {
            firing.fetch(value, &mut bytes).map_err(outside)?;
        }
        Ok(Some(Datum::Text(bytes)))
    }

    fn print(&mut self, ecb: &Ecb, data: &[Option<Datum>]) {
        let records = ecb.actions.iter().any(|act| {
            act.kind == Action::Exit || act.difo.as_ref().is_some_and(|difo| difo.returns.size != 0)
        });
        let records = records || ecb.statements.iter().any(|statement| statement.text.is_some());
        if !self.quiet && records {
            let name = &ecb.probe.name;
            let id = ["BEGIN", "END", "ERROR"].iter().position(|it| it == name).unwrap() + 1;
            write!(self.out, "{:>3} {:>6} {:>32} ", 0, id, format!(":{name}")).unwrap();
        }
        let mut at = 0;
        for statement in &ecb.statements {
            let range = at..at + statement.actions;
            let data: Vec<_> = data[range.clone()].iter().flatten().cloned().collect();
            match (&statement.text, ecb.actions[range].first().map(|act| act.kind)) {
                (Some(format), _) => self.printf(std::str::from_utf8(format).unwrap(), &data),
                (None, Some(Action::DifExpr)) => {
                    for datum in data {
                        self.trace(&datum);
                    }
                }
                _ => {}
            }
            at += statement.actions;
        }
        if !self.quiet && records {
            self.out.push('\n');
        }
    }

    fn trace(&mut self, datum: &Datum) {
        let out = &mut self.out;
        match (datum, self.quiet) {
            (Datum::Number(number, _), true) => write!(out, "{number}"),
            (Datum::Number(number, 1), _) => write!(out, " {number:>3}"),
            (Datum::Number(number, 2), _) => write!(out, " {number:>5}"),
            (Datum::Number(number, 4), _) => write!(out, " {number:>8}"),
            (Datum::Number(number, _), _) => write!(out, " {number:>16}"),
            (Datum::Text(text), true) => write!(out, "{}", String::from_utf8_lossy(text)),
            (Datum::Text(text), _) => write!(out, "  {:<33}", String::from_utf8_lossy(text)),
        }
        .unwrap();
    }

    fn printf(&mut self, format: &str, data: &[Datum]) {
        let mut data = data.iter();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('%') {
            self.out.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                self.out.push('%');
                rest = after;
                continue;
            }
            let end =
                after.find(|c: char| c.is_ascii_alphabetic() && !"hlLqw".contains(c)).unwrap();
            let (spec, conversion) = (&after[..end], after.as_bytes()[end]);
            let width = spec.trim_end_matches(|c| "hlLqw".contains(c));
            rest = &after[end + 1..];
            let text = converted(conversion, data.next().expect("an argument for each conversion"));
            let (left, width) = match width.strip_prefix('-') {
                Some(width) => (true, width),
                None => (false, width),
            };
            let width = if width.is_empty() { 0 } else { width.parse().expect("a width") };
            match left {
                true => write!(self.out, "{text:<width$}"),
                false => write!(self.out, "{text:>width$}"),
            }
            .unwrap();
        }
        self.out.push_str(rest);
    }

    fn report(&mut self, epid: u32, action: usize, failure: Failure) {
        write!(self.err, "dtrace: error on enabled probe ID {epid} (ID 1: dtrace:::BEGIN): ")
            .unwrap();
        self.err.push_str(failure.fault.name());
        if matches!(failure.fault, Fault::BadAddress | Fault::BadAlignment) {
            write!(self.err, " ({:#x})", failure.address).unwrap();
        }
        write!(self.err, " in action #{action}").unwrap();
        if failure.offset != u32::MAX {
            write!(self.err, " at DIF offset {}", failure.offset).unwrap();
        }
        self.err.push('\n');
    }
}

fn converted(conversion: u8, datum: &Datum) -> String {
    match (conversion, datum) {
        (b'd' | b'i', Datum::Number(number, _)) => number.to_string(),
        (b'u', Datum::Number(number, size)) => unsigned(*number, *size).to_string(),
        (b'x', Datum::Number(number, size)) => format!("{:x}", unsigned(*number, *size)),
        (b'o', Datum::Number(number, size)) => format!("{:o}", unsigned(*number, *size)),
        (b'c', Datum::Number(number, _)) => char::from(*number as u8).to_string(),
        (b's', Datum::Text(text)) => {
            let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        }
        _ => panic!("%{} of {datum:?}", char::from(conversion)),
    }
}

fn unsigned(number: i64, size: u32) -> u64 {
    number as u64 & (u64::MAX >> (64 - 8 * size.min(8)))
}

/// Returns the output of a program, and the messages about its faults.
fn run(text: &str, quiet: bool) -> (String, String) {
    let program = compile(text);
    let memory = world::memory(256, 1, 64);
    let mut consumer = Consumer {
        world: World::default(),
        declarations: world::declarations(memory),
        quiet,
        out: String::new(),
        err: String::new(),
        exiting: false,
    };
    for (id, name) in (1..).zip(["BEGIN", "END"]) {
        let world = std::mem::take(&mut consumer.world);
        let mut firing = world::firing(&world, memory, Access::ALL, id, 0);
        for (epid, ecb) in (1..).zip(&program.ecbs) {
            if ecb.probe.name == name && !(consumer.exiting && name == "BEGIN") {
                consumer.clause(&mut firing, ecb, epid);
            }
        }
    }
    (consumer.out, consumer.err)
}

/// Removes an address of the kernel (`0xfff...`) from a message about a fault: a real dtrace(1) prints other addresses, and some
/// are those of earlier faults. In all other messages, replaces `(0x44` by `(address: 0x44`.
fn without_addresses(line: &str) -> String {
    match (line.find(" (0xfff"), line.find(") in action")) {
        (Some(start), Some(end)) => format!("{} (address{}", &line[..start], &line[end..]),
        _ => line.replace("(0x44", "(address: 0x44"),
    }
}

fn faults(text: &str) -> Vec<String> {
    let errors = text.lines().filter(|line| line.starts_with("dtrace: error on enabled probe"));
    errors
        .map(|line| {
            let line = without_addresses(line);
            match (line.find("(address"), line.find(") in action")) {
                (Some(start), Some(end)) => format!("{}(address{}", &line[..start], &line[end..]),
                _ => line,
            }
        })
        .collect()
}

/// Returns whether two texts are equal, except for numbers with the same bits. A record does not contain the signedness, which only
/// the consumer knows.
fn same_bits(ours: &str, theirs: &str) -> bool {
    let same = |(ours, theirs): (&str, &str)| {
        let (Ok(one), Ok(other)) = (ours.parse::<i128>(), theirs.parse::<i128>()) else {
            return ours == theirs;
        };
        [8, 16, 32, 64].iter().any(|bits| {
            let fits = |number| (-(1i128 << (bits - 1))..1 << bits).contains(&number);
            fits(one) && fits(other) && (one - other) % (1 << bits) == 0
        })
    };
    let split = |text| str::split_inclusive(text, char::is_whitespace);
    split(ours).count() == split(theirs).count()
        && split(ours).zip(split(theirs)).all(|(ours, theirs)| {
            ours.len() - ours.trim_end().len() == theirs.len() - theirs.trim_end().len()
                && same((ours.trim_end(), theirs.trim_end()))
        })
}

#[test]
fn programs_print_what_the_real_one_prints() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
    let mut paths: Vec<_> =
        fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "d"));
    paths.sort();
    assert!(paths.len() > 40);
    let mut failed = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let out = fs::read_to_string(path.with_extension("out")).unwrap();
        let err = fs::read_to_string(path.with_extension("err")).unwrap();
        let quiet = !out.starts_with("CPU ");
        let result = std::panic::catch_unwind(|| run(&text, quiet));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Ok((ours, faulted)) = result else {
            failed.push(format!("{name}: panicked"));
            continue;
        };
        // A header, and one more newline at the end.
        let theirs = out.split_once("FUNCTION:NAME\n").map_or(out.as_str(), |(_, rest)| rest);
        let theirs = theirs.strip_suffix('\n').unwrap_or(theirs);
        if !same_bits(&ours, theirs) {
            failed.push(format!("{name}:\n--- ours\n{ours}\n--- theirs\n{theirs}"));
        }
        if faults(&faulted) != faults(&err) {
            failed.push(format!("{name}:\n--- ours\n{faulted}\n--- theirs\n{err}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// `json` returns an element of a JSON text, or NULL if there is no such element.
#[test]
fn json() {
    let cases = [
        (r#"{\"a\":{\"b\":1}}"#, "a.b", Some("1")),
        (r#"{ \"a\" : [ 1 , [2, 3] ] }"#, "a[1][0]", Some("2")),
        ("[1,2,3]", "[1]", Some("2")),
        ("[1,2,3]", "[3]", None),
        (r#"{\"a\":\"\"}"#, "a", Some("")),
        (
            r#"{\"x\":{\"a\":1},\"a\":{\"x\":[true,\"]\"]},\"b\":2}"#,
            "a",
            Some(r#"{"x":[true,"]"]}"#),
        ),
        (r#"{\"x\":{\"a\":1},\"a\":-1.5e+3}"#, "a", Some("-1.5e+3")),
        (r#"{\"a\":null,\"b\":false}"#, "b", Some("false")),
        (r#"{\"a\":\"q\\u00e9\\n\"}"#, "a", Some(r"q\u00e9\n")),
        (r#"{\"a\":1}"#, "a.b", None),
        (r#"{\"a\":01x}"#, "a", None),
        (r#"{\"a\":nul}"#, "a", None),
        (r#"{\"a\":1"#, "a", None),
        ("{}", "a", None),
        ("bad", "a", None),
    ];
    for (text, path, expected) in cases {
        let program = format!(
            "BEGIN {{ this->s = json(\"{text}\", \"{path}\"); }}
             BEGIN /this->s != NULL/ {{ trace(this->s); }}"
        );
        let (out, err) = run(&program, true);
        assert_eq!(err, "", "{program}");
        assert_eq!(out, expected.unwrap_or(""), "{program}");
    }
}
