//! Answers about programs: their records and the status of the run.

use dtrace_abi::record::RecordDesc;
use dtrace_protocol::{DataOf, Datum, Reply, Request, Run, RunOption, SnapshotOf, Why, Writer};

use super::known;
use super::refusal::Refusal;
use super::reply::Answer;
use crate::control::error::ConsumerError;
use crate::control::query::{AggregationDesc, Status, Which};
use crate::control::tracer::Tracer;
use crate::run::consumer::ConsumerId;

/// The largest size in bytes of the other fields of an answer with a part of a buffer or a format.
const OVERHEAD: usize = 64;
/// The number of descriptions that are read at a time.
const BATCH: usize = 8;

/// Answers a request about a consumer's programs.
pub(super) fn answer(
    tracer: &dyn Tracer,
    open: ConsumerId,
    request: Request<'_>,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    match request {
        Request::Eprobe { epid } => {
            let ask = |skip, into: &mut [RecordDesc]| tracer.eprobe(open, epid, skip, into);
            let found = ask(0, &mut [])?;
            let found = found.ok_or_else(|| no_such("enabled probe", epid))?;
            let reply = Reply::Eprobe { probe: found.probe, size: found.size };
            all_data(answer, &reply, found.records, |skip, into| ask(skip, into).map(drop))
        }
        Request::Aggregation { id } => {
            let ask = |skip, into: &mut [RecordDesc]| tracer.aggregation(open, id, skip, into);
            let found = ask(0, &mut [])?.ok_or_else(|| no_such("aggregation", id))?;
            let AggregationDesc { variable, epid, size, records } = found;
            let reply = Reply::Aggregation { variable, epid, size };
            all_data(answer, &reply, records, |skip, into| ask(skip, into).map(drop))
        }
        Request::Data { of: DataOf::Eprobe(epid), skip } => {
            let ask = |skip, into: &mut [RecordDesc]| tracer.eprobe(open, epid, skip, into);
            let found = ask(0, &mut [])?;
            let found = found.ok_or_else(|| no_such("enabled probe", epid))?;
            let (count, number, size) = (found.records, found.probe, found.size);
            let reply = Reply::Data { count, number, epid, size };
            data(answer, &reply, skip, count, |skip, into| ask(skip, into).map(drop))
                .map(|(length, _)| length)
        }
        Request::Data { of: DataOf::Aggregation(id), skip } => {
            let ask = |skip, into: &mut [RecordDesc]| tracer.aggregation(open, id, skip, into);
            let found = ask(0, &mut [])?.ok_or_else(|| no_such("aggregation", id))?;
            let AggregationDesc { variable: number, epid, size, records: count } = found;
            let reply = Reply::Data { count, number, epid, size };
            data(answer, &reply, skip, count, |skip, into| ask(skip, into).map(drop))
                .map(|(length, _)| length)
        }
        Request::Format { number, at } => {
            let mut part = answer.part(OVERHEAD);
            let read = tracer.format(open, number, at as usize, part.room())?;
            let read = read.ok_or_else(|| no_such("format", number.into()))?;
            part.send(read, |bytes| Reply::Bytes { bytes })
        }
        Request::Snapshot { cpu, buffer, at } => {
            let which = match buffer {
                SnapshotOf::Records => Which::Records,
                SnapshotOf::Aggregations => Which::Aggregations,
            };
            let read = |skip, into: &mut [u8]| {
                let at = (at as usize).saturating_add(skip);
                let found = tracer.snapshot(open, cpu as usize, which, at, into)?;
                Ok((found.read, found))
            };
            answer.packed(OVERHEAD, read, |found, bytes| Reply::Snapshot {
                size: found.size as u32,
                oldest: found.oldest as u32,
                drops: found.drops,
                errors: found.errors,
                timestamp: found.timestamp,
                bytes,
            })
        }
        Request::Options { from } => answer.with_items(&Reply::Options, |writer| {
            let mut from = from;
            while let Some((option, value)) = tracer.next_option(open, from)?
                && writer.push(&RunOption { option, value }).is_ok()
            {
                from = option + 1;
            }
            Ok(())
        }),
        Request::Run => answer.plain(&Reply::Run(status(&tracer.status(open)?))),
        Request::Symbol { address } => known::at(tracer, address, answer),
        _ => Err(Refusal::Plain(Why::NotUnderstood, "this framework does not support the request")),
    }
}

fn no_such(what: &'static str, number: u32) -> Refusal {
    Refusal::NoSuch(Why::NoSuch, what, number)
}

/// Answers with this number of descriptions, all of them or none.
fn all_data(
    answer: &mut Answer<'_>,
    reply: &Reply<'_>,
    count: u32,
    ask: impl Fn(usize, &mut [RecordDesc]) -> Result<(), ConsumerError>,
) -> Result<usize, Refusal> {
    let (length, fits) = data(answer, reply, 0, count, ask)?;
    if fits { Ok(length) } else { Err(Refusal::TooManyData(count)) }
}

/// Answers with the descriptions after the first `skip`, as many as fit. Returns whether these are all.
fn data(
    answer: &mut Answer<'_>,
    reply: &Reply<'_>,
    skip: u32,
    count: u32,
    ask: impl Fn(usize, &mut [RecordDesc]) -> Result<(), ConsumerError>,
) -> Result<(usize, bool), Refusal> {
    let mut fits = true;
    let length = answer.with_items(reply, |writer: &mut Writer<'_>| {
        let mut skip = skip as usize;
        while fits && skip < count as usize {
            let mut batch = [RecordDesc::EMPTY; BATCH];
            ask(skip, &mut batch)?;
            let descs = batch.iter().take(count as usize - skip);
            fits = descs.map(datum).all(|datum| writer.push(&datum).is_ok());
            skip += BATCH;
        }
        Ok(())
    })?;
    Ok((length, fits))
}

const fn datum(desc: &RecordDesc) -> Datum {
    let RecordDesc { action, size, offset, alignment, format, arg, uarg, .. } = *desc;
    Datum { action, size, offset, alignment, format, arg, uarg }
}

fn status(status: &Status) -> Run {
    Run {
        dynamic_drops: status.dynamic_drops,
        dynamic_drops_rinsing: status.dynamic_drops_rinsing,
        dynamic_drops_dirty: status.dynamic_drops_dirty,
        speculation_drops: status.speculation_drops,
        speculations_busy: status.speculations_busy,
        speculations_unavailable: status.speculations_unavailable,
        errors: status.errors,
        filled: status.filled,
        half_filled: status.half_filled,
        double_errors: status.double_errors,
        killed: status.killed,
        exiting: status.exiting,
        ..Run::default()
    }
}
