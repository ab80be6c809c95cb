//! Flame graphs, heat maps, timelines.

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Lquantize, QUANTIZE_BUCKETS, quantize_bucket};
use dtrace_compiler::options::Options;
use dtrace_consumer::render::picture::{HeatMap, Perfetto, PictureError, flame_graph};
use dtrace_consumer::render::{Consumer, Entry, Settings, Sink, Table, Text, Units, View};

use crate::made::{Item, Made, item, printf};
use crate::printed::Printed;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Draws a flame graph of the aggregations that no program has printed.
struct AtEnd(Result<String, PictureError>);

impl Sink for AtEnd {
    fn finish(
        &mut self,
        rest: &Table<'_>,
        view: &View<'_>,
    ) -> Result<(), dtrace_consumer::render::RenderError> {
        let mut svg = Vec::new();
        let elements = rest.rows.iter().map(|row| row.key);
        self.0 = flame_graph(elements, view, "stacks", &mut svg)
            .map(|()| String::from_utf8(svg).unwrap());
        Ok(())
    }
}

#[test]
fn flames() {
    let mut made = Made::default();
    let stack = |frames: &[u64]| item(Action::Stack, 3, &words(frames));
    made.aggregate(0, 1, &[stack(&[0x1010, 0x1200, 0])], Action::Count, 0, &[3]);
    made.aggregate(0, 1, &[stack(&[0x9000, 0x1200, 0])], Action::Count, 0, &[1]);
    made.aggregate(0, 2, &[], Action::Count, 0, &[5]);
    let mut sink = AtEnd(Err(PictureError::NoStacks));
    made.to(&mut sink).unwrap();
    let svg = sink.0.as_ref().unwrap();
    assert!(svg.contains("<svg"));
    // The outermost frame holds all four, the innermost three of them.
    assert!(svg.contains("kernel`0x1200 (4 samples, 100.00%)"), "{svg}");
    assert!(svg.contains("kernel`kernel::exec::path (3 samples, 75.00%)"));
    let mut made = Made::default();
    made.aggregate(0, 2, &[], Action::Count, 0, &[5]);
    made.to(&mut sink).unwrap();
    assert!(matches!(sink.0, Err(PictureError::NoStacks)));
}

/// A key can end with a number, begin like a comment of folded stacks, or be blank.
#[test]
fn keys_of_flame_graphs_stay_apart() {
    let frames = [0x1010, 0x1200, 0];
    let stack = || item(Action::Stack, 3, &words(&frames));
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(16, 0);
        item(Action::DifExpr, 0, &bytes)
    };
    let names =
        ["worker 5", "worker 900", "worker", "a 1.5", "#", "# a", " ", "  b", "c ", "12", "d;e"];
    let mut made = Made::default();
    for name in names {
        made.aggregate(0, 1, &[stack(), text(name)], Action::Count, 0, &[7]);
        made.aggregate(0, 2, &[text(name), stack()], Action::Count, 0, &[4]);
    }
    let mut sink = AtEnd(Err(PictureError::NoStacks));
    made.to(&mut sink).unwrap();
    let svg = sink.0.as_ref().unwrap();
    let all = names.len() * 11;
    assert!(svg.contains(&format!(">all ({all} samples, 100%)")), "{svg}");
    for shown in [
        "worker\u{a0}5",
        "worker\u{a0}900",
        "worker",
        "a\u{a0}1.5",
        "#",
        "# a",
        "\u{2423}",
        "\u{2423}\u{2423}b",
        "c\u{2423}",
        "12",
        "d:e",
    ] {
        // The outermost frame of the one stack, and the innermost of the other.
        let outermost = ["", "\u{2060}"].map(|before| format!(">{before}{shown} (4 samples"));
        let outermost: usize = outermost.iter().map(|text| svg.matches(text).count()).sum();
        let innermost = svg.matches(&format!(">{shown} (7 samples")).count();
        assert_eq!((outermost, innermost), (1, 1), "{shown}: {svg}");
    }
    let mut made = Made::default();
    for _ in 0..2 {
        made.aggregate(0, 1, &[stack(), text("x")], Action::Max, 0, &[i64::MAX]);
        made.aggregate(0, 1, &[stack(), text("y")], Action::Max, 0, &[i64::MAX]);
    }
    made.to(&mut sink).unwrap();
    assert!(matches!(sink.0, Err(PictureError::TooLarge)));
}

