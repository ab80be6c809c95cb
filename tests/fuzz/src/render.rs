//! The rendering of a kernel's records, with any descriptions and any buffers.

use arbitrary::{Arbitrary, Unstructured};
use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::types::Types;
use dtrace_consumer::render::{
    AggDescription, Buffer, Consumer, Eprobe, Markup, NoSymbols, Schedule, Settings, Sink,
    Structured, Tables, Text, World,
};

use crate::counted::Counted;

/// The greatest number of bytes that are shown for one input.
const BOUND: usize = 256 << 20;

#[derive(Debug, Arbitrary)]
struct Datum {
    action: u8,
    size: u8,
    offset: u8,
    format: u8,
    argument: u64,
    statement: u8,
}

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    options: u16,
    formats: Vec<&'a [u8]>,
    probes: Vec<(u8, Vec<Datum>)>,
    aggregations: Vec<(u8, u16, Vec<Datum>)>,
    records: &'a [u8],
    elements: &'a [u8],
}

fn describe(data: &[Datum]) -> Vec<RecordDesc> {
    let desc = |datum: &Datum| RecordDesc {
        action: Action::ALL[usize::from(datum.action) % Action::ALL.len()].number(),
        size: datum.size.into(),
        offset: datum.offset.into(),
        format: (datum.format % 5).into(),
        arg: datum.argument,
        uarg: (datum.statement % 3).into(),
        ..RecordDesc::EMPTY
    };
    data.iter().map(desc).collect()
}

/// Runs the target.
///
/// # Panics
/// The output exceeds its bound.
pub fn run(input: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let mut options = Options::default();
    let names = [
        "quiet",
        "flowindent",
        "rawbytes",
        "agghist",
        "aggpack",
        "aggzoom",
        "aggsortkey",
        "aggsortrev",
        "aggsortpos",
        "aggsortkeypos",
    ];
    for (bit, name) in names.iter().enumerate() {
        if input.options & 1 << bit != 0 {
            let _ = options.set(name, Some("1"));
        }
    }
    let mut tables = Tables::default();
    for (number, format) in (1..).zip(&input.formats) {
        tables.formats.insert(number, format.to_vec());
    }
    for (epid, (size, data)) in (1..).zip(&input.probes) {
        let names = ["entry", "return", "BEGIN"];
        let probe = Description {
            id: epid / 2,
            name: names[epid as usize % 3].into(),
            ..Description::default()
        };
        let (error, size) = (*size == 255, usize::from(*size));
        tables.eprobes.insert(epid, Eprobe { probe, error, size, records: describe(data) });
    }
    for (id, (variable, size, data)) in (1..).zip(&input.aggregations) {
        let (variable, size, records) = ((variable % 4).into(), (*size).into(), describe(data));
        let name = String::new();
        let (names, variables) = (Vec::new(), Vec::new());
        let aggregation =
            AggDescription { id, variable, name, epid: 1, size, records, names, variables };
        tables.aggregations.insert(id, aggregation);
    }
    let mut texts =
        (Text::new(Counted::up_to(BOUND)), Structured::new(Counted::up_to(BOUND), Markup::Json));
    let _ = show(&input, options, &mut tables, &mut texts);
}

/// Returns records of these sizes: each is its number, followed by `bytes`, repeated.
fn fill(sizes: impl Iterator<Item = usize>, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.iter().copied().chain([1]).collect::<Vec<u8>>().into_iter().cycle();
    let mut buffer = Vec::new();
    for (number, size) in (1_u32..).zip(sizes) {
        buffer.extend(number.to_le_bytes());
        buffer.extend(bytes.by_ref().take(size.saturating_sub(4)));
    }
    buffer
}

fn show(
    input: &Input<'_>,
    options: Options,
    tables: &mut Tables,
    sink: &mut dyn Sink,
) -> Result<(), dtrace_consumer::render::RenderError> {
    let types = Types::new(256);
    let mut world = World { descriptions: tables, symbols: &NoSymbols, types: &types };
    let mut consumer = Consumer::new(Settings::new(options));
    // The bytes of the input as they are, or records with matching numbers and sizes.
    let fits = input.options & 0x8000 != 0;
    let sizes = input.aggregations.iter().map(|(_, size, _)| usize::from(*size));
    let elements = if fits { fill(sizes, input.elements) } else { input.elements.to_vec() };
    let sizes = input.probes.iter().map(|(size, _)| usize::from(*size));
    let records = if fits { fill(sizes, input.records) } else { input.records.to_vec() };
    consumer.snapshot(0, &elements, 0, &mut world, sink)?;
    consumer.snapshot(1, &elements, 1, &mut world, sink)?;
    let buffer = Buffer { data: records, ..Buffer::default() };
    Schedule::new().in_time(&mut consumer, vec![buffer], true, &mut world, sink)?;
    consumer.finish(&world, sink)
}
