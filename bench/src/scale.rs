//! Measures many probes: linking of their records, and the operations of `sdt-framework`.

use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sdt_core::site::ENCODING;
use sdt_core::__private::link::{Records, link};
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};
use sdt_core::patch::NoText;
use sdt_core::__private::record::{Probe, Provider, Site};
use sdt_framework::{Config, Dtrace, Field, Spec};
use recording_host::cpus::Uniprocessor;

use crate::table::Table;

/// The number of probes in each row.
const ROWS: [usize; 3] = [1_000, 10_000, MOST];
const MOST: usize = 100_000;

static DTRACE: Dtrace<Uniprocessor> =
    // SAFETY: the benchmark uses the framework in one thread.
    Dtrace::new(unsafe { Uniprocessor::new() });

const CONFIG: Config = Config { providers: 1, probes: MOST, ecbs: MOST, consumers: 1, buffer: 0 };

/// Returns the names of this number of probes.
fn names(count: usize) -> Result<Vec<&'static CStr>> {
    (0..count)
        .map(|n| {
            // Unsorted.
            let name = CString::new(format!("probe-{}", n * 7919 % count))?;
            Ok(&*Box::leak(name.into_boxed_c_str()))
        })
        .collect()
}

/// Links the records of these probes, each with one site.
fn linked(names: &[&'static CStr]) -> Result<Duration> {
    let nop = ENCODING.nop.as_bytes();
    let text: &'static [u8] = nop.repeat(names.len() + 1).leak();
    let providers: &'static [Provider] = vec![Provider::new(c"scale")].leak();
    let probes = names.iter().map(|name| Probe::open(&providers[0], name));
    let probes: &'static [Probe] = probes.collect::<Vec<_>>().leak();
    let sites = probes.iter().enumerate().map(|(n, probe)| {
        let patchpoint = text.as_ptr().expose_provenance() + n * nop.len();
        let record = [(&raw const *probe).expose_provenance(), patchpoint, patchpoint + nop.len(), 0];
        // SAFETY: a `Site` consists of four words, which any values may have.
        unsafe { std::mem::transmute::<[usize; 4], Site>(record) }
    });
    let sites = sites.rev().collect::<Vec<_>>().leak();
    let records = Records { providers, probes, sites, arg_lists: &[] };
    let start = Instant::now();
    // SAFETY: the records are valid, and only this function uses them.
    unsafe { link(records, &NoText) }.context("linking")?;
    Ok(start.elapsed())
}

/// Prints the table: the time of each step for each number of probes.
///
/// # Errors
/// If a step failed.
pub fn table() -> Result<String> {
    let mut table = Table::new(&[
        "PROBES",
        "link, ms",
        "create, ms",
        "look up all, ms",
        "enable one, us",
        "enable all, ms",
        "list, ms",
        "disable all, ms",
        "unregister, ms",
    ]);
    let bytes = CONFIG.memory::<Uniprocessor>(1, 4) + (4 << 20);
    let mut beyond = 0;
    DTRACE.init(vec![std::mem::MaybeUninit::uninit(); bytes].leak(), &CONFIG)?;
    for count in ROWS {
        let names = names(count)?;
        let mut cells = vec![count.to_string(), ms(linked(&names)?)];
        let before = DTRACE.memory_left()?;
        let start = Instant::now();
        // SAFETY: the ops do nothing, are never dropped, and do not use their arguments, which are null.
        let provider = unsafe {
            let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
            let provider = DTRACE.register(c"scale", attr, privileges, &ProviderOps::INERT, null_mut())?;
            for name in &names {
                DTRACE.probe_create(provider, c"bench", c"none", name, 1, null_mut())?;
            }
            provider
        };
        cells.push(ms(start.elapsed()));
        beyond = before - DTRACE.memory_left()?;
        let start = Instant::now();
        for name in &names {
            let found = DTRACE.probe_lookup(provider, c"bench", c"none", name);
            ensure!(black_box(found).is_some(), "{name:?} is not found");
        }
        cells.push(ms(start.elapsed()));

        let consumer = DTRACE.open()?;
        let one = Spec::parse("scale:::probe-77", Field::Name)?;
        let start = Instant::now();
        let enabled = DTRACE.enable(consumer, &one)?;
        cells.push(format!("{:.2}", start.elapsed().as_nanos() as f64 / 1e3));
        ensure!(enabled == 1 && DTRACE.disable(consumer, &one)? == 1, "{enabled} probes enabled");
        let all = count as u32;
        for (step, work) in [
            ("enable", &(|| Ok(DTRACE.enable(consumer, &Spec::ALL)?)) as &dyn Fn() -> Result<u32>),
            ("list", &|| Ok(DTRACE.for_each_probe(&Spec::ALL, |probe| _ = black_box(probe.id()))?)),
            ("disable", &|| Ok(DTRACE.disable(consumer, &Spec::ALL)?)),
        ] {
            let start = Instant::now();
            let done = work()?;
            cells.push(ms(start.elapsed()));
            ensure!(done == all, "{step}: {done} of {all}");
        }
        DTRACE.close(consumer)?;
        let start = Instant::now();
        DTRACE.unregister(provider)?;
        cells.push(ms(start.elapsed()));
        table.row(cells);
    }
    let tables = |probes| Config { probes, ..CONFIG }.tables::<Uniprocessor>(1);
    let [tables, names] = [tables(2 * MOST) - tables(MOST), beyond].map(|bytes| bytes as f64 / MOST as f64);
    Ok(format!(
        "{table}a probe takes {:.1} bytes: {tables:.1} of the tables, {names:.1} for names beyond the usual\n",
        tables + names
    ))
}

fn ms(time: Duration) -> String {
    format!("{:.2}", time.as_nanos() as f64 / 1e6)
}