#[test]
fn heat() {
    let mut heat = HeatMap::new();
    assert!(matches!(heat.svg(), Err(PictureError::NoDistribution)));
    let mut consumer = Consumer::new(Settings::new(Options::default()));
    let mut buckets = vec![0; QUANTIZE_BUCKETS];
    for (second, value) in [(0, 1), (1, 100), (2, 100)] {
        buckets[quantize_bucket(value)] += 4;
        let mut made = Made::default();
        made.aggregate(0, 1, &[], Action::Quantize, 0, &buckets);
        let mut take = |entries: &[Entry], view: &View<'_>| {
            heat.sample(second * 1_000_000_000, entries.iter(), view);
        };
        made.elements(&mut consumer, &mut take);
        buckets.fill(0);
    }
    let svg = heat.svg().unwrap();
    assert!(svg.contains("\n@a1: 12 values\n") && svg.contains("time in s"), "{svg}");
    // The first sample has no interval, and is a part of the first column, which has two cells; the second has one.
    assert_eq!(cells(&svg).len(), 3, "{svg}");
}

/// A peer can send any number of keys and samples. The memory of a map has a limit, and no count is lost.
#[test]
fn heat_maps_of_long_runs_and_many_keys() {
    let mut heat = HeatMap::new();
    let mut consumer = Consumer::new(Settings::new(Options::default()));
    let mut buckets = vec![0; QUANTIZE_BUCKETS];
    for second in 0..5000 {
        buckets[quantize_bucket(7)] = 1;
        let mut made = Made::default();
        made.aggregate(0, 1, &[], Action::Quantize, 0, &buckets);
        let mut take = |entries: &[Entry], view: &View<'_>| {
            heat.sample(second * 1_000_000_000, entries.iter(), view);
        };
        made.elements(&mut consumer, &mut take);
    }
    let svg = heat.svg().unwrap();
    assert!(svg.contains("\n@a1: 5000 values\n"), "{svg}");
    assert!(cells(&svg).len() < 2048, "{svg}");
    let mut made = Made::default();
    for key in 0..1100 {
        let key = item(Action::DifExpr, 0, &u64::to_le_bytes(key));
        made.aggregate(0, 2, &[key], Action::Quantize, 0, &buckets);
    }
    let mut heat = HeatMap::new();
    let mut consumer = Consumer::new(Settings::new(Options::default()));
    made.elements(&mut consumer, &mut |entries, view| heat.sample(1, entries.iter(), view));
    let svg = heat.svg().unwrap();
    assert!(svg.contains("(1068 more maps are not drawn)"), "{svg}");
}

/// Without any record, the timeline is still a valid document.
#[test]
fn a_timeline_may_be_empty() {
    let mut sink = Perfetto::new(Vec::new());
    Made::default().to(&mut sink).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&sink.into_inner()).unwrap();
    assert_eq!(json["traceEvents"].as_array().map(Vec::len), Some(0));
}

/// Returns the left sides and widths of the cells in a picture; the legend is right of them.
fn cells(svg: &str) -> Vec<(u32, u32)> {
    let number = |rect: &str, name: &str| -> u32 {
        let (_, value) = rect.split_once(&format!(" {name}=\"")).unwrap();
        value.split_once('"').unwrap().0.parse().unwrap()
    };
    let rects = svg.split("<rect").skip(1).map(|rect| (number(rect, "x"), number(rect, "width")));
    rects.filter(|(x, width)| *x < 850 && *width < 960).collect()
}

/// Returns the labels in a picture.
fn labels(svg: &str) -> Vec<&str> {
    svg.lines().filter(|line| !line.contains(['<', '>'])).map(str::trim).collect()
}

/// A run of 8 seconds has 8 columns, although aggregations are read at its begin and shortly after its end.
#[test]
fn heat_maps_have_whole_intervals_and_one_map_for_each_key() {
    let mut heat = HeatMap::new();
    let mut consumer = Consumer::new(Settings::new(Options::default()));
    let mut buckets = vec![0; QUANTIZE_BUCKETS];
    buckets[quantize_bucket(7)] = 1;
    for time in [1, 1000, 2001, 3002, 4003, 5004, 6005, 7006, 7990, 8020] {
        let mut made = Made::default();
        for (variable, key) in [(1, "/cart\0"), (2, "/\0\0\0\0\0")] {
            let key = item(Action::DifExpr, 0, key.as_bytes());
            made.aggregate(0, variable, &[key], Action::Quantize, 0, &buckets);
        }
        let mut take = |entries: &[Entry], view: &View<'_>| {
            heat.sample(time * 1_000_000, entries.iter(), view);
        };
        made.elements(&mut consumer, &mut take);
    }
    let svg = heat.svg().unwrap();
    assert!(svg.contains("@a1[&quot;/cart&quot;]") && svg.contains("@a2[&quot;/&quot;]"), "{svg}");
    let cells = cells(&svg);
    assert_eq!(cells.len(), 2 * 8, "{svg}");
    // The columns begin where the first one does, and have the width of their intervals.
    assert!(cells.iter().all(|(_, width)| width.abs_diff(cells[0].1) <= 3), "{cells:?}");
    let labels = labels(&svg);
    assert_eq!(labels.join(" ").matches("0 1 2 3 4 5 6 7 8").count(), 2, "{labels:?}");
}

