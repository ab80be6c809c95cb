//! Random data of a kernel cause no panic, and the size of the output is bounded.

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;
use dtrace_consumer::render::{Format, Markup, Structured, Text};
use proptest::prelude::*;

use crate::made::{Item, Made, item};
use crate::printed::Printed;

fn actions() -> impl Strategy<Value = Action> {
    proptest::sample::select(Action::ALL.to_vec())
}

/// Returns texts, most of which are valid formats.
fn formats() -> impl Strategy<Value = String> {
    let conversion = proptest::sample::select(vec![
        "%d",
        "%i",
        "%lli",
        "%u",
        "%x",
        "%#o",
        "%c",
        "%C",
        "%s",
        "%S",
        "%a",
        "%A",
        "%k",
        "%P",
        "%p",
        "%I",
        "%T",
        "%Y",
        "%f",
        "%g",
        "%Le",
        "%lc",
        "%ls",
        "%%",
        "%*d",
        "%-*s",
        "%.*s",
        "%@d",
        "%-20k",
        "%0*.*x",
        "text ",
        "\u{e9}",
        "%",
        "%99999999999d",
        "%.99999999s",
        "%q",
        "%hhd",
    ]);
    proptest::collection::vec(conversion, 0..6).prop_map(|parts| parts.concat())
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let data = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        any::<u64>().prop_map(|number| number.to_le_bytes().to_vec()),
        any::<u32>().prop_map(|number| number.to_le_bytes().to_vec()),
    ];
    let argument = prop_oneof![0..100_u64, any::<u64>()];
    let item = (actions(), argument, data, 0..3_u64, proptest::option::of(formats())).prop_map(
        |(action, argument, data, statement, format)| {
            let format = format.map(|format| &*format.leak());
            Item { format, statement, ..item(action, argument, &data) }
        },
    );
    proptest::collection::vec(item, 0..8)
}

fn options() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let option = proptest::sample::select(vec![
        ("quiet", "1"),
        ("flowindent", "1"),
        ("rawbytes", "1"),
        ("agghist", "1"),
        ("aggpack", "1"),
        ("aggzoom", "1"),
        ("aggsortkey", "1"),
        ("aggsortrev", "1"),
        ("aggsortpos", "7"),
        ("aggsortkeypos", "2"),
        ("stackindent", "99999999999"),
        ("encoding", "utf8"),
        ("encoding", "ascii"),
        ("strsize", "2"),
    ]);
    proptest::collection::vec(option, 0..5)
}

/// A size that no output of these tests reaches.
const BOUND: usize = 64 << 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_format(text: Vec<u8>) {
        let _ = Format::parse(&text);
    }

    #[test]
    fn any_records(fired in proptest::collection::vec(items(), 0..4), options in options()) {
        let mut made = Made::with(&options);
        for (id, items) in (1..).zip(&fired) {
            made.fired(id, "f", if id % 2 == 0 { "entry" } else { "return" }, items);
        }
        let mut sink = Text::new(Printed::default());
        let _ = made.to(&mut sink);
        prop_assert!(sink.output().out.len() < BOUND);
        let mut sink = Structured::new(Printed::default(), Markup::Json);
        if made.to(&mut sink).is_ok() {
            let out = sink.into_output().out;
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
        }
    }

    #[test]
    fn any_aggregations(
        elements in proptest::collection::vec(
            (0..3_usize, 1..4_u32, items(), actions(), any::<u64>(),
             proptest::collection::vec(any::<i64>(), 0..130)),
            0..6,
        ),
        last in items(),
        options in options(),
    ) {
        let mut made = Made::with(&options);
        for (cpu, variable, keys, action, argument, words) in &elements {
            made.aggregate(*cpu, *variable, keys, *action, *argument, words);
        }
        made.fired(1, "f", "probe", &last);
        let mut sink = Text::new(Printed::default());
        let _ = made.to(&mut sink);
        prop_assert!(sink.output().out.len() < BOUND);
    }

    /// Aggregations whose values have the size that their action requires.
    #[test]
    fn any_values(
        elements in proptest::collection::vec((0..6_usize, any::<i64>(), any::<u64>(), any::<[i64; 4]>()), 1..6),
        options in options(),
        joined: bool,
        normal: u64,
    ) {
        let mut made = Made::with(&options);
        for (kind, key, argument, numbers) in elements {
            let (action, mut words) = match kind {
                0 => (Action::Sum, vec![numbers[0]]),
                1 => (Action::Avg, numbers[..2].to_vec()),
                2 => (Action::Stddev, numbers.to_vec()),
                3 => (Action::Quantize, numbers.iter().copied().cycle().take(127).collect()),
                4 => (Action::Lquantize, numbers.iter().copied().cycle().take(8).collect()),
                _ => (Action::Llquantize, numbers.iter().copied().cycle().take(40).collect()),
            };
            let argument = if kind == 4 { argument & !(0xffff << 32) | 5 << 32 } else { argument };
            if kind >= 4 {
                words[0] = argument as i64;
            }
            let keys = [item(Action::DifExpr, 0, &key.to_le_bytes())];
            made.aggregate(0, kind as u32 + 1, &keys, action, argument, &words);
        }
        let library = |number: u64, data: u64| item(Action::LibAct, number, &data.to_le_bytes());
        let print = |variable: u64, statement| {
            Item { statement, ..item(Action::Printa, 0, &variable.to_le_bytes()) }
        };
        let statement = u64::from(!joined);
        made.fired(1, "f", "probe", &[
            library(70, 1), library(70, normal), library(69, 4), library(72, 2), library(72, 1),
            print(1, 10), print(3, 10 + statement), print(4, 10 + 2 * statement),
            print(9, 10 + 3 * statement),
        ]);
        let mut sink = Text::new(Printed::default());
        prop_assert!(made.to(&mut sink).is_ok());
        prop_assert!(sink.output().out.len() < BOUND);
    }

    /// Random descriptions of records cause no panic.
    #[test]
    fn any_descriptions(
        fields in proptest::collection::vec(any::<(u16, u32, u32, u16, u64)>(), 0..6),
        size: usize,
        buffer: Vec<u8>,
    ) {
        let mut made = Made::default();
        let epid = made.fired(1, "f", "probe", &[item(Action::DifExpr, 0, &buffer)]);
        let eprobe = made.tables.eprobes.get_mut(&epid).unwrap();
        eprobe.size = size % 64;
        eprobe.error = size % 2 == 0;
        eprobe.records = fields
            .iter()
            .map(|&(action, size, offset, format, arg)| RecordDesc {
                action: action % 0x800,
                size: size % 80,
                offset: if offset % 3 == 0 { offset } else { offset % 80 },
                format: format % 2,
                arg,
                ..RecordDesc::EMPTY
            })
            .collect();
        let mut sink = Text::new(Printed::default());
        let _ = made.to(&mut sink);
    }
}
