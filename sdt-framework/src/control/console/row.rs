//! Formats lines as dtrace(1) does (`cmd/dtrace/dtrace.c`): the list of probes, and the output of `-n` without an action.

use core::ffi::CStr;
use core::fmt::{self, Display, Write};

use sdt_core::ops::ProbeId;

use crate::base::rights::Rights;
use crate::control::arguments::Record;
use crate::control::tracer::Tracer;
use crate::registry::listing::ProbeInfo;
use crate::run::consumer::ConsumerId;

/// The heading of a list of probes.
pub(super) const LIST: &str =
    "   ID   PROVIDER            MODULE                          FUNCTION NAME\n";
/// The heading of printed hits.
pub(super) const HITS: &str = "CPU     ID                    FUNCTION:NAME\n";

/// A right-aligned name and its width. Invalid UTF-8 is shown as replacement characters.
struct Right<'a>(&'a CStr, usize);

impl Display for Right<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, width) = self;
        let length = name
            .to_bytes()
            .utf8_chunks()
            .map(|chunk| chunk.valid().chars().count() + usize::from(!chunk.invalid().is_empty()));
        for _ in length.sum()..*width {
            f.write_char(' ')?;
        }
        for chunk in name.to_bytes().utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

/// Writes one line of a list of probes.
pub(super) fn listed(probe: &ProbeInfo, out: &mut impl Write) -> fmt::Result {
    let (provider, module) = (Right(probe.provider(), 10), Right(probe.module(), 17));
    let (function, name) = (Right(probe.function(), 33), Right(probe.name(), 0));
    writeln!(out, "{:>5} {provider} {module} {function} {name}", probe.id())
}

/// Writes a line with a hit and its arguments.
pub(super) fn hit(
    tracer: &dyn Tracer,
    consumer: ConsumerId,
    cpu: usize,
    record: &Record,
    out: &mut impl Write,
) -> fmt::Result {
    let found = tracer.eprobe(consumer, record.epid, 0, &mut []).ok().flatten();
    let Some(id) = found.and_then(|found| ProbeId::new(found.probe)) else { return Ok(()) };
    write!(out, "{cpu:>3} {id:>6} ")?;
    // The probe may have been destroyed since the hit.
    let Some(detail) = tracer.describe(id) else { return writeln!(out, "?") };
    let name = detail.info.name();
    let width = 31_usize.saturating_sub(name.count_bytes());
    write!(out, "{}:{}", Right(detail.info.function(), width), Right(name, 0))?;
    for (index, &value) in (0..).zip(&record.args) {
        let Some(desc) = tracer.arg_desc(id, index, Rights::ALL) else { break };
        out.write_char(' ')?;
        argument(desc.native.as_c_str(), value, out)?;
    }
    writeln!(out)
}

/// Writes a value according to its C type: addresses in hexadecimal, signed types with their sign.
fn argument(kind: &CStr, value: u64, out: &mut impl Write) -> fmt::Result {
    let kind = kind.to_bytes();
    let starts = |with: &[u8]| kind.starts_with(with);
    if kind.ends_with(b"*") {
        write!(out, "{value:#x}")
    } else if starts(b"u") || starts(b"size_t") || starts(b"_Bool") || starts(b"bool") {
        write!(out, "{value}")
    } else {
        write!(out, "{}", value.cast_signed())
    }
}