/// Two stacks whose bytes are equal up to the first zero have a map each, with their own counts.
#[test]
fn heat_maps_of_stacks_are_not_mixed() {
    let mut heat = HeatMap::new();
    let mut consumer = Consumer::new(Settings::new(Options::default()));
    let mut made = Made::default();
    for (frame, count) in [(0x1200, 3), (0x1300, 40)] {
        let mut buckets = vec![0; QUANTIZE_BUCKETS];
        buckets[quantize_bucket(7)] = count;
        let stack = item(Action::Stack, 3, &words(&[0x1010, frame, 0]));
        made.aggregate(0, 1, &[stack], Action::Quantize, 0, &buckets);
    }
    made.elements(&mut consumer, &mut |entries, view| {
        heat.sample(1_000_000_000, entries.iter(), view);
    });
    let svg = heat.svg().unwrap();
    assert!(
        svg.contains("@a1[kernel`0x1200 &gt; kernel`kernel::exec::path+0x10]: 3 values")
            && svg.contains("@a1[kernel`0x1300 &gt; kernel`kernel::exec::path+0x10]: 40 values"),
        "{svg}"
    );
}

/// Returns the labels of a heat map of one sample of an aggregation.
fn labels_of(action: Action, argument: u64, buckets: &[i64], units: &[&str]) -> Vec<String> {
    let mut all = Units::default();
    units.iter().for_each(|unit| all.add(unit));
    let mut heat = HeatMap::in_units(all);
    let mut consumer = Consumer::new(Settings::new(Options::default()));
    let mut made = Made::default();
    made.aggregate(0, 1, &[], action, argument, buckets);
    made.elements(&mut consumer, &mut |entries, view| {
        heat.sample(2_000_000_000, entries.iter(), view);
    });
    let svg = heat.svg().unwrap();
    labels(&svg).into_iter().map(str::to_owned).collect()
}

#[test]
fn rows_of_heat_maps_have_distinct_labels_and_a_unit() {
    let mut buckets = vec![0; QUANTIZE_BUCKETS];
    for value in [-5, 0, 1 << 20] {
        buckets[quantize_bucket(value)] = 9;
    }
    let plain = labels_of(Action::Quantize, 0, &buckets, &[]);
    let has = |labels: &[String], wanted: &[&str]| {
        wanted.iter().all(|wanted| labels.iter().filter(|label| label == wanted).count() == 1)
    };
    assert!(
        has(&plain, &["-8", "-4", "1048576", "2097152", "value", "values in", "9"]),
        "{plain:?}"
    );
    let timed = labels_of(Action::Quantize, 0, &buckets, &["ns"]);
    assert!(has(&timed, &["-8 ns", "1.05 ms", "2.1 ms"]), "{timed:?}");
    let other = labels_of(Action::Quantize, 0, &buckets, &["B", "a1=frames"]);
    assert!(has(&other, &["1048576", "value in frames"]), "{other:?}");
    let linear = Lquantize { base: 10, step: 5, levels: 2 };
    let argument = linear.encode();
    let buckets = [argument as i64, 1, 0, 0, 2];
    let labels = labels_of(Action::Lquantize, argument, &buckets, &["ms"]);
    assert!(has(&labels, &["&lt; 10 ms", "10 ms", "15 ms", "≥ 20 ms"]), "{labels:?}");
}

#[test]
fn timelines() {
    let mut made = Made::with(&[("flowindent", "1")]);
    made.fired(1, "open", "entry", &printf("%s", &[b"/etc\"\0"]));
    made.fired(2, "", "tick", &[item(Action::DifExpr, 0, &7_u64.to_le_bytes())]);
    made.fired(
        3,
        "open",
        "return",
        &[Item { statement: 1, ..item(Action::Sym, 0, &words(&[0x1000])) }],
    );
    let mut sinks = (Perfetto::new(Vec::new()), Text::new(Printed::default()));
    made.to(&mut sinks).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&sinks.0.into_inner()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let field = |index: usize, name: &str| events[index][name].to_string();
    assert_eq!(events.len(), 5);
    assert_eq!(field(0, "args"), "{\"name\":\"CPUs\"}");
    assert_eq!(field(1, "args"), "{\"name\":\"CPU 0\"}");
    assert_eq!((field(2, "ph"), field(2, "ts")), ("\"B\"".into(), "0.001".into()));
    assert_eq!(field(2, "args"), "{\"output\":\"/etc\\\"\"}");
    assert_eq!((field(3, "ph"), field(3, "name")), ("\"i\"".into(), "\"tick\"".into()));
    assert_eq!(field(3, "args"), "{\"output\":\"7\"}");
    assert_eq!((field(4, "ph"), field(4, "name")), ("\"E\"".into(), "\"open\"".into()));
    assert!(String::from_utf8(sinks.1.into_output().out).unwrap().contains("-> open"));
}
